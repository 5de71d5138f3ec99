// The direction of a vector, as every part of the core takes it: in double precision, rounded once.
#pragma once

#include <cstdint>

#include "kernels/dispatch.h"

namespace lethevec {

// x/|x| for a vector of this norm; zeros for a vector of zeros. `out` may be x.
inline void write_direction(const float* x, int64_t d, double norm, float* out) {
    const double inverse = norm > 0.0 ? 1.0 / norm : 0.0;
    for (int64_t j = 0; j < d; ++j) out[j] = static_cast<float>(static_cast<double>(x[j]) * inverse);
}

// The same where the norm is not known yet.
inline void write_direction(const float* x, int64_t d, float* out) {
    double norm = 0.0;
    active().norms(x, d, 1, &norm);
    write_direction(x, d, norm, out);
}

}  // namespace lethevec
