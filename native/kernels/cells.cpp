// The first stage of the source "pivots": which rows of cells are near enough, by one plane of their codes.
#include "kernels/block_scores.h"
#include "kernels/kernels.h"
#include "kernels/lanes.h"
#include "kernels/wide_scores.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

// Scores of LANES rows from r on.
template <class Score>
LETHEVEC_INLINE f32s scores_from(const Score* scores, int r) {
#if defined(LETHEVEC_ISA_AVX512)
    return (f32s)_mm512_cvtepi32_ps(widen(scores + r));
#elif defined(LETHEVEC_ISA_AVX2)
    return (f32s)_mm256_cvtepi32_ps(widen(scores + r));
#else
    float all[LANES];
    for (int i = 0; i < LANES; ++i) all[i] = static_cast<float>(scores[r + i]);
    return load(all);
#endif
}

// size * ((score * gain + shift) - offset) for LANES rows of a pair.
LETHEVEC_INLINE f32s keys_of(float gain, float shift, f32s score, const uint8_t* numbers) {
#if defined(LETHEVEC_ISA_AVX512)
    const __m512i both = _mm512_loadu_si512(numbers);
    const f32s size = (f32s)_mm512_slli_epi32(both, 16);
    const f32s offset = (f32s)_mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
#elif defined(LETHEVEC_ISA_AVX2)
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers));
    const f32s size = (f32s)_mm256_slli_epi32(both, 16);
    const f32s offset = (f32s)_mm256_and_si256(both, _mm256_set1_epi32(static_cast<int>(0xffff0000u)));
#else
    float sizes[LANES], offsets[LANES];
    for (int i = 0; i < LANES; ++i) {
        uint32_t both;
        __builtin_memcpy(&both, numbers + 4 * i, 4);
        const uint32_t low = both << 16, high = both & 0xffff0000u;
        __builtin_memcpy(sizes + i, &low, 4);
        __builtin_memcpy(offsets + i, &high, 4);
    }
    const f32s size = load(sizes), offset = load(offsets);
#endif
    return size * ((score * splat(gain) + splat(shift)) - offset);
}

// Bit j is set where lane j of a is at least that of b. Not by their difference: two infinities have none.
LETHEVEC_INLINE uint32_t at_least(f32s a, f32s b) {
#if defined(LETHEVEC_ISA_AVX512)
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GE_OQ);
#elif defined(LETHEVEC_ISA_AVX2)
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GE_OQ)));
#elif defined(LETHEVEC_ISA_NEON)
    const uint32x4_t weight = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgeq_f32((float32x4_t)a, (float32x4_t)b), weight));
#else
    return a >= b;
#endif
}

// Which of the rows of a pair may be found. `masks` has those of its blocks, or is null for all. A pair has a row at
// least.
LETHEVEC_INLINE uint64_t permitted(const CellPair& pair, const uint32_t* masks) {
    uint64_t mask = ~uint64_t{0} >> (PAIR - pair.rows);
    if (masks) mask &= masks[0] | (pair.rows > BLOCK ? static_cast<uint64_t>(masks[1]) << BLOCK : 0);
    return mask;
}

// Writes rows of a pair from `count` on, and returns how many there are: those of a mask, or all, as many as it had
// when full.
template <class Score>
LETHEVEC_INLINE int64_t take(const CellPair& pair, const Score* scores, uint64_t mask, const CellFound& found,
                             int64_t count) {
    const int64_t before = count;
    for (; mask; mask &= mask - 1) {
        const auto r = static_cast<uint32_t>(__builtin_ctzll(mask));
        found.places[count] = pair.place + r;
        found.groups[count] = pair.group;
        found.scores[count++] = scores[r];
    }
    return count - before;
}
template <class Score>
LETHEVEC_INLINE int64_t take_all(const CellPair& pair, const Score* scores, const CellFound& found, int64_t count) {
    for (int64_t r = 0; r < PAIR; ++r) {
        found.places[count + r] = pair.place + static_cast<uint32_t>(r);
        found.groups[count + r] = pair.group;
        found.scores[count + r] = scores[r];
    }
    return pair.rows;
}

#if defined(LETHEVEC_ISA_AVX512)

// The eight-bit scores of a pair, in a register.
struct PairScores {
    __m512i sums;
};

LETHEVEC_INLINE f32s scores_from(const PairScores& scores, int r) {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i bytes = _mm512_add_epi32(lanes, _mm512_set1_epi32(r));
    return (f32s)_mm512_cvtepi32_ps(_mm512_maskz_permutexvar_epi8(0x1111111111111111u, bytes, scores.sums));
}

