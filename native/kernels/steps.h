// The steps of a frame, on one padded row of coordinates: forward(u, i) = S_i^T u, backward(u, i) = S_i u.
#pragma once

#include "kernels/frame_view.h"
#include "kernels/hadamard.h"

namespace lethevec::LETHEVEC_ISA_NS {

// (a + b, a - b)/sqrt(2) between the first d / 2 coordinates and the last.
LETHEVEC_INLINE void cross_halves(float* u, int64_t d) {
    const float half = 0x1.6a09e6p-1f;  // sqrt(1/2) to the nearest float
    const int64_t h = d / 2;
    float* v = u + d - h;
    int64_t j = 0;
    for (; j + LANES <= h; j += LANES) {
        const f32s a = load(u + j), b = load(v + j);
        store(u + j, (a + b) * splat(half));
        store(v + j, (a - b) * splat(half));
    }
    for (; j < h; ++j) {
        const float a = u[j], b = v[j];
        u[j] = (a + b) * half;
        v[j] = (a - b) * half;
    }
}

LETHEVEC_INLINE void round_forward(const FrameView& f, float* u, int64_t round) {
    const float* entry = f.entry + 2 * round * f.dp;
    transform(u, f.p, ByTable{entry}, Plain{});
    if (f.p == f.d) return;
    const int64_t rest = f.d - f.p;
    transform(u + rest, f.p, ByTable{entry + f.dp + rest}, Plain{});
    cross_halves(u, f.d);
}

// Of two rows. The second transform reads what the first has only just written, in other pieces, and waits for it; the
// other row's transforms fill the wait.
LETHEVEC_INLINE void round_forward_two(const FrameView& f, float* u, float* v, int64_t round) {
    const float* entry = f.entry + 2 * round * f.dp;
    transform(u, f.p, ByTable{entry}, Plain{});
    transform(v, f.p, ByTable{entry}, Plain{});
    if (f.p == f.d) return;
    const int64_t rest = f.d - f.p;
    transform(u + rest, f.p, ByTable{entry + f.dp + rest}, Plain{});
    transform(v + rest, f.p, ByTable{entry + f.dp + rest}, Plain{});
    cross_halves(u, f.d);
    cross_halves(v, f.d);
}

LETHEVEC_INLINE void round_backward(const FrameView& f, float* u, int64_t round) {
    const float* sign = f.sign + 2 * round * f.dp;
    if (f.p < f.d) {
        const int64_t rest = f.d - f.p;
        cross_halves(u, f.d);
        transform(u + rest, f.p, ByScale{f.scale}, ByTable{sign + f.dp + rest});
    }
    transform(u, f.p, ByScale{f.scale}, ByTable{sign});
}

// out = u times a (d, width) matrix by rows, additions in the order of the rows.
LETHEVEC_INLINE void multiply_matrix(const float* u, const float* matrix, int64_t d, int64_t width, float* out) {
    constexpr int64_t W = LANES;
    int64_t k = 0;
    for (; k + 4 * W <= width; k += 4 * W) {
        const float* row = matrix + k;
        f32s c = splat(u[0]);
        f32s a0 = c * load(row), a1 = c * load(row + W), a2 = c * load(row + 2 * W), a3 = c * load(row + 3 * W);
        for (int64_t j = 1; j < d; ++j) {
            row += width;
            c = splat(u[j]);
            a0 = a0 + c * load(row);
            a1 = a1 + c * load(row + W);
            a2 = a2 + c * load(row + 2 * W);
            a3 = a3 + c * load(row + 3 * W);
        }
        store(out + k, a0);
        store(out + k + W, a1);
        store(out + k + 2 * W, a2);
        store(out + k + 3 * W, a3);
    }
    for (; k < width; k += W) {
        f32s a = splat(u[0]) * load(matrix + k);
        for (int64_t j = 1; j < d; ++j) a = a + splat(u[j]) * load(matrix + j * width + k);
        store(out + k, a);
    }
}

LETHEVEC_INLINE void copy_row(float* to, const float* from, int64_t n) {
    for (int64_t j = 0; j < n; j += LANES) store(to + j, load(from + j));
}

// `spare` is a row of its own that dense steps write through.
inline void forward(const FrameView& f, float* u, int64_t i, float* spare) {
    if (f.dense) {
        multiply_matrix(u, f.dense + i * f.d * f.dp, f.d, f.dp, spare);
        copy_row(u, spare, f.dp);
    } else if (i == 0) {
        for (int64_t t = 0; t < FIRST_ROUNDS; ++t) round_forward(f, u, t);
    } else {
        round_forward(f, u, FIRST_ROUNDS - 1 + i);
    }
}

// Two rows by the same step, other than the first.
inline void forward_two(const FrameView& f, float* u, float* v, int64_t i, float* spare) {
    if (!f.dense) return round_forward_two(f, u, v, FIRST_ROUNDS - 1 + i);
    forward(f, u, i, spare);
    forward(f, v, i, spare);
}

inline void backward(const FrameView& f, float* u, int64_t i, float* spare) {
    if (f.dense) {
        multiply_matrix(u, f.dense_t + i * f.d * f.dp, f.d, f.dp, spare);
        copy_row(u, spare, f.dp);
    } else if (i == 0) {
        for (int64_t t = FIRST_ROUNDS - 1; t >= 0; --t) round_backward(f, u, t);
    } else {
        round_backward(f, u, FIRST_ROUNDS - 1 + i);
    }
}

// A caller's row of d floats into a padded row.
LETHEVEC_INLINE void read_row(float* u, const float* x, int64_t d, int64_t dp) {
    for (int64_t j = 0; j < d; ++j) u[j] = x[j];
    for (int64_t j = d; j < dp; ++j) u[j] = 0.0f;
}

LETHEVEC_INLINE void write_row(float* out, const float* u, int64_t n) {
    for (int64_t j = 0; j < n; ++j) out[j] = u[j];
}

}  // namespace lethevec::LETHEVEC_ISA_NS
