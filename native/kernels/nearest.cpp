// Which centres of the source "pivots" can be nearest to a row: bounds from numbers of seven and eight bits, a quarter
// of the memory of floats.
#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

// sum_j row_j centre_j of ROWS rows with the MEANS centres of each of PANELS panels. No pair of products exceeds
// sixteen bits.
template <int ROWS, int PANELS>
LETHEVEC_INLINE void panel_scores(const int8_t* small, int64_t groups, const RoundedRow* rows, int32_t* out) {
#if defined(LETHEVEC_ISA_AVX512)
    __m512i sum[ROWS][PANELS];
    for (int i = 0; i < ROWS; ++i)
        for (int k = 0; k < PANELS; ++k) sum[i][k] = _mm512_setzero_si512();
    for (int64_t g = 0; g < groups; ++g) {
        __m512i c[PANELS];
        for (int k = 0; k < PANELS; ++k) c[k] = _mm512_loadu_si512(small + (k * groups + g) * 64);
        for (int i = 0; i < ROWS; ++i) {
            int32_t four;
            __builtin_memcpy(&four, rows[i].numbers + 4 * g, 4);
            const __m512i x = _mm512_set1_epi32(four);
            for (int k = 0; k < PANELS; ++k) sum[i][k] = _mm512_dpbusd_epi32(sum[i][k], x, c[k]);
        }
    }
    for (int i = 0; i < ROWS; ++i)
        for (int k = 0; k < PANELS; ++k) _mm512_storeu_si512(out + (i * PANELS + k) * MEANS, sum[i][k]);
#elif defined(LETHEVEC_ISA_AVX2)
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sum[ROWS][PANELS][2];
    for (int i = 0; i < ROWS; ++i)
        for (int k = 0; k < PANELS; ++k) sum[i][k][0] = sum[i][k][1] = _mm256_setzero_si256();
    for (int64_t g = 0; g < groups; ++g)
        for (int k = 0; k < PANELS; ++k)
            for (int half = 0; half < 2; ++half) {
                const int8_t* at = small + (k * groups + g) * 64 + 32 * half;
                const __m256i c = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
                for (int i = 0; i < ROWS; ++i) {
                    int32_t four;
                    __builtin_memcpy(&four, rows[i].numbers + 4 * g, 4);
                    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi32(four), c);
                    sum[i][k][half] = _mm256_add_epi32(sum[i][k][half], _mm256_madd_epi16(pairs, ones));
                }
            }
    for (int i = 0; i < ROWS; ++i)
        for (int k = 0; k < PANELS; ++k)
            for (int half = 0; half < 2; ++half)
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + (i * PANELS + k) * MEANS + 8 * half),
                                    sum[i][k][half]);
#else
    for (int i = 0; i < ROWS; ++i)
        for (int k = 0; k < PANELS; ++k) {
            int32_t* to = out + (i * PANELS + k) * MEANS;
            for (int64_t c = 0; c < MEANS; ++c) to[c] = 0;
            for (int64_t g = 0; g < groups; ++g)
                for (int64_t c = 0; c < MEANS; ++c)
                    for (int64_t j = 0; j < 4; ++j)
                        to[c] += static_cast<int32_t>(rows[i].numbers[4 * g + j]) *
                                 static_cast<int32_t>(small[(k * groups + g) * 64 + 4 * c + j]);
        }
#endif
}

// From scores to bounds.
LETHEVEC_INLINE void bounds_of(const RoundedRow& row, const RoundedView& centres, const int32_t* scores, int64_t from,
                               int64_t n, float* __restrict out) {
    const float twice = row.twice_step, by_norm = row.by_norm, by_error = row.by_error;
    const float *steps = centres.steps + from, *squares = centres.squares + from;
    const float *norms = centres.norms + from, *errors = centres.errors + from;
    const int32_t* shifts = centres.shifts + from;
    for (int64_t c = 0; c < n; ++c)
        out[c] = squares[c] - (by_norm * norms[c] + by_error * errors[c]) -
                 (twice * steps[c]) * static_cast<float>(scores[c] - shifts[c]);
}

template <int ROWS, int PANELS>
LETHEVEC_INLINE void tile(const RoundedView& centres, int64_t panel, const RoundedRow* rows, float* out) {
    alignas(64) int32_t scores[ROWS * PANELS * MEANS];
    panel_scores<ROWS, PANELS>(centres.small + panel * centres.groups * 64, centres.groups, rows, scores);
    for (int i = 0; i < ROWS; ++i)
        bounds_of(rows[i], centres, scores + i * PANELS * MEANS, panel * MEANS, PANELS * MEANS,
                  out + i * centres.panels * MEANS + panel * MEANS);
}

// Rows side by side read a panel once; one row alone has several panels on their way at a time.
template <int ROWS, int PANELS>
LETHEVEC_INLINE void all_panels(const RoundedView& centres, const RoundedRow* rows, float* out) {
    int64_t p = 0;
    for (; p + PANELS <= centres.panels; p += PANELS) tile<ROWS, PANELS>(centres, p, rows, out);
    for (; p < centres.panels; ++p) tile<ROWS, 1>(centres, p, rows, out);
}

}  // namespace

void centre_bounds(const RoundedView& centres, const RoundedRow* rows, int64_t n, float* out) {
    constexpr int ROWS = LANES == 16 ? 6 : LANES == 8 ? 2 : 1;  // as many as the registers hold
    int64_t i = 0;
    for (; i + ROWS <= n; i += ROWS) all_panels<ROWS, 2>(centres, rows + i, out + i * centres.panels * MEANS);
    for (; i < n; ++i) all_panels<1, 4>(centres, rows + i, out + i * centres.panels * MEANS);
}

int64_t first_within(const float* numbers, int64_t from, int64_t n, float most) {
    constexpr int64_t BLOCK_OF = 32;
    while (from < n) {
        const int64_t to = from + BLOCK_OF < n ? from + BLOCK_OF : n;
        int32_t any = 0;
        for (int64_t i = from; i < to; ++i) any |= !(numbers[i] > most);
        if (any)
            for (int64_t i = from; i < to; ++i)
                if (!(numbers[i] > most)) return i;
        from = to;
    }
    return n;
}

float least(const float* numbers, int64_t n) {
    float found = __builtin_inff();
    int64_t i = 0;
    if (n >= LANES) {
        f32s low = load(numbers);
        for (i = LANES; i + LANES <= n; i += LANES) low = minimum(load(numbers + i), low);
        float lanes[LANES];
        store(lanes, low);
        for (float one : lanes) found = one < found ? one : found;
    }
    for (; i < n; ++i) found = numbers[i] < found ? numbers[i] : found;
    return found;
}

}  // namespace lethevec::LETHEVEC_ISA_NS
