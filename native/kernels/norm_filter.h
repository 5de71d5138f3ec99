// A first test of eight-bit scores where a key needs the norm too, without the arithmetic and without the norm itself:
// for each of sixteen classes of norms there is a least score that could do. What passes is tested exactly.
#pragma once

#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

#if defined(LETHEVEC_ISA_AVX512) || defined(LETHEVEC_ISA_AVX2)
#define LETHEVEC_NORM_FILTER
constexpr bool FILTERED = true;

struct NormFilter {
    alignas(16) uint8_t least[16];
    uint8_t base;  // the class of number 0; it and number 15 take what lies beyond, and let everything pass
    bool none;     // norms are so large or small that their classes say nothing
};

// No agreement is larger under ip, whatever half a search takes off it.
constexpr double MOST_AGREEMENT = 4 * 65535.0;

LETHEVEC_INLINE double class_start(uint32_t number) {
    const uint32_t bits = (number + NORM_FIRST) << NORM_SHIFT;
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return static_cast<double>(x);
}

inline NormFilter make_filter(const ScanQuery& q, KeyKind kind, const float* norms, float threshold) {
    NormFilter filter = {};
    float sum = 0.0f;
    for (int r = 0; r < BLOCK; ++r) sum += norms[r];
    const float mean = sum * (1.0f / BLOCK);
    uint32_t bits;
    __builtin_memcpy(&bits, &mean, sizeof bits);
    const int64_t middle = static_cast<int64_t>(bits >> NORM_SHIFT) - NORM_FIRST;
    filter.none = middle < 1 || middle > 254;
    filter.base = static_cast<uint8_t>(middle < 8 ? 0 : middle > 248 ? 240 : middle - 8);
    const double gain = kind == KEY_IP ? 1.0 : static_cast<double>(q.gain);
    const double most = kind == KEY_IP ? MOST_AGREEMENT : gain * q.half;
    if (!(gain > 0.0) || !(threshold > -1e37f)) return filter;
    // The key is norm * (a - norm), or norm * a, for a = gain * (2 score - half), each operation rounded: a key that
    // should not reach the threshold may, by a few units in the last place of the largest number on the way.
    const double end = class_start(filter.base + 15u);
    const double t = static_cast<double>(threshold) - 1e-6 * end * (most + end),
                 root = t > 0.0 ? __builtin_sqrt(t) : 0.0;
    for (uint32_t i = 1; i < 15; ++i) {
        const double low = class_start(filter.base + i), high = class_start(filter.base + i + 1);
        // The least a that does for some norm of the class: t/norm + norm is smallest at sqrt(t), t/norm at an end.
        const double at = kind == KEY_IP ? (t > 0.0 ? high : low) : root < low ? low : root > high ? high : root;
        const double least = kind == KEY_IP ? t / at : t / at + at;
        const double score = (least / gain + q.half) * 0.5 + 0.999;  // the next whole number, or the one before it
        filter.least[i] = score <= 0.0 ? 0 : score >= 255.0 ? 255 : static_cast<uint8_t>(score);
    }
    return filter;
}

#if defined(LETHEVEC_ISA_AVX512)
// The least scores for the rows of two blocks. Base and table are the filter's, in registers.
LETHEVEC_INLINE __m512i least_scores(__m512i base, __m512i table, const uint8_t* classes) {
    const __m512i above = _mm512_subs_epu8(_mm512_loadu_si512(classes), base);
    return _mm512_shuffle_epi8(table, _mm512_min_epu8(above, _mm512_set1_epi8(15)));
}
#endif
// Of a block.
LETHEVEC_INLINE uint32_t may_reach(const NormFilter& filter, const uint8_t* scores, const uint8_t* classes) {
    const __m256i own = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(classes));
    const __m256i above = _mm256_subs_epu8(own, _mm256_set1_epi8(static_cast<char>(filter.base)));
    const __m256i table = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(filter.least)));
    const __m256i least = _mm256_shuffle_epi8(table, _mm256_min_epu8(above, _mm256_set1_epi8(15)));
    const __m256i score = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scores));
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(score, least), score)));
}
#else
constexpr bool FILTERED = false;
#endif

}  // namespace lethevec::LETHEVEC_ISA_NS
