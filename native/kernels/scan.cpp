// The first stage: the scores of all records by a few bits each, and the rows whose key reaches a threshold.
#include "kernels/block_scores.h"
#include "kernels/kernels.h"
#include "kernels/lanes.h"
#include "kernels/norm_filter.h"
#include "kernels/wide_scores.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

// How many blocks are scored before those rows that reach the threshold are gathered.
constexpr int64_t TILE = 64;

// Which of 32 eight-bit scores are >= threshold.
LETHEVEC_INLINE uint32_t reach_byte(const uint8_t* scores, uint8_t threshold) {
#if defined(LETHEVEC_ISA_AVX512) || defined(LETHEVEC_ISA_AVX2)
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scores));
    const __m256i reached = _mm256_cmpeq_epi8(_mm256_max_epu8(a, _mm256_set1_epi8(static_cast<char>(threshold))), a);
    return static_cast<uint32_t>(_mm256_movemask_epi8(reached));
#else
    uint32_t mask = 0;
    for (int r = 0; r < BLOCK; ++r) mask |= static_cast<uint32_t>(scores[r] >= threshold) << r;
    return mask;
#endif
}

// Which rows of a block have a score >= threshold.
LETHEVEC_INLINE uint32_t reach_score(const uint16_t* scores, uint16_t threshold) {
#if defined(LETHEVEC_ISA_AVX512)
    return _mm512_cmpge_epu16_mask(_mm512_loadu_si512(scores), _mm512_set1_epi16(static_cast<short>(threshold)));
#elif defined(LETHEVEC_ISA_AVX2)
    const __m256i t = _mm256_set1_epi16(static_cast<short>(threshold));
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scores));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scores + 16));
    const __m256i ge_a = _mm256_cmpeq_epi16(_mm256_max_epu16(a, t), a),
                  ge_b = _mm256_cmpeq_epi16(_mm256_max_epu16(b, t), b);
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(ge_a, ge_b), 0xd8);
    return static_cast<uint32_t>(_mm256_movemask_epi8(bytes));
#else
    uint32_t mask = 0;
    for (int r = 0; r < BLOCK; ++r) mask |= static_cast<uint32_t>(scores[r] >= threshold) << r;
    return mask;
#endif
}

LETHEVEC_INLINE float key_of(KeyKind kind, float estimate, float norm, float gain) {
    return kind == KEY_IP ? norm * estimate : norm * (estimate * gain - norm);
}

// Which rows of a block have a key >= threshold, for the kinds that need the norm.
template <class Score>
LETHEVEC_INLINE uint32_t reach_key(const ScanQuery& q, KeyKind kind, const Score* scores, const float* norms,
                                   float threshold) {
    uint32_t mask = 0;
#if defined(LETHEVEC_ISA_AVX512)
    for (int r = 0; r < BLOCK; r += 16) {
        const __m512i wide = widen(scores + r);
        const __m512i twice = _mm512_sub_epi32(_mm512_add_epi32(wide, wide), _mm512_set1_epi32(q.half));
        const f32s estimate = (f32s)_mm512_cvtepi32_ps(twice), norm = load(norms + r);
        const f32s key = kind == KEY_IP ? norm * estimate : norm * (estimate * splat(q.gain) - norm);
        mask |= static_cast<uint32_t>(_mm512_cmp_ps_mask((__m512)key, _mm512_set1_ps(threshold), _CMP_GE_OQ)) << r;
    }
#elif defined(LETHEVEC_ISA_AVX2)
    for (int r = 0; r < BLOCK; r += 8) {
        const __m256i wide = widen(scores + r);
        const __m256i twice = _mm256_sub_epi32(_mm256_add_epi32(wide, wide), _mm256_set1_epi32(q.half));
        const f32s estimate = (f32s)_mm256_cvtepi32_ps(twice), norm = load(norms + r);
        const f32s key = kind == KEY_IP ? norm * estimate : norm * (estimate * splat(q.gain) - norm);
        const __m256 reached = _mm256_cmp_ps((__m256)key, _mm256_set1_ps(threshold), _CMP_GE_OQ);
        mask |= static_cast<uint32_t>(_mm256_movemask_ps(reached)) << r;
    }
#else
    for (int r = 0; r < BLOCK; ++r) {
        const float estimate = static_cast<float>(2 * static_cast<int32_t>(scores[r]) - q.half);
        mask |= static_cast<uint32_t>(key_of(kind, estimate, norms[r], q.gain) >= threshold) << r;
    }
#endif
    return mask;
}

