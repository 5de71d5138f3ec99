// The first stage: the scores of all records by a few bits each, and the rows whose key reaches a threshold.
#include "block_scores.h"
#include "kernels.h"
#include "lanes.h"
#include "wide_scores.h"

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
    const __m256i ge_a = _mm256_cmpeq_epi16(_mm256_max_epu16(a, t), a), ge_b = _mm256_cmpeq_epi16(_mm256_max_epu16(b, t), b);
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

// A first test of eight-bit scores for the kinds that need the norm, without the arithmetic: norms are sorted into sixteen
// intervals, eight to a doubling, and each interval has the least score that could do. What passes is tested exactly.
#if defined(LETHEVEC_ISA_AVX512) || defined(LETHEVEC_ISA_AVX2)
#define LETHEVEC_NORM_FILTER
constexpr bool FILTERED = true;

struct NormFilter {
    alignas(16) uint8_t least[16];
    uint16_t base;  // the number of interval 0; it and interval 15 take what lies beyond, and let everything pass
};

constexpr int NORM_SHIFT = 20;  // leaves the exponent of a float and three bits after it

LETHEVEC_INLINE uint32_t float_bits(float x) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
LETHEVEC_INLINE double interval_start(uint32_t interval) {
    const uint32_t bits = interval << NORM_SHIFT;
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return static_cast<double>(x);
}

NormFilter make_filter(const ScanQuery& q, KeyKind kind, const float* norms, float threshold) {
    NormFilter filter = {};
    float sum = 0.0f;
    for (int r = 0; r < BLOCK; ++r) sum += norms[r];
    const uint32_t middle = float_bits(sum * (1.0f / BLOCK)) >> NORM_SHIFT;
    filter.base = static_cast<uint16_t>(middle > 8 ? middle - 8 : 0);
    const double gain = kind == KEY_IP ? 1.0 : static_cast<double>(q.gain), most = gain * q.half;
    const double end = interval_start(filter.base + 15u);
    if (!(gain > 0.0) || middle < 8 || !(end < 1e19) || !(threshold > -1e37f)) return filter;
    // The key is norm * (a - norm), or norm * a, for a = gain * (2 score - half), each operation rounded: a key that should not
    // reach the threshold may, by a few units in the last place of the largest number on the way.
    const double t = static_cast<double>(threshold) - 1e-6 * end * (most + end), root = t > 0.0 ? __builtin_sqrt(t) : 0.0;
    for (uint32_t i = 1; i < 15; ++i) {
        const double low = interval_start(filter.base + i), high = interval_start(filter.base + i + 1);
        // The least a that does for some norm of the interval: t/norm + norm is smallest at sqrt(t), t/norm at an end.
        const double at = kind == KEY_IP ? (t > 0.0 ? high : low) : root < low ? low : root > high ? high : root;
        const double least = kind == KEY_IP ? t / at : t / at + at;
        const double score = (least / gain + q.half) * 0.5 + 0.999;  // the next whole number, or the one before it
        filter.least[i] = score <= 0.0 ? 0 : score >= 255.0 ? 255 : static_cast<uint8_t>(score);
    }
    return filter;
}

