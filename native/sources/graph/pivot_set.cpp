#include "sources/graph/pivot_set.h"

#include <algorithm>
#include <limits>

#include "kernels/dispatch.h"

namespace lethevec {

namespace {

int64_t panels_for(int64_t n) { return (n + PANEL - 1) / PANEL; }

// A bound on the error of |z|^2 + |p|^2 - 2 <z, p> as a share of |z|^2 + |p|^2, that of squared_distance included, and
// what is lost where numbers underflow.
float error(int64_t d) { return static_cast<float>(d + 32) * 2.4e-7f; }
constexpr float TINY = 1e-36f;

}  // namespace

void PivotSet::append(uint32_t vertex, const float* z) {
    const int64_t i = size();
    vertices_.reserve(i + 1);
    squares_.reserve(i + 1);
    panels_.resize(panels_for(i + 1));
    vertices_.resize(i + 1);
    squares_.resize(i + 1);
    vertices_[i] = vertex;
    squares_[i] = active().dot(z, z, d_);
    float* panel = panels_.at(i / PANEL);
    for (int64_t j = 0; j < d_; ++j) panel[j * PANEL + i % PANEL] = z[j];
}

uint32_t PivotSet::remove(int64_t i) {
    const int64_t last = size() - 1;
    float *to = panels_.at(i / PANEL), *from = panels_.at(last / PANEL);
    for (int64_t j = 0; j < d_; ++j) {
        to[j * PANEL + i % PANEL] = from[j * PANEL + last % PANEL];
        from[j * PANEL + last % PANEL] = 0.0f;
    }
    const uint32_t moved = vertices_[last];
    vertices_.remove(i);
    squares_.remove(i);
    panels_.resize(panels_for(last));
    return moved;
}

void PivotSet::multiply(const float* z, int64_t n, WipedVector<float>& products) const {
    products.resize_unfilled(static_cast<size_t>(n * width()));
    active().products(panels_.at(0), panels_.size(), d_, z, n, products.data());
}

void PivotSet::choose(const float* z, float* products, int64_t wanted, const uint8_t* marked,
                      WipedVector<float>& uppers, std::vector<uint32_t>& found) const {
    const float share = error(d_), slack = share * active().dot(z, z, d_) + TINY;
    const int64_t count = size();
    found.clear();
    float limit = std::numeric_limits<float>::infinity();
    uppers.clear();
    uppers.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
        if (!marked || !marked[vertices_[i]]) uppers.push_back(squares_[i] * (1.0f + share) - 2.0f * products[i]);
    if (static_cast<int64_t>(uppers.size()) > wanted) {
        std::nth_element(uppers.begin(), uppers.begin() + wanted - 1, uppers.end());
        limit = uppers[static_cast<size_t>(wanted - 1)] + 2.0f * slack;
    }
    for (int64_t i = 0; i < count; ++i)
        if (!(squares_[i] * (1.0f - share) - 2.0f * products[i] > limit) && (!marked || !marked[vertices_[i]]))
            found.push_back(vertices_[i]);
}

void PivotSet::raw_memory(std::vector<uint8_t>& all) const {
    panels_.raw_memory(all);
    squares_.raw_memory(all);
    vertices_.raw_memory(all);
}

}  // namespace lethevec