struct Task {
    const ScanQuery& query;
    KeyKind kind;
    float threshold;
    uint32_t whole;  // the smallest score that reaches the threshold, for KEY_SCORE
#if defined(LETHEVEC_NORM_FILTER)
    NormFilter filter;
#endif
};

// Rows of some blocks, as the contract of `scan` has them.
// Which rows of a block reach the threshold, or may reach it, where there is a filter.
template <bool KEYED>
LETHEVEC_INLINE uint32_t reach(const Task& task, const uint8_t* scores, [[maybe_unused]] const float* norms,
                               [[maybe_unused]] const uint8_t* classes) {
    if (!KEYED) return reach_byte(scores, static_cast<uint8_t>(task.whole));
#if defined(LETHEVEC_NORM_FILTER)
    if (!task.filter.none) return may_reach(task.filter, scores, classes);
#endif
    return reach_key(task.query, task.kind, scores, norms, task.threshold);
}
template <bool KEYED>
LETHEVEC_INLINE uint32_t reach(const Task& task, const uint16_t* scores, [[maybe_unused]] const float* norms,
                               const uint8_t*) {
    return KEYED ? reach_key(task.query, task.kind, scores, norms, task.threshold)
                 : reach_score(scores, static_cast<uint16_t>(task.whole));
}

// Whether what reaches the threshold by its class has yet to be tested by its norm.
template <bool KEYED, class Score>
constexpr bool UNSETTLED = KEYED && FILTERED && sizeof(Score) == 1;

// Which pairs of a tile have a row that reached the threshold. Mostly few have.
LETHEVEC_INLINE uint32_t pairs_reached(const uint32_t* reached, int64_t blocks) {
    uint32_t pairs = 0;
    int64_t b = 0;
#if defined(LETHEVEC_ISA_AVX512)
    for (; b + 16 <= blocks; b += 16) {
        const __m512i masks = _mm512_loadu_si512(reached + b);
        pairs |= static_cast<uint32_t>(_mm512_test_epi64_mask(masks, masks)) << b / 2;
    }
#endif
    for (; b < blocks; ++b) pairs |= static_cast<uint32_t>(reached[b] != 0) << b / 2;
    return pairs;
}

#if defined(LETHEVEC_ISA_AVX512)

// The rows of a tile that reach the threshold, and their eight-bit scores. Those of a pair are packed in a register: a
// pair rarely has more than sixteen, which are written whether it has as many or not.
template <bool KEYED>
LETHEVEC_INLINE int64_t take_packed(const uint32_t* reached, int64_t blocks, int64_t first, const uint8_t* scores,
                                    const float* norms, Found found, int64_t count) {
    alignas(64) uint8_t numbers[PAIR];
    for (int i = 0; i < PAIR; ++i) numbers[i] = static_cast<uint8_t>(i);
    const __m512i all = _mm512_load_si512(numbers);
    for (uint32_t pairs = pairs_reached(reached, blocks); pairs; pairs &= pairs - 1) {
        const int64_t b = 2 * __builtin_ctz(pairs), row = first + b * BLOCK;
        const uint64_t mask = reached[b] | static_cast<uint64_t>(b + 1 < blocks ? reached[b + 1] : 0) << 32;
        const __m512i own = _mm512_maskz_loadu_epi8(mask, scores + b * BLOCK);
        __m512i rows = _mm512_maskz_compress_epi8(mask, all), packed = _mm512_maskz_compress_epi8(mask, own);
        // Norms are not read otherwise, so they come from afar: by the time they are looked at they are here.
        if (KEYED) __builtin_prefetch(norms + b * BLOCK + __builtin_ctzll(mask), 0, 2);
        const auto many = static_cast<int64_t>(__builtin_popcountll(mask));
        for (int64_t k = 0;;) {
            const __m512i wide = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(rows));
            _mm512_storeu_si512(found.rows + count + k,
                                _mm512_add_epi32(wide, _mm512_set1_epi32(static_cast<int>(row))));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(found.scores + count + k),
                                _mm256_cvtepu8_epi16(_mm512_castsi512_si128(packed)));
            if ((k += 16) >= many) break;
            rows = _mm512_alignr_epi32(rows, rows, 4);
            packed = _mm512_alignr_epi32(packed, packed, 4);
        }
        count += many;
    }
    return count;
}

