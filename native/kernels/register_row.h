// A row that walks along a frame of hadamard steps, of a size that the compiler knows, with other work done on the way.
//
// A single row is a chain in which every transform waits for the one before it, and every stage of a transform for the
// stage before. So the row stays in registers, where it fits, and the gaps are filled: `Fill` is work that nothing in
// the transform waits for, taken in pieces between its operations. Those on the row and their order are those of
// steps.h.
//
// Where two transforms overlap, the second waits for half of what the first gives: that half goes first, and the other
// is finished in the gaps of the second.
#pragma once

#include "kernels/frame_view.h"
#include "kernels/hadamard.h"

namespace lethevec::LETHEVEC_ISA_NS {

constexpr int power_of_two_below(int n) { return n < 2 ? n : 2 * power_of_two_below(n / 2); }
constexpr int log_of(int n) { return n < 2 ? 0 : 1 + log_of(n / 2); }

template <int I>
struct Number {
    static constexpr int value = I;
};

// body(Number<FROM>), ..., body(Number<TO - 1>): a loop that is unrolled whatever the compiler thinks of its size.
template <int FROM, int TO, class Body>
LETHEVEC_INLINE void unrolled(Body body) {
    if constexpr (FROM < TO) {
        body(Number<FROM>{});
        unrolled<FROM + 1, TO>(body);
    }
}

// As many operations, body(Number<0>) and so on, and pieces FROM to TO of other work spread evenly among them.
template <int OPERATIONS, int FROM, int TO, class Body, class Fill>
LETHEVEC_INLINE void woven(Body body, Fill& fill) {
    unrolled<0, OPERATIONS>([&](auto number) __attribute__((always_inline)) {
        constexpr int at = decltype(number)::value;
        body(number);
        constexpr int before = FROM + at * (TO - FROM) / OPERATIONS, now = FROM + (at + 1) * (TO - FROM) / OPERATIONS;
        unrolled<before, now>([&](auto piece)
                                  __attribute__((always_inline)) { fill.template piece<decltype(piece)::value>(); });
    });
}

// A transform of K vectors: butterflies between them, then within them, stage by stage for GROUP of them at a time.
template <int K>
struct Stages {
    static constexpr int GROUP = K < 2 ? K : 2;
    static constexpr int BETWEEN = K / 2 * log_of(K), OPERATIONS = BETWEEN + K * log_of(LANES);

    template <int AT>
    static LETHEVEC_INLINE void operation(f32s* r) {
        if constexpr (AT < BETWEEN) {
            constexpr int h = K >> (1 + AT / (K / 2)), in_stage = AT % (K / 2), k = in_stage / h * 2 * h + in_stage % h;
            const f32s a = r[k], b = r[k + h];
            r[k] = a + b;
            r[k + h] = a - b;
        }
#if !defined(LETHEVEC_ISA_SCALAR)
        else {
            constexpr int in = AT - BETWEEN, of_group = GROUP * log_of(LANES);
            constexpr int k = in / of_group * GROUP + in % GROUP, h = LANES >> (1 + in % of_group / GROUP);
            r[k] = butterfly<h>(r[k]);
        }
#endif
    }
};

// N vectors. The transforms take the first and the last P of them; the halves that cross are whole vectors, so N is
// even.
template <int N>
struct RegisterRow {
    static constexpr int P = power_of_two_below(N), REST = N - P, HALF = P / 2;
    static_assert(N % 2 == 0 && (REST == 0 || REST == HALF), "the second transform begins in the middle of the first");
    f32s r[N];

