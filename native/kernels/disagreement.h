// In which of its later bits a code differs from a query, by the weights of those bits.
#pragma once

#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

LETHEVEC_INLINE uint32_t disagreement(const uint32_t* code, const uint32_t* query, const uint8_t* weights,
                                      int64_t words) {
#if defined(LETHEVEC_ISA_AVX512)
    // The weights of 64 bits at once, by a mask of those that differ.
    __m512i total = _mm512_setzero_si512();
    int64_t i = 0;
    for (; i + 2 <= words; i += 2) {
        uint64_t own, other;
        __builtin_memcpy(&own, code + i, 8);
        __builtin_memcpy(&other, query + i, 8);
        const __m512i kept = _mm512_maskz_loadu_epi8(own ^ other, weights + i * 32);
        total = _mm512_add_epi64(total, _mm512_sad_epu8(kept, _mm512_setzero_si512()));
    }
    if (i < words) {
        const __m512i kept = _mm512_maskz_loadu_epi8(static_cast<uint64_t>(code[i] ^ query[i]), weights + i * 32);
        total = _mm512_add_epi64(total, _mm512_sad_epu8(kept, _mm512_setzero_si512()));
    }
    return static_cast<uint32_t>(_mm512_reduce_add_epi64(total));
#elif defined(LETHEVEC_ISA_AVX2)
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3,
                                            3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
    __m256i total = _mm256_setzero_si256();
    for (int64_t i = 0; i < words; ++i) {
        const __m256i word = _mm256_set1_epi32(static_cast<int>(code[i] ^ query[i]));
        const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(word, spread), bit), bit);
        const __m256i kept =
            _mm256_and_si256(set, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + i * 32)));
        total = _mm256_add_epi64(total, _mm256_sad_epu8(kept, _mm256_setzero_si256()));
    }
    const __m128i pair = _mm_add_epi64(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
    return static_cast<uint32_t>(_mm_cvtsi128_si64(pair) + _mm_extract_epi64(pair, 1));
#elif defined(LETHEVEC_ISA_NEON)
    const uint8x16_t bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint32_t total = 0;
    for (int64_t i = 0; i < words; ++i) {
        const uint32_t word = code[i] ^ query[i];
        for (int half = 0; half < 2; ++half) {
            const uint8x8_t a = vdup_n_u8(static_cast<uint8_t>(word >> (half * 16)));
            const uint8x8_t b = vdup_n_u8(static_cast<uint8_t>(word >> (half * 16 + 8)));
            const uint8x16_t set = vtstq_u8(vcombine_u8(a, b), bit);
            total += vaddlvq_u8(vandq_u8(set, vld1q_u8(weights + i * 32 + half * 16)));
        }
    }
    return total;
#else
    uint32_t total = 0;
    for (int64_t i = 0; i < words; ++i) {
        uint32_t word = code[i] ^ query[i];
        while (word) {
            total += weights[i * 32 + __builtin_ctz(word)];
            word &= word - 1;
        }
    }
    return total;
#endif
}

}  // namespace lethevec::LETHEVEC_ISA_NS
