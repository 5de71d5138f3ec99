// A query against outlines: rows/outlines.h has their form.
#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

constexpr int64_t AHEAD = 24;  // outlines on their way: they lie anywhere in memory
constexpr int64_t LINE = 64;

LETHEVEC_INLINE int32_t product_of(const OutlineQuery& query, const uint8_t* outline) {
    const int64_t bytes = query.bytes;
#if defined(LETHEVEC_ISA_AVX512)
    const __m512i half = _mm512_set1_epi8(15);
    __m512i sum = _mm512_setzero_si512();
    for (int64_t at = 0; at < bytes; at += LINE) {
        const int64_t left = bytes - at;
        const __mmask64 in = left >= LINE ? ~0ull : (1ull << left) - 1;
        const __m512i both = _mm512_maskz_loadu_epi8(in, outline + at);
        sum = _mm512_dpbusd_epi32(sum, _mm512_and_si512(both, half), _mm512_loadu_si512(query.lower + at));
        sum = _mm512_dpbusd_epi32(sum, _mm512_and_si512(_mm512_srli_epi16(both, 4), half),
                                  _mm512_loadu_si512(query.upper + at));
    }
    return _mm512_reduce_add_epi32(sum);
#elif defined(LETHEVEC_ISA_AVX2)
    // No pair of products, nor four of them, exceeds sixteen bits.
    const __m256i half = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    const auto from = [](const int8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); };
    __m256i sum = _mm256_setzero_si256();
    int64_t at = 0;
    const auto add = [&](__m256i both) {
        const __m256i lower = _mm256_maddubs_epi16(_mm256_and_si256(both, half), from(query.lower + at));
        const __m256i upper =
            _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(both, 4), half), from(query.upper + at));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(lower, upper), ones));
    };
    for (; at + 32 <= bytes; at += 32) add(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(outline + at)));
    if (at < bytes)  // sixteen more
        add(_mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(outline + at))));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
    return _mm_cvtsi128_si32(four);
#else
    int32_t sum = 0;
    for (int64_t j = 0; j < bytes; ++j)
        sum += static_cast<int32_t>(outline[j] & 15) * static_cast<int32_t>(query.lower[j]) +
               static_cast<int32_t>(outline[j] >> 4) * static_cast<int32_t>(query.upper[j]);
    return sum;
#endif
}

}  // namespace

void outline_products(const OutlineQuery& query, const uint8_t* const* outlines, int64_t n, int32_t* out) {
    for (int64_t i = 0; i < n; ++i) {
        if (i + AHEAD < n)
            for (int64_t at = 0; at < query.bytes; at += LINE) __builtin_prefetch(outlines[i + AHEAD] + at);
        out[i] = product_of(query, outlines[i]);
    }
}

}  // namespace lethevec::LETHEVEC_ISA_NS
