// simHash and Super-Bit: the signs of a projection.
#include "kernels/bits.h"
#include "kernels/directions.h"
#include "kernels/kernels.h"
#include "kernels/steps.h"

namespace lethevec::LETHEVEC_ISA_NS {

void project(const float* matrix, int64_t d, const float* x, int64_t n, Output out, float* scratch) {
    const int64_t width = padded(out.bits), bytes = (out.bits + 7) / 8;
    for (int64_t row = 0; row < n; ++row) {
        multiply_matrix(x + row * d, matrix, d, width, scratch);
        if (out.values) write_row(out.values + row * out.bits, scratch, out.bits);
        if (out.alignment) out.alignment[row] = signed_sum(scratch, scratch, width);
        if (out.codes) {
            BitWriter code(out.codes ? out.codes + row * bytes : nullptr);
            code.put_signs(scratch, out.bits);
            code.finish();
        }
    }
}

void superbit(const FrameView& f, const float* x, int64_t n, Output out, float* scratch) {
    float *u = scratch, *spare = scratch + f.dp;
    const int64_t bytes = (out.bits + 7) / 8;
    for (int64_t row = 0; row < n; ++row) {
        read_row(u, x + row * f.d, f.d, f.dp);
        BitWriter code(out.codes ? out.codes + row * bytes : nullptr);
        double alignment = 0.0;
        for (int64_t i = 0, at = 0; at < out.bits; ++i, at += f.d) {
            const int64_t count = out.bits - at < f.d ? out.bits - at : f.d;
            forward(f, u, i, spare);
            if (out.values) write_row(out.values + row * out.bits + at, u, count);
            if (out.codes) code.put_signs(u, count);
            if (out.alignment) {
                copy_row(spare, u, f.dp);
                for (int64_t j = count; j < f.dp; ++j) spare[j] = 0.0f;
                alignment = alignment + signed_sum(spare, spare, f.dp);
            }
        }
        if (out.alignment) out.alignment[row] = alignment;
        if (out.codes) code.finish();
    }
}

}  // namespace lethevec::LETHEVEC_ISA_NS
