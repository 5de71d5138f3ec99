// The first stage of the source "pivots": which rows of a cell are near enough, by one plane of their codes.
#include "block_scores.h"
#include "kernels.h"
#include "lanes.h"
#include "wide_scores.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

// size * (twice * gain - offset) for the rows of a block, and which of them reach the threshold.
template <class Score>
LETHEVEC_INLINE uint32_t cell_keys(const ScanQuery& q, const Score* scores, const uint8_t* numbers, float threshold,
                                   float* keys) {
    uint32_t mask = 0;
#if defined(LETHEVEC_ISA_AVX512)
    for (int r = 0; r < BLOCK; r += 16) {
        const __m512i wide = widen(scores + r), both = _mm512_loadu_si512(numbers + 4 * r);
        const __m512i twice = _mm512_sub_epi32(_mm512_add_epi32(wide, wide), _mm512_set1_epi32(q.half));
        const f32s size = (f32s)_mm512_slli_epi32(both, 16);
        const f32s offset = (f32s)_mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
        const f32s key = size * ((f32s)_mm512_cvtepi32_ps(twice) * splat(q.gain) - offset);
        store(keys + r, key);
        mask |= static_cast<uint32_t>(_mm512_cmp_ps_mask((__m512)key, _mm512_set1_ps(threshold), _CMP_GE_OQ)) << r;
    }
#elif defined(LETHEVEC_ISA_AVX2)
    for (int r = 0; r < BLOCK; r += 8) {
        const __m256i wide = widen(scores + r), both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers + 4 * r));
        const __m256i twice = _mm256_sub_epi32(_mm256_add_epi32(wide, wide), _mm256_set1_epi32(q.half));
        const f32s size = (f32s)_mm256_slli_epi32(both, 16);
        const f32s offset = (f32s)_mm256_and_si256(both, _mm256_set1_epi32(static_cast<int>(0xffff0000u)));
        const f32s key = size * ((f32s)_mm256_cvtepi32_ps(twice) * splat(q.gain) - offset);
        store(keys + r, key);
        const __m256 reached = _mm256_cmp_ps((__m256)key, _mm256_set1_ps(threshold), _CMP_GE_OQ);
        mask |= static_cast<uint32_t>(_mm256_movemask_ps(reached)) << r;
    }
#else
    for (int r = 0; r < BLOCK; ++r) {
        uint32_t both;
        __builtin_memcpy(&both, numbers + 4 * r, 4);
        const uint32_t low = both << 16, high = both & 0xffff0000u;
        float size, offset;
        __builtin_memcpy(&size, &low, 4);
        __builtin_memcpy(&offset, &high, 4);
        const auto twice = static_cast<float>(2 * static_cast<int32_t>(scores[r]) - q.half);
        keys[r] = size * (twice * q.gain - offset);
        mask |= static_cast<uint32_t>(keys[r] >= threshold) << r;
    }
#endif
    return mask;
}

struct CellTask {
    const ScanQuery& query;
    const CellLimit& limit;
    CellFound found;
};

// Those of a block whose keys are large enough (`mask`) and whose buckets are within the limit.
template <class Score>
LETHEVEC_INLINE int64_t keep_rows(const CellTask& task, const Score* scores, const float* keys, uint32_t mask, uint32_t place,
                                  int64_t count) {
    const CellLimit& limit = task.limit;
#if defined(LETHEVEC_ISA_AVX512)
    // All sixteen are written, and those that are kept come first: how many there are cannot be predicted.
    const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int r = 0; r < BLOCK; r += 16) {
        f32s at = ((splat(limit.base) - load(keys + r)) - splat(limit.low)) * splat(limit.inverse);
        at = minimum(maximum(at, splat(0.0f)), splat(limit.last));
        const __m512i bucket = _mm512_cvttps_epi32((__m512)at);
        const __mmask16 in =
            _mm512_mask_cmple_epi32_mask(static_cast<__mmask16>(mask >> r), bucket, _mm512_set1_epi32(limit.limit));
        const __m512i mark = _mm512_or_si512(_mm512_slli_epi32(widen(scores + r), 16), bucket);
        const __m512i places = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(place) + r), steps);
        _mm512_storeu_si512(task.found.places + count, _mm512_maskz_compress_epi32(in, places));
        _mm512_storeu_si512(task.found.marks + count, _mm512_maskz_compress_epi32(in, mark));
        count += __builtin_popcount(in);
    }
