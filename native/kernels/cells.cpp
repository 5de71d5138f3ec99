// The kernels of the candidate source "pivots": which centre is near, which cells to look into, which rows of a cell to keep.
#include "block_scores.h"
#include "kernels.h"
#include "lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

LETHEVEC_INLINE f32s multiply_add(f32s a, f32s b, f32s c) {
#if defined(LETHEVEC_ISA_AVX512)
    return (f32s)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(LETHEVEC_ISA_AVX2)
    return (f32s)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(LETHEVEC_ISA_NEON)
    return (f32s)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

// ROWS rows against one panel, all sums in registers.
template <int ROWS>
LETHEVEC_INLINE void panel_products(const float* panel, int64_t d, const float* rows, float* out, int64_t stride) {
    constexpr int PARTS = PANEL / LANES;
    f32s sum[ROWS][PARTS];
    for (int i = 0; i < ROWS; ++i)
        for (int k = 0; k < PARTS; ++k) sum[i][k] = splat(0.0f);
    for (int64_t j = 0; j < d; ++j) {
        f32s c[PARTS];
        for (int k = 0; k < PARTS; ++k) c[k] = load(panel + j * PANEL + k * LANES);
        for (int i = 0; i < ROWS; ++i) {
            const f32s x = splat(rows[i * d + j]);
            for (int k = 0; k < PARTS; ++k) sum[i][k] = multiply_add(x, c[k], sum[i][k]);
        }
    }
    for (int i = 0; i < ROWS; ++i)
        for (int k = 0; k < PARTS; ++k) store(out + i * stride + k * LANES, sum[i][k]);
}

}  // namespace

// A panel stays in the first cache while all rows of a block meet it, and the rows stay in the second.
void products(const float* panels, int64_t count, int64_t d, const float* rows, int64_t n, float* out) {
    constexpr int64_t ROWS = LANES == 1 ? 1 : LANES == 4 ? 4 : 6;  // as many as the registers hold
    constexpr int64_t TOGETHER_ROWS = 96;
    const int64_t stride = count * PANEL;
    for (int64_t from = 0; from < n; from += TOGETHER_ROWS) {
        const int64_t to = from + TOGETHER_ROWS < n ? from + TOGETHER_ROWS : n;
        for (int64_t p = 0; p < count; ++p) {
            const float* panel = panels + p * PANEL * d;
            int64_t i = from;
            for (; i + ROWS <= to; i += ROWS) panel_products<ROWS>(panel, d, rows + i * d, out + i * stride + p * PANEL, stride);
            for (; i < to; ++i) panel_products<1>(panel, d, rows + i * d, out + i * stride + p * PANEL, stride);
        }
    }
}

// Numbers of seven bits, the query's shifted to be positive: no pair of products exceeds sixteen bits.
void mean_scores(const uint8_t* query, int64_t groups, const int8_t* means, int64_t blocks, int32_t* out) {
    for (int64_t b = 0; b < blocks; ++b) {
        const int8_t* at = means + b * groups * MEANS * 4;
        int32_t* to = out + b * MEANS;
#if defined(LETHEVEC_ISA_AVX512)
        const __m512i ones = _mm512_set1_epi16(1);
        __m512i sum = _mm512_setzero_si512();
        for (int64_t g = 0; g < groups; ++g) {
            int32_t four;
            __builtin_memcpy(&four, query + 4 * g, 4);
            const __m512i pairs = _mm512_maddubs_epi16(_mm512_set1_epi32(four), _mm512_loadu_si512(at + g * 64));
            sum = _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, ones));
        }
        _mm512_storeu_si512(to, sum);
#elif defined(LETHEVEC_ISA_AVX2)
        const __m256i ones = _mm256_set1_epi16(1);
        __m256i low = _mm256_setzero_si256(), high = _mm256_setzero_si256();
        for (int64_t g = 0; g < groups; ++g) {
            int32_t four;
            __builtin_memcpy(&four, query + 4 * g, 4);
            const __m256i q = _mm256_set1_epi32(four);
            const __m256i a = _mm256_maddubs_epi16(q, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + g * 64)));
            const __m256i c = _mm256_maddubs_epi16(q, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + g * 64 + 32)));
            low = _mm256_add_epi32(low, _mm256_madd_epi16(a, ones));
            high = _mm256_add_epi32(high, _mm256_madd_epi16(c, ones));
        }
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), low);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), high);
#else
        for (int64_t c = 0; c < MEANS; ++c) to[c] = 0;
        for (int64_t g = 0; g < groups; ++g)
            for (int64_t c = 0; c < MEANS; ++c)
                for (int64_t j = 0; j < 4; ++j)
                    to[c] += static_cast<int32_t>(query[4 * g + j]) * static_cast<int32_t>(at[(g * MEANS + c) * 4 + j]);
#endif
    }
}

