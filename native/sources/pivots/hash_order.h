// The records whose ids have the smallest keyed hashes, in that order: the pivots, and some that would be pivots if
// there were fewer records. It is there for cells that grow with the number of records, where every change moves the
// limit below which a hash makes a pivot, to tell quickly which records lie between the old limit and the new one.
//
// How far it reaches depends on history and cannot be observed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "memory/growing.h"
#include "memory/wiped.h"
#include "sources/pivots/origins.h"

namespace lethevec {

class HashOrder {
public:
    HashOrder() : records_(1) {}

    // Every record that is there and has a smaller hash is in it.
    uint64_t reach() const { return reach_; }
    int64_t size() const { return records_.size(); }
    // Those with hashes from `least` up to and without `most`, which is within reach.
    const HashedId* begin(uint64_t least) const;
    const HashedId* end(uint64_t most) const { return begin(most); }

    // Makes room for those of these that it reaches, and puts them into `some`. May throw, changing nothing.
    void prepare(const WipedVector<HashedId>& records, WipedVector<HashedId>& some);
    // Cannot fail. `some` is what was prepared.
    void insert(const WipedVector<HashedId>& some);
    void erase(WipedVector<HashedId>& records);

    // Where it does not reach to `limit`, it is made again from all records, which `each` calls a function with. May
    // throw, changing nothing that can be seen.
    using Each = std::function<void(const std::function<void(const HashedId&)>&)>;
    void reach_for(uint64_t limit, const Each& each);
    // Lets go of what is far beyond `limit`.
    void shorten(uint64_t limit) noexcept;

    void raw_memory(std::vector<uint8_t>& all) const { records_.raw_memory(all); }

private:
    Growing<HashedId> records_;
    uint64_t reach_ = UINT64_MAX;
};

}  // namespace lethevec