#if defined(LETHEVEC_ISA_AVX512)
// Of two blocks.
LETHEVEC_INLINE uint64_t may_reach(const NormFilter& filter, __m512i scores, const float* norms) {
    const __m512i base = _mm512_set1_epi16(static_cast<short>(filter.base));
    __m512i part[4];
    for (int k = 0; k < 4; ++k) part[k] = _mm512_srli_epi32(_mm512_loadu_si512(norms + 16 * k), NORM_SHIFT);
    const __m512i low = _mm512_subs_epu16(_mm512_packus_epi32(part[0], part[1]), base);
    const __m512i high = _mm512_subs_epu16(_mm512_packus_epi32(part[2], part[3]), base);
    // Packing works within quarters: four rows of each part come out side by side.
    const __m512i mixed = _mm512_min_epu8(_mm512_packus_epi16(low, high), _mm512_set1_epi8(15));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i interval = _mm512_permutexvar_epi32(order, mixed);
    const __m512i table = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(filter.least)));
    return _mm512_cmpge_epu8_mask(scores, _mm512_shuffle_epi8(table, interval));
}
#else
LETHEVEC_INLINE uint32_t may_reach(const NormFilter& filter, const uint8_t* scores, const float* norms) {
    const __m256i base = _mm256_set1_epi16(static_cast<short>(filter.base));
    __m256i part[4];
    for (int k = 0; k < 4; ++k)
        part[k] = _mm256_srli_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(norms + 8 * k)), NORM_SHIFT);
    const __m256i low = _mm256_subs_epu16(_mm256_packus_epi32(part[0], part[1]), base);
    const __m256i high = _mm256_subs_epu16(_mm256_packus_epi32(part[2], part[3]), base);
    // Packing works within halves: fours come out in the order 0 2 4 6 1 3 5 7.
    const __m256i mixed = _mm256_min_epu8(_mm256_packus_epi16(low, high), _mm256_set1_epi8(15));
    const __m256i interval = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const __m256i table = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(filter.least)));
    const __m256i least = _mm256_shuffle_epi8(table, interval);
    const __m256i score = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scores));
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(score, least), score)));
}
#endif
#else
constexpr bool FILTERED = false;
#endif

struct Task {
    const ScanQuery& query;
    KeyKind kind;
    float threshold;
    uint32_t whole;  // the smallest score that reaches the threshold, for KEY_SCORE
#if defined(LETHEVEC_NORM_FILTER)
    NormFilter filter;
#endif
};

// Which rows of a block reach the threshold, or may reach it, where there is a filter.
template <bool KEYED>
LETHEVEC_INLINE uint32_t reach(const Task& task, const uint8_t* scores, [[maybe_unused]] const float* norms) {
    if (!KEYED) return reach_byte(scores, static_cast<uint8_t>(task.whole));
#if defined(LETHEVEC_ISA_AVX2)
    return may_reach(task.filter, scores, norms);
#else
    return reach_key(task.query, task.kind, scores, norms, task.threshold);
#endif
}
template <bool KEYED>
LETHEVEC_INLINE uint32_t reach(const Task& task, const uint16_t* scores, [[maybe_unused]] const float* norms) {
    return KEYED ? reach_key(task.query, task.kind, scores, norms, task.threshold)
                 : reach_score(scores, static_cast<uint16_t>(task.whole));
}

