// USR: T unfolded steps of self-reconstruction, fused per vector. Mirrors `usr` of the spec, line by line.
#include "kernels/bits.h"
#include "kernels/directions.h"
#include "kernels/kernels.h"
#include "kernels/register_row.h"
#include "kernels/steps.h"

namespace lethevec::LETHEVEC_ISA_NS {

// tanh is x P(x^2)/Q(x^2) up to TANH_LIMIT; the coefficients are those of the spec's activation.py.
constexpr float TANH_LIMIT = 7.0f;
constexpr float P0 = 0x1.ffff7p-1f, P1 = 0x1.f7e5bp-4f, P2 = 0x1.2a72eap-9f, P3 = 0x1.07bcb6p-18f;
constexpr float Q0 = 1.0f, Q1 = 0x1.d34adep-2f, Q2 = 0x1.593f0ap-6f, Q3 = 0x1.2a87cp-13f;

LETHEVEC_INLINE f32s clamped(f32s x) { return minimum(maximum(x, splat(-TANH_LIMIT)), splat(TANH_LIMIT)); }

LETHEVEC_INLINE f32s tanh_of(f32s x) {
    x = clamped(x);
    const f32s s = x * x;
    const f32s p = ((splat(P3) * s + splat(P2)) * s + splat(P1)) * s + splat(P0);
    const f32s q = ((splat(Q3) * s + splat(Q2)) * s + splat(Q1)) * s + splat(Q0);
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

// Where the steps of a row happen: g comes in as alpha x and becomes R_0^T (alpha x), y goes out, u and spare are rows
// for anything.
struct Workspace {
    float *g, *u, *spare, *y;
};

LETHEVEC_INLINE f32s inverse_of(int64_t m) { return splat(static_cast<float>(1.0 / static_cast<double>(m))); }

void unfold(const FrameView& f, int64_t steps, Workspace work) {
    const int64_t m = f.m, dp = f.dp;
    const float* g = work.g;
    float *u = work.u, *y = work.y;
    const f32s inverse_m = inverse_of(m);
    forward(f, work.g, 0, work.spare);
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

// y = tanh(y) for K vectors, one after the other, in pieces of an operation or two. The operations are those of
// tanh_of.
template <int K>
struct Activation {
    static constexpr int STEPS = 10, PIECES = K * STEPS;
    float* y;
    f32s x, s, p, q;

    template <int I>
    LETHEVEC_INLINE void piece() {
        constexpr int step = I % STEPS, at = I / STEPS * LANES;
        if constexpr (step == 0) x = clamped(load(y + at));
        if constexpr (step == 1) s = x * x;
        if constexpr (step == 2) p = splat(P3) * s, q = splat(Q3) * s;
        if constexpr (step == 3) p = p + splat(P2), q = q + splat(Q2);
        if constexpr (step == 4) p = p * s, q = q * s;
        if constexpr (step == 5) p = p + splat(P1), q = q + splat(Q1);
        if constexpr (step == 6) p = p * s, q = q * s;
        if constexpr (step == 7) p = p + splat(P0), q = q + splat(Q0);
        if constexpr (step == 8) p = x * p;
        if constexpr (step == 9) store(y + at, p / q);
    }
};

template <int K>
LETHEVEC_INLINE void activate_rest(float* y) {
    for (int k = 0; k < K; ++k) store(y + k * LANES, tanh_of(load(y + k * LANES)));
}

struct NoActivation {
    template <int I>
    LETHEVEC_INLINE void piece() {}
};

// Of a block's vectors, as many are activated while the row goes on forward, the rest when it comes back.
template <int N>
constexpr int GOING = N / 2;
template <int N>
constexpr int COMING = N - GOING<N>;

// Where a row leaves registers free, the last block's values go through none but them: the way back begins there, and
// waits.
template <int N>
constexpr bool TURNS_IN_REGISTERS = N < 8;

// y_i = tanh(R_i^T R_0 u), or in later steps tanh(y_i + that), but for what is left to do on the way back.
template <int N, bool FIRST>
LETHEVEC_INLINE void spread(const FrameView& f, RegisterRow<N>& u, float* y) {
    for (int64_t i = 0;; ++i, y += f.dp) {
        if constexpr (TURNS_IN_REGISTERS<N>)
            if (i + 1 == f.m) {
                for (int k = 0; k < N; ++k) u.r[k] = tanh_of(FIRST ? u.r[k] : load(y + k * LANES) + u.r[k]);
                for (int k = 0; k < N; ++k) store(y + k * LANES, u.r[k]);
                return;
            }
        for (int k = 0; k < N; ++k) store(y + k * LANES, FIRST ? u.r[k] : load(y + k * LANES) + u.r[k]);
        if (i + 1 == f.m) break;
        Activation<GOING<N>> activation{y, {}, {}, {}, {}};
        u.template forward<Activation<GOING<N>>::PIECES>(f, FIRST_ROUNDS + i, activation);
    }
    activate_rest<N>(y);
}

// The same for rows of N vectors.
template <int N>
void unfold_in_registers(const FrameView& f, int64_t steps, Workspace work) {
    const int64_t m = f.m, dp = f.dp;
    float* y = work.y;
    const f32s inverse_m = inverse_of(m);
    RegisterRow<N> u;
    u.read(work.g);
    NoActivation none;
    for (int64_t t = 0; t < FIRST_ROUNDS; ++t) u.template forward<0>(f, t, none);
    for (int k = 0; k < N; ++k) store(work.g + k * LANES, u.r[k]);
    spread<N, true>(f, u, y);
    for (int64_t t = 1; t < steps; ++t) {
        if constexpr (!TURNS_IN_REGISTERS<N>) u.read(y + (m - 1) * dp);
        for (int64_t i = m - 1; i >= 1; --i) {
            float* y_i = y + (i - 1) * dp;
            Activation<COMING<N>> activation{y_i + GOING<N> * LANES, {}, {}, {}, {}};
            u.template backward<Activation<COMING<N>>::PIECES>(f, FIRST_ROUNDS - 1 + i, y_i, activation);
        }
        for (int k = 0; k < N; ++k) u.r[k] = load(work.g + k * LANES) - u.r[k] * inverse_m;
        spread<N, false>(f, u, y);
    }
    for (int64_t i = 0; i + 1 < m; ++i) activate_rest<COMING<N>>(y + i * dp + GOING<N> * LANES);
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
