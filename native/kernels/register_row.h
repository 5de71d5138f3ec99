// A row that walks along a frame of hadamard steps, of a size that the compiler knows, with other work done on the way.
//
// A single row is a chain in which every transform waits for the one before it, and every stage of a transform for the stage
// before. So the row stays in registers, where it fits, and the gaps are filled: `Fill` is work that nothing in the transform
// waits for, taken in pieces between its operations. Those on the row and their order are those of steps.h.
#pragma once

#include "../frame_view.h"
#include "hadamard.h"

namespace lethevec::LETHEVEC_ISA_NS {

struct NoFill {
    LETHEVEC_INLINE void piece() {}
};

constexpr int power_of_two_below(int n) { return n < 2 ? n : 2 * power_of_two_below(n / 2); }
constexpr int log_of(int n) { return n < 2 ? 0 : 1 + log_of(n / 2); }

template <int I>
struct Number {
    static constexpr int value = I;
};

// body(Number<0>), ..., body(Number<N - 1>): a loop that is unrolled whatever the compiler thinks of its size.
template <int N, int I = 0, class Body>
LETHEVEC_INLINE void unrolled(Body body) {
    if constexpr (I < N) {
        body(Number<I>{});
        unrolled<N, I + 1>(body);
    }
}

// The stages of K vectors in registers and in lanes, with `PIECES` of other work spread evenly among their operations.
template <int K, int PIECES, class Fill>
LETHEVEC_INLINE void stages(f32s* r, Fill& fill) {
    constexpr int BUTTERFLIES = K / 2 * log_of(K), OPERATIONS = BUTTERFLIES + K;
    unrolled<OPERATIONS>([&](auto number) __attribute__((always_inline)) {
        constexpr int at = decltype(number)::value;
        if constexpr (at < BUTTERFLIES) {
            constexpr int h = K >> (1 + at / (K / 2)), in_stage = at % (K / 2), k = in_stage / h * 2 * h + in_stage % h;
            const f32s a = r[k], b = r[k + h];
            r[k] = a + b;
            r[k + h] = a - b;
        } else {
            r[at - BUTTERFLIES] = transform_lanes(r[at - BUTTERFLIES]);
        }
        constexpr int before = at * PIECES / OPERATIONS, now = (at + 1) * PIECES / OPERATIONS;
        unrolled<now - before>([&](auto) __attribute__((always_inline)) { fill.piece(); });
    });
}

// N vectors. The transforms take the first and the last P of them; the halves that cross are whole vectors, so N is even.
template <int N>
struct RegisterRow {
    static constexpr int P = power_of_two_below(N), REST = N - P, PIECES = REST ? N / 2 : N;
    static_assert(N % 2 == 0, "halves of a row are whole vectors");
    f32s r[N];

    LETHEVEC_INLINE void read(const float* x) {
        for (int k = 0; k < N; ++k) r[k] = load(x + k * LANES);
    }
    LETHEVEC_INLINE void multiply(const float* table, int from) {
        for (int k = from; k < from + P; ++k) r[k] = r[k] * load(table + k * LANES);
    }
    LETHEVEC_INLINE void cross_halves() {
        const f32s half = splat(0x1.6a09e6p-1f);  // sqrt(1/2) to the nearest float
        for (int k = 0; k < N / 2; ++k) {
            const f32s a = r[k], b = r[k + N / 2];
            r[k] = (a + b) * half;
            r[k + N / 2] = (a - b) * half;
        }
    }
    // N pieces of other work.
    template <class Fill>
    LETHEVEC_INLINE void forward(const FrameView& f, int64_t round, Fill& fill) {
        const float* entry = f.entry + 2 * round * f.dp;
        multiply(entry, 0);
        stages<P, PIECES>(r, fill);
        if (REST == 0) return;
        multiply(entry + f.dp, REST);
        stages<P, PIECES>(r + REST, fill);
        cross_halves();
    }
    // And y added.
    LETHEVEC_INLINE void backward(const FrameView& f, int64_t round, const float* y) {
        NoFill none;
        const float *sign = f.sign + 2 * round * f.dp, *entry = f.entry + 2 * round * f.dp;
        const f32s scale = splat(f.scale);
        if (REST > 0) {
            cross_halves();
            for (int k = REST; k < N; ++k) r[k] = r[k] * scale;
            stages<P, 0>(r + REST, none);
            for (int k = P; k < N; ++k) r[k] = plus_signed(load(y + k * LANES), r[k], load(sign + f.dp + k * LANES));
        }
        // A sign costs no rounding, so sign and scale may come as one factor.
        for (int k = 0; k < P; ++k) r[k] = r[k] * (k < REST || REST == 0 ? scale : load(entry + f.dp + k * LANES));
        stages<P, 0>(r, none);
        for (int k = 0; k < P; ++k) r[k] = plus_signed(load(y + k * LANES), r[k], load(sign + k * LANES));
    }
};

}  // namespace lethevec::LETHEVEC_ISA_NS
