#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <optional>

#include "bind/bind.h"
#include "bind/numpy.h"
#include "hashing/hashing.h"
#include "kernels/dispatch.h"

namespace lethevec {

namespace {

using Vectors = Matrix<const float>;
using Values = std::optional<Matrix<float>>;
using Codes = std::optional<Matrix<uint8_t>>;

Output output_of(const Vectors& x, const Values& values, const Codes& codes, int64_t bits) {
    expect(!values || (values->rows == x.rows && values->columns == bits), "values: wrong shape");
    expect(!codes || (codes->rows == x.rows && codes->columns == (bits + 7) / 8), "codes: wrong shape");
    return {values ? values->data : nullptr, codes ? codes->data : nullptr, bits};
}

Batch batch_of(const Vectors& x, int64_t d, int64_t threads) {
    expect(x.columns == d, "x: wrong dimension");
    return {x.data, x.rows, threads};
}

// The code of a single vector, (1, bytes), in one call: check, allocation and encoding. None for whatever needs more
// than that, a refusal too, so that there is one place where errors are made.
template <class Run>
nb::object code_alone(nb::handle x, double largest_norm, int64_t d, int64_t bits, Run run) {
    Vectors vector;
    if (!Numpy::get().is_array(x) || !vector.read(x, 1) || vector.rows != 1 || vector.columns != d ||
        !norms_pass(vector, 0.0, largest_norm))
        return nb::none();
    const NewArray<uint8_t> codes(1, (bits + 7) / 8);
    {
        Unlocked released;
        run(Batch{vector.data, 1, 1}, Output{nullptr, codes.data, bits});
    }
    return codes.object;
}

}  // namespace

void bind_hashing(nb::module_& module) {
    nb::class_<Frame>(module, "Frame", "The tables of a frame of rotations.")
        .def_static(
            "hadamard",
            [](Array<const float, 3> sign) {
                expect(rows(sign) >= FIRST_ROUNDS && columns(sign) == 2 && sign.shape(2) >= 1, "sign: wrong shape");
                return Frame::hadamard(static_cast<int64_t>(sign.shape(2)), rows(sign) - FIRST_ROUNDS + 1, sign.data());
            },
            "sign"_a.noconvert())
        .def_static(
            "dense",
            [](Array<const float, 3> steps) {
                expect(rows(steps) >= 1 && columns(steps) >= 1 && steps.shape(1) == steps.shape(2),
                       "steps: wrong shape");
                return Frame::dense(columns(steps), rows(steps), steps.data());
            },
            "steps"_a.noconvert());

    nb::class_<Projection>(module, "Projection", "A dense projection matrix, (dim, bits).")
        .def(
            "__init__",
            [](Projection* self, Array<const float, 2> matrix) {
                expect(rows(matrix) >= 1 && columns(matrix) >= 1, "matrix: wrong shape");
                new (self) Projection(rows(matrix), columns(matrix), matrix.data());
            },
            "matrix"_a.noconvert());

    module.def(
        "project",
        [](const Projection& projection, const Vectors& x, const Values& values, const Codes& codes, int64_t threads) {
            const Output out = output_of(x, values, codes, projection.bits());
            const Batch batch = batch_of(x, projection.d(), threads);
            Unlocked released;
            encode_project(projection, batch, out);
        },
        "projection"_a, "x"_a.noconvert(), "values"_a.none(), "codes"_a.none(), "threads"_a);

    module.def(
        "superbit",
        [](const Frame& frame, int64_t bits, const Vectors& x, const Values& values, const Codes& codes,
           int64_t threads) {
            expect(bits >= 1 && bits <= frame.m() * frame.d(), "bits: out of range");
            const Output out = output_of(x, values, codes, bits);
            const Batch batch = batch_of(x, frame.d(), threads);
            Unlocked released;
            encode_superbit(frame, batch, out);
        },
        "frame"_a, "bits"_a, "x"_a.noconvert(), "values"_a.none(), "codes"_a.none(), "threads"_a);

    module.def(
        "usr",
        [](const Frame& frame, float entry_gain, int64_t steps, const Vectors& x, const Values& values,
           const Codes& codes, int64_t threads) {
            expect(steps >= 1, "steps: out of range");
            const Output out = output_of(x, values, codes, frame.m() * frame.d());
            const Batch batch = batch_of(x, frame.d(), threads);
            Unlocked released;
            encode_usr(frame, entry_gain, steps, batch, out);
        },
        "frame"_a, "entry_gain"_a, "steps"_a, "x"_a.noconvert(), "values"_a.none(), "codes"_a.none(), "threads"_a);

    module.def(
        "progressive",
        [](const Frame& frame, Array<const float, 1> weights, int64_t sweeps, const Vectors& x, const Values& values,
           const Codes& codes, int64_t threads) {
            expect(rows(weights) == frame.m() && sweeps >= 0, "weights: wrong shape, or sweeps: out of range");
            const Output out = output_of(x, values, codes, frame.m() * frame.d());
            const Batch batch = batch_of(x, frame.d(), threads);
            Unlocked released;
            encode_progressive(frame, weights.data(), sweeps, batch, out);
        },
        "frame"_a, "weights"_a.noconvert(), "sweeps"_a, "x"_a.noconvert(), "values"_a.none(), "codes"_a.none(),
        "threads"_a);

    module.def(
        "project_alone",
        [](const Projection& projection, double largest_norm, nb::handle x) {
            return code_alone(x, largest_norm, projection.d(), projection.bits(),
                              [&](const Batch& batch, const Output& out) { encode_project(projection, batch, out); });
        },
        "projection"_a, "largest_norm"_a, "x"_a.none());
    module.def(
        "superbit_alone",
        [](const Frame& frame, int64_t bits, double largest_norm, nb::handle x) {
            expect(bits >= 1 && bits <= frame.m() * frame.d(), "bits: out of range");
            return code_alone(x, largest_norm, frame.d(), bits,
                              [&](const Batch& batch, const Output& out) { encode_superbit(frame, batch, out); });
        },
        "frame"_a, "bits"_a, "largest_norm"_a, "x"_a.none());
    module.def(
        "usr_alone",
        [](const Frame& frame, float entry_gain, int64_t steps, double largest_norm, nb::handle x) {
            expect(steps >= 1, "steps: out of range");
            return code_alone(
                x, largest_norm, frame.d(), frame.m() * frame.d(),
                [&](const Batch& batch, const Output& out) { encode_usr(frame, entry_gain, steps, batch, out); });
        },
        "frame"_a, "entry_gain"_a, "steps"_a, "largest_norm"_a, "x"_a.none());
    module.def(
        "progressive_alone",
        [](const Frame& frame, nb::handle weights, int64_t sweeps, double largest_norm, nb::handle x) {
            Vectors given;
            expect(given.read(weights, 1) && given.columns == frame.m() && sweeps >= 0,
                   "weights: wrong shape, or sweeps: out of range");
            return code_alone(x, largest_norm, frame.d(), frame.m() * frame.d(),
                              [&](const Batch& batch, const Output& out) {
                                  encode_progressive(frame, given.data, sweeps, batch, out);
                              });
        },
        "frame"_a, "weights"_a, "sweeps"_a, "largest_norm"_a, "x"_a.none());

    module.def(
        "decode",
        [](const Frame& frame, Array<const float, 1> weights, float scale, Array<const uint8_t, 2> codes,
           Array<float, 2> out, int64_t threads) {
            expect(rows(weights) == frame.m(), "weights: wrong shape");
            expect(columns(codes) == (frame.m() * frame.d() + 7) / 8, "codes: wrong shape");
            expect(rows(out) == rows(codes) && columns(out) == frame.d(), "out: wrong shape");
            Unlocked released;
            decode(frame, weights.data(), scale, codes.data(), rows(codes), threads, out.data());
        },
        "frame"_a, "weights"_a.noconvert(), "scale"_a, "codes"_a.noconvert(), "out"_a.noconvert(), "threads"_a);

    module.def(
        "norms",
        [](const Vectors& x, Array<double, 1> out) {
            expect(rows(out) == x.rows, "out: wrong shape");
            Unlocked released;
            active().norms(x.data, x.columns, x.rows, out.data());
        },
        "x"_a.noconvert(), "out"_a.noconvert());

    module.def(
        "norm_range",
        [](const Vectors& x) {
            Unlocked released;
            return norm_range(x.data, x.columns, x.rows);
        },
        "x"_a.noconvert(), "The smallest and the largest norm of the rows; NaN or infinity where a row has one.");

    module.def(
        "passes",
        [](nb::handle x, int64_t dim, double smallest_norm, double largest_norm) {
            Vectors vectors;
            return vectors.read(x) && vectors.columns == dim && vectors.rows > 0 &&
                   norms_pass(vectors, smallest_norm, largest_norm);
        },
        "x"_a, "dim"_a, "smallest_norm"_a, "largest_norm"_a,
        "Whether x can be used as it is: C-contiguous float32 of shape (n, dim), n >= 1, with norms in range.");
}

}  // namespace lethevec