#endif

// The rows of a tile that reach the threshold. How many a pair of blocks has cannot be predicted, but it is rarely more
// than two: so many are taken without a look at how many there are.
template <bool KEYED, class Score>
LETHEVEC_INLINE int64_t take(const uint32_t* reached, int64_t blocks, int64_t first, const Score* scores,
                             const float* norms, Found found, int64_t count) {
#if defined(LETHEVEC_ISA_AVX512)
    if (sizeof(Score) == 1)
        return take_packed<KEYED>(reached, blocks, first, reinterpret_cast<const uint8_t*>(scores), norms, found,
                                  count);
#endif
    constexpr int64_t AT_ONCE = 2;
    uint16_t places[TILE * BLOCK + AT_ONCE];
    int64_t n = 0;
    for (uint32_t pairs = pairs_reached(reached, blocks); pairs; pairs &= pairs - 1) {
        const int64_t b = 2 * __builtin_ctz(pairs);
        uint64_t mask = reached[b] | static_cast<uint64_t>(b + 1 < blocks ? reached[b + 1] : 0) << 32;
        const auto many = static_cast<int64_t>(__builtin_popcountll(mask));
        places[n] = static_cast<uint16_t>(b * BLOCK + __builtin_ctzll(mask));
        mask &= mask - 1;
        // The bit above all is for when there is no second.
        places[n + 1] = static_cast<uint16_t>(b * BLOCK + __builtin_ctzll(mask | uint64_t{1} << 63));
        for (int64_t k = AT_ONCE; k < many; ++k) {
            mask &= mask - 1;
            places[n + k] = static_cast<uint16_t>(b * BLOCK + __builtin_ctzll(mask));
        }
        n += many;
    }
    for (int64_t i = 0; i < n; ++i) {
        const int64_t r = places[i];
        found.rows[count + i] = static_cast<uint32_t>(first + r);
        found.scores[count + i] = scores[r];
        // Norms are not read otherwise, so they come from afar: by the time they are looked at they are here.
        if (UNSETTLED<KEYED, Score>)
            __builtin_prefetch(norms + r, 0, 2);
        else if (KEYED)
            found.norms[count + i] = norms[r];
    }
    return count + n;
}

// What reaches the threshold of what was taken.
template <bool KEYED, class Score>
LETHEVEC_INLINE int64_t keep_reaching(const Task& task, const float* norms, Found found, int64_t count) {
    if (!UNSETTLED<KEYED, Score>) return count;
    int64_t kept = 0, i = 0;
#if defined(LETHEVEC_ISA_AVX512)
    // What stays is packed in a register. What is written past it has been read by now.
    for (; i + 16 <= count; i += 16) {
        const __m512i rows = _mm512_loadu_si512(found.rows + i), score = widen(found.scores + i);
        const __m512i twice = _mm512_sub_epi32(_mm512_add_epi32(score, score), _mm512_set1_epi32(task.query.half));
        const f32s estimate = (f32s)_mm512_cvtepi32_ps(twice), norm = (f32s)_mm512_i32gather_ps(rows, norms, 4);
        const f32s key = task.kind == KEY_IP ? norm * estimate : norm * (estimate * splat(task.query.gain) - norm);
        const __mmask16 stay = _mm512_cmp_ps_mask((__m512)key, _mm512_set1_ps(task.threshold), _CMP_GE_OQ);
        _mm512_storeu_si512(found.rows + kept, _mm512_maskz_compress_epi32(stay, rows));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(found.scores + kept),
                            _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(stay, score)));
        _mm512_storeu_ps(found.norms + kept, _mm512_maskz_compress_ps(stay, (__m512)norm));
        kept += __builtin_popcount(stay);
    }
#endif
    for (; i < count; ++i) {
        const uint32_t row = found.rows[i];
        const uint16_t score = found.scores[i];
        found.rows[kept] = row;
        found.scores[kept] = score;
        found.norms[kept] = norms[row];
        const float estimate = static_cast<float>(2 * static_cast<int32_t>(score) - task.query.half);
        kept += key_of(task.kind, estimate, norms[row], task.query.gain) >= task.threshold;
    }
    return kept;
}

