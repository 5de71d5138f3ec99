#include "sources/pivots/means.h"

#include <algorithm>
#include <cmath>

#include "kernels/dispatch.h"
#include "memory/wiped.h"
#include "sources/doublings.h"

namespace lethevec {

namespace {

// See the spec for these.
constexpr int UNIT_BITS = 24;
constexpr double MOST_UNITS = 2147483648.0;
constexpr double MEAN_WEIGHT = 127.0, QUERY_WEIGHT = 63.0;
constexpr double VARIANCE_SHARE = 0.25, BEYOND_MEAN = 1.5, LN2 = 0.6931471805599453;

constexpr double ROUND = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to whole numbers, half to even
constexpr int32_t SHIFT = 64;                 // makes the query's numbers positive

int64_t blocks_for(int64_t n) { return (n + MEANS - 1) / MEANS; }

}  // namespace

void Means::append(double norm) {
    const int64_t c = size();
    sums_.reserve(c + 1);
    square_sums_.reserve(c + 1);
    small_.reserve(blocks_for(c + 1));
    shifts_.reserve(c + 1);
    steps_.reserve(c + 1);
    penalties_.reserve(c + 1);
    exponents_.resize(c + 1);
    sums_.resize(c + 1);
    square_sums_.resize(c + 1);
    small_.resize(blocks_for(c + 1));
    shifts_.resize(c + 1);
    steps_.resize(c + 1);
    penalties_.resize(c + 1);
    int exponent = 0;
    if (static_cast<float>(norm) > 0.0f) std::frexp(static_cast<float>(norm), &exponent);
    exponents_[c] = exponent;
}

void Means::remove(int64_t c) {
    const int64_t last = size() - 1;
    int8_t *to = small_.at(c / MEANS), *from = small_.at(last / MEANS);
    for (int64_t j = 0; j < 4 * groups(d_); ++j) {
        to[place(c, j)] = from[place(last, j)];
        from[place(last, j)] = 0;
    }
    sums_.remove(c);
    square_sums_.remove(c);
    exponents_.remove(c);
    shifts_.remove(c);
    steps_.remove(c);
    penalties_.remove(c);
    small_.resize(blocks_for(last));
}

void Means::add_units(int64_t c, const float* z, int64_t sign, int64_t* sum) const {
    const double scale = std::ldexp(1.0, UNIT_BITS - exponents_[c]);
    for (int64_t j = 0; j < d_; ++j) {
        const double units = static_cast<double>(z[j]) * scale;
        const double rounded = (std::min(std::max(units, -MOST_UNITS), MOST_UNITS) + ROUND) - ROUND;
        sum[j] += sign * static_cast<int64_t>(rounded);
    }
}

void Means::take(int64_t c, const float* z, int64_t sign) {
    add_units(c, z, sign, sums_.at(c));
    double norm = 0.0;
    active().norms(z, d_, 1, &norm);
    const double units = norm * norm * std::ldexp(1.0, UNIT_BITS - 2 * exponents_[c]);
    square_sums_[c] += sign * static_cast<int64_t>((std::min(units, MOST_UNITS) + ROUND) - ROUND);
}

void Means::mean_of(int64_t c, const int64_t* sum, int64_t count, float* out) const {
    if (count == 0) {
        std::fill_n(out, d_, 0.0f);
        return;
    }
    const double unit = std::ldexp(1.0, exponents_[c] - UNIT_BITS), n = static_cast<double>(count);
    for (int64_t j = 0; j < d_; ++j) out[j] = static_cast<float>(static_cast<double>(sum[j]) / n * unit);
}

void Means::refresh(int64_t c, int64_t count, const Frame& frame, float* scratch) {
    float *values = scratch, *plain = values + padded(d_), *rest = plain + padded(d_);
    int8_t* small = small_.at(c / MEANS);
    mean(c, count, plain);
    active().superbit(frame.view(), plain, 1, {values, nullptr, d_, nullptr}, rest);
    double top = 0.0, norm = 0.0;
    for (int64_t j = 0; j < d_; ++j) top = std::max(top, std::fabs(static_cast<double>(values[j])));
    active().norms(values, d_, 1, &norm);
    const double scale = top > 0.0 ? MEAN_WEIGHT / top : 0.0;
    int32_t total = 0;
    for (int64_t j = 0; j < d_; ++j) {
        const auto size = static_cast<int32_t>(std::fabs(static_cast<double>(values[j])) * scale + 0.5);
        const int32_t w = values[j] < 0.0f ? -size : size;
        small[place(c, j)] = static_cast<int8_t>(w);
        total += w;
    }
    shifts_[c] = SHIFT * total;
    steps_[c] = static_cast<float>(top / MEAN_WEIGHT);
    const double square = norm * norm, members = static_cast<double>(std::max<int64_t>(1, count));
    const double mean_square =
        static_cast<double>(square_sums_[c]) / members * std::ldexp(1.0, 2 * exponents_[c] - UNIT_BITS);
    const double variance = std::max(0.0, mean_square - square);
    const double beyond = 2.0 * LN2 * doublings(members) * variance / static_cast<double>(d_);
    penalties_[c] =
        static_cast<float>(ip_ ? 0.0 - BEYOND_MEAN * std::sqrt(beyond) : square + VARIANCE_SHARE * variance);
}

void Means::keys(const float* values, float norm, float* keys) const {
    const int64_t fours = groups(d_);
    Wiped<uint8_t> query(4 * fours);
    std::fill_n(query.at(0), 4 * fours, static_cast<uint8_t>(SHIFT));
    const auto top = static_cast<double>(active().greatest_size(values, d_));
    Wiped<int32_t> whole(d_);
    active().whole_sizes(values, d_, top > 0.0 ? QUERY_WEIGHT / top : 0.0, whole.at(0));
    // Without a branch: signs cannot be predicted.
    for (int64_t j = 0; j < d_; ++j) {
        const int32_t negative = -static_cast<int32_t>(values[j] < 0.0f);
        *query.at(j) = static_cast<uint8_t>(SHIFT + ((*whole.at(j) ^ negative) - negative));
    }
    const auto step = static_cast<float>(top / QUERY_WEIGHT);
    // To the kernel a penalty is a square, and its weight the share of it that counts.
    active().mean_keys({query.at(0), fours, ip_ ? step : 2.0f * step, ip_ ? norm : 1.0f},
                       {small_.at(0), shifts_.at(0), steps_.at(0), penalties_.at(0), size()}, keys);
}

int64_t Means::bytes() const {
    return sums_.bytes() + exponents_.bytes() + small_.bytes() + shifts_.bytes() + steps_.bytes() + penalties_.bytes() +
           square_sums_.bytes();
}

void Means::raw_memory(std::vector<uint8_t>& all) const {
    sums_.raw_memory(all);
    square_sums_.raw_memory(all);
    exponents_.raw_memory(all);
    small_.raw_memory(all);
    shifts_.raw_memory(all);
    steps_.raw_memory(all);
    penalties_.raw_memory(all);
}

}  // namespace lethevec
