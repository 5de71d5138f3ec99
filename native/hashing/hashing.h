// The hash families over batches: owns a frame's tables, shares rows out among threads, and calls the active kernels.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/frame_view.h"
#include "kernels/kernels.h"
#include "memory/aligned.h"

namespace lethevec {

// The tables of a frame, padded and in the form that the kernels read. Drawn by the spec, in Python; immutable.
class Frame {
public:
    // sign: (m - 1 + FIRST_ROUNDS, 2, d) of +-1.
    static Frame hadamard(int64_t d, int64_t m, const float* sign);
    // steps: (m, d, d), each orthogonal.
    static Frame dense(int64_t d, int64_t m, const float* steps);

    FrameView view() const;
    int64_t d() const { return d_; }
    int64_t m() const { return m_; }
    int64_t scratch() const { return scratch_floats(m_, padded(d_)); }

private:
    Frame(int64_t d, int64_t m);
    int64_t d_, m_, p_;
    float scale_;
    AlignedVector<float> entry_, sign_, dense_, dense_t_;
};

// simHash's matrix, (d, bits), rows padded.
class Projection {
public:
    Projection(int64_t d, int64_t bits, const float* matrix);
    int64_t d() const { return d_; }
    int64_t bits() const { return bits_; }
    const float* matrix() const { return matrix_.data(); }

private:
    int64_t d_, bits_;
    AlignedVector<float> matrix_;
};

struct Batch {
    const float* x;
    int64_t n;
    int64_t threads;
};

// The smallest and the largest norm of n rows; both are NaN where any is.
std::pair<double, double> norm_range(const float* x, int64_t d, int64_t n);

void encode_project(const Projection& projection, Batch batch, Output out);
void encode_superbit(const Frame& frame, Batch batch, Output out);
void encode_usr(const Frame& frame, float entry_gain, int64_t steps, Batch batch, Output out);
void encode_progressive(const Frame& frame, const float* weights, int64_t sweeps, Batch batch, Output out);
void decode(const Frame& frame, const float* weights, float scale, const uint8_t* codes, int64_t n, int64_t threads,
            float* x);

}  // namespace lethevec
