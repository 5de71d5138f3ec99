// The cells of the source "pivots" that hold rows, by falling key and then by rising id of the pivot. Mirrors
// `cell_order` of the spec, but only as far as it is asked for.
#pragma once

#include <cstdint>

#include "memory/arena.h"
#include "sources/pivots/cells.h"
#include "sources/pivots/centres.h"

namespace lethevec {

class CellOrder {
public:
    // `keys` has one for each cell. The best `probed` will be asked for, and about `first` of all will be in their
    // order.
    CellOrder(const float* keys, const Cells& cells, const Centres& centres, int64_t probed, int64_t first,
              Arena& arena);
    int64_t size() const { return cells_.filled(); }
    // More will be asked for than was said: `probed`. Those up to `used` were, in their order.
    void widen(int64_t used, int64_t probed);
    // The i-th best.
    uint32_t at(int64_t i) {
        while (i >= sorted_) extend();
        return static_cast<uint32_t>(order_[static_cast<size_t>(i)]);
    }
    // One of the best `probed`, of which i is the number of one: from the first that was not asked for in its order, in
    // any.
    uint32_t any(int64_t i) { return i < count() ? static_cast<uint32_t>(order_[static_cast<size_t>(i)]) : at(i); }

private:
    int64_t count() const { return static_cast<int64_t>(order_.size()); }
    void extend();
    void choose_and_sort();
    void choose();
    int64_t keep_best(uint32_t* chosen, int64_t count);
    void sort_first();
    void sort(int64_t n);
    uint64_t number_of(float key, uint32_t c) const;

    const float* keys_;
    const Cells& cells_;
    const Centres& centres_;
    int64_t probed_, first_;
    int64_t wanted_;
    Arena& arena_;
    ArenaList<uint64_t> order_;  // of the best cells: the key turned round, then the cell
    int64_t sorted_ = 0;         // how many of them are where they belong
};

}  // namespace lethevec
