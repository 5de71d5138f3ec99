// USR: T unfolded steps of self-reconstruction, fused per vector. Mirrors `usr` of the spec, line by line.
#include "bits.h"
#include "directions.h"
#include "kernels.h"
#include "register_row.h"
#include "steps.h"

namespace lethevec::LETHEVEC_ISA_NS {

// x P(x^2)/Q(x^2); the coefficients are those of the spec's activation.py.
LETHEVEC_INLINE f32s tanh_of(f32s x) {
    const f32s limit = splat(7.0f);
    x = minimum(maximum(x, -limit), limit);
    const f32s s = x * x;
    const f32s p = ((splat(0x1.07bcb6p-18f) * s + splat(0x1.2a72eap-9f)) * s + splat(0x1.f7e5bp-4f)) * s + splat(0x1.ffff7p-1f);
    const f32s q = ((splat(0x1.2a87cp-13f) * s + splat(0x1.593f0ap-6f)) * s + splat(0x1.d34adep-2f)) * s + splat(1.0f);
    return x * p / q;
}

void activate(const float* x, int64_t n, float* out) {
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) store(out + j, tanh_of(load(x + j)));
    alignas(64) float tail[LANES] = {};
    for (int64_t k = j; k < n; ++k) tail[k - j] = x[k];
    store(tail, tanh_of(load(tail)));
    for (int64_t k = j; k < n; ++k) out[k] = tail[k - j];
}

// Where the steps of a row happen: g = R_0^T (alpha x) comes in, y goes out, u and spare are rows for anything.
struct Workspace {
    const float* g;
    float *u, *spare, *y;
};

LETHEVEC_INLINE f32s inverse_of(int64_t m) { return splat(static_cast<float>(1.0 / static_cast<double>(m))); }

void unfold(const FrameView& f, int64_t steps, Workspace work) {
    const int64_t m = f.m, dp = f.dp;
    const float* g = work.g;
    float *u = work.u, *y = work.y;
    const f32s inverse_m = inverse_of(m);
    copy_row(u, g, dp);
    for (int64_t i = 0; i < m; ++i) {  // t = 1
        if (i > 0) forward(f, u, i, work.spare);
        for (int64_t j = 0; j < dp; j += LANES) store(y + i * dp + j, tanh_of(load(u + j)));
    }
    for (int64_t t = 1; t < steps; ++t) {
        copy_row(u, y + (m - 1) * dp, dp);
        for (int64_t i = m - 1; i >= 1; --i) {
            backward(f, u, i, work.spare);
            const float* y_i = y + (i - 1) * dp;
            for (int64_t j = 0; j < dp; j += LANES) store(u + j, load(u + j) + load(y_i + j));
        }
        for (int64_t j = 0; j < dp; j += LANES) store(u + j, load(g + j) - load(u + j) * inverse_m);
        for (int64_t i = 0; i < m; ++i) {
            if (i > 0) forward(f, u, i, work.spare);
            float* y_i = y + i * dp;
            for (int64_t j = 0; j < dp; j += LANES) store(y_i + j, tanh_of(load(y_i + j) + load(u + j)));
        }
    }
}

// y = tanh(y), a vector at a time.
struct Activation {
    float* y;
    LETHEVEC_INLINE void piece() {
        store(y, tanh_of(load(y)));
        y += LANES;
    }
};

// y_i = tanh(R_i^T R_0 u), or in later steps tanh(y_i + that). While u goes on to the next block, y of the last is activated.
template <int N, bool FIRST>
LETHEVEC_INLINE void spread(const FrameView& f, RegisterRow<N>& u, float* y) {
    for (int64_t i = 0;; ++i, y += f.dp) {
        for (int k = 0; k < N; ++k) store(y + k * LANES, FIRST ? u.r[k] : load(y + k * LANES) + u.r[k]);
        if (i + 1 == f.m) break;
        Activation activation{y};
        u.forward(f, FIRST_ROUNDS + i, activation);
    }
    for (int k = 0; k < N; ++k) store(y + k * LANES, tanh_of(load(y + k * LANES)));
}

// The same for rows of N vectors.
template <int N>
void unfold_in_registers(const FrameView& f, int64_t steps, Workspace work) {
    const int64_t m = f.m, dp = f.dp;
    float* y = work.y;
    const f32s inverse_m = inverse_of(m);
    RegisterRow<N> u;
    u.read(work.g);
    spread<N, true>(f, u, y);
    for (int64_t t = 1; t < steps; ++t) {
        u.read(y + (m - 1) * dp);
        for (int64_t i = m - 1; i >= 1; --i) u.backward(f, FIRST_ROUNDS - 1 + i, y + (i - 1) * dp);
        for (int k = 0; k < N; ++k) u.r[k] = load(work.g + k * LANES) - u.r[k] * inverse_m;
        spread<N, false>(f, u, y);
    }
}

// Sizes that are common and fit the registers, or nearly.
auto way_to_unfold(const FrameView& f) {
    if (f.dense || f.d != f.dp) return unfold;
    switch (f.d / LANES) {
        case 4: return unfold_in_registers<4>;
        case 6: return unfold_in_registers<6>;
        case 8: return unfold_in_registers<8>;
        case 12: return unfold_in_registers<12>;
        case 16: return unfold_in_registers<16>;
        default: return unfold;
    }
}

void usr(const FrameView& f, float entry_gain, int64_t steps, const float* x, int64_t n, Output out, float* scratch) {
    const int64_t m = f.m, dp = f.dp, bytes = (out.bits + 7) / 8;
    float *g = scratch, *u = g + dp, *spare = u + dp, *y = spare + dp;
    const auto unfold_row = way_to_unfold(f);
    for (int64_t row = 0; row < n; ++row) {
        read_row(g, x + row * f.d, f.d, dp);
        for (int64_t j = 0; j < dp; j += LANES) store(g + j, load(g + j) * splat(entry_gain));
        forward(f, g, 0, spare);
        unfold_row(f, steps, {g, u, spare, y});
        BitWriter code(out.codes ? out.codes + row * bytes : nullptr);
        for (int64_t i = 0; i < m; ++i) {
            if (out.values) write_row(out.values + row * out.bits + i * f.d, y + i * dp, f.d);
            if (out.codes) code.put_signs(y + i * dp, f.d);
        }
        if (out.codes) code.finish();
        if (out.alignment) {
            double alignment = 0.0;
            copy_row(u, g, dp);
            for (int64_t i = 0; i < m; ++i) {
                if (i > 0) forward(f, u, i, spare);
                alignment = alignment + signed_sum(u, y + i * dp, dp);
            }
            out.alignment[row] = alignment;
        }
    }
}

}  // namespace lethevec::LETHEVEC_ISA_NS
