// The kernel of the candidate source "tables": which rows of buckets have a signature like the query's.
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

// How near to ask for memory: into the second cache. The first has room for few lines on their way, and the rest would wait.
constexpr int NEAR = 2;
// Pairs that are scored before those of their rows that reach the threshold are gathered: so nobody waits for their scores.
constexpr int64_t TILE = 16;

// The rows of a tile that reach the threshold. How many a pair has cannot be predicted, but it is rarely more than two: so many are
// written without a look at how many there are.
LETHEVEC_INLINE int64_t take(const BucketPair* pairs, int64_t n, const uint64_t* reached, const uint8_t* scores, BucketRow* found,
                             int64_t count) {
    constexpr uint64_t LAST = uint64_t{1} << 63;  // for when there are none
    for (int64_t i = 0; i < n; ++i) {
        uint64_t mask = reached[i];
        const int64_t many = __builtin_popcountll(mask), base = pairs[i].base;
        const uint32_t* numbers = pairs[i].numbers;
        const auto write = [&](int64_t k) {
            const int r = __builtin_ctzll(mask | LAST);
            found[count + k] = {numbers + r, base + 2 * int64_t{scores[i * PAIR + r]}};
            mask &= mask - 1;
        };
        write(0);
        write(1);
        for (int64_t k = 2; k < many; ++k) write(k);
        count += many;
    }
    return count;
}

// Calls `sum` for each pair: for its scores, and for which of them reach the least.
template <class Sum>
LETHEVEC_INLINE int64_t scan_pairs(const BucketPair* pairs, int64_t n, int64_t ahead, int64_t bytes, int32_t threshold,
                                   BucketRow* found, Sum sum) {
    alignas(64) uint8_t scores[TILE * PAIR];
    uint64_t reached[TILE];
    int64_t count = 0;
    for (int64_t from = 0; from < n; from += TILE, pairs += TILE) {
        const int64_t now = n - from < TILE ? n - from : TILE;
        for (int64_t i = 0; i < now; ++i) {
            const BucketPair& pair = pairs[i];
            for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(pairs[i + ahead].signatures + at, 0, NEAR);
            // Every point of a score adds two. The largest score there is may be too low.
            const int32_t needed = (threshold - pair.base + 1) / 2, least = needed < 0 ? 0 : needed > 255 ? 255 : needed;
            const uint64_t rows = needed > 255 ? 0 : ~uint64_t{0} >> (PAIR - pair.rows);
            reached[i] = sum(pair, static_cast<uint8_t>(least), scores + i * PAIR) & rows;
        }
        count = take(pairs, now, reached, scores, found, count);
    }
    return count;
}

#if defined(LETHEVEC_ISA_AVX512)

template <int BYTES>
int64_t scan_wide(const ScanQuery* queries, const BucketPair* pairs, int64_t n, int64_t ahead, int32_t threshold,
                  BucketRow* found) {
    return scan_pairs(pairs, n, ahead, BYTES * PAIR, threshold, found,
                      [&](const BucketPair& pair, uint8_t least, uint8_t* scores) __attribute__((always_inline)) {
                          const __m512i sums = pair_scores<BYTES>(queries[pair.table].wide, pair.signatures);
                          _mm512_store_si512(scores, sums);
                          return _mm512_cmpge_epu8_mask(sums, _mm512_set1_epi8(static_cast<char>(least)));
                      });
}

#endif

}  // namespace

int64_t scan_buckets(const ScanQuery* queries, const BucketPair* pairs, int64_t n, int64_t ahead, int64_t apart,
                     int32_t threshold, BucketRow* found) {
    const int64_t bytes = queries[0].bytes;
#if defined(LETHEVEC_ISA_AVX512)
    if (apart == PAIR && queries[0].wide) {
        switch (bytes) {
#define LETHEVEC_SCAN_BUCKETS(BYTES) \
    case BYTES: return scan_wide<BYTES>(queries, pairs, n, ahead, threshold, found);
            LETHEVEC_SCAN_BUCKETS(1)
            LETHEVEC_SCAN_BUCKETS(2)
            LETHEVEC_SCAN_BUCKETS(3)
            LETHEVEC_SCAN_BUCKETS(4)
            LETHEVEC_SCAN_BUCKETS(5)
            LETHEVEC_SCAN_BUCKETS(6)
            LETHEVEC_SCAN_BUCKETS(7)
            LETHEVEC_SCAN_BUCKETS(8)
            LETHEVEC_SCAN_BUCKETS(9)
            LETHEVEC_SCAN_BUCKETS(10)
            LETHEVEC_SCAN_BUCKETS(11)
            LETHEVEC_SCAN_BUCKETS(12)
            LETHEVEC_SCAN_BUCKETS(13)
            LETHEVEC_SCAN_BUCKETS(14)
            LETHEVEC_SCAN_BUCKETS(15)
            LETHEVEC_SCAN_BUCKETS(16)
#undef LETHEVEC_SCAN_BUCKETS
        }
    }
#endif
    if (apart == PAIR)
        return scan_pairs(pairs, n, ahead, bytes * PAIR, threshold, found,
                          [&](const BucketPair& pair, uint8_t least, uint8_t* scores) {
                              const uint8_t* blocks[2] = {pair.signatures, pair.signatures + BLOCK};
                              sum_blocks<2, PAIR>(queries[pair.table], blocks, 0, bytes, scores);
                              return reaching(scores, least) | static_cast<uint64_t>(reaching(scores + BLOCK, least)) << BLOCK;
                          });
    return scan_pairs(pairs, n, ahead, bytes * BLOCK, threshold, found,
                      [&](const BucketPair& pair, uint8_t least, uint8_t* scores) {
                          sum_blocks<1>(queries[pair.table], &pair.signatures, 0, bytes, scores);
                          return static_cast<uint64_t>(reaching(scores, least));
                      });
}

}  // namespace lethevec::LETHEVEC_ISA_NS
