// Some rows, as a filter has chosen them: a bit for each. Rows move when others go, so a set is good for one
// arrangement of them, and whoever uses it sees whether that is still the one.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "rows/bits.h"

namespace lethevec {

struct SelectedRows {
    std::vector<uint64_t> bits;
    uint64_t arrangement = 0;

    int64_t count() const { return count_bits(bits.data(), bits.size()); }
    bool has(uint32_t row) const { return bits[row / 64] >> (row % 64) & 1; }
    void set(uint32_t row) { bits[row / 64] |= uint64_t{1} << (row % 64); }
    template <class Visit>
    void each(Visit visit) const {
        for (size_t w = 0; w < bits.size(); ++w)
            for (uint64_t word = bits[w]; word; word &= word - 1)
                visit(static_cast<uint32_t>(64 * w) + static_cast<uint32_t>(__builtin_ctzll(word)));
    }
};

// The rows have moved since.
struct RowsMoved : std::runtime_error {
    RowsMoved() : std::runtime_error("the rows have moved") {}
};

}  // namespace lethevec
