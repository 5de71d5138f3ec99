#include "sources/pivots/rounded.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/dispatch.h"

namespace lethevec {

namespace {

constexpr float MOST = 127.0f, MOST_OF_ROW = 63.0f;
constexpr int32_t SHIFT = 64;
constexpr float UP = 1.0001f;  // more than any rounding in what follows

// A bound on what rounding does to a squared distance, here and in its exact computation, as a share of the two squares
// that it is made of. Far more than it can be, and far less than what whole numbers lose.
float share(int64_t d) { return static_cast<float>(d + 32) * 1e-6f; }
constexpr float TINY = 1e-36f;  // what is lost where numbers underflow

// A square of a norm that is rounded up, rounded down.
float less(float square, int64_t d) { return square * (1.0f - 2.5f * (UP - 1.0f)) * (1.0f - share(d)); }

struct Rounded {
    float step, norm, error;
};

// d numbers less those of the middle, in units of a step; `rest` is for d floats.
template <class Put>
Rounded round(const float* x, const float* middle, int64_t d, float most, float* rest, Put put) {
    for (int64_t j = 0; j < d; ++j) rest[j] = x[j] - middle[j];
    const float top = active().greatest_size(rest, d), step = top / most;
    const float scale = step > 0.0f && std::isfinite(1.0f / step) ? 1.0f / step : 0.0f;
    const float norm = std::sqrt(active().dot(rest, rest, d));
    constexpr float MAGIC = 12582912.0f;  // adding it rounds to a whole number
    for (int64_t j = 0; j < d; ++j) {
        const float whole = (rest[j] * scale + MAGIC) - MAGIC;
        put(j, static_cast<int32_t>(whole));
        rest[j] -= whole * step;
    }
    return {step, norm * UP, std::sqrt(active().dot(rest, rest, d)) * UP};
}

}  // namespace

void RoundedCentres::reserve(int64_t n) {
    const int64_t panels = panels_for(n);
    small_.reserve(panels);
    shifts_.reserve(panels);
    for (Growing<float>* one : {&steps_, &squares_, &norms_, &errors_}) one->reserve(panels);
    middle_.resize(2);  // and room to work in
}

void RoundedCentres::make(const float* rows, int64_t n) {
    reserve(n);
    const int64_t panels = panels_for(n);
    small_.resize(panels);
    shifts_.resize(panels);
    for (Growing<float>* one : {&steps_, &squares_, &norms_, &errors_}) one->resize(panels);
    float *middle = middle_.at(0), *rest = middle_.at(1);
    std::fill_n(middle, d_, 0.0f);
    const float part = 1.0f / static_cast<float>(std::max<int64_t>(1, n));
    for (int64_t c = 0; c < n; ++c)
        for (int64_t j = 0; j < d_; ++j) middle[j] += rows[c * d_ + j] * part;
    for (int64_t c = 0; c < n; ++c) {
        int8_t* to = small_.at(c / MEANS) + 4 * (c % MEANS);
        int32_t total = 0;
        const Rounded made = round(rows + c * d_, middle, d_, MOST, rest, [&](int64_t j, int32_t whole) {
            to[j / 4 * MEANS * 4 + j % 4] = static_cast<int8_t>(whole);
            total += whole;
        });
        shifts_[c] = SHIFT * total;
        steps_[c] = made.step;
        squares_[c] = less(made.norm * made.norm, d_);
        norms_[c] = made.norm;
        errors_[c] = made.error;
    }
    for (int64_t c = n; c < panels * MEANS; ++c) {
        for (int64_t j = 0; j < d_; ++j) small_.at(c / MEANS)[j / 4 * MEANS * 4 + 4 * (c % MEANS) + j % 4] = 0;
        shifts_[c] = 0;
        steps_[c] = norms_[c] = errors_[c] = 0.0f;
        squares_[c] = std::numeric_limits<float>::infinity();
    }
    wipe(rest, static_cast<size_t>(d_) * sizeof(float));
    ready_ = true;
}

RoundedCentres::Rows::Rows(const RoundedCentres& centres, int64_t most)
    : centres_(centres),
      numbers_(static_cast<size_t>(most * 4 * groups(centres.d_)), static_cast<uint8_t>(SHIFT)),
      base_(static_cast<size_t>(most)),
      rest_(static_cast<size_t>(centres.d_)),
      rows_(static_cast<size_t>(most)) {}

void RoundedCentres::Rows::take(const float* z, int64_t n) {
    const int64_t d = centres_.d_;
    n_ = n;
    for (int64_t i = 0; i < n; ++i) {
        uint8_t* numbers = numbers_.data() + i * 4 * groups(d);
        const Rounded made = round(z + i * d, centres_.middle_.at(0), d, MOST_OF_ROW, rest_.data(),
                                   [&](int64_t j, int32_t whole) { numbers[j] = static_cast<uint8_t>(SHIFT + whole); });
        const float size = made.norm + made.error;
        rows_[static_cast<size_t>(i)] = {numbers, 2.0f * made.step, 2.0f * made.error * UP, 2.0f * size * UP};
        base_[static_cast<size_t>(i)] = less(made.norm * made.norm, d) - TINY;
    }
}

void RoundedCentres::Rows::compare(int64_t panel, int64_t panels, const float* squares, float* out) const {
    const int64_t of = groups(centres_.d_), from = panel * MEANS;
    active().centre_bounds({centres_.small_.at(panel), of, centres_.shifts_.at(panel), centres_.steps_.at(panel),
                            squares + from, centres_.norms_.at(panel), centres_.errors_.at(panel), panels},
                           rows_.data(), n_, out);
}

int64_t RoundedCentres::bytes() const {
    int64_t total = small_.bytes() + shifts_.bytes() + middle_.bytes();
    for (const Growing<float>* one : {&steps_, &squares_, &norms_, &errors_}) total += one->bytes();
    return total;
}

void RoundedCentres::raw_memory(std::vector<uint8_t>& all) const {
    small_.raw_memory(all);
    shifts_.raw_memory(all);
    for (const Growing<float>* one : {&steps_, &squares_, &norms_, &errors_, &middle_}) one->raw_memory(all);
}

}  // namespace lethevec
