// Which cells of the source "pivots" a query looks into, and in which order.
#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

// sum_j query_j mean_j of MEANS cells. Numbers of seven bits, the query's shifted to be positive: no pair of products
// exceeds sixteen bits.
LETHEVEC_INLINE void mean_scores(const uint8_t* query, int64_t groups, const int8_t* at, int32_t* to) {
#if defined(LETHEVEC_ISA_AVX512)
    // Four sums, so that none waits for another.
    __m512i sum[4];
    for (__m512i& part : sum) part = _mm512_setzero_si512();
    const auto add = [&](int64_t g, __m512i& total) __attribute__((always_inline)) {
        int32_t four;
        __builtin_memcpy(&four, query + 4 * g, 4);
        __builtin_prefetch(at + g * 64 + 4096);
        total = _mm512_dpbusd_epi32(total, _mm512_set1_epi32(four), _mm512_loadu_si512(at + g * 64));
    };
    int64_t g = 0;
    for (; g + 4 <= groups; g += 4)
        for (int64_t k = 0; k < 4; ++k) add(g + k, sum[k]);
    for (; g < groups; ++g) add(g, sum[0]);
    _mm512_storeu_si512(to, _mm512_add_epi32(_mm512_add_epi32(sum[0], sum[1]), _mm512_add_epi32(sum[2], sum[3])));
#elif defined(LETHEVEC_ISA_AVX2)
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i low = _mm256_setzero_si256(), high = _mm256_setzero_si256();
    for (int64_t g = 0; g < groups; ++g) {
        int32_t four;
        __builtin_memcpy(&four, query + 4 * g, 4);
        const __m256i q = _mm256_set1_epi32(four);
        const __m256i a = _mm256_maddubs_epi16(q, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + g * 64)));
        const __m256i c =
            _mm256_maddubs_epi16(q, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + g * 64 + 32)));
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

// A plain loop for each of the two, so that lanes can do it.
LETHEVEC_INLINE void keys_of(const MeanQuery& q, const MeanView& means, const int32_t* scores, int64_t from, int64_t n,
                             float* __restrict keys) {
    const float *steps = means.steps + from, *squares = means.squares + from, step = q.step, share = q.share;
    const int32_t* shifts = means.shifts + from;
    if (share > 0.0f)
        for (int64_t c = 0; c < n; ++c)
            keys[from + c] = (step * steps[c]) * static_cast<float>(scores[c] - shifts[c]) - share * squares[c];
    else
        for (int64_t c = 0; c < n; ++c) keys[from + c] = (step * steps[c]) * static_cast<float>(scores[c] - shifts[c]);
}

}  // namespace

void mean_keys(const MeanQuery& query, const MeanView& means, float* keys) {
    alignas(64) int32_t scores[MEANS];
    int64_t from = 0;
    for (; from + MEANS <= means.count; from += MEANS) {
        mean_scores(query.numbers, query.groups, means.small + from * query.groups * 4, scores);
        keys_of(query, means, scores, from, MEANS, keys);
    }
    if (from == means.count) return;
    mean_scores(query.numbers, query.groups, means.small + from * query.groups * 4, scores);
    keys_of(query, means, scores, from, means.count - from, keys);
}

namespace {

// A key that is no number counts as large.
LETHEVEC_INLINE int64_t count_from(const float* keys, const uint32_t* sizes, int64_t n, float least) {
    int32_t count = 0;
    for (int64_t c = 0; c < n; ++c) count += !(keys[c] < least) & (sizes[c] > 0);
    return count;
}

}  // namespace

float largest(const float* numbers, int64_t n, int64_t rank);