template <int N>
LETHEVEC_INLINE void score_chunk(const ScanQuery& q, const uint8_t* codes, int64_t from, int64_t to, uint8_t* sums) {
#if defined(LETHEVEC_ISA_AVX512)
    if (N > 1 && q.wide && to - from == CHUNK_BYTES) {
        for (int i = 0; i < N / 2; ++i)
            _mm512_storeu_si512(sums + i * PAIR, pair_scores<CHUNK_BYTES>(q.wide + wide_tables(from),
                                                                          codes + (i * q.bytes + from) * PAIR));
        return;
    }
    if (N > 1 && q.wide) {
        __m512i sum[(N + 1) / 2];
        for (int i = 0; i < N / 2; ++i) sum[i] = _mm512_setzero_si512();
        sum_wide<N / 2>(q, codes, from, to, sum);
        for (int i = 0; i < N / 2; ++i) _mm512_storeu_si512(sums + i * 2 * BLOCK, sum[i]);
        return;
    }
#endif
    sum_bytes<N>(q, codes, from, to, sums);
}

template <int N>
LETHEVEC_INLINE void score_group(const ScanQuery& q, const uint8_t* codes, uint8_t* scores) {
    score_chunk<N>(q, codes, 0, q.bytes, scores);
}
template <int N>
LETHEVEC_INLINE void score_group(const ScanQuery& q, const uint8_t* codes, uint16_t* scores) {
    alignas(64) uint8_t sums[N * BLOCK];
    for (int r = 0; r < N * BLOCK; ++r) scores[r] = 0;
    for (int64_t from = 0; from < q.bytes; from += CHUNK_BYTES) {
        score_chunk<N>(q, codes, from, from + CHUNK_BYTES < q.bytes ? from + CHUNK_BYTES : q.bytes, sums);
        for (int r = 0; r < N * BLOCK; ++r) scores[r] = static_cast<uint16_t>(scores[r] + sums[r]);
    }
}

constexpr uint32_t ALL[TOGETHER] = {~0u, ~0u, ~0u, ~0u};

// N blocks from block b on.
template <bool KEYED, int N, class Score>
LETHEVEC_INLINE void scan_group(const Task& task, const ScannedBlocks& view, int64_t b, Score* scores,
                                uint32_t* reached) {
    const uint32_t* masks = view.masks ? view.masks + b : ALL;
    uint32_t any = 0;
    for (int i = 0; i < N; ++i) {
        any |= masks[i];
        reached[i] = 0;
    }
    if (any == 0) return;
    if (!view.scored) score_group<N>(task.query, view.codes + place_in_pairs(b, task.query.bytes), scores);
    for (int i = 0; i < N; ++i) {
        const int64_t row = (b + i) * BLOCK;
        reached[i] = masks[i] & reach<KEYED>(task, scores + i * BLOCK, view.norms + row, view.classes + row);
    }
}

// Where the scores of a tile are: those of all rows are kept where there is room for them.
template <class Score>
LETHEVEC_INLINE Score* scores_of(const ScannedBlocks& view, int64_t block, Score* otherwise) {
    return view.scores ? static_cast<Score*>(view.scores) + block * BLOCK : otherwise;
}

// They have been looked at for the last time.
template <class Score>
LETHEVEC_INLINE void drop_scores(const ScannedBlocks& view, Score* scores, int64_t blocks) {
    if (view.scored) __builtin_memset(scores, 0, static_cast<uint64_t>(blocks * BLOCK) * sizeof(Score));
}

template <bool KEYED, class Score>
LETHEVEC_INLINE int64_t scan_all(const Task& task, const ScannedBlocks& view, Found found) {
    alignas(64) Score own[TILE * BLOCK];
    uint32_t reached[TILE];
    int64_t count = 0;
    for (int64_t from = 0; from < view.blocks; from += TILE) {
        const int64_t n = view.blocks - from < TILE ? view.blocks - from : TILE;
        Score* scores = scores_of(view, from, own);
        int64_t i = 0;
        for (; i + TOGETHER <= n; i += TOGETHER)
            scan_group<KEYED, TOGETHER>(task, view, from + i, scores + i * BLOCK, reached + i);
        for (; i < n; ++i) scan_group<KEYED, 1>(task, view, from + i, scores + i * BLOCK, reached + i);
        count = take<KEYED>(reached, n, from * BLOCK, scores, view.norms + from * BLOCK, found, count);
        drop_scores(view, scores, n);
    }
    return keep_reaching<KEYED, Score>(task, view.norms, found, count);
}

