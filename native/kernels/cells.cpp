// The first stage of the source "pivots": which rows of cells are near enough, by one plane of their codes.
#include "block_scores.h"
#include "kernels.h"
#include "lanes.h"
#include "wide_scores.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

// size * ((score * gain + shift) - offset) for LANES rows of a pair.
template <class Score>
LETHEVEC_INLINE f32s keys_of(float gain, float shift, const Score* scores, const uint8_t* numbers) {
#if defined(LETHEVEC_ISA_AVX512)
    const __m512i both = _mm512_loadu_si512(numbers);
    const f32s size = (f32s)_mm512_slli_epi32(both, 16);
    const f32s offset = (f32s)_mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
    return size * (((f32s)_mm512_cvtepi32_ps(widen(scores)) * splat(gain) + splat(shift)) - offset);
#elif defined(LETHEVEC_ISA_AVX2)
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers));
    const f32s size = (f32s)_mm256_slli_epi32(both, 16);
    const f32s offset = (f32s)_mm256_and_si256(both, _mm256_set1_epi32(static_cast<int>(0xffff0000u)));
    return size * (((f32s)_mm256_cvtepi32_ps(widen(scores)) * splat(gain) + splat(shift)) - offset);
#else
    float size[LANES], offset[LANES], score[LANES];
    for (int i = 0; i < LANES; ++i) {
        uint32_t both;
        __builtin_memcpy(&both, numbers + 4 * i, 4);
        const uint32_t low = both << 16, high = both & 0xffff0000u;
        __builtin_memcpy(size + i, &low, 4);
        __builtin_memcpy(offset + i, &high, 4);
        score[i] = static_cast<float>(scores[i]);
    }
    return load(size) * ((load(score) * splat(gain) + splat(shift)) - load(offset));
#endif
}

// Which of the rows of a pair may be found. `masks` has those of its blocks, or is null for all.
LETHEVEC_INLINE uint64_t permitted(const CellPair& pair, const uint32_t* masks) {
    uint64_t mask = pair.rows < PAIR ? (uint64_t{1} << pair.rows) - 1 : ~uint64_t{0};
    if (masks) mask &= masks[0] | (pair.rows > BLOCK ? static_cast<uint64_t>(masks[1]) << BLOCK : 0);
    return mask;
}

// The eight-bit sums of N pairs, wherever they lie, over the bytes [from, to) of their codes.
template <int N>
LETHEVEC_INLINE void sum_pairs(const ScanQuery& q, const CellPair* pairs, int64_t from, int64_t to, uint8_t (*sums)[PAIR]) {
#if defined(LETHEVEC_ISA_AVX512)
    if (q.wide) {
        __m512i sum[N];
        const uint8_t* codes[N];
        for (int i = 0; i < N; ++i) {
            sum[i] = _mm512_setzero_si512();
            codes[i] = pairs[i].at;
        }
        sum_wide_at<N>(q, codes, from, to, sum);
        for (int i = 0; i < N; ++i) _mm512_storeu_si512(sums[i], sum[i]);
        return;
    }
#endif
    const uint8_t* blocks[2 * N];
    for (int i = 0; i < N; ++i) {
        blocks[2 * i] = pairs[i].at;
        blocks[2 * i + 1] = pairs[i].at + BLOCK;
    }
    sum_blocks<2 * N, PAIR>(q, blocks, from, to, sums[0]);
}

