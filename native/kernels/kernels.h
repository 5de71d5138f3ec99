// The contract of the kernels, and the table that each instruction set fills in.
//
// A kernel takes pointers and sizes, allocates nothing and cannot fail. Rows of x are d floats, not padded. `values` is
// (n, bits) and `codes` is (n, ceil(bits/8)); either may be null. `scratch` holds scratch_floats(frame) floats.
#pragma once

#include <cstdint>

#include "../frame_view.h"

namespace lethevec {

struct Output {
    float* values;
    uint8_t* codes;
    int64_t bits;
};

struct Kernels {
    const char* name;
    int lanes;

    // Values x W for a (d, bits padded) matrix.
    void (*project)(const float* matrix, int64_t d, const float* x, int64_t n, Output out, float* scratch);
    void (*superbit)(const FrameView& f, const float* x, int64_t n, Output out, float* scratch);
    // `entry_gain` is alpha/sqrt(m).
    void (*usr)(const FrameView& f, float entry_gain, int64_t steps, const float* x, int64_t n, Output out,
                float* scratch);
    // `weights` are the m plane weights.
    void (*progressive)(const FrameView& f, const float* weights, int64_t sweeps, const float* x, int64_t n,
                        Output out, float* scratch);
    // x̂ = scale * sum_i R_i (weights_i b_i).
    void (*decode)(const FrameView& f, const float* weights, float scale, const uint8_t* codes, int64_t n, float* x,
                   float* scratch);
    // The activation alone, for the test of its error.
    void (*activate)(const float* x, int64_t n, float* out);
};

constexpr int64_t scratch_floats(int64_t m, int64_t dp) { return (m + 4) * dp; }

}  // namespace lethevec
