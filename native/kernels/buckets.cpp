// The kernel of the candidate source "tables": which rows of buckets have a signature like the query's.
#include "kernels/block_scores.h"
#include "kernels/kernels.h"
#include "kernels/lanes.h"
#include "kernels/wide_scores.h"

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

// How near to ask for memory: into the second cache. The first has room for few lines on their way, and the rest would
// wait.
constexpr int NEAR = 2;
// How much of the next run: the hardware sees by then that one line comes after the other.
constexpr int64_t LEAP = 1024;

// The smallest score of a row of a run that reaches the threshold. Every point of a score adds two. The largest score
// there is may be too low.
LETHEVEC_INLINE int32_t least_score(const BucketRun& run, int32_t threshold) {
    const int32_t needed = (threshold - run.base + 1) / 2;
    return needed < 0 ? 0 : needed;
}

// Which of the rows of a block or pair, whose first is `from`, the run has.
LETHEVEC_INLINE uint64_t rows_from(const BucketRun& run, int64_t from) {
    const int64_t left = run.rows - from;
    return left >= PAIR ? ~uint64_t{0} : ~(~uint64_t{0} << left);
}

LETHEVEC_INLINE void ask_for(const uint8_t* signatures, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(signatures + at, 0, NEAR);
}

#if defined(LETHEVEC_ISA_AVX512)

// Where there is one table of buckets, the query's tables for it stay in registers.
template <int BYTES, bool ONE>
int64_t scan_wide(const ScanQuery* queries, const BucketRun* runs, int64_t n, int64_t room, int32_t threshold,
                  BucketRows found) {
    constexpr int TABLES = static_cast<int>(wide_tables(BYTES) / 64);
    alignas(64) static constexpr uint8_t ROWS[PAIR] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                                       16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                                       32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                                       48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    const __m512i all = _mm512_load_si512(ROWS);
    __m512i tables[TABLES];
    for (int t = 0; ONE && t < TABLES; ++t) tables[t] = kept(queries[0].wide + 64 * t);
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) {
        const BucketRun& run = runs[i];
        ask_for(runs[i + 1].signatures, LEAP);
        const int32_t least = least_score(run, threshold);
        if (least > 255) continue;
        const __m512i asked = _mm512_set1_epi8(static_cast<char>(least)), base = _mm512_set1_epi32(run.base);
        const uint8_t* own = queries[ONE ? 0 : run.table].wide;
        const uint8_t* at = run.signatures;
        for (int64_t from = 0; from < run.rows; from += PAIR, at += BYTES * PAIR) {
            const __m512i sums =
                pair_scores<BYTES>([&](int t) { return ONE ? tables[t] : _mm512_loadu_si512(own + 64 * t); }, at);
            const uint64_t mask = _mm512_cmpge_epu8_mask(sums, asked) & rows_from(run, from);
            const int64_t many = __builtin_popcountll(mask);
            const __m512i rows = _mm512_maskz_compress_epi8(mask, all), scores = _mm512_permutexvar_epi8(rows, sums);
            const __m512i first = _mm512_set1_epi32(static_cast<int32_t>(i * room + from));
            const auto write = [&](int64_t k, __m128i sixteen, __m128i their_scores) __attribute__((always_inline)) {
                const __m512i wide = _mm512_cvtepu8_epi32(their_scores);
                _mm512_storeu_si512(found.places + count + k, _mm512_add_epi32(_mm512_cvtepu8_epi32(sixteen), first));
                _mm512_storeu_si512(found.estimates + count + k, _mm512_add_epi32(_mm512_add_epi32(wide, wide), base));
            };
            // Sixteen rows are written at once, however many there are: that cannot be predicted, but it is rarely
            // more.
            write(0, _mm512_castsi512_si128(rows), _mm512_castsi512_si128(scores));
            if (many > 16) {
                write(16, _mm512_extracti32x4_epi32(rows, 1), _mm512_extracti32x4_epi32(scores, 1));
                write(32, _mm512_extracti32x4_epi32(rows, 2), _mm512_extracti32x4_epi32(scores, 2));
                write(48, _mm512_extracti32x4_epi32(rows, 3), _mm512_extracti32x4_epi32(scores, 3));
            }
            count += many;
        }
    }
    return count;
}

#endif

// What is scanned, as `scan_buckets` is given it.
struct RunScan {
    const ScanQuery* queries;
    const BucketRun* runs;
    int64_t n, room;
    int32_t threshold;
    BucketRows found;
};

// Calls `sum` for the scores of `apart` rows, and for which of them reach the least.
template <class Sum>
LETHEVEC_INLINE int64_t scan_runs(const RunScan& scan, int64_t apart, Sum sum) {
    constexpr uint64_t LAST = uint64_t{1} << 63;  // for when there are none
    alignas(64) uint8_t scores[PAIR];
    int64_t count = 0;
    const BucketRows found = scan.found;
    for (int64_t i = 0; i < scan.n; ++i) {
        const BucketRun& run = scan.runs[i];
        ask_for(scan.runs[i + 1].signatures, LEAP);
        const int32_t least = least_score(run, scan.threshold);
        if (least > 255) continue;
        const ScanQuery& query = scan.queries[run.table];
        const uint8_t* at = run.signatures;
        for (int64_t from = 0; from < run.rows; from += apart, at += query.bytes * apart) {
            uint64_t mask = sum(query, at, static_cast<uint8_t>(least), scores) & rows_from(run, from);
            const int64_t many = __builtin_popcountll(mask);
            const auto write = [&](int64_t k) {
                const int r = __builtin_ctzll(mask | LAST);
                found.places[count + k] = static_cast<uint32_t>(i * scan.room + from + r);
                found.estimates[count + k] = run.base + 2 * int32_t{scores[r]};
                mask &= mask - 1;
            };
            // How many there are cannot be predicted, but it is rarely more than two: so many are written without a
            // look.
            write(0);
            write(1);
            for (int64_t k = 2; k < many; ++k) write(k);
            count += many;
        }
    }
    return count;
}

}  // namespace

int64_t scan_buckets(const ScanQuery* queries, [[maybe_unused]] int64_t tables, const BucketRun* runs, int64_t n,
                     int64_t room, int32_t threshold, BucketRows found) {
    const int64_t bytes = queries[0].bytes;
#if defined(LETHEVEC_ISA_AVX512)
    if (room >= PAIR && queries[0].wide && bytes > 0)
        return with_bytes(bytes, [&](auto constant) {
            constexpr int BYTES = decltype(constant)::count;
            return (tables == 1 ? scan_wide<BYTES, true> : scan_wide<BYTES, false>)(queries, runs, n, room, threshold,
                                                                                    found);
        });
#endif
    const RunScan scan = {queries, runs, n, room, threshold, found};
    if (room >= PAIR)
        return scan_runs(scan, PAIR, [&](const ScanQuery& query, const uint8_t* at, uint8_t least, uint8_t* scores) {
            const uint8_t* blocks[2] = {at, at + BLOCK};
            sum_blocks<2, PAIR>(query, blocks, 0, bytes, scores);
            return reaching(scores, least) | static_cast<uint64_t>(reaching(scores + BLOCK, least)) << BLOCK;
        });
    return scan_runs(scan, BLOCK, [&](const ScanQuery& query, const uint8_t* at, uint8_t least, uint8_t* scores) {
        sum_blocks<1>(query, &at, 0, bytes, scores);
        return static_cast<uint64_t>(reaching(scores, least));
    });
}

}  // namespace lethevec::LETHEVEC_ISA_NS