// Calls `visit` with each of N pairs, its scores, and the masks of its blocks.
template <int N, class Visit>
LETHEVEC_INLINE void some_pairs(const ScanQuery& q, const CellPair* pairs, const uint32_t*& masks, Visit visit) {
    // Pairs are scattered: those that come later are asked for while these are looked at.
    const int64_t stride = (q.bytes + 4) * PAIR;
    for (int i = 0; i < N; ++i)
        for (int64_t at = 0; at < stride; at += 64) __builtin_prefetch(pairs[i + CELL_AHEAD].at + at);
    alignas(64) uint8_t sums[N][PAIR];
    const auto next = [&](const CellPair& pair) { masks += masks ? (pair.rows + BLOCK - 1) / BLOCK : 0; };
    if (q.bytes <= CHUNK_BYTES) {
        sum_pairs<N>(q, pairs, 0, q.bytes, sums);
        for (int i = 0; i < N; next(pairs[i++])) visit(pairs[i], sums[i], masks);
        return;
    }
    alignas(64) uint16_t scores[N][PAIR] = {};
    for (int64_t from = 0; from < q.bytes; from += CHUNK_BYTES) {
        sum_pairs<N>(q, pairs, from, from + CHUNK_BYTES < q.bytes ? from + CHUNK_BYTES : q.bytes, sums);
        for (int i = 0; i < N; ++i)
            for (int64_t r = 0; r < PAIR; ++r) scores[i][r] = static_cast<uint16_t>(scores[i][r] + sums[i][r]);
    }
    for (int i = 0; i < N; next(pairs[i++])) visit(pairs[i], scores[i], masks);
}

template <class Visit>
LETHEVEC_INLINE void each_pair(const ScanQuery& q, const CellPair* pairs, int64_t n, const uint32_t* masks, Visit visit) {
    int64_t i = 0;
    for (; i + 2 <= n; i += 2) some_pairs<2>(q, pairs + i, masks, visit);
    if (i < n) some_pairs<1>(q, pairs + i, masks, visit);
}

}  // namespace

int64_t scan_cells(const ScanQuery& query, const CellPair* pairs, int64_t n, const CellLimit* limits, const uint32_t* masks,
                   CellFound found) {
    int64_t count = 0;
    each_pair(query, pairs, n, masks, [&](const CellPair& pair, const auto* scores, const uint32_t* of_pair)
                                          __attribute__((always_inline)) {
        const CellLimit limit = limits[pair.group];
        const uint8_t* numbers = pair.at + query.bytes * PAIR;
        uint64_t mask = 0;
        for (int r = 0; r < PAIR; r += LANES)
            mask |= static_cast<uint64_t>(nonnegative(keys_of(query.gain, limit.shift, scores + r, numbers + 4 * r) -
                                                      splat(limit.least)))
                    << r;
        for (mask &= permitted(pair, of_pair); mask; mask &= mask - 1) {
            const auto r = static_cast<uint32_t>(__builtin_ctzll(mask));
            found.places[count] = pair.place + r;
            found.groups[count] = pair.group;
            found.scores[count++] = scores[r];
        }
    });
    return count;
}

int64_t score_cells(const ScanQuery& query, const CellPair* pairs, int64_t n, const CellLimit* limits, const uint32_t* masks,
                    CellFound found, float* near) {
    int64_t count = 0;
    each_pair(query, pairs, n, masks, [&](const CellPair& pair, const auto* scores, const uint32_t* of_pair)
                                          __attribute__((always_inline)) {
        const CellLimit limit = limits[pair.group];
        const uint8_t* numbers = pair.at + query.bytes * PAIR;
        for (int r = 0; r < PAIR; r += LANES)
            store(near + count + r, keys_of(query.gain, limit.shift, scores + r, numbers + 4 * r) - splat(limit.least));
        if (!of_pair) {
            for (int64_t r = 0; r < PAIR; ++r) {
                found.places[count + r] = pair.place + static_cast<uint32_t>(r);
                found.groups[count + r] = pair.group;
                found.scores[count + r] = scores[r];
            }
            count += pair.rows;
            return;
        }
        const int64_t from = count;
        for (uint64_t mask = permitted(pair, of_pair); mask; mask &= mask - 1) {
            const auto r = static_cast<uint32_t>(__builtin_ctzll(mask));
            found.places[count] = pair.place + r;
            found.groups[count] = pair.group;
            found.scores[count] = scores[r];
            near[count++] = near[from + r];
        }
    });
    return count;
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
