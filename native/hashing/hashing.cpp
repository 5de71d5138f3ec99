#include "hashing/hashing.h"

#include <cmath>
#include <cstring>

#include "kernels/dispatch.h"
#include "memory/wiped.h"
#include "parallel.h"

namespace lethevec {

namespace {

// Below this much work a thread costs more to start than it saves.
int64_t grain(int64_t floats_per_row) { return std::max<int64_t>(1, 40000 / std::max<int64_t>(1, floats_per_row)); }

Output rows_from(Output out, int64_t begin) {
    const int64_t bytes = (out.bits + 7) / 8;
    return {out.values ? out.values + begin * out.bits : nullptr, out.codes ? out.codes + begin * bytes : nullptr,
            out.bits, out.alignment ? out.alignment + begin : nullptr};
}

// Calls work(scratch) with so many zeros: on the stack where they are few, as a single vector should not wait for
// memory.
template <class Work>
void with_scratch(int64_t floats, Work work) {
    constexpr int64_t FEW = 2048;
    if (floats <= FEW) {
        alignas(64) float scratch[FEW];
        std::memset(scratch, 0, static_cast<size_t>(floats) * sizeof(float));
        work(scratch);
    } else {
        AlignedVector<float> scratch(static_cast<size_t>(floats));
        work(scratch.data());
    }
}

template <class Kernel>
void encode(const Frame& frame, Batch batch, Output out, int64_t work_per_row, Kernel kernel) {
    parallel_for(batch.n, batch.threads, grain(work_per_row), [&](int64_t begin, int64_t end) {
        with_scratch(frame.scratch(), [&](float* scratch) {
            kernel(batch.x + begin * frame.d(), end - begin, rows_from(out, begin), scratch);
        });
    });
}

}  // namespace

Frame::Frame(int64_t d, int64_t m) : d_(d), m_(m), p_(1) {
    while (2 * p_ <= d) p_ *= 2;
    scale_ = static_cast<float>(1.0 / std::sqrt(static_cast<double>(p_)));
}

Frame Frame::hadamard(int64_t d, int64_t m, const float* sign) {
    Frame frame(d, m);
    const int64_t tables = 2 * (m - 1 + FIRST_ROUNDS), dp = padded(d);
    frame.sign_.assign(static_cast<size_t>(tables * dp), 0.0f);
    frame.entry_ = frame.sign_;
    for (int64_t t = 0; t < tables; ++t)
        for (int64_t j = 0; j < d; ++j) {
            const float s = sign[t * d + j];
            frame.sign_[static_cast<size_t>(t * dp + j)] = s;
            frame.entry_[static_cast<size_t>(t * dp + j)] = s * frame.scale_;
        }
    return frame;
}

Frame Frame::dense(int64_t d, int64_t m, const float* steps) {
    Frame frame(d, m);
    const int64_t dp = padded(d);
    frame.dense_.assign(static_cast<size_t>(m * d * dp), 0.0f);
    frame.dense_t_ = frame.dense_;
    for (int64_t i = 0; i < m; ++i)
        for (int64_t r = 0; r < d; ++r)
            for (int64_t c = 0; c < d; ++c) {
                const float s = steps[(i * d + r) * d + c];
                frame.dense_[static_cast<size_t>((i * d + r) * dp + c)] = s;
                frame.dense_t_[static_cast<size_t>((i * d + c) * dp + r)] = s;
            }
    return frame;
}

FrameView Frame::view() const {
    const bool is_dense = !dense_.empty();
    return {d_,
            padded(d_),
            m_,
            p_,
            scale_,
            entry_.data(),
            sign_.data(),
            is_dense ? dense_.data() : nullptr,
            is_dense ? dense_t_.data() : nullptr};
}

Projection::Projection(int64_t d, int64_t bits, const float* matrix) : d_(d), bits_(bits) {
    const int64_t width = padded(bits);
    matrix_.assign(static_cast<size_t>(d * width), 0.0f);
    for (int64_t j = 0; j < d; ++j)
        std::memcpy(matrix_.data() + j * width, matrix + j * bits, static_cast<size_t>(bits) * sizeof(float));
}

std::pair<double, double> norm_range(const float* x, int64_t d, int64_t n) {
    constexpr int64_t GROUP = 256;
    const Kernels& kernels = active();
    Wiped<double> norms(GROUP);
    double low = INFINITY, high = 0.0;
    for (int64_t at = 0; at < n; at += GROUP) {
        const int64_t count = std::min(GROUP, n - at);
        kernels.norms(x + at * d, d, count, norms.at(0));
        for (int64_t i = 0; i < count; ++i) {
            const double norm = *norms.at(i);
            if (std::isnan(norm)) return {norm, norm};
            low = std::min(low, norm);
            high = std::max(high, norm);
        }
    }
    return {low, high};
}

void encode_project(const Projection& projection, Batch batch, Output out) {
    const Kernels& kernels = active();
    parallel_for(batch.n, batch.threads, grain(projection.d() * out.bits / 8), [&](int64_t begin, int64_t end) {
        AlignedVector<float> scratch(static_cast<size_t>(padded(out.bits)));
        kernels.project(projection.matrix(), projection.d(), batch.x + begin * projection.d(), end - begin,
                        rows_from(out, begin), scratch.data());
    });
}

void encode_superbit(const Frame& frame, Batch batch, Output out) {
    const Kernels& kernels = active();
    const FrameView view = frame.view();
    encode(frame, batch, out, out.bits, [&](const float* x, int64_t n, Output rows, float* scratch) {
        kernels.superbit(view, x, n, rows, scratch);
    });
}

void encode_usr(const Frame& frame, float entry_gain, int64_t steps, Batch batch, Output out) {
    const Kernels& kernels = active();
    const FrameView view = frame.view();
    encode(frame, batch, out, 4 * steps * out.bits, [&](const float* x, int64_t n, Output rows, float* scratch) {
        kernels.usr(view, entry_gain, steps, x, n, rows, scratch);
    });
}

void encode_progressive(const Frame& frame, const float* weights, int64_t sweeps, Batch batch, Output out) {
    const Kernels& kernels = active();
    const FrameView view = frame.view();
    encode(frame, batch, out, (1 + sweeps) * out.bits, [&](const float* x, int64_t n, Output rows, float* scratch) {
        kernels.progressive(view, weights, sweeps, x, n, rows, scratch);
    });
}

void decode(const Frame& frame, const float* weights, float scale, const uint8_t* codes, int64_t n, int64_t threads,
            float* x) {
    const Kernels& kernels = active();
    const FrameView view = frame.view();
    const int64_t bytes = (frame.m() * frame.d() + 7) / 8;
    parallel_for(n, threads, grain(frame.m() * frame.d()), [&](int64_t begin, int64_t end) {
        AlignedVector<float> scratch(static_cast<size_t>(frame.scratch()));
        kernels.decode(view, weights, scale, codes + begin * bytes, end - begin, x + begin * frame.d(), scratch.data());
    });
}

}  // namespace lethevec
