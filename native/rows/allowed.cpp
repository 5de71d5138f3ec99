#include "rows/allowed.h"

#include <cstddef>
#include <numeric>

namespace lethevec {

namespace {

size_t blocks_of(const Rows& rows) { return static_cast<size_t>(rows.chunks() * (rows.chunk_rows() / BLOCK)); }

}  // namespace

Allowed::Allowed(const Rows& rows, int64_t shown, const int64_t* ids, int64_t n)
    : rows_(rows), shown_(shown), masks_(blocks_of(rows), 0) {
    for (int64_t i = 0; i < n; ++i) {
        rows.ask_for(ids, i, n);
        const uint32_t row = rows.find(ids[i]);
        if (row >= shown) continue;
        uint32_t& mask = masks_[row / BLOCK];
        const uint32_t bit = uint32_t{1} << (row % BLOCK);
        count_ += (mask & bit) == 0;
        mask |= bit;
    }
    forget_full_masks();
}

Allowed::Allowed(const Rows& rows, int64_t shown, const std::vector<uint64_t>& bits)
    : rows_(rows), shown_(shown), masks_(blocks_of(rows), 0) {
    static_assert(BLOCK == 32, "a word of 64 bits has those of two blocks");
    count_ = count_bits(bits.data(), bits.size());
    for (size_t w = 0; w < bits.size(); ++w) {
        if (2 * w < masks_.size()) masks_[2 * w] = static_cast<uint32_t>(bits[w]);
        if (2 * w + 1 < masks_.size()) masks_[2 * w + 1] = static_cast<uint32_t>(bits[w] >> 32);
    }
    forget_full_masks();
}

void Allowed::forget_full_masks() {
    if (count_ == shown_) masks_.clear();
}

void Allowed::list(std::vector<uint32_t>& rows) const {
    const size_t before = rows.size(), some = static_cast<size_t>(count_);
    rows.resize(before + some + BITS_BEYOND);
    if (masks_.empty())
        std::iota(rows.begin() + static_cast<std::ptrdiff_t>(before), rows.end(), uint32_t{0});
    else
        numbers_of(masks_.data(), masks_.size(), rows.data() + before);
    rows.resize(before + some);
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