alignas(64) constexpr uint8_t SLOTS[PAIR] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                             16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                             32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                             48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

// Sixteen at a time, and these even where there are none: how many there are cannot be predicted, that there are hardly
// ever more can. What is too many lies where the rows of this pair have room.
LETHEVEC_INLINE int64_t take(const CellPair& pair, const PairScores& scores, uint64_t mask, const CellFound& found,
                             int64_t count) {
    __m512i slots = _mm512_maskz_compress_epi8(mask, _mm512_load_si512(SLOTS));
    __m512i sums = _mm512_maskz_compress_epi8(mask, scores.sums);
    const __m512i first = _mm512_set1_epi32(static_cast<int>(pair.place)),
                  group = _mm512_set1_epi32(static_cast<int>(pair.group));
    const int64_t kept = __builtin_popcountll(mask);
    for (int64_t at = 0;;) {
        const __m512i places = _mm512_add_epi32(first, _mm512_cvtepu8_epi32(_mm512_castsi512_si128(slots)));
        _mm512_storeu_si512(found.places + count + at, places);
        _mm512_storeu_si512(found.groups + count + at, group);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(found.scores + count + at),
                            _mm256_cvtepu8_epi16(_mm512_castsi512_si128(sums)));
        at += 16;
        if (at >= kept) return kept;
        slots = _mm512_alignr_epi64(slots, slots, 2);
        sums = _mm512_alignr_epi64(sums, sums, 2);
    }
}
LETHEVEC_INLINE int64_t take_all(const CellPair& pair, const PairScores& scores, const CellFound& found,
                                 int64_t count) {
    return take(pair, scores, permitted(pair, nullptr), found, count);
}

#endif

// The eight-bit sums of a pair over the bytes [from, to) of its codes.
LETHEVEC_INLINE void sum_pair(const ScanQuery& q, const uint8_t* codes, int64_t from, int64_t to, uint8_t* sums) {
#if defined(LETHEVEC_ISA_AVX512)
    if (q.wide) {
        __m512i sum = _mm512_setzero_si512();
        if (to - from == CHUNK_BYTES)
            sum = pair_scores<CHUNK_BYTES>(q.wide + wide_tables(from), codes + from * PAIR);
        else
            sum_wide<1, false>(q, codes, from, to, &sum);
        _mm512_storeu_si512(sums, sum);
        return;
    }
#endif
    const uint8_t* blocks[2] = {codes, codes + BLOCK};
    sum_blocks<2, PAIR>(q, blocks, from, to, sums);
}

// Calls `visit` with the scores of a pair. With the number of bytes known (it is not where BYTES is 0) they stay in a
// register.
template <int BYTES, class Visit>
LETHEVEC_INLINE void visit_scores(const ScanQuery& q, const uint8_t* codes, Visit visit) {
#if defined(LETHEVEC_ISA_AVX512)
    if constexpr (BYTES > 0) return visit(PairScores{pair_scores<BYTES>(q.wide, codes)});
#endif
    alignas(64) uint8_t sums[PAIR];
    if (q.bytes <= CHUNK_BYTES) {
        sum_pair(q, codes, 0, q.bytes, sums);
        return visit(static_cast<const uint8_t*>(sums));
    }
    alignas(64) uint16_t scores[PAIR] = {};
    for (int64_t from = 0; from < q.bytes; from += CHUNK_BYTES) {
        sum_pair(q, codes, from, from + CHUNK_BYTES < q.bytes ? from + CHUNK_BYTES : q.bytes, sums);
        for (int64_t r = 0; r < PAIR; ++r) scores[r] = static_cast<uint16_t>(scores[r] + sums[r]);
    }
    visit(static_cast<const uint16_t*>(scores));
}

// Calls `visit` with each pair, its scores, and the masks of its blocks.
template <int BYTES, class Visit>
LETHEVEC_INLINE void each_pair(const ScanQuery& q, const CellPair* pairs, int64_t n, const uint32_t* masks,
                               Visit visit) {
    const int64_t bytes = BYTES > 0 ? BYTES : q.bytes;
    for (int64_t i = 0; i < n; ++i) {
        // Pairs are scattered: one that comes later is asked for while this one is looked at. Into the second cache, as
        // more can be on their way there; and in two loops, as the compiler unrolls no more than sixteen.
        const uint8_t* later = pairs[i + CELL_AHEAD].at;
        for (int64_t g = 0; g < bytes; ++g) __builtin_prefetch(later + g * PAIR, 0, 2);
        for (int64_t g = 0; g < 4; ++g) __builtin_prefetch(later + (bytes + g) * PAIR, 0, 2);
        visit_scores<BYTES>(q, pairs[i].at,
                            [&](const auto& scores) __attribute__((always_inline)) { visit(pairs[i], scores, masks); });
        if (masks) masks += (pairs[i].rows + BLOCK - 1) / BLOCK;
    }
}

