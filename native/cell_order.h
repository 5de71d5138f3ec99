// The cells of the source "pivots" that hold rows, by falling key and then by rising id of the pivot. Mirrors `cell_order` of
// the spec, but only as far as it is asked for.
#pragma once

#include <cstdint>

#include "arena.h"
#include "cells.h"
#include "centres.h"

namespace lethevec {

class CellOrder {
public:
    // `keys` has one for each cell; about `likely` of the cells will be asked for.
    CellOrder(const float* keys, const Cells& cells, const Centres& centres, int64_t likely, Arena& arena);
    int64_t size() const { return cells_.filled(); }
    uint32_t at(int64_t i) {
        if (i >= static_cast<int64_t>(order_.size())) make(size());
        return static_cast<uint32_t>(order_[static_cast<size_t>(i)]);
    }

private:
    void make(int64_t likely);
    uint64_t number_of(uint32_t c) const;
    void sort_ties();

    const float* keys_;
    const Cells& cells_;
    const Centres& centres_;
    Arena& arena_;
    ArenaList<uint64_t> order_;  // the key turned round, then the cell
};

}  // namespace lethevec
