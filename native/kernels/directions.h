// The norm of a row and its direction, as the spec's `norms` and `directions`: squares are exact in double precision and
// summed over eight lanes, then pairwise.
#pragma once

#include "lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

LETHEVEC_INLINE double norm_of(const float* x, int64_t d) {
    double lane[8] = {};
    int64_t j = 0;
    for (; j + 8 <= d; j += 8)
        for (int k = 0; k < 8; ++k) {
            const double v = x[j + k];
            lane[k] = lane[k] + v * v;
        }
    for (int k = 0; j + k < d; ++k) {
        const double v = x[j + k];
        lane[k] = lane[k] + v * v;
    }
    for (int h = 4; h >= 1; h /= 2)
        for (int k = 0; k < h; ++k) lane[k] = lane[k] + lane[k + h];
    return __builtin_sqrt(lane[0]);
}

// sum_j b_j v_j for b = sign(of_j), over eight lanes, then pairwise. Padding is zero in v and adds nothing.
LETHEVEC_INLINE double signed_sum(const float* v, const float* of, int64_t dp) {
    double lane[8] = {};
    for (int64_t j = 0; j < dp; j += 8)
        for (int k = 0; k < 8; ++k) lane[k] = lane[k] + static_cast<double>(of[j + k] >= 0.0f ? v[j + k] : -v[j + k]);
    for (int h = 4; h >= 1; h /= 2)
        for (int k = 0; k < h; ++k) lane[k] = lane[k] + lane[k + h];
    return lane[0];
}

// u = x/|x| in a padded row; returns |x|. A zero vector stays zero.
LETHEVEC_INLINE double read_direction(float* u, const float* x, int64_t d, int64_t dp) {
    const double norm = norm_of(x, d);
    const double inverse = norm > 0.0 ? 1.0 / norm : 0.0;
    for (int64_t j = 0; j < d; ++j) u[j] = static_cast<float>(static_cast<double>(x[j]) * inverse);
    for (int64_t j = d; j < dp; ++j) u[j] = 0.0f;
    return norm;
}

}  // namespace lethevec::LETHEVEC_ISA_NS