#else
    for (; mask; mask &= mask - 1) {
        const int r = __builtin_ctz(mask);
        float at = ((limit.base - keys[r]) - limit.low) * limit.inverse;
        at = at > 0.0f ? at : 0.0f;
        const auto bucket = static_cast<int32_t>(at < limit.last ? at : limit.last);
        task.found.places[count] = place + static_cast<uint32_t>(r);
        task.found.marks[count] = static_cast<uint32_t>(scores[r]) << 16 | static_cast<uint32_t>(bucket);
        count += bucket <= limit.limit;
    }
#endif
    return count;
}

// The eight-bit sums of a pair of blocks over the bytes [from, to) of their codes.
LETHEVEC_INLINE void sum_pair(const ScanQuery& q, const uint8_t* codes, int64_t from, int64_t to, uint8_t* sums) {
#if defined(LETHEVEC_ISA_AVX512)
    if (q.wide) {
        __m512i sum = _mm512_setzero_si512();
        sum_wide<1, false>(q, codes, from, to, &sum);
        _mm512_storeu_si512(sums, sum);
        return;
    }
#endif
    const uint8_t* blocks[2] = {codes, codes + BLOCK};
    sum_blocks<2, PAIR>(q, blocks, from, to, sums);
}

// A pair, from its scores on. `masks` has those of its blocks, or is null.
template <class Score>
LETHEVEC_INLINE int64_t take_pair(const CellTask& task, const Score* scores, const uint8_t* numbers, int64_t rows,
                                  uint32_t place, const uint32_t* masks, int64_t count) {
    for (int64_t i = 0; i < 2; ++i) {
        const int64_t left = rows - i * BLOCK;
        if (left <= 0) break;
        alignas(64) float keys[BLOCK];
        const Score* own = scores + i * BLOCK;
        uint32_t mask = cell_keys(task.query, own, numbers + 4 * i * BLOCK, task.limit.least_key, keys);
        if (left < BLOCK) mask &= (uint32_t{1} << left) - 1;
        if (masks) mask &= masks[i];
        if (mask) count = keep_rows(task, own, keys, mask, place + static_cast<uint32_t>(i * BLOCK), count);
    }
    return count;
}

LETHEVEC_INLINE int64_t scan_pair(const CellTask& task, const uint8_t* codes, int64_t rows, uint32_t place,
                                  const uint32_t* masks, int64_t count) {
    const ScanQuery& q = task.query;
    const uint8_t* numbers = codes + q.bytes * PAIR;
    alignas(64) uint8_t sums[PAIR];
    if (q.bytes <= CHUNK_BYTES) {
        sum_pair(q, codes, 0, q.bytes, sums);
        return take_pair(task, sums, numbers, rows, place, masks, count);
    }
    alignas(64) uint16_t scores[PAIR] = {};
    for (int64_t from = 0; from < q.bytes; from += CHUNK_BYTES) {
        sum_pair(q, codes, from, from + CHUNK_BYTES < q.bytes ? from + CHUNK_BYTES : q.bytes, sums);
        for (int64_t r = 0; r < PAIR; ++r) scores[r] = static_cast<uint16_t>(scores[r] + sums[r]);
    }
    return take_pair(task, scores, numbers, rows, place, masks, count);
}

}  // namespace

int64_t scan_cell(const ScanQuery& query, const CellView& cell, const CellLimit& limit, CellFound found) {
    const CellTask task{query, limit, found};
    const int64_t stride = (query.bytes + 4) * PAIR;
    const uint32_t* masks = cell.masks;
    int64_t count = 0;
    for (int64_t i = 0; i < cell.count; ++i) {
        // Runs are scattered: one that comes later is asked for while this one is looked at.
        const CellRun &run = cell.runs[i], &later = cell.runs[i + CELL_AHEAD];
        const int64_t rows = run.rows, bytes = (static_cast<int64_t>(later.rows) + PAIR - 1) / PAIR * stride;
        for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(later.at + at);
        for (int64_t from = 0; from < rows; from += PAIR)
            count = scan_pair(task, run.at + from / PAIR * stride, rows - from, run.place + static_cast<uint32_t>(from),
                              masks ? masks + from / BLOCK : nullptr, count);
        if (masks) masks += (rows + BLOCK - 1) / BLOCK;
    }
    return count;
}

}  // namespace lethevec::LETHEVEC_ISA_NS
