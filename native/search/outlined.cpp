#include "search/outlined.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "memory/wipe.h"

namespace lethevec {

namespace {

constexpr int64_t LINE = 64;
constexpr float MOST = 127.0f;
constexpr float UP = 1.0001f;  // more than any rounding in what is multiplied by it

// A bound on what rounding does to a product of two vectors, here and in its exact computation, as a share of their
// lengths. Far more than it can be, and far less than what outlines lose.
float share(int64_t d) { return static_cast<float>(d + 32) * 1e-6f; }

}  // namespace

OutlinedQuery::OutlinedQuery(const Outlines& outlines, Metric metric, const float* query, int64_t d)
    : outlines_(outlines), metric_(metric), share_(share(d)) {
    const Kernels& kernels = active();
    const auto padded = static_cast<size_t>((outlines.stride() + LINE - 1) / LINE * LINE);
    lower_.assign(padded, int8_t{0});
    upper_.assign(padded, int8_t{0});
    Wiped<float> rest(d);
    const float top = kernels.greatest_size(query, d), step = top / MOST, scale = step > 0.0f ? 1.0f / step : 0.0f;
    const int64_t half = (d + 1) / 2;
    constexpr float MAGIC = 12582912.0f;  // adding it rounds to a whole number
    for (int64_t j = 0; j < d; ++j) {
        const float whole = std::min(std::max((query[j] * scale + MAGIC) - MAGIC, -MOST), MOST);
        *rest.at(j) = query[j] - whole * step;
        const auto number = static_cast<int8_t>(whole);
        total_ += number;
        (j < half ? lower_[static_cast<size_t>(j)] : upper_[static_cast<size_t>(j - half)]) = number;
    }
    half_step_ = 0.5f * step;
    size_ = std::sqrt(kernels.dot(query, query, d));
    error_ = std::sqrt(kernels.dot(rest.at(0), rest.at(0), d)) * UP;
}

OutlinedQuery::~OutlinedQuery() {
    float* numbers[] = {&half_step_, &size_, &error_};
    for (float* number : numbers) wipe(number, sizeof *number);
    wipe(&total_, sizeof total_);
    wipe(products_.data(), products_.size() * sizeof(int32_t));
}

void OutlinedQuery::bounds(const uint32_t* rows, int64_t n, float* out) {
    const auto most = static_cast<size_t>(std::min(n, TOGETHER));
    places_.resize(most);
    products_.resize(most);
    const OutlineQuery query = {lower_.data(), upper_.data(), outlines_.stride()};
    for (int64_t from = 0; from < n; from += TOGETHER) {
        const int64_t some = std::min(TOGETHER, n - from);
        for (int64_t i = 0; i < some; ++i) places_[static_cast<size_t>(i)] = outlines_.at(rows[from + i]);
        active().outline_products(query, places_.data(), some, products_.data());
        for (int64_t i = 0; i < some; ++i)
            out[from + i] =
                bound(outlines_.numbers(places_[static_cast<size_t>(i)]), products_[static_cast<size_t>(i)]);
    }
}

// With q and x for the vectors, and q' and x' for what whole numbers stand for:
// <q, x> = <q', x'> + <q, x - x'> + <q - q', x'>, and |x'| is at most |x| + |x - x'|.
float OutlinedQuery::bound(const OutlineNumbers& outline, int32_t product) const {
    const float size = outline.size, whole = static_cast<float>(2 * product - 15 * total_);
    const float lost = (size_ * outline.error + error_ * (size + outline.error)) * UP + share_ * size_ * size;
    const float most = half_step_ * outline.step * whole + lost;
    switch (metric_) {
        case Metric::ip: return -most;
        case Metric::cosine:
            return size > 0.0f ? 1.0f - most / size - 2.0f * share_ : -std::numeric_limits<float>::max();
        case Metric::l2: break;
    }
    const float squares = size_ * size_ + size * size;
    return squares - 2.0f * most - 4.0f * share_ * squares;
}

}  // namespace lethevec
