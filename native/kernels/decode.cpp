// From a code back to a vector: x̂ = scale * sum_i R_i (weights_i b_i), from the last block inwards (Horner's rule).
#include "kernels/bits.h"
#include "kernels/kernels.h"
#include "kernels/steps.h"

namespace lethevec::LETHEVEC_ISA_NS {

void decode(const FrameView& f, const float* weights, float scale, const uint8_t* codes, int64_t n, float* x,
            float* scratch) {
    float *u = scratch, *spare = u + f.dp;
    const int64_t bytes = (f.m * f.d + 7) / 8;
    for (int64_t row = 0; row < n; ++row) {
        const uint8_t* code = codes + row * bytes;
        for (int64_t j = 0; j < f.dp; ++j)
            u[j] = j < f.d ? bit_sign(code, (f.m - 1) * f.d + j) * weights[f.m - 1] : 0.0f;
        for (int64_t i = f.m - 1; i >= 1; --i) {
            backward(f, u, i, spare);
            for (int64_t j = 0; j < f.d; ++j) u[j] = u[j] + bit_sign(code, (i - 1) * f.d + j) * weights[i - 1];
        }
        backward(f, u, 0, spare);
        for (int64_t j = 0; j < f.d; ++j) x[row * f.d + j] = u[j] * scale;
    }
}

}  // namespace lethevec::LETHEVEC_ISA_NS
