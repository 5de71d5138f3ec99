// The pivots of the source "graph", and which of them are nearest to a vector: exactly.
//
// Matrix products with bounds on their rounding errors say which pivots can be among the nearest, and only those are
// handed on to be measured. So how products round, on whatever machine, changes nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/growing.h"
#include "memory/wiped.h"

namespace lethevec {

class PivotSet {
public:
    explicit PivotSet(int64_t d) : d_(d), panels_(16 * d), squares_(1), vertices_(1) {}

    int64_t size() const { return vertices_.size(); }
    uint32_t vertex(int64_t i) const { return vertices_[i]; }

    // A new last pivot. May throw, changing nothing.
    void append(uint32_t vertex, const float* z);
    // The last one takes the place of pivot i; returns which vertex that is.
    uint32_t remove(int64_t i);
    void rename(int64_t i, uint32_t vertex) { vertices_[i] = vertex; }

    // For each of n vectors a superset of the `wanted` nearest pivots that are not marked, or of all there are.
    template <class Visit>
    void nearest(const float* z, int64_t n, int64_t wanted, const uint8_t* marked, Visit visit) const {
        WipedVector<float> products;
        WipedVector<float> uppers;
        std::vector<uint32_t> found;
        for (int64_t from = 0; from < n; from += TOGETHER) {
            const int64_t some = n - from < TOGETHER ? n - from : TOGETHER;
            multiply(z + from * d_, some, products);
            for (int64_t i = 0; i < some; ++i) {
                choose(z + (from + i) * d_, products.data() + i * width(), wanted, marked, uppers, found);
                visit(from + i, found);
            }
        }
    }

    int64_t bytes() const { return panels_.bytes() + squares_.bytes() + vertices_.bytes(); }
    void raw_memory(std::vector<uint8_t>& all) const;

private:
    static constexpr int64_t TOGETHER = 48;
    int64_t width() const { return panels_.size() * 16; }
    void multiply(const float* z, int64_t n, WipedVector<float>& products) const;
    void choose(const float* z, float* products, int64_t wanted, const uint8_t* marked, WipedVector<float>& uppers,
                std::vector<uint32_t>& found) const;

    int64_t d_;
    Growing<float> panels_;  // (size / PANEL, d, PANEL)
    Growing<float> squares_;
    Growing<uint32_t> vertices_;
};

}  // namespace lethevec
