#include "sources/pivots/hash_order.h"

#include <algorithm>

namespace lethevec {

namespace {

// How much further than to the limit it reaches when it is made, and at the most.
constexpr uint64_t WHEN_MADE = 2, AT_MOST = 4;

uint64_t times(uint64_t limit, uint64_t factor) { return limit > UINT64_MAX / factor ? UINT64_MAX : limit * factor; }

}  // namespace

const HashedId* HashOrder::begin(uint64_t least) const {
    const HashedId *first = records_.at(0), *last = first + records_.size();
    return std::lower_bound(first, last, least,
                            [](const HashedId& record, uint64_t hash) { return record.hash < hash; });
}

void HashOrder::prepare(const WipedVector<HashedId>& records, WipedVector<HashedId>& some) {
    some.clear();
    for (const HashedId& record : records)
        if (record.hash < reach_) some.push_back(record);
    std::sort(some.begin(), some.end());
    records_.reserve(records_.size() + static_cast<int64_t>(some.size()));
}

// From the end on, so that each of the old ones moves once.
void HashOrder::insert(const WipedVector<HashedId>& some) {
    int64_t from = records_.size(), left = static_cast<int64_t>(some.size()), to = from + left;
    records_.grow(to);
    while (left > 0) {
        const HashedId& next = some[static_cast<size_t>(left - 1)];
        const HashedId* first = records_.at(0);
        const int64_t after = std::upper_bound(first, first + from, next) - first;
        std::copy_backward(first + after, first + from, records_.at(0) + to);
        to -= from - after;
        from = after;
        records_[--to] = next;
        --left;
    }
    records_.fit();
}

void HashOrder::erase(WipedVector<HashedId>& records) {
    std::sort(records.begin(), records.end());
    HashedId *first = records_.at(0), *last = first + records_.size(), *to = nullptr, *from = nullptr;
    for (const HashedId& record : records) {
        if (record.hash >= reach_) break;
        HashedId* at = std::lower_bound(from ? from : first, last, record);
        if (at == last || record < *at) continue;
        if (from) {
            std::copy(from, at, to);
            to += at - from;
        } else {
            to = at;
        }
        from = at + 1;
    }
    if (!from) return;
    std::copy(from, last, to);
    records_.resize(records_.size() - (from - to));
}

void HashOrder::reach_for(uint64_t limit, const Each& each) {
    if (limit <= reach_) return;
    const uint64_t reach = times(limit, WHEN_MADE);
    WipedVector<HashedId> all;
    each([&](const HashedId& record) {
        if (record.hash < reach) all.push_back(record);
    });
    std::sort(all.begin(), all.end());
    Growing<HashedId> fresh(1);
    fresh.resize(static_cast<int64_t>(all.size()));
    std::copy(all.begin(), all.end(), fresh.at(0));
    records_.swap(fresh);
    reach_ = reach;
}

void HashOrder::shorten(uint64_t limit) noexcept {
    if (reach_ <= times(limit, AT_MOST)) return;
    const uint64_t reach = times(limit, WHEN_MADE);
    records_.resize(begin(reach) - records_.at(0));
    reach_ = reach;
}

}  // namespace lethevec
