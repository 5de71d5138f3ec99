// The kernel of the candidate source "tables": which rows of a bucket have a signature like the query's.
#include "block_scores.h"
#include "kernels.h"
#include "lanes.h"

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

template <int N>
LETHEVEC_INLINE int64_t take_blocks(const ScanQuery& query, const BucketView& bucket, int64_t block, uint8_t least,
                                    BucketFound found, int64_t count) {
    alignas(64) uint8_t scores[N * BLOCK];
    sum_blocks<N>(query, bucket.blocks + block, 0, query.bytes, scores);
    for (int i = 0; i < N; ++i) {
        uint32_t mask = reaching(scores + i * BLOCK, least);
        const int64_t rows = bucket.rows - (block + i) * BLOCK;
        if (rows < BLOCK) mask &= (uint32_t{1} << rows) - 1;
        for (; mask; mask &= mask - 1) {
            const int r = __builtin_ctz(mask);
            found.slots[count] = static_cast<uint32_t>((block + i) * BLOCK + r);
            found.scores[count++] = scores[i * BLOCK + r];
        }
    }
    return count;
}

}  // namespace

int64_t scan_bucket(const ScanQuery& query, const BucketView& bucket, uint8_t least, BucketFound found) {
    const int64_t blocks = (bucket.rows + BLOCK - 1) / BLOCK;
    int64_t count = 0, b = 0;
    for (; b + TOGETHER <= blocks; b += TOGETHER)
        count = take_blocks<TOGETHER>(query, bucket, b, least, found, count);
    if (b + 2 <= blocks) {
        count = take_blocks<2>(query, bucket, b, least, found, count);
        b += 2;
    }
    if (b < blocks) count = take_blocks<1>(query, bucket, b, least, found, count);
    return count;
}

}  // namespace lethevec::LETHEVEC_ISA_NS