    LETHEVEC_INLINE void read(const float* x) {
        for (int k = 0; k < N; ++k) r[k] = load(x + k * LANES);
    }
    LETHEVEC_INLINE void multiply(const float* table, int from, int to) {
        for (int k = from; k < to; ++k) r[k] = r[k] * load(table + k * LANES);
    }
    LETHEVEC_INLINE void scale(f32s by, int from, int to) {
        for (int k = from; k < to; ++k) r[k] = r[k] * by;
    }
    LETHEVEC_INLINE void cross_halves() {
        const f32s half = splat(0x1.6a09e6p-1f);  // sqrt(1/2) to the nearest float
        for (int k = 0; k < N / 2; ++k) {
            const f32s a = r[k], b = r[k + N / 2];
            r[k] = (a + b) * half;
            r[k + N / 2] = (a - b) * half;
        }
    }
    // The first stage of a transform, between the halves that begin at `from`; what is left is a transform of either
    // half.
    LETHEVEC_INLINE void first_stage(int from) {
        for (int k = from; k < from + HALF; ++k) {
            const f32s a = r[k], b = r[k + HALF];
            r[k] = a + b;
            r[k + HALF] = a - b;
        }
    }
    template <int FROM, int TO, class Fill>
    LETHEVEC_INLINE void whole(Fill& fill) {
        woven<Stages<P>::OPERATIONS, FROM, TO>(
            [&](auto at) __attribute__((always_inline)) { Stages<P>::template operation<decltype(at)::value>(r); },
            fill);
    }
    template <int FROM, int TO, class Fill>
    LETHEVEC_INLINE void half(f32s* it, Fill& fill) {
        woven<Stages<HALF>::OPERATIONS, FROM, TO>(
            [&](auto at) __attribute__((always_inline)) { Stages<HALF>::template operation<decltype(at)::value>(it); },
            fill);
    }
    // Two halves that are waited for, and one that is not.
    template <int FROM, int TO, class Fill>
    LETHEVEC_INLINE void halves(f32s* one, f32s* other, f32s* late, Fill& fill) {
        woven<Stages<HALF>::OPERATIONS, FROM, TO>(
            [&](auto at) __attribute__((always_inline)) {
                Stages<HALF>::template operation<decltype(at)::value>(one);
                Stages<HALF>::template operation<decltype(at)::value>(other);
                Stages<HALF>::template operation<decltype(at)::value>(late);
            },
            fill);
    }

    // With `PIECES` of other work.
    template <int PIECES, class Fill>
    LETHEVEC_INLINE void forward(const FrameView& f, int64_t round, Fill& fill) {
        const float* entry = f.entry + 2 * round * f.dp;
        multiply(entry, 0, P);
        if constexpr (REST == 0) {
            whole<0, PIECES>(fill);
        } else {
            constexpr int FIRST = PIECES * 2 / 5;
            first_stage(0);
            half<0, FIRST>(r + HALF, fill);
            multiply(entry + f.dp, HALF, N);
            first_stage(HALF);
            halves<FIRST, PIECES>(r + HALF, r + P, r, fill);
            cross_halves();
        }
    }
    // And y added.
    template <int PIECES, class Fill>
    LETHEVEC_INLINE void backward(const FrameView& f, int64_t round, const float* y, Fill& fill) {
        const float *sign = f.sign + 2 * round * f.dp, *entry = f.entry + 2 * round * f.dp;
        const f32s by = splat(f.scale);
        if constexpr (REST == 0) {
            scale(by, 0, N);
            whole<0, PIECES>(fill);
        } else {
            constexpr int FIRST = PIECES * 2 / 5;
            cross_halves();
            scale(by, 0, N);
            first_stage(HALF);
            half<0, FIRST>(r + HALF, fill);
            // A sign costs no rounding, so sign and scale may come as one factor.
            multiply(entry + f.dp, HALF, P);
            first_stage(0);
            halves<FIRST, PIECES>(r, r + HALF, r + P, fill);
            for (int k = P; k < N; ++k) r[k] = plus_signed(load(y + k * LANES), r[k], load(sign + f.dp + k * LANES));
        }
        for (int k = 0; k < P; ++k) r[k] = plus_signed(load(y + k * LANES), r[k], load(sign + k * LANES));
    }
};

}  // namespace lethevec::LETHEVEC_ISA_NS
