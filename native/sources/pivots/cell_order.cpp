#include "sources/pivots/cell_order.h"

#include <algorithm>

#include "kernels/dispatch.h"

namespace lethevec {

namespace {

constexpr int64_t FEW = 256;  // up to here comparing all with all is faster than sorting

}  // namespace

CellOrder::CellOrder(const float* keys, const Cells& cells, const Centres& centres, int64_t probed, int64_t first,
                     Arena& arena)
    : keys_(keys),
      cells_(cells),
      centres_(centres),
      probed_(std::min(probed, size())),
      first_(first),
      wanted_(std::min(std::max(probed_, first), size())),
      arena_(arena),
      order_(arena) {
    choose_and_sort();
}

void CellOrder::widen(int64_t used, int64_t probed) {
    probed_ = std::min(probed, size());
    first_ = used;
    wanted_ = std::max(probed_, first_);
    choose_and_sort();
}

void CellOrder::choose_and_sort() {
    choose();
    // Those after the first need no order, but which ones they are must be certain: it is not where there are too many.
    if (count() == probed_ && first_ < probed_)
        sort_first();
    else
        sort(count());
}

// Where those in their order did not do: all that were chosen, or more.
void CellOrder::extend() {
    if (sorted_ == count()) {
        wanted_ = std::min(4 * wanted_, size());
        choose();
    }
    sort(count());
}

void CellOrder::choose() {
    const int64_t n = cells_.count();
    uint32_t* chosen = arena_.take<uint32_t>(static_cast<size_t>(n));
    int64_t count = 0;
    if (wanted_ < size()) {
        count = active().choose_cells(keys_, cells_.sizes(), n, wanted_, chosen);
        if (count > wanted_) count = keep_best(chosen, count);
    } else {
        for (int64_t c = 0; c < n; ++c) {
            chosen[static_cast<size_t>(count)] = static_cast<uint32_t>(c);
            count += cells_.size(c) > 0;
        }
    }
    order_.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) order_[static_cast<size_t>(i)] = number_of(keys_[chosen[i]], chosen[i]);
}

// Of some cells the best `wanted`, and those with the same key as the last of them; returns how many.
int64_t CellOrder::keep_best(uint32_t* chosen, int64_t count) {
    float* keys = arena_.take<float>(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) keys[i] = keys_[chosen[i]];
    const float least = active().largest(keys, count, wanted_);
    int64_t kept = 0;
    for (int64_t i = 0; i < count; ++i) {
        chosen[kept] = chosen[i];
        kept += keys[i] >= least;
    }
    return kept;
}

// The best `first`, and those with the same key as the last of them, come to the front.
void CellOrder::sort_first() {
    const auto n = static_cast<size_t>(count());
    float* keys = arena_.take<float>(n);
    for (size_t i = 0; i < n; ++i) keys[i] = keys_[static_cast<uint32_t>(order_[i])];
    const uint64_t last = number_of(active().largest(keys, count(), first_), UINT32_MAX);
    // Without a branch: which ones they are cannot be predicted.
    uint64_t* others = arena_.take<uint64_t>(n);
    size_t front = 0, behind = 0;
    for (size_t i = 0; i < n; ++i) {
        const uint64_t number = order_[i];
        order_[front] = others[behind] = number;
        front += number <= last;
        behind += number > last;
    }
    std::copy_n(others, behind, order_.data() + front);
    sort(static_cast<int64_t>(front));
}

// The first n, which are the best n.
void CellOrder::sort(int64_t n) {
    uint64_t *begin = order_.data(), *end = begin + n;
    if (n <= FEW) {
        uint64_t numbers[FEW];
        std::copy(begin, end, numbers);
        active().sort_numbers(numbers, n, begin);
    } else {
        std::sort(begin, end);
    }
    const auto by_id = [&](uint64_t a, uint64_t b) {
        return centres_.id(static_cast<uint32_t>(a)) < centres_.id(static_cast<uint32_t>(b));
    };
    for (uint64_t *from = begin, *to = begin; from < end; from = to) {
        while (to < end && *to >> 32 == *from >> 32) ++to;
        if (to - from > 1) std::sort(from, to, by_id);
    }
    sorted_ = n;
}

// The key so that larger ones come first as whole numbers, then the cell.
uint64_t CellOrder::number_of(float key, uint32_t c) const {
    uint32_t bits;
    key += 0.0f;  // the two zeros are one
    __builtin_memcpy(&bits, &key, sizeof bits);
    bits = bits >> 31 ? bits : ~bits & 0x7fffffffu;
    return static_cast<uint64_t>(bits) << 32 | c;
}

}  // namespace lethevec
