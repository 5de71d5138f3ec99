#include "rows/outlines.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/dispatch.h"
#include "memory/wipe.h"
#include "memory/wiped.h"

namespace lethevec {

namespace {

constexpr int64_t SMALL = 1 << 20;  // bytes that need no large pages
constexpr int64_t PIECE = 1 << 16;  // bytes, about
constexpr int LEAST_SHIFT = 2;      // so that they are a multiple of 64
// Steps that are tried, in units of the largest number: what lies beyond the last whole number is rounded down to it,
// which is worth it where few do.
constexpr float STEPS[] = {0.125f, 0.09375f};
constexpr float MIDDLE = 7.5f, LARGEST = 15.0f;
constexpr float UP = 1.0001f;  // more than any rounding here

int64_t stride_for(int64_t dim) {
    const int64_t bytes = (dim + 1) / 2 + static_cast<int64_t>(sizeof(OutlineNumbers));
    return bytes <= 32 ? 32 : bytes <= 64 ? 64 : (bytes + 15) / 16 * 16;
}

int shift_for(int64_t stride) {
    int shift = LEAST_SHIFT;
    while ((stride << (shift + 1)) <= PIECE) ++shift;
    return shift;
}

}  // namespace

Outlines::Outlines(int64_t dim)
    : dim_(dim), stride_(stride_for(dim)), shift_(shift_for(stride_)), memory_(of_piece() * stride_, SMALL) {}

void Outlines::append(int64_t n) {
    const size_t wanted = static_cast<size_t>((rows_ + n + of_piece() - 1) >> shift_), before = pieces_.size();
    try {
        pieces_.reserve(wanted);
        while (pieces_.size() < wanted) pieces_.push_back(memory_.push());
    } catch (...) {
        for (; pieces_.size() > before; pieces_.pop_back()) memory_.pop();
        throw;
    }
    rows_ += n;
}

void Outlines::set(uint32_t row, const float* x) {
    const Kernels& kernels = active();
    Wiped<float> room(2 * dim_);
    float *whole = room.at(0), *rest = room.at(dim_);
    const float top = kernels.greatest_size(x, dim_);
    OutlineNumbers found{0.0f, std::sqrt(kernels.dot(x, x, dim_)), 0.0f};
    uint8_t* to = place(row);
    float least = 0.0f;
    bool any = false;
    for (float share : STEPS) {
        const float step = top * share, inverse = step > 0.0f ? 1.0f / step : 0.0f;
        constexpr float MAGIC = 12582912.0f;  // adding it rounds to a whole number
        for (int64_t j = 0; j < dim_; ++j) {
            const float place = std::min(std::max(x[j] * inverse + MIDDLE, 0.0f), LARGEST);
            whole[j] = (place + MAGIC) - MAGIC;
            rest[j] = x[j] - (whole[j] - MIDDLE) * step;
        }
        const float error = kernels.dot(rest, rest, dim_);
        if (any && !(error < least)) continue;
        any = true;
        least = error;
        found.step = step;
        found.error = std::sqrt(error) * UP;
        const int64_t half = (dim_ + 1) / 2;
        for (int64_t j = 0; j < half; ++j) to[j] = static_cast<uint8_t>(whole[j]);
        for (int64_t j = half; j < dim_; ++j) to[j - half] |= static_cast<uint8_t>(static_cast<int32_t>(whole[j]) << 4);
    }
    std::memcpy(to + stride_ - sizeof found, &found, sizeof found);
}

void Outlines::remove(uint32_t row) {
    const auto last = static_cast<uint32_t>(rows_ - 1);
    if (row != last) std::memcpy(place(row), place(last), static_cast<size_t>(stride_));
    wipe(place(last), static_cast<size_t>(stride_));
    if (last % of_piece() == 0) {
        pieces_.pop_back();
        memory_.pop();
    }
    rows_ = last;
}

OutlineNumbers Outlines::numbers(const uint8_t* outline) const {
    OutlineNumbers found;
    std::memcpy(&found, outline + stride_ - sizeof found, sizeof found);
    return found;
}

}  // namespace lethevec
