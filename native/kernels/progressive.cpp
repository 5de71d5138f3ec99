// Progressive codes: planes of falling weight, each the signs of what the planes before it left over.
#include "kernels/bits.h"
#include "kernels/directions.h"
#include "kernels/kernels.h"
#include "kernels/steps.h"

namespace lethevec::LETHEVEC_ISA_NS {

void progressive(const FrameView& f, const float* weights, int64_t sweeps, const float* x, int64_t n, Output out,
                 float* scratch) {
    const int64_t m = f.m, dp = f.dp, bytes = (out.bits + 7) / 8;
    float *u = scratch, *spare = u + dp, *whole = spare + dp, *v = whole + dp;
    const bool keep = out.values || sweeps > 0;
    for (int64_t row = 0; row < n; ++row) {
        const double norm = read_direction(u, x + row * f.d, f.d, dp);
        if (out.norms) out.norms[row] = norm;
        BitWriter code(out.codes ? out.codes + row * bytes : nullptr);
        double alignment = 0.0;
        // The vector walks along with what is left of it; in block 0 they are the same.
        const bool align = out.alignment && sweeps == 0;
        for (int64_t i = 0; i < m; ++i) {
            if (align && i > 0)
                forward_two(f, u, whole, i, spare);
            else
                forward(f, u, i, spare);
            if (keep) copy_row(v + i * dp, u, dp);
            if (align) {
                if (i == 0 && m > 1) copy_row(whole, u, dp);
                alignment = alignment + static_cast<double>(weights[i]) * signed_sum(i == 0 ? u : whole, u, dp);
            }
            if (out.codes && sweeps == 0) code.put_signs(u, f.d);
            if (i + 1 == m && !keep) break;
            const f32s c = splat(weights[i]);
            for (int64_t j = 0; j < dp; j += LANES) store(u + j, load(u + j) - signed_like(load(u + j), c));
            // Padding must stay zero, or the last transform would spread it.
            for (int64_t j = f.d; j < dp; ++j) u[j] = 0.0f;
        }
        for (int64_t sweep = 0; sweep < sweeps; ++sweep) {
            const bool inwards = sweep % 2 == 0;
            for (int64_t k = 1; k < m; ++k) {
                const int64_t i = inwards ? m - 1 - k : k;
                if (inwards)
                    backward(f, u, i + 1, spare);
                else
                    forward(f, u, i, spare);
                const f32s c = splat(weights[i]);
                for (int64_t j = 0; j < dp; j += LANES) {
                    const f32s w = load(u + j) + signed_like(load(v + i * dp + j), c);
                    store(v + i * dp + j, w);
                    store(u + j, w - signed_like(w, c));
                }
                for (int64_t j = f.d; j < dp; ++j) u[j] = 0.0f;
            }
        }
        if (out.codes && sweeps > 0)
            for (int64_t i = 0; i < m; ++i) code.put_signs(v + i * dp, f.d);
        if (out.codes) code.finish();
        if (out.alignment && sweeps > 0) {
            read_direction(u, x + row * f.d, f.d, dp);
            for (int64_t i = 0; i < m; ++i) {
                forward(f, u, i, spare);
                alignment = alignment + static_cast<double>(weights[i]) * signed_sum(u, v + i * dp, dp);
            }
        }
        if (out.alignment) out.alignment[row] = alignment;
        if (out.values)
            for (int64_t i = 0; i < m; ++i) write_row(out.values + row * out.bits + i * f.d, v + i * dp, f.d);
    }
}

void norms(const float* x, int64_t d, int64_t n, double* out) {
    int64_t row = 0;
    // Two rows at a time: each is a chain of additions, and two chains fill each other's gaps.
    for (; row + 2 <= n; row += 2) norms_of_two(x + row * d, x + (row + 1) * d, d, out + row);
    for (; row < n; ++row) out[row] = norm_of(x + row * d, d);
}

}  // namespace lethevec::LETHEVEC_ISA_NS
