// The means of the cells of the source "pivots": exact sums in whole numbers, so that taking a record in and letting it
// go again leaves no trace, and from them the small numbers that a query compares itself with.
#pragma once

#include <cstdint>
#include <vector>

#include "hashing/hashing.h"
#include "kernels/kernels.h"
#include "memory/growing.h"
#include "query/prepared.h"

namespace lethevec {

class Means {
public:
    Means(int64_t d, Metric metric)
        : d_(d),
          ip_(metric == Metric::ip),
          sums_(d),
          square_sums_(1),
          exponents_(1),
          small_(groups(d) * MEANS * 4),
          shifts_(1),
          steps_(1),
          penalties_(1) {}

    static int64_t groups(int64_t d) { return (d + 3) / 4; }
    int64_t size() const { return exponents_.size(); }

    // A new last sum, zero, of numbers about as large as a vector of this norm. May throw, changing nothing.
    void append(double norm);
    void remove(int64_t c);
    void add(int64_t c, const float* z) { take(c, z, 1); }
    void subtract(int64_t c, const float* z) { take(c, z, -1); }
    // The mean of `count` records, into d floats.
    void mean(int64_t c, int64_t count, float* out) const { mean_of(c, sums_.at(c), count, out); }
    // The same for another sum of d numbers in the units of sum c.
    void add_units(int64_t c, const float* z, int64_t sign, int64_t* sum) const;
    void mean_of(int64_t c, const int64_t* sum, int64_t count, float* out) const;
    // Brings the small numbers up to date; `scratch` has d + frame.scratch() floats and more (see scratch()).
    void refresh(int64_t c, int64_t count, const Frame& frame, float* scratch);
    static int64_t scratch(const Frame& frame) { return frame.scratch() + 2 * padded(frame.d()); }

    // How near each cell is to a query of d values, rotated as the means are, and of this norm; larger is nearer.
    void keys(const float* values, float norm, float* keys) const;

    int64_t bytes() const;
    void raw_memory(std::vector<uint8_t>& all) const;
    // For tests.
    const int64_t* sums(int64_t c) const { return sums_.at(c); }
    int8_t small(int64_t c, int64_t j) const { return small_.at(c / MEANS)[place(c, j)]; }
    float step(int64_t c) const { return steps_[c]; }
    int64_t square_sum(int64_t c) const { return square_sums_[c]; }
    float penalty(int64_t c) const { return penalties_[c]; }

private:
    void take(int64_t c, const float* z, int64_t sign);
    static int64_t place(int64_t c, int64_t j) { return ((j / 4) * MEANS + c % MEANS) * 4 + j % 4; }

    int64_t d_;
    bool ip_;
    Growing<int64_t> sums_, square_sums_;  // of vectors, and of their squared norms
    Growing<int32_t> exponents_;           // with E = exponents_[c], a unit of them is 2^(E - 24) and 2^(2E - 24)
    Growing<int8_t> small_;                // (size / MEANS, groups, MEANS, 4)
    Growing<int32_t> shifts_;              // what the shift of the query's numbers adds to each score
    Growing<float> steps_, penalties_;
};

}  // namespace lethevec
