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

// The eight-bit sums of a pair over the bytes [from, to) of its codes.
LETHEVEC_INLINE void sum_pair(const ScanQuery& q, const uint8_t* codes, int64_t from, int64_t to, uint8_t* sums) {
#if defined(LETHEVEC_ISA_AVX512)
    if (q.wide) {
        _mm512_storeu_si512(sums, pair_scores(q.wide + wide_tables(from), codes + from * PAIR, to - from));
        return;
    }
#endif
    const uint8_t* blocks[2] = {codes, codes + BLOCK};
    sum_blocks<2, PAIR>(q, blocks, from, to, sums);
}

// Calls `visit` with each pair, its scores, and the masks of its blocks.
template <class Visit>
LETHEVEC_INLINE void each_pair(const ScanQuery& q, const CellPair* pairs, int64_t n, const uint32_t* masks, Visit visit) {
    const int64_t stride = (q.bytes + 4) * PAIR;
    for (int64_t i = 0; i < n; ++i) {
        // Pairs are scattered: one that comes later is asked for while this one is looked at.
        const uint8_t* later = pairs[i + CELL_AHEAD].at;
        for (int64_t at = 0; at < stride; at += 64) __builtin_prefetch(later + at);
        alignas(64) uint8_t sums[PAIR];
        if (q.bytes <= CHUNK_BYTES) {
            sum_pair(q, pairs[i].at, 0, q.bytes, sums);
            visit(pairs[i], sums, masks);
        } else {
            alignas(64) uint16_t scores[PAIR] = {};
            for (int64_t from = 0; from < q.bytes; from += CHUNK_BYTES) {
                sum_pair(q, pairs[i].at, from, from + CHUNK_BYTES < q.bytes ? from + CHUNK_BYTES : q.bytes, sums);
                for (int64_t r = 0; r < PAIR; ++r) scores[r] = static_cast<uint16_t>(scores[r] + sums[r]);
            }
            visit(pairs[i], scores, masks);
        }
        if (masks) masks += (pairs[i].rows + BLOCK - 1) / BLOCK;
    }
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