// Keys are counted in equal intervals, and whole intervals are taken: which cells there are too many of does not matter.
int64_t choose_cells(const float* keys, const uint32_t* sizes, int64_t n, int64_t wanted, uint16_t* marks, uint32_t* out) {
    constexpr int64_t AT_ONCE = 16;
    constexpr int32_t INTERVALS = 1024;
    float lows[AT_ONCE], highs[AT_ONCE];
    for (int64_t i = 0; i < AT_ONCE; ++i) lows[i] = highs[i] = keys[0];
    int64_t from = 0;
    for (; from + AT_ONCE <= n; from += AT_ONCE)
        for (int64_t i = 0; i < AT_ONCE; ++i) {
            lows[i] = keys[from + i] < lows[i] ? keys[from + i] : lows[i];
            highs[i] = keys[from + i] > highs[i] ? keys[from + i] : highs[i];
        }
    for (; from < n; ++from) {
        lows[0] = keys[from] < lows[0] ? keys[from] : lows[0];
        highs[0] = keys[from] > highs[0] ? keys[from] : highs[0];
    }
    float low = lows[0], high = highs[0];
    for (int64_t i = 1; i < AT_ONCE; ++i) {
        low = lows[i] < low ? lows[i] : low;
        high = highs[i] > high ? highs[i] : high;
    }
    const float scale = high > low ? static_cast<float>(INTERVALS - 1) / (high - low) : 0.0f;
    // Interval 0 is for empty cells.
    for (int64_t c = 0; c < n; ++c) {
        constexpr auto LAST = static_cast<float>(INTERVALS - 1);
        const float at = (keys[c] - low) * scale;
        const auto interval = static_cast<int32_t>(at < LAST ? at : LAST);
        marks[c] = static_cast<uint16_t>(sizes[c] > 0 ? interval + 1 : 0);
    }
    uint32_t counts[2][INTERVALS + 1] = {};  // two of them, so that equal neighbours do not wait for each other
    for (int64_t c = 0; c + 2 <= n; c += 2) {
        ++counts[0][marks[c]];
        ++counts[1][marks[c + 1]];
    }
    if (n % 2) ++counts[0][marks[n - 1]];
    int32_t cut = INTERVALS + 1;
    for (int64_t reached = 0; reached < wanted && cut > 1;) {
        --cut;
        reached += counts[0][cut] + counts[1][cut];
    }
    int64_t chosen = 0;
    for (int64_t c = 0; c < n; ++c)
        if (marks[c] >= cut) out[chosen++] = static_cast<uint32_t>(c);
    return chosen;
}

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
    const CellView& cell;
    const CellLimit& limit;
    CellEntry* found;
};

template <int N, class Score>
LETHEVEC_INLINE int64_t take_blocks(const CellTask& task, const Score* scores, int64_t block, int64_t count) {
    const int64_t numbers = task.query.bytes * BLOCK;
    const CellLimit& limit = task.limit;
    for (int64_t i = block; i < block + N; ++i) {
        alignas(64) float keys[BLOCK];
        uint32_t mask =
            cell_keys(task.query, scores + (i - block) * BLOCK, task.cell.blocks[i] + numbers, limit.least_key, keys);
        const int64_t left = task.cell.rows - i * BLOCK;
        if (left < BLOCK) mask &= (uint32_t{1} << left) - 1;
        if (task.cell.masks) mask &= task.cell.masks[i];
        while (mask) {
            const int r = __builtin_ctz(mask);
            mask &= mask - 1;
            float at = ((limit.base - keys[r]) - limit.low) * limit.inverse;
            at = at > 0.0f ? at : 0.0f;
            const auto bucket = static_cast<int32_t>(at < limit.last ? at : limit.last);
            task.found[count] = {task.cell.places[i] + static_cast<uint32_t>(r), scores[(i - block) * BLOCK + r],
                                 static_cast<int16_t>(bucket)};
            count += bucket <= limit.limit;
        }
    }
    return count;
}

template <int N>
LETHEVEC_INLINE int64_t scan_blocks(const CellTask& task, int64_t block, int64_t count) {
    const ScanQuery& q = task.query;
    const uint8_t* const* codes = task.cell.blocks + block;
    // Blocks are scattered: those after the next ones are asked for while these are looked at.
    for (int i = 0; i < N; ++i)
        for (int64_t at = 0; at < (q.bytes + 4) * BLOCK; at += 64) __builtin_prefetch(codes[CELL_AHEAD + i] + at);
    alignas(64) uint8_t sums[N * BLOCK];
    if (q.bytes <= CHUNK_BYTES) {
        sum_blocks<N>(q, codes, 0, q.bytes, sums);
        return take_blocks<N>(task, sums, block, count);
    }
    alignas(64) uint16_t scores[N * BLOCK] = {};
    for (int64_t from = 0; from < q.bytes; from += CHUNK_BYTES) {
        sum_blocks<N>(q, codes, from, from + CHUNK_BYTES < q.bytes ? from + CHUNK_BYTES : q.bytes, sums);
        for (int r = 0; r < N * BLOCK; ++r) scores[r] = static_cast<uint16_t>(scores[r] + sums[r]);
    }
    return take_blocks<N>(task, scores, block, count);
}

}  // namespace

int64_t scan_cell(const ScanQuery& query, const CellView& cell, const CellLimit& limit, CellEntry* found) {
    const CellTask task{query, cell, limit, found};
    const int64_t blocks = (cell.rows + BLOCK - 1) / BLOCK;
    int64_t count = 0, b = 0;
    for (; b + 2 <= blocks; b += 2) count = scan_blocks<2>(task, b, count);
    for (; b < blocks; ++b) count = scan_blocks<1>(task, b, count);
    return count;
}

}  // namespace lethevec::LETHEVEC_ISA_NS
