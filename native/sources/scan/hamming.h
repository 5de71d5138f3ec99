// Hamming ranking of all records, for several queries in one pass over their codes.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sources/source.h"

namespace lethevec {

// The rows with the fewest differing bits from a query, ties included: all that may still be among the `want` nearest.
class Reservoir {
public:
    explicit Reservoir(int64_t want) : want_(want) {}
    // Rows that differ in more bits need not be offered.
    uint32_t limit() const { return limit_; }
    // `first` is added to their numbers.
    void offer(const HammingFound& found, uint32_t first);
    // Leaves the `want` nearest and their ties.
    void finish() { tighten(); }

    std::vector<uint32_t> rows, bits;

private:
    void tighten();
    int64_t want_;
    int64_t full_ = 2 * want_ + 64;
    uint32_t limit_ = std::numeric_limits<uint32_t>::max();
    std::vector<uint32_t> order_;
};

// The candidates of n queries, for which codes are read once.
SearchWork nearest_by_hamming(const Scope& scope, Sought* sought, int64_t n);

// The rows that differ from a query in at most `within` bits.
SearchWork within_hamming(const Scope& scope, float within, Sought& sought);

}  // namespace lethevec