// The rows of a tile that reach the threshold. How many a pair of blocks has cannot be predicted, but it is rarely more than
// two: so many are taken without a look at how many there are.
template <bool KEYED, class Score>
LETHEVEC_INLINE int64_t take(const Task& task, const uint32_t* reached, int64_t blocks, int64_t first, const Score* scores,
                             const float* norms, Found found, int64_t count) {
    constexpr int64_t AT_ONCE = 2;
    uint16_t places[TILE * BLOCK + AT_ONCE];
    int64_t n = 0;
    for (int64_t b = 0; b < blocks; b += 2) {
        uint64_t mask = reached[b] | static_cast<uint64_t>(b + 1 < blocks ? reached[b + 1] : 0) << 32;
        const auto many = static_cast<int64_t>(__builtin_popcountll(mask));
        // The bit above all is for when there are none.
        places[n] = static_cast<uint16_t>(b * BLOCK + __builtin_ctzll(mask | uint64_t{1} << 63));
        mask &= mask - 1;
        places[n + 1] = static_cast<uint16_t>(b * BLOCK + __builtin_ctzll(mask | uint64_t{1} << 63));
        for (int64_t k = AT_ONCE; k < many; ++k) {
            mask &= mask - 1;
            places[n + k] = static_cast<uint16_t>(b * BLOCK + __builtin_ctzll(mask));
        }
        n += many;
    }
    for (int64_t i = 0; i < n; ++i) {
        const int64_t r = places[i];
        found.rows[count] = static_cast<uint32_t>(first + r);
        found.scores[count] = scores[r];
        bool reaches = true;
        if (KEYED) {
            found.norms[count] = norms[r];
            if (FILTERED && sizeof(Score) == 1) {
                const float estimate = static_cast<float>(2 * static_cast<int32_t>(scores[r]) - task.query.half);
                reaches = key_of(task.kind, estimate, norms[r], task.query.gain) >= task.threshold;
            }
        }
        count += reaches;
    }
    return count;
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

template <bool KEYED, int N, class Score>
LETHEVEC_INLINE void scan_group(const Task& task, const uint8_t* codes, const float* norms, const uint32_t* masks,
                                Score* scores, uint32_t* reached) {
    score_group<N>(task.query, codes, scores);
#if defined(LETHEVEC_ISA_AVX512)
    if (N > 1 && sizeof(Score) == 1) {
        constexpr int64_t AHEAD = 1024;
        if (KEYED)
            for (int64_t r = 0; r < N * BLOCK; r += 16) __builtin_prefetch(norms + AHEAD + r);
        for (int i = 0; i < N; i += 2) {
            const __m512i sums = _mm512_loadu_si512(scores + i * BLOCK);
            uint64_t mask;
            __builtin_memcpy(&mask, masks + i, sizeof mask);
            mask &= KEYED ? may_reach(task.filter, sums, norms + i * BLOCK)
                          : _mm512_cmpge_epu8_mask(sums, _mm512_set1_epi8(static_cast<char>(task.whole)));
            __asm__("" : "+r"(mask));  // one by one: packed into a register first, they take longer
            __builtin_memcpy(reached + i, &mask, sizeof mask);
        }
        return;
    }
#endif
    for (int i = 0; i < N; ++i) reached[i] = masks[i] & reach<KEYED>(task, scores + i * BLOCK, norms + i * BLOCK);
}

template <bool KEYED, class Score>
LETHEVEC_INLINE int64_t scan_all(const Task& task, const uint8_t* codes, const float* norms, const uint32_t* masks,
                                 int64_t blocks, Found found) {
    alignas(64) Score scores[TILE * BLOCK];
    uint32_t reached[TILE];
    const int64_t bytes = task.query.bytes;
    int64_t count = 0;
    for (int64_t from = 0; from < blocks; from += TILE) {
        const int64_t n = blocks - from < TILE ? blocks - from : TILE;
        int64_t i = 0;
        for (; i + TOGETHER <= n; i += TOGETHER) {
            const int64_t b = from + i;
            if ((masks[b] | masks[b + 1] | masks[b + 2] | masks[b + 3]) == 0)
                for (int64_t k = 0; k < TOGETHER; ++k) reached[i + k] = 0;
            else
                scan_group<KEYED, TOGETHER>(task, codes + place_in_pairs(b, bytes), norms + b * BLOCK, masks + b,
                                            scores + i * BLOCK, reached + i);
        }
        for (; i < n; ++i) {
            const int64_t b = from + i;
            scan_group<KEYED, 1>(task, codes + place_in_pairs(b, bytes), norms + b * BLOCK, masks + b, scores + i * BLOCK,
                                 reached + i);
        }
        count = take<KEYED>(task, reached, n, from * BLOCK, scores, norms + from * BLOCK, found, count);
    }
    return count;
}

#if defined(LETHEVEC_ISA_AVX512)

// The same for eight-bit scores with wide tables, pair by pair.
template <bool KEYED, int BYTES>
LETHEVEC_INLINE int64_t scan_pairs(const Task& task, const uint8_t* codes, const float* norms, const uint32_t* masks,
                                   int64_t blocks, Found found) {
    alignas(64) uint8_t scores[TILE * BLOCK];
    uint32_t reached[TILE];
    const __m512i whole = _mm512_set1_epi8(static_cast<char>(task.whole));
    const uint8_t* tables = task.query.wide;
    int64_t count = 0;
    for (int64_t from = 0; from < blocks; from += TILE) {
        const int64_t n = blocks - from < TILE ? blocks - from : TILE;
        int64_t i = 0;
        for (; i + 2 <= n; i += 2) {
            const int64_t b = from + i;
            uint64_t mask;
            __builtin_memcpy(&mask, masks + b, sizeof mask);
            if (mask) {
                const __m512i sums = pair_scores<BYTES>(tables, codes + b * BYTES * BLOCK);
                _mm512_store_si512(scores + i * BLOCK, sums);
                mask &= KEYED ? may_reach(task.filter, sums, norms + b * BLOCK) : _mm512_cmpge_epu8_mask(sums, whole);
            }
            __builtin_memcpy(reached + i, &mask, sizeof mask);
        }
        if (i < n)
            scan_group<KEYED, 1>(task, codes + place_in_pairs(from + i, BYTES), norms + (from + i) * BLOCK, masks + from + i,
                                 scores + i * BLOCK, reached + i);
        count = take<KEYED>(task, reached, n, from * BLOCK, scores, norms + from * BLOCK, found, count);
    }
    return count;
}

template <bool KEYED>
int64_t scan_wide(const Task& task, const uint8_t* codes, const float* norms, const uint32_t* masks, int64_t blocks,
                  Found found) {
    switch (task.query.bytes) {
#define LETHEVEC_SCAN_PAIRS(BYTES) \
    case BYTES: return scan_pairs<KEYED, BYTES>(task, codes, norms, masks, blocks, found);
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

// The keys of N blocks, wherever they lie.
template <int N>
LETHEVEC_INLINE void keys_of(const ScanQuery& q, KeyKind kind, const uint8_t* const* codes, const float* const* norms,
                             float* keys) {
    alignas(64) uint8_t sums[N * BLOCK];
    alignas(64) int32_t scores[N * BLOCK] = {};
    for (int64_t from = 0; from < q.bytes; from += CHUNK_BYTES) {
        sum_blocks<N, PAIR>(q, codes, from, from + CHUNK_BYTES < q.bytes ? from + CHUNK_BYTES : q.bytes, sums);
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
LETHEVEC_INLINE int64_t scan_kind(const Task& task, const uint8_t* codes, const float* norms, const uint32_t* masks,
                                  int64_t blocks, Found found) {
    return task.kind == KEY_SCORE ? scan_all<false, Score>(task, codes, norms, masks, blocks, found)
                                  : scan_all<true, Score>(task, codes, norms, masks, blocks, found);
}

}  // namespace

int64_t scan(const ScanQuery& query, KeyKind kind, const uint8_t* codes, const float* norms, const uint32_t* masks,
             int64_t blocks, float threshold, Found found) {
#if defined(LETHEVEC_NORM_FILTER)
    Task task{query, kind, threshold, 0, {}};
#else
    Task task{query, kind, threshold, 0};
#endif
    if (kind == KEY_SCORE && threshold > 0.0f) {
        // Scores are whole: reaching the threshold is reaching the next whole number.
        if (threshold > static_cast<float>(query.half)) return 0;
        task.whole = static_cast<uint32_t>(threshold);
        if (static_cast<float>(task.whole) < threshold) ++task.whole;
    }
    // Where one chunk is all, its sums are the scores and stay narrow.
    if (query.bytes > CHUNK_BYTES) return scan_kind<uint16_t>(task, codes, norms, masks, blocks, found);
#if defined(LETHEVEC_NORM_FILTER)
    if (kind != KEY_SCORE && blocks > 0) task.filter = make_filter(query, kind, norms, threshold);
#endif
#if defined(LETHEVEC_ISA_AVX512)
    if (query.wide)
        return kind == KEY_SCORE ? scan_wide<false>(task, codes, norms, masks, blocks, found)
                                 : scan_wide<true>(task, codes, norms, masks, blocks, found);
#endif
    return scan_kind<uint8_t>(task, codes, norms, masks, blocks, found);
}

void block_keys(const ScanQuery& query, KeyKind kind, const uint8_t* const* codes, const float* const* norms, int64_t blocks,
                float* keys) {
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
