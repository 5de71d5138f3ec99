// Rows against centres, many at a time: which centres can be nearest.
#include "kernels/kernels.h"
#include "kernels/lanes.h"

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

// All rows of an index are read once, faster than the hardware, which stops at every page, fetches them.
constexpr int64_t BYTES_AHEAD = 4096;

// A row against another, whose last LANES numbers are `last`: zero where `with` has them already.
LETHEVEC_INLINE float row_product(const float* row, int64_t d, const float* with, f32s last) {
    f32s sum = splat(0.0f);
    for (int64_t j = 0; j + LANES <= d; j += LANES) {
        __builtin_prefetch(reinterpret_cast<const char*>(row + j) + BYTES_AHEAD);
        sum = multiply_add(load(row + j), load(with + j), sum);
    }
    if (d % LANES) sum = multiply_add(load(row + d - LANES), last, sum);
    // The first of the transformed is the sum of all.
    alignas(64) float lanes[LANES];
    store(lanes, transform_lanes(sum));
    return lanes[0];
}

}  // namespace

// Row after row: several at a time would be faster to add up, but memory is read fastest in its own order.
void dots(const float* rows, int64_t n, const float* with, int64_t d, float* out) {
    if (d < LANES) {
        for (int64_t i = 0; i < n; ++i) {
            out[i] = 0.0f;
            for (int64_t j = 0; j < d; ++j) out[i] += rows[i * d + j] * with[j];
        }
        return;
    }
    alignas(64) float end[LANES] = {};
    for (int64_t j = d - d % LANES; j < d; ++j) end[LANES - (d - j)] = with[j];
    const f32s last = load(end);
    for (int64_t i = 0; i < n; ++i) out[i] = row_product(rows + i * d, d, with, last);
}

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
            for (; i + ROWS <= to; i += ROWS)
                panel_products<ROWS>(panel, d, rows + i * d, out + i * stride + p * PANEL, stride);
            for (; i < to; ++i) panel_products<1>(panel, d, rows + i * d, out + i * stride + p * PANEL, stride);
        }
    }
}

}  // namespace lethevec::LETHEVEC_ISA_NS