#if defined(LETHEVEC_ISA_AVX512)

// The same for eight-bit scores with wide tables and without masks, pair by pair. With 0 bytes, of scores that are
// there.
template <bool KEYED, int BYTES>
LETHEVEC_INLINE int64_t scan_pairs(const Task& task, const ScannedBlocks& view, Found found) {
    alignas(64) uint8_t own[TILE * BLOCK];
    alignas(64) uint32_t reached[TILE];
    const uint8_t *tables = task.query.wide, *at = view.codes, *classes = view.classes;
    const __m512i base = _mm512_set1_epi8(static_cast<char>(task.filter.base));
    const __m512i table = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(task.filter.least)));
    const __m512i whole = _mm512_set1_epi8(static_cast<char>(task.whole));
    int64_t count = 0;
    for (int64_t from = 0; from < view.blocks; from += TILE) {
        const int64_t n = view.blocks - from < TILE ? view.blocks - from : TILE;
        uint8_t* scores = scores_of(view, from, own);
        int64_t i = 0;
        for (; i + 2 <= n; i += 2, at += BYTES * PAIR, classes += PAIR) {
            __m512i sums;
            if constexpr (BYTES > 0) {
                sums = pair_scores<BYTES>(tables, at);
                _mm512_storeu_si512(scores + i * BLOCK, sums);
            } else {
                sums = _mm512_loadu_si512(scores + i * BLOCK);
            }
            const __mmask64 mask = _mm512_cmpge_epu8_mask(sums, KEYED ? least_scores(base, table, classes) : whole);
            _store_mask64(reinterpret_cast<__mmask64*>(reached + i), mask);
        }
        if (i < n) scan_group<KEYED, 1>(task, view, from + i, scores + i * BLOCK, reached + i);
        count = take<KEYED>(reached, n, from * BLOCK, scores, view.norms + from * BLOCK, found, count);
        drop_scores(view, scores, n);
    }
    return keep_reaching<KEYED, uint8_t>(task, view.norms, found, count);
}

template <bool KEYED>
int64_t scan_wide(const Task& task, const ScannedBlocks& view, Found found) {
    switch (view.scored ? 0 : task.query.bytes) {
#define LETHEVEC_SCAN_PAIRS(BYTES) \
    case BYTES: return scan_pairs<KEYED, BYTES>(task, view, found);
        LETHEVEC_SCAN_PAIRS(0)
        LETHEVEC_SCAN_PAIRS(1)
        LETHEVEC_SCAN_PAIRS(2)
        LETHEVEC_SCAN_PAIRS(3)
        LETHEVEC_SCAN_PAIRS(4)
        LETHEVEC_SCAN_PAIRS(5)
        LETHEVEC_SCAN_PAIRS(6)
        LETHEVEC_SCAN_PAIRS(7)
        LETHEVEC_SCAN_PAIRS(8)
        LETHEVEC_SCAN_PAIRS(9)
        LETHEVEC_SCAN_PAIRS(10)
        LETHEVEC_SCAN_PAIRS(11)
        LETHEVEC_SCAN_PAIRS(12)
        LETHEVEC_SCAN_PAIRS(13)
        LETHEVEC_SCAN_PAIRS(14)
        LETHEVEC_SCAN_PAIRS(15)
        LETHEVEC_SCAN_PAIRS(16)
#undef LETHEVEC_SCAN_PAIRS
    }
    return 0;
}

#endif

// The eight-bit sums of N blocks, wherever they lie; mostly they are whole pairs.
template <int N>
LETHEVEC_INLINE void sum_anywhere(const ScanQuery& q, const uint8_t* const* codes, int64_t from, int64_t to,
                                  uint8_t* sums) {
#if defined(LETHEVEC_ISA_AVX512)
    bool pairs = N > 1 && q.wide;
    for (int i = 0; i + 1 < N; i += 2) pairs = pairs && codes[i + 1] == codes[i] + BLOCK;
    if (pairs) {
        for (int i = 0; i + 1 < N; i += 2) {
            __m512i sum = _mm512_setzero_si512();
            sum_wide<1, false>(q, codes[i], from, to, &sum);
            _mm512_storeu_si512(sums + i * BLOCK, sum);
        }
        return;
    }
#endif
    sum_blocks<N, PAIR>(q, codes, from, to, sums);
}

