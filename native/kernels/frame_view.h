// What a kernel is told of a frame W = [R_0 ... R_{m-1}]: sizes and pointers, owned by hashing.h's Frame.
//
// Rows are padded to a multiple of PAD floats with zeros, which every step maps to zeros, so kernels run over whole
// vectors.
#pragma once

#include <cstdint>

namespace lethevec {

constexpr int64_t PAD = 16;
constexpr int64_t FIRST_ROUNDS = 3;  // rounds of S_0; every later step has one

constexpr int64_t padded(int64_t n) { return (n + PAD - 1) / PAD * PAD; }

struct FrameView {
    int64_t d;           // dimension
    int64_t dp;          // padded(d)
    int64_t m;           // rotations
    int64_t p;           // largest power of two <= d
    float scale;         // 1/sqrt(p)
    const float* entry;  // hadamard, (rounds, 2, dp): sign * scale, for the transform of the first p and of the last p
    const float* sign;   // hadamard, (rounds, 2, dp)
    const float* dense;  // otherwise, (m, d, dp): S_i by rows
    const float* dense_t;  // (m, d, dp): its transpose
};

}  // namespace lethevec
