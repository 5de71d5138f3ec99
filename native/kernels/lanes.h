// The lanes of one instruction set: a vector of LANES floats and the few operations that the kernels need.
//
// Every kernel is written once over these and compiled once per instruction set. All arithmetic is element-wise and in
// a fixed order, so the number of lanes cannot change a result: scalar code is the same program with one lane.
//
// Kernel files include nothing that defines inline library functions (no <vector>, no <algorithm>): the linker keeps
// one copy of such a function for the whole module, and it could be the one that was compiled for AVX-512.
#pragma once

#include <cstdint>

#if defined(LETHEVEC_ISA_AVX512) || defined(LETHEVEC_ISA_AVX2)
#include <immintrin.h>
#elif defined(LETHEVEC_ISA_NEON)
#include <arm_neon.h>
#endif

#define LETHEVEC_INLINE inline __attribute__((always_inline))

namespace lethevec::LETHEVEC_ISA_NS {

#if defined(LETHEVEC_ISA_AVX512)
constexpr int LANES = 16;
#elif defined(LETHEVEC_ISA_AVX2)
constexpr int LANES = 8;
#elif defined(LETHEVEC_ISA_NEON)
constexpr int LANES = 4;
#else
constexpr int LANES = 1;
#endif

#if defined(LETHEVEC_ISA_SCALAR)
using f32s = float;
LETHEVEC_INLINE f32s load(const float* p) { return *p; }
LETHEVEC_INLINE void store(float* p, f32s v) { *p = v; }
LETHEVEC_INLINE f32s splat(float c) { return c; }
// Bit j is set where lane j is >= 0. Negative zero is >= 0, so this is a comparison and not a look at the sign bit.
LETHEVEC_INLINE uint32_t nonnegative(f32s v) { return v >= 0.0f; }
#else
typedef float f32s __attribute__((vector_size(LANES * 4)));
typedef int32_t i32s __attribute__((vector_size(LANES * 4)));
struct __attribute__((packed, may_alias)) f32s_unaligned {
    f32s v;
};
LETHEVEC_INLINE f32s load(const float* p) { return reinterpret_cast<const f32s_unaligned*>(p)->v; }
LETHEVEC_INLINE void store(float* p, f32s v) { reinterpret_cast<f32s_unaligned*>(p)->v = v; }
LETHEVEC_INLINE f32s splat(float c) { return c - f32s{}; }

LETHEVEC_INLINE uint32_t nonnegative(f32s v) {
#if defined(LETHEVEC_ISA_AVX512)
    return _mm512_cmp_ps_mask((__m512)v, _mm512_setzero_ps(), _CMP_GE_OQ);
#elif defined(LETHEVEC_ISA_AVX2)
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps((__m256)v, _mm256_setzero_ps(), _CMP_GE_OQ)));
#else
    const uint32x4_t weight = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgezq_f32((float32x4_t)v), weight));
#endif
}
#endif

// a < b ? a : b, which is what the instruction of x86 does to the last bit; compilers make a comparison and a choice of
// it.
LETHEVEC_INLINE f32s minimum(f32s a, f32s b) {
#if defined(LETHEVEC_ISA_AVX512)
    return (f32s)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(LETHEVEC_ISA_AVX2)
    return (f32s)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return a < b ? a : b;
#endif
}
LETHEVEC_INLINE f32s maximum(f32s a, f32s b) {
#if defined(LETHEVEC_ISA_AVX512)
    return (f32s)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(LETHEVEC_ISA_AVX2)
    return (f32s)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return a > b ? a : b;
#endif
}
// c where v >= 0, else -c.
LETHEVEC_INLINE f32s signed_like(f32s v, f32s c) { return v >= 0.0f ? c : -c; }

// a + v * sign for signs of 1 and -1. The product is exact, so the fused multiply-add rounds once, as the addition
// does.
LETHEVEC_INLINE f32s plus_signed(f32s a, f32s v, f32s sign) {
#if defined(LETHEVEC_ISA_AVX512)
    return (f32s)_mm512_fmadd_ps((__m512)v, (__m512)sign, (__m512)a);
#elif defined(LETHEVEC_ISA_AVX2)
    return (f32s)_mm256_fmadd_ps((__m256)v, (__m256)sign, (__m256)a);
#elif defined(LETHEVEC_ISA_NEON)
    return (f32s)vfmaq_f32((float32x4_t)a, (float32x4_t)v, (float32x4_t)sign);
#else
    return v * sign + a;
#endif
}

// One butterfly stage inside a vector: lane j becomes v[j] + v[j ^ H] if bit H of j is 0, else v[j ^ H] - v[j].
#if !defined(LETHEVEC_ISA_SCALAR)
// v * +-1 is exact, so the fused multiply-add rounds once, as the addition it stands for does.
template <int H, int... J>
LETHEVEC_INLINE f32s butterfly_indexed(f32s v) {
    constexpr f32s sign = {((J & H) ? -1.0f : 1.0f)...};
    const f32s other = __builtin_shufflevector(v, v, (J ^ H)...);
#if defined(LETHEVEC_ISA_AVX512)
    return (f32s)_mm512_fmadd_ps((__m512)v, (__m512)sign, (__m512)other);
#elif defined(LETHEVEC_ISA_AVX2)
    return (f32s)_mm256_fmadd_ps((__m256)v, (__m256)sign, (__m256)other);
#else
    return (f32s)vfmaq_f32((float32x4_t)other, (float32x4_t)v, (float32x4_t)sign);
#endif
}
template <int H>
LETHEVEC_INLINE f32s butterfly(f32s v) {
#if defined(LETHEVEC_ISA_AVX512)
    return butterfly_indexed<H, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>(v);
#elif defined(LETHEVEC_ISA_AVX2)
    return butterfly_indexed<H, 0, 1, 2, 3, 4, 5, 6, 7>(v);
#else
    return butterfly_indexed<H, 0, 1, 2, 3>(v);
#endif
}
#endif

// All stages inside a vector, widest first.
LETHEVEC_INLINE f32s transform_lanes(f32s v) {
#if defined(LETHEVEC_ISA_AVX512)
    v = butterfly<8>(v);
#endif
#if defined(LETHEVEC_ISA_AVX512) || defined(LETHEVEC_ISA_AVX2)
    v = butterfly<4>(v);
#endif
#if !defined(LETHEVEC_ISA_SCALAR)
    v = butterfly<2>(v);
    v = butterfly<1>(v);
#endif
    return v;
}

}  // namespace lethevec::LETHEVEC_ISA_NS
