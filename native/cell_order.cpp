#include "cell_order.h"

#include <algorithm>

#include "dispatch.h"

namespace lethevec {

namespace {

constexpr int64_t FEW = 256;  // up to here comparing all with all is faster than sorting

}  // namespace

CellOrder::CellOrder(const float* keys, const Cells& cells, const Centres& centres, int64_t likely, Arena& arena)
    : keys_(keys), cells_(cells), centres_(centres), arena_(arena), order_(arena) {
    make(likely);
}

void CellOrder::make(int64_t likely) {
    const int64_t n = cells_.count();
    uint32_t* chosen = arena_.take<uint32_t>(static_cast<size_t>(n));
    int64_t count = 0;
    if (likely < size()) {
        count = active().choose_cells(keys_, cells_.sizes(), n, likely, chosen);
    } else {
        for (int64_t c = 0; c < n; ++c) {
            chosen[static_cast<size_t>(count)] = static_cast<uint32_t>(c);
            count += cells_.size(c) > 0;
        }
    }
    order_.resize(static_cast<size_t>(count));
    if (count <= FEW) {
        uint64_t numbers[FEW];
        for (int64_t i = 0; i < count; ++i) numbers[i] = number_of(chosen[static_cast<size_t>(i)]);
        active().sort_numbers(numbers, count, order_.data());
    } else {
        for (int64_t i = 0; i < count; ++i) order_[static_cast<size_t>(i)] = number_of(chosen[static_cast<size_t>(i)]);
        std::sort(order_.data(), order_.data() + count);
    }
    sort_ties();
}

// The key so that larger ones come first as whole numbers, then the cell.
uint64_t CellOrder::number_of(uint32_t c) const {
    uint32_t bits;
    const float key = keys_[c] + 0.0f;  // the two zeros are one
    __builtin_memcpy(&bits, &key, sizeof bits);
    bits = bits >> 31 ? bits : ~bits & 0x7fffffffu;
    return static_cast<uint64_t>(bits) << 32 | c;
}

void CellOrder::sort_ties() {
    const auto by_id = [&](uint64_t a, uint64_t b) {
        return centres_.id(static_cast<uint32_t>(a)) < centres_.id(static_cast<uint32_t>(b));
    };
    for (size_t from = 0; from + 1 < order_.size();) {
        size_t to = from + 1;
        while (to < order_.size() && order_[to] >> 32 == order_[from] >> 32) ++to;
        if (to - from > 1) std::sort(order_.data() + from, order_.data() + to, by_id);
        from = to;
    }
}

}  // namespace lethevec