// A function of its own for each number of bytes, so that constants stay in registers.
template <int BYTES>
__attribute__((noinline)) int64_t scan_pairs(const ScanQuery& query, const CellPair* pairs, int64_t n,
                                             const CellLimit* limits, const uint32_t* masks, const CellFound& to) {
    const CellFound found = to;
    const float gain = query.gain;
    const int64_t bytes = BYTES > 0 ? BYTES : query.bytes;
    int64_t count = 0;
    each_pair<BYTES>(
        query, pairs, n, masks,
        [&](const CellPair& pair, const auto& scores, const uint32_t* of_pair) __attribute__((always_inline)) {
            const CellLimit limit = limits[pair.group];
            const uint8_t* numbers = pair.at + bytes * PAIR;
            uint64_t mask = 0;
            for (int r = 0; r < PAIR; r += LANES)
                mask |= static_cast<uint64_t>(at_least(
                            keys_of(gain, limit.shift, scores_from(scores, r), numbers + 4 * r), splat(limit.least)))
                        << r;
            count += take(pair, scores, mask & permitted(pair, of_pair), found, count);
        });
    return count;
}

template <int BYTES>
__attribute__((noinline)) int64_t score_pairs(const ScanQuery& query, const CellPair* pairs, int64_t n,
                                              const CellLimit* limits, const uint32_t* masks, const CellFound& to,
                                              float* near) {
    const CellFound found = to;
    const float gain = query.gain;
    const int64_t bytes = BYTES > 0 ? BYTES : query.bytes;
    int64_t count = 0;
    each_pair<BYTES>(
        query, pairs, n, masks,
        [&](const CellPair& pair, const auto& scores, const uint32_t* of_pair) __attribute__((always_inline)) {
            const CellLimit limit = limits[pair.group];
            const uint8_t* numbers = pair.at + bytes * PAIR;
            for (int r = 0; r < PAIR; r += LANES)
                store(near + count + r,
                      keys_of(gain, limit.shift, scores_from(scores, r), numbers + 4 * r) - splat(limit.least));
            if (!of_pair) {
                count += take_all(pair, scores, found, count);
                return;
            }
            int64_t at = count;
            const uint64_t allowed = permitted(pair, of_pair);
            for (uint64_t mask = allowed; mask; mask &= mask - 1) near[at++] = near[count + __builtin_ctzll(mask)];
            count += take(pair, scores, allowed, found, count);
        });
    return count;
}

}  // namespace

int64_t scan_cells(const ScanQuery& query, const CellPair* pairs, int64_t n, const CellLimit* limits,
                   const uint32_t* masks, CellFound found) {
#if defined(LETHEVEC_ISA_AVX512)
    if (query.wide && query.bytes <= CHUNK_BYTES)
        return with_bytes(query.bytes, [&](auto bytes) __attribute__((always_inline)) {
            return scan_pairs<decltype(bytes)::count>(query, pairs, n, limits, masks, found);
        });
#endif
    return scan_pairs<0>(query, pairs, n, limits, masks, found);
}

int64_t score_cells(const ScanQuery& query, const CellPair* pairs, int64_t n, const CellLimit* limits,
                    const uint32_t* masks, CellFound found, float* near) {
#if defined(LETHEVEC_ISA_AVX512)
    if (query.wide && query.bytes <= CHUNK_BYTES)
        return with_bytes(query.bytes, [&](auto bytes) __attribute__((always_inline)) {
            return score_pairs<decltype(bytes)::count>(query, pairs, n, limits, masks, found, near);
        });
#endif
    return score_pairs<0>(query, pairs, n, limits, masks, found, near);
}

int64_t keep_near(CellFound found, const float* near, int64_t n, float threshold) {
    int64_t kept = 0;
    const auto keep = [&](int64_t i) {
        found.places[kept] = found.places[i];
        found.groups[kept] = found.groups[i];
        found.scores[kept++] = found.scores[i];
    };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (uint32_t mask = nonnegative(load(near + i) - splat(threshold)); mask; mask &= mask - 1)
            keep(i + __builtin_ctz(mask));
    for (; i < n; ++i)
        if (near[i] >= threshold) keep(i);
    return kept;
}

}  // namespace lethevec::LETHEVEC_ISA_NS
