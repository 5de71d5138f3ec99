// The neighbours of a vertex of the source "graph": how far each may be from a query.
#include "kernels/block_scores.h"
#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

#if defined(LETHEVEC_ISA_AVX512)

// A register holds two bytes of every code, and the tables of both: with sums of eight bits for a chunk, of sixteen for
// all.
uint32_t edge_estimates(const ScanQuery& query, const EdgeBlock& block, float base, float unit, float limit,
                        float* out) {
    const __m512i low = _mm512_set1_epi8(15);
    __m512i scores = _mm512_setzero_si512();
    const int64_t even = query.bytes & ~int64_t{1};
    for (int64_t from = 0; from < query.bytes; from += CHUNK_BYTES) {
        const int64_t to = from + CHUNK_BYTES < even ? from + CHUNK_BYTES : even;
        __m512i sum = _mm512_setzero_si512();
        for (int64_t g = from; g < to; g += 2) {
            const __m512i tables = _mm512_loadu_si512(query.tables + g * 32);
            const __m512i first = _mm512_shuffle_i64x2(tables, tables, _MM_SHUFFLE(2, 2, 0, 0));
            const __m512i second = _mm512_shuffle_i64x2(tables, tables, _MM_SHUFFLE(3, 3, 1, 1));
            const __m512i bytes = _mm512_loadu_si512(block.codes + g * BLOCK);
            sum = _mm512_add_epi8(sum, _mm512_shuffle_epi8(first, _mm512_and_si512(bytes, low)));
            sum = _mm512_add_epi8(sum, _mm512_shuffle_epi8(second, _mm512_and_si512(_mm512_srli_epi16(bytes, 4), low)));
        }
        __m256i both = _mm256_add_epi8(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
        if (from + CHUNK_BYTES >= query.bytes && even < query.bytes) {  // a last byte by itself
            alignas(32) uint8_t sums[BLOCK];
            const uint8_t* const codes[1] = {block.codes};
            sum_blocks<1>(query, codes, even, query.bytes, sums);
            both = _mm256_add_epi8(both, _mm256_load_si256(reinterpret_cast<const __m256i*>(sums)));
        }
        scores = _mm512_add_epi16(scores, _mm512_cvtepu8_epi16(both));
    }
    const __m256i halves[2] = {_mm512_castsi512_si256(scores), _mm512_extracti64x4_epi64(scores, 1)};
    uint32_t mask = 0;
    for (int i = 0; i < 2; ++i) {
        const __m512i score = _mm512_cvtepu16_epi32(halves[i]);
        const __m512i twice = _mm512_sub_epi32(_mm512_add_epi32(score, score), _mm512_set1_epi32(query.half));
        const f32s along = (f32s)_mm512_cvtepi32_ps(twice) * splat(unit);
        const f32s estimate = (splat(base) + load(block.adds + i * 16)) - load(block.scales + i * 16) * along;
        store(out + i * 16, estimate);
        mask |= static_cast<uint32_t>(_mm512_cmp_ps_mask((__m512)estimate, _mm512_set1_ps(limit), _CMP_LE_OQ))
                << (i * 16);
    }
    return mask;
}

#else

namespace {

LETHEVEC_INLINE uint32_t at_most(const float* numbers, float limit) {
    uint32_t mask = 0;
#if defined(LETHEVEC_ISA_AVX2)
    for (int r = 0; r < BLOCK; r += 8)
        mask |= static_cast<uint32_t>(
                    _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(numbers + r), _mm256_set1_ps(limit), _CMP_LE_OQ)))
                << r;
#else
    for (int r = 0; r < BLOCK; ++r) mask |= static_cast<uint32_t>(numbers[r] <= limit) << r;
#endif
    return mask;
}

}  // namespace

uint32_t edge_estimates(const ScanQuery& query, const EdgeBlock& block, float base, float unit, float limit,
                        float* out) {
    alignas(64) uint16_t scores[BLOCK] = {};
    const uint8_t* const codes[1] = {block.codes};
    for (int64_t from = 0; from < query.bytes; from += CHUNK_BYTES) {
        alignas(64) uint8_t sums[BLOCK];
        sum_blocks<1>(query, codes, from, from + CHUNK_BYTES < query.bytes ? from + CHUNK_BYTES : query.bytes, sums);
        for (int r = 0; r < BLOCK; ++r) scores[r] = static_cast<uint16_t>(scores[r] + sums[r]);
    }
    for (int r = 0; r < BLOCK; ++r) {
        const float along = static_cast<float>(2 * static_cast<int32_t>(scores[r]) - query.half) * unit;
        out[r] = (base + block.adds[r]) - block.scales[r] * along;
    }
    return at_most(out, limit);
}

#endif

}  // namespace lethevec::LETHEVEC_ISA_NS
