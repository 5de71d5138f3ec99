#include "hashing/encoder.h"

#include "hashing/direction.h"
#include "kernels/dispatch.h"

namespace lethevec {

int64_t Encoder::scratch() const { return (family == Family::simhash ? padded(bits) : frame->scratch()) + padded(dim); }

void Encoder::encode(const float* x, int64_t n, uint8_t* codes, double* norms, float* factors, double* alignment,
                     float* scratch) const {
    const Kernels& kernels = active();
    const Output out{nullptr, codes, bits, alignment, norms};
    if (family != Family::progressive) kernels.norms(x, dim, n, norms);
    switch (family) {
        case Family::simhash: kernels.project(projection->matrix(), dim, x, n, out, scratch); break;
        case Family::superbit: kernels.superbit(frame->view(), x, n, out, scratch); break;
        case Family::usr: encode_usr(x, n, norms, out, scratch); break;
        case Family::progressive: kernels.progressive(frame->view(), weights.data(), sweeps, x, n, out, scratch); break;
    }
    for (int64_t i = 0; i < n; ++i) {
        double scale = 1.0;  // progressive aligns with the direction already
        if (family == Family::usr) scale = (of_direction ? 1.0 : norms[i]) * static_cast<double>(entry_gain);
        if (family == Family::simhash || family == Family::superbit) scale = norms[i];
        factors[i] = alignment[i] > 0.0 ? static_cast<float>(scale / alignment[i]) : 0.0f;
    }
}

void Encoder::encode_usr(const float* x, int64_t n, const double* norms, Output out, float* scratch) const {
    const Kernels& kernels = active();
    if (!of_direction) return kernels.usr(frame->view(), entry_gain, steps, x, n, out, scratch);
    float* direction = scratch + frame->scratch();
    for (int64_t i = 0; i < n; ++i) {
        write_direction(x + i * dim, dim, norms[i], direction);
        const Output row{nullptr, out.codes + i * code_bytes(), bits, out.alignment + i};
        kernels.usr(frame->view(), entry_gain, steps, direction, 1, row, scratch);
    }
}

void Encoder::coordinates(const float* x, float* values, float* scratch) const {
    const Kernels& kernels = active();
    const Output out{values, nullptr, bits, nullptr};
    if (family == Family::simhash)
        kernels.project(projection->matrix(), dim, x, 1, out, scratch);
    else
        kernels.superbit(frame->view(), x, 1, out, scratch);
    if (family != Family::progressive) return;
    // Plane by plane: a division for each number would take longer than the rotation.
    for (float weight : weights)
        for (const float* end = values + dim; values < end; ++values) *values = *values * weight;
}

void Encoder::decode(const uint8_t* codes, int64_t n, int64_t threads, float* x) const {
    const std::vector<float> equal(static_cast<size_t>(frame->m()), 1.0f);
    lethevec::decode(*frame, family == Family::progressive ? weights.data() : equal.data(), 1.0f, codes, n, threads, x);
}

}  // namespace lethevec
