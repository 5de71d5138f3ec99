// Which rows a search may find: all of them, or some.
#pragma once

#include <cstdint>
#include <vector>

#include "rows/bits.h"
#include "rows/rows.h"

namespace lethevec {

class Allowed {
public:
    // The first rows, which are all that can be seen.
    Allowed(const Rows& rows, int64_t shown) : rows_(rows), shown_(shown), count_(shown) {}
    // Those of them that have these ids. Ids that are not present match nothing.
    Allowed(const Rows& rows, int64_t shown, const int64_t* ids, int64_t n);
    // Those of them whose bit is set in words of 64, as a filter gives them.
    Allowed(const Rows& rows, int64_t shown, const std::vector<uint64_t>& bits);

    // Of so many.
    int64_t shown() const { return shown_; }

    int64_t count() const { return count_; }
    // Every row: then the search is one without a filter, however this was asked for.
    bool all() const { return masks_.empty(); }
    bool has(uint32_t row) const { return masks_.empty() || (masks_[row / BLOCK] >> (row % BLOCK) & 1); }
    // A word for every block of every chunk, with a bit for each row that may be found. Empty where every row may be
    // found.
    const std::vector<uint32_t>& masks() const { return masks_; }
    // The same, written out where it is empty.
    std::vector<uint32_t> all_masks() const;

    // Adds each of them to a list.
    void list(std::vector<uint32_t>& rows) const;

private:
    void forget_full_masks();

    const Rows& rows_;
    const int64_t shown_;
    int64_t count_ = 0;
    std::vector<uint32_t> masks_;
};

}  // namespace lethevec
