#include "rows/allowed.h"

namespace lethevec {

namespace {

size_t blocks_of(const Rows& rows) { return static_cast<size_t>(rows.chunks() * (rows.chunk_rows() / BLOCK)); }

}  // namespace

Allowed::Allowed(const Rows& rows, int64_t shown, const int64_t* ids, int64_t n)
    : rows_(rows), masks_(blocks_of(rows), 0) {
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t row = rows.find(ids[i]);
        if (row >= shown) continue;
        uint32_t& mask = masks_[row / BLOCK];
        const uint32_t bit = uint32_t{1} << (row % BLOCK);
        count_ += (mask & bit) == 0;
        mask |= bit;
    }
}

std::vector<uint32_t> Allowed::all_masks() const {
    if (!masks_.empty()) return masks_;
    // Rows have no gaps: all blocks but the last few are full.
    const int64_t full = count_ / BLOCK, left = count_ % BLOCK;
    std::vector<uint32_t> masks;
    masks.reserve(blocks_of(rows_));
    masks.assign(static_cast<size_t>(full), UINT32_MAX);
    if (left) masks.push_back((uint32_t{1} << left) - 1);
    masks.resize(blocks_of(rows_), 0);
    return masks;
}

}  // namespace lethevec
