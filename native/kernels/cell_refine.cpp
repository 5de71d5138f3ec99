// The second stage of the source "pivots": estimated distances by all planes, for the rows that the first stage kept.
#include "kernels/disagreement.h"
#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

constexpr int64_t TOGETHER = 64;  // rows whose numbers are gathered, then worked out side by side

// In which bits `n` of up to four rows differ from the query, by their weights. There is room for four.
template <int64_t WORDS>
LETHEVEC_INLINE void differences(const CellTails& q, const uint32_t* const* tails, int64_t n, int32_t* out) {
    const int64_t words = WORDS > 0 ? WORDS : q.words;
#if defined(LETHEVEC_ISA_AVX512)
    // As `disagreement`, but the lanes are added up only at the end, those of four rows together.
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sum[4];
    for (int k = 0; k < 4; ++k) {
        const uint32_t* code = tails[k < n ? k : n - 1] + 2;
        __m512i total = _mm512_setzero_si512();
        int64_t i = 0;
        for (; i + 2 <= words; i += 2) {
            uint64_t own, other;
            __builtin_memcpy(&own, code + i, 8);
            __builtin_memcpy(&other, q.signs + i, 8);
            total = _mm512_dpbusd_epi32(total, _mm512_maskz_loadu_epi8(own ^ other, q.weights + i * 32), ones);
        }
        if (i < words) {
            const __mmask64 differs = static_cast<uint64_t>(code[i] ^ q.signs[i]);
            total = _mm512_dpbusd_epi32(total, _mm512_maskz_loadu_epi8(differs, q.weights + i * 32), ones);
        }
        sum[k] = total;
    }
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(sum[0], sum[1]), _mm512_unpackhi_epi32(sum[0], sum[1]));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(sum[2], sum[3]), _mm512_unpackhi_epi32(sum[2], sum[3]));
    const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                     _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
#else
    for (int64_t k = 0; k < 4 && k < n; ++k)
        out[k] = static_cast<int32_t>(disagreement(tails[k] + 2, q.signs, q.weights, words));
#endif
}

template <int64_t WORDS>
LETHEVEC_INLINE void refine_all(const CellTails& q, const uint32_t* const* tails, const CellFound& found, int64_t n,
                                float* distances) {
    alignas(64) float biases[TOGETHER], scales[TOGETHER], bases[TOGETHER], lifts[TOGETHER];
    alignas(64) int32_t differ[TOGETHER];
    for (int64_t from = 0; from < n; from += TOGETHER) {
        const int64_t some = n - from < TOGETHER ? n - from : TOGETHER;
        for (int64_t i = 0; i < some; i += 4) differences<WORDS>(q, tails + from + i, some - i, differ + i);
        for (int64_t i = 0; i < some; ++i) {
            const uint32_t *tail = tails[from + i], group = found.groups[from + i];
            __builtin_memcpy(biases + i, tail, sizeof(float));
            __builtin_memcpy(scales + i, tail + 1, sizeof(float));
            bases[i] = q.bases[group];
            lifts[i] = q.lifts[group];
        }
        for (int64_t i = 0; i < some; ++i) {
            const auto score = static_cast<int32_t>(found.scores[from + i]);
            const float first = static_cast<float>(2 * score - q.half) * q.first_unit;
            const float rest = static_cast<float>(q.whole - 2 * differ[i]) * q.tail_unit;
            distances[from + i] = bases[i] + (biases[i] - ((first + rest) + lifts[i]) * scales[i]);
        }
    }
}

}  // namespace

void refine_cells(const CellTails& query, const uint32_t* const* tails, const CellFound& found, int64_t n,
                  float* distances) {
    // The sizes of four planes at the common dimensions, where the loop over words unrolls.
    if (query.words == 9) return refine_all<9>(query, tails, found, n, distances);
    if (query.words == 10) return refine_all<10>(query, tails, found, n, distances);
    if (query.words == 12) return refine_all<12>(query, tails, found, n, distances);
    refine_all<0>(query, tails, found, n, distances);
}

}  // namespace lethevec::LETHEVEC_ISA_NS
