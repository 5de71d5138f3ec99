// The norm of a row and its direction, and the sum that aligns a code with a row, as the spec's `norms`, `directions`
// and `alignment`: in double precision, where squares of floats are exact, over eight lanes (j % 8), then pairwise.
#pragma once

#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

#if defined(LETHEVEC_ISA_SCALAR)
struct f64x8 {
    double lane[8];
};
LETHEVEC_INLINE f64x8 eight_zeros() { return {}; }
LETHEVEC_INLINE f64x8 eight(const float* x) {
    f64x8 v;
    for (int k = 0; k < 8; ++k) v.lane[k] = static_cast<double>(x[k]);
    return v;
}
LETHEVEC_INLINE f64x8 operator+(f64x8 a, const f64x8& b) {
    for (int k = 0; k < 8; ++k) a.lane[k] = a.lane[k] + b.lane[k];
    return a;
}
LETHEVEC_INLINE f64x8 operator*(f64x8 a, const f64x8& b) {
    for (int k = 0; k < 8; ++k) a.lane[k] = a.lane[k] * b.lane[k];
    return a;
}
LETHEVEC_INLINE double pairwise(const f64x8& v) {
    double lane[8];
    for (int k = 0; k < 8; ++k) lane[k] = v.lane[k];
    for (int h = 4; h >= 1; h /= 2)
        for (int k = 0; k < h; ++k) lane[k] = lane[k] + lane[k + h];
    return lane[0];
}
#else
// Two halves: as one vector of 64 bytes it would be kept in memory where registers have 32.
typedef float f32x4 __attribute__((vector_size(16)));
typedef double f64x4 __attribute__((vector_size(32)));
struct __attribute__((packed, may_alias)) f32x4_unaligned {
    f32x4 v;
};
struct f64x8 {
    f64x4 low, high;
};
LETHEVEC_INLINE f64x4 four(const float* x) {
    return __builtin_convertvector(reinterpret_cast<const f32x4_unaligned*>(x)->v, f64x4);
}
LETHEVEC_INLINE f64x8 eight_zeros() { return {f64x4{}, f64x4{}}; }
LETHEVEC_INLINE f64x8 eight(const float* x) { return {four(x), four(x + 4)}; }
LETHEVEC_INLINE f64x8 operator+(f64x8 a, f64x8 b) { return {a.low + b.low, a.high + b.high}; }
LETHEVEC_INLINE f64x8 operator*(f64x8 a, f64x8 b) { return {a.low * b.low, a.high * b.high}; }
LETHEVEC_INLINE double pairwise(f64x8 v) {
    const f64x4 s = v.low + v.high;
    return (s[0] + s[2]) + (s[1] + s[3]);
}
#endif

// The last d % 8 numbers of a row, filled up with zeros.
LETHEVEC_INLINE f64x8 rest_of(const float* x, int64_t n) {
    float rest[8] = {};
    for (int64_t k = 0; k < n; ++k) rest[k] = x[k];
    return eight(rest);
}

LETHEVEC_INLINE double norm_of(const float* x, int64_t d) {
    f64x8 sum = eight_zeros();
    int64_t j = 0;
    for (; j + 8 <= d; j += 8) {
        const f64x8 v = eight(x + j);
        sum = sum + v * v;
    }
    if (j < d) {
        const f64x8 v = rest_of(x + j, d - j);
        sum = sum + v * v;
    }
    return __builtin_sqrt(pairwise(sum));
}

LETHEVEC_INLINE void norms_of_two(const float* x, const float* y, int64_t d, double* out) {
    f64x8 sum = eight_zeros(), other = eight_zeros();
    int64_t j = 0;
    for (; j + 8 <= d; j += 8) {
        const f64x8 v = eight(x + j), w = eight(y + j);
        sum = sum + v * v;
        other = other + w * w;
    }
    if (j < d) {
        const f64x8 v = rest_of(x + j, d - j), w = rest_of(y + j, d - j);
        sum = sum + v * v;
        other = other + w * w;
    }
    out[0] = __builtin_sqrt(pairwise(sum));
    out[1] = __builtin_sqrt(pairwise(other));
}

// sum_j b_j v_j for b = sign(of), over a padded row. Padding is zero in v and adds nothing.
LETHEVEC_INLINE double signed_sum(const float* v, const float* of, int64_t dp) {
    f64x8 sum = eight_zeros();
#if defined(LETHEVEC_ISA_AVX2)
    for (int64_t j = 0; j < dp; j += 8) {
        const __m256 flipped = (__m256)signed_like(load(of + j), load(v + j));
        sum = sum + f64x8{(f64x4)_mm256_cvtps_pd(_mm256_castps256_ps128(flipped)),
                          (f64x4)_mm256_cvtps_pd(_mm256_extractf128_ps(flipped, 1))};
    }
#else
    constexpr int64_t STEP = LANES < 8 ? 8 : LANES;
    alignas(64) float flipped[STEP];
    for (int64_t j = 0; j < dp; j += STEP) {
        for (int64_t k = 0; k < STEP; k += LANES) store(flipped + k, signed_like(load(of + j + k), load(v + j + k)));
        for (int64_t k = 0; k < STEP; k += 8) sum = sum + eight(flipped + k);
    }
#endif
    return pairwise(sum);
}

// u = x/|x| in a padded row; returns |x|. A zero vector stays zero.
LETHEVEC_INLINE double read_direction(float* u, const float* x, int64_t d, int64_t dp) {
    const double norm = norm_of(x, d);
    const double inverse = norm > 0.0 ? 1.0 / norm : 0.0;
    for (int64_t j = 0; j < d; ++j) u[j] = static_cast<float>(static_cast<double>(x[j]) * inverse);
    for (int64_t j = d; j < dp; ++j) u[j] = 0.0f;
    return norm;
}

}  // namespace lethevec::LETHEVEC_ISA_NS
