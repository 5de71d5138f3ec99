// The Walsh-Hadamard transform in place, with a factor on the way in and one on the way out.
//
// Butterflies (a + b, a - b), widest stride first, as in the spec. Each element meets the same operations in the same
// order however the passes are cut into blocks, so blocks are cut to fit the registers.
#pragma once

#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

// What multiplies element j: nothing, one number, or entry j of a table.
struct Plain {
    LETHEVEC_INLINE f32s apply(f32s v, int64_t) const { return v; }
    LETHEVEC_INLINE float apply_one(float v, int64_t) const { return v; }
};
struct ByScale {
    float scale;
    LETHEVEC_INLINE f32s apply(f32s v, int64_t) const { return v * splat(scale); }
    LETHEVEC_INLINE float apply_one(float v, int64_t) const { return v * scale; }
};
struct ByTable {
    const float* table;
    LETHEVEC_INLINE f32s apply(f32s v, int64_t j) const { return v * load(table + j); }
    LETHEVEC_INLINE float apply_one(float v, int64_t j) const { return v * table[j]; }
};

// A block of K vectors, held in registers from first stage to last.
template <int K, class In, class Out>
LETHEVEC_INLINE void transform_block(float* x, int64_t at, In in, Out out) {
    f32s r[K];
    // The first stage reads what it needs itself: of a loop that only fills r, GCC makes a copy through memory, in
    // pieces that the stages then have to wait for.
    if (K == 1) r[0] = in.apply(load(x + at), at);
    for (int k = 0; k < K / 2; ++k) {
        const int64_t j = at + k * LANES, across = j + K / 2 * LANES;
        const f32s a = in.apply(load(x + j), j), b = in.apply(load(x + across), across);
        r[k] = a + b;
        r[k + K / 2] = a - b;
    }
    for (int h = K / 4; h >= 1; h /= 2)
        for (int k = 0; k < K; ++k)
            if ((k & h) == 0) {
                const f32s a = r[k], b = r[k + h];
                r[k] = a + b;
                r[k + h] = a - b;
            }
    for (int k = 0; k < K; ++k) store(x + at + k * LANES, out.apply(transform_lanes(r[k]), at + k * LANES));
}

template <class In, class Out>
inline void transform_at(float* x, int64_t at, int64_t size, In in, Out out) {
    constexpr int64_t W = LANES;
    if (size == 8 * W) return transform_block<8>(x, at, in, out);
    if (size == 4 * W) return transform_block<4>(x, at, in, out);
    if (size == 2 * W) return transform_block<2>(x, at, in, out);
    if (size == W) return transform_block<1>(x, at, in, out);
    const int64_t half = size / 2;
    if (size < 32 * W) {
        for (int64_t j = at; j < at + half; j += W) {
            const f32s a = in.apply(load(x + j), j), b = in.apply(load(x + j + half), j + half);
            store(x + j, a + b);
            store(x + j + half, a - b);
        }
        transform_at(x, at, half, Plain{}, out);
        transform_at(x, at + half, half, Plain{}, out);
        return;
    }
    // Two stages in one pass over memory.
    const int64_t q = size / 4;
    for (int64_t j = at; j < at + q; j += W) {
        const f32s a = in.apply(load(x + j), j), b = in.apply(load(x + j + q), j + q);
        const f32s c = in.apply(load(x + j + 2 * q), j + 2 * q), d = in.apply(load(x + j + 3 * q), j + 3 * q);
        const f32s ac = a + c, bd = b + d, a_c = a - c, b_d = b - d;
        store(x + j, ac + bd);
        store(x + j + q, ac - bd);
        store(x + j + 2 * q, a_c + b_d);
        store(x + j + 3 * q, a_c - b_d);
    }
    for (int k = 0; k < 4; ++k) transform_at(x, at + k * q, q, Plain{}, out);
}

// Fewer elements than lanes.
template <class In, class Out>
inline void transform_small(float* x, int64_t size, In in, Out out) {
    for (int64_t j = 0; j < size; ++j) x[j] = in.apply_one(x[j], j);
    for (int64_t h = size / 2; h >= 1; h /= 2)
        for (int64_t j = 0; j < size; ++j)
            if ((j & h) == 0) {
                const float a = x[j], b = x[j + h];
                x[j] = a + b;
                x[j + h] = a - b;
            }
    for (int64_t j = 0; j < size; ++j) x[j] = out.apply_one(x[j], j);
}

template <class In, class Out>
LETHEVEC_INLINE void transform(float* x, int64_t size, In in, Out out) {
    if (size < LANES)
        transform_small(x, size, in, out);
    else
        transform_at(x, 0, size, in, out);
}

}  // namespace lethevec::LETHEVEC_ISA_NS