// The keys of N blocks, wherever they lie.
template <int N>
LETHEVEC_INLINE void keys_of(const ScanQuery& q, KeyKind kind, const uint8_t* const* codes, const float* const* norms,
                             float* keys) {
    alignas(64) uint8_t sums[N * BLOCK];
    alignas(64) int32_t scores[N * BLOCK] = {};
    for (int64_t from = 0; from < q.bytes; from += CHUNK_BYTES) {
        sum_anywhere<N>(q, codes, from, from + CHUNK_BYTES < q.bytes ? from + CHUNK_BYTES : q.bytes, sums);
        for (int r = 0; r < N * BLOCK; ++r) scores[r] += sums[r];
    }
    if (kind == KEY_SCORE) {
        for (int r = 0; r < N * BLOCK; ++r) keys[r] = static_cast<float>(scores[r]);
        return;
    }
    for (int i = 0; i < N; ++i)
        for (int r = 0; r < BLOCK; ++r)
            keys[i * BLOCK + r] =
                key_of(kind, static_cast<float>(2 * scores[i * BLOCK + r] - q.half), norms[i][r], q.gain);
}

template <class Score>
LETHEVEC_INLINE int64_t scan_kind(const Task& task, const ScannedBlocks& view, Found found) {
    return task.kind == KEY_SCORE ? scan_all<false, Score>(task, view, found)
                                  : scan_all<true, Score>(task, view, found);
}

}  // namespace

int64_t scan(const ScanQuery& query, KeyKind kind, const ScannedBlocks& scanned, float threshold, Found found) {
#if defined(LETHEVEC_NORM_FILTER)
    Task task{query, kind, threshold, 0, {}};
#else
    Task task{query, kind, threshold, 0};
#endif
    const ScannedBlocks view = scanned;  // a copy, which nothing that is written can change
    if (kind == KEY_SCORE && threshold > 0.0f) {
        // Scores are whole: reaching the threshold is reaching the next whole number.
        // None reaches more than all weights. Where scores are to be kept or dropped, it is asked all the same.
        if (threshold > static_cast<float>(query.half)) {
            if (scanned.scores) scan(query, kind, scanned, static_cast<float>(query.half), found);
            return 0;
        }
        task.whole = static_cast<uint32_t>(threshold);
        if (static_cast<float>(task.whole) < threshold) ++task.whole;
    }
    // Where one chunk is all, its sums are the scores and stay narrow.
    if (query.bytes > CHUNK_BYTES) return scan_kind<uint16_t>(task, view, found);
#if defined(LETHEVEC_NORM_FILTER)
    if (kind != KEY_SCORE && view.blocks > 0) task.filter = make_filter(query, kind, view.norms, threshold);
#endif
#if defined(LETHEVEC_ISA_AVX512)
    if (query.wide && !view.masks && kind == KEY_SCORE) return scan_wide<false>(task, view, found);
    if (query.wide && !view.masks && !task.filter.none) return scan_wide<true>(task, view, found);
#endif
    return scan_kind<uint8_t>(task, view, found);
}

void block_keys(const ScanQuery& query, KeyKind kind, const uint8_t* const* codes, const float* const* norms,
                int64_t blocks, float* keys) {
    constexpr int64_t AHEAD = 2 * TOGETHER;
    for (int64_t b = 0; b < blocks; b += TOGETHER) {
        for (int64_t i = b + AHEAD; i < b + AHEAD + TOGETHER && i < blocks; ++i) {
            for (int64_t g = 0; g < query.bytes; ++g) __builtin_prefetch(codes[i] + g * PAIR);
            if (kind != KEY_SCORE)
                for (int64_t r = 0; r < BLOCK; r += 16) __builtin_prefetch(norms[i] + r);
        }
        if (b + TOGETHER <= blocks)
            keys_of<TOGETHER>(query, kind, codes + b, norms + b, keys + b * BLOCK);
        else
            for (int64_t i = b; i < blocks; ++i) keys_of<1>(query, kind, codes + i, norms + i, keys + i * BLOCK);
    }
}

}  // namespace lethevec::LETHEVEC_ISA_NS