namespace {

// Cells that are not empty, with keys of at least `low`, as long as there is room for them.
LETHEVEC_INLINE int64_t choose_from(const float* keys, const uint32_t* sizes, int64_t n, float low, uint32_t* out) {
    int64_t chosen = 0;
#if defined(LETHEVEC_ISA_AVX512)
    __m512i cells = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int64_t c = 0; c < n; c += 16) {
        const __mmask16 in = n - c >= 16 ? 0xffff : static_cast<__mmask16>((1u << (n - c)) - 1u);
        const __m512i size = _mm512_maskz_loadu_epi32(in, sizes + c);
        const __mmask16 filled = _mm512_test_epi32_mask(size, size);
        const __mmask16 take =
            _mm512_mask_cmp_ps_mask(filled, _mm512_maskz_loadu_ps(in, keys + c), _mm512_set1_ps(low), _CMP_NLT_UQ);
        // Only the lanes that are taken may be written: there may be no more room.
        const __m512i taken = _mm512_maskz_compress_epi32(take, cells);
        const int count = __builtin_popcount(take);
        _mm512_mask_storeu_epi32(out + chosen, static_cast<__mmask16>((1u << count) - 1u), taken);
        chosen += count;
        cells = _mm512_add_epi32(cells, _mm512_set1_epi32(16));
    }
#else
    for (int64_t c = 0; c < n; ++c)
        if (!(keys[c] < low) && sizes[c] > 0) out[chosen++] = static_cast<uint32_t>(c);
#endif
    return chosen;
}

// A key that at least `wanted` of the keys reach, and not many more: that of the largest of groups of keys which as
// many groups reach. Minus infinity where there are too few groups.
LETHEVEC_INLINE float low_by_groups(const float* keys, int64_t n, int64_t wanted) {
    constexpr int64_t WIDE = 16, MOST = 1024;
    int64_t deep = n / (3 * wanted);
    deep = deep < 8 ? deep : 8;
    while (n / deep > MOST) ++deep;
    const int64_t rows = n / (WIDE * deep);
    if (rows * WIDE < 2 * wanted) return -__builtin_inff();
    float tops[MOST];
    for (int64_t row = 0; row < rows; ++row) {
        const float* at = keys + row * deep * WIDE;
        for (int64_t i = 0; i < WIDE; i += LANES) {
            f32s top = load(at + i);
            for (int64_t k = 1; k < deep; ++k) top = maximum(load(at + k * WIDE + i), top);
            store(tops + row * WIDE + i, top);
        }
    }
    return largest(tops, rows * WIDE, wanted);
}

// Of n cells those that are among the `wanted` best, ties included.
LETHEVEC_INLINE int64_t keep_best(const float* keys, uint32_t* cells, int64_t n, int64_t wanted) {
    constexpr int64_t MOST = 2048;
    if (n > MOST) return n;
    float own[MOST];
    for (int64_t i = 0; i < n; ++i) own[i] = keys[cells[i]];
    const float least = largest(own, n, wanted);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i) {
        cells[kept] = cells[i];
        kept += own[i] >= least;
    }
    return kept;
}

}  // namespace

int64_t choose_cells(const float* keys, const uint32_t* sizes, int64_t n, int64_t wanted, uint32_t* out) {
    if (6 * wanted <= n) {
        const int64_t chosen = choose_from(keys, sizes, n, low_by_groups(keys, n, wanted), out);
        if (chosen >= wanted) return keep_best(keys, out, chosen, wanted);  // otherwise some were empty
    }
    // Halves the interval of keys until about as many are in it as are wanted: which there are too many of does not
    // matter.
    float low = keys[0], high = keys[0];
    for (int64_t c = 0; c < n; ++c) {
        low = keys[c] < low ? keys[c] : low;
        high = keys[c] > high ? keys[c] : high;
    }
    for (int turn = 0; turn < 24; ++turn) {
        const float middle = low + (high - low) * 0.5f;
        if (!(middle > low) || !(middle < high)) break;
        const int64_t count = count_from(keys, sizes, n, middle);
        (count >= wanted ? low : high) = middle;
        if (count >= wanted && count - wanted <= 8 + wanted / 16) break;
    }
    return choose_from(keys, sizes, n, low, out);
}

// The place of each is the number of those below it: many comparisons, and none that a branch depends on.
void sort_numbers(const uint64_t* numbers, int64_t n, uint64_t* out) {
    for (int64_t i = 0; i < n; ++i) {
        const uint64_t own = numbers[i];
        int64_t below = 0;
        for (int64_t j = 0; j < n; ++j) below += numbers[j] < own;
        out[below] = own;
    }
}

}  // namespace lethevec::LETHEVEC_ISA_NS
