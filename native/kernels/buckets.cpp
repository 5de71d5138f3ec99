// The kernel of the candidate source "tables": which rows of a bucket's run have a signature like the query's.
#include "block_scores.h"
#include "kernels.h"
#include "lanes.h"
#include "wide_scores.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

// Which of 32 scores reach the least.
LETHEVEC_INLINE uint32_t reaching(const uint8_t* scores, uint8_t least) {
#if defined(LETHEVEC_ISA_AVX512) || defined(LETHEVEC_ISA_AVX2)
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scores));
    const __m256i reached = _mm256_cmpeq_epi8(_mm256_max_epu8(a, _mm256_set1_epi8(static_cast<char>(least))), a);
    return static_cast<uint32_t>(_mm256_movemask_epi8(reached));
#else
    uint32_t mask = 0;
    for (int r = 0; r < BLOCK; ++r) mask |= static_cast<uint32_t>(scores[r] >= least) << r;
    return mask;
#endif
}

// Those of a block, the first row of which is `slot`.
LETHEVEC_INLINE int64_t take_block(const uint8_t* scores, int64_t slot, int64_t rows, uint8_t least, BucketFound found,
                                   int64_t count) {
    if (rows <= 0) return count;
    uint32_t mask = reaching(scores, least);
    if (rows < BLOCK) mask &= (uint32_t{1} << rows) - 1;
    for (; mask; mask &= mask - 1) {
        const int r = __builtin_ctz(mask);
        found.slots[count] = static_cast<uint32_t>(slot + r);
        found.scores[count++] = scores[r];
    }
    return count;
}

#if defined(LETHEVEC_ISA_AVX512)

template <int PAIRS>
LETHEVEC_INLINE int64_t take_pairs(const ScanQuery& query, const BucketView& run, int64_t from, uint8_t least, BucketFound found,
                                   int64_t count) {
    __m512i sum[PAIRS];
    for (int i = 0; i < PAIRS; ++i) sum[i] = _mm512_setzero_si512();
    sum_wide<PAIRS>(query, run.signatures + from * query.bytes, 0, query.bytes, sum, run.ahead - run.signatures);
    for (int i = 0; i < PAIRS; ++i) {
        uint64_t mask = _mm512_cmpge_epu8_mask(sum[i], _mm512_set1_epi8(static_cast<char>(least)));
        const int64_t rows = run.rows - from - i * PAIR;
        if (rows < PAIR) mask &= (uint64_t{1} << rows) - 1;
        if (mask == 0) continue;
        alignas(64) uint8_t scores[PAIR];
        _mm512_store_si512(scores, sum[i]);
        for (; mask; mask &= mask - 1) {
            const int r = __builtin_ctzll(mask);
            found.slots[count] = static_cast<uint32_t>(from + i * PAIR + r);
            found.scores[count++] = scores[r];
        }
    }
    return count;
}

#endif

}  // namespace

int64_t scan_bucket(const ScanQuery& query, const BucketView& run, uint8_t least, BucketFound found) {
    alignas(64) uint8_t scores[PAIR];
    int64_t count = 0;
    if (run.apart == BLOCK) {
        sum_blocks<1>(query, &run.signatures, 0, query.bytes, scores);
        return take_block(scores, 0, run.rows, least, found, 0);
    }
    int64_t from = 0;
#if defined(LETHEVEC_ISA_AVX512)
    if (query.wide) {
        for (; from + PAIR < run.rows; from += 2 * PAIR) count = take_pairs<2>(query, run, from, least, found, count);
        if (from < run.rows) count = take_pairs<1>(query, run, from, least, found, count);
        return count;
    }
#endif
    for (; from < run.rows; from += PAIR) {
        const uint8_t* at = run.signatures + from * query.bytes;
        for (int64_t line = 0; line < PAIR * query.bytes; line += 64) __builtin_prefetch(run.ahead + from * query.bytes + line);
        const uint8_t* blocks[2] = {at, at + BLOCK};
        sum_blocks<2, PAIR>(query, blocks, 0, query.bytes, scores);
        count = take_block(scores, from, run.rows - from, least, found, count);
        count = take_block(scores + BLOCK, from + BLOCK, run.rows - from - BLOCK, least, found, count);
    }
    return count;
}

}  // namespace lethevec::LETHEVEC_ISA_NS
