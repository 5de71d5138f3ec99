// What a search fills in, which a thread keeps for its next search: to ask for two dozen lists anew takes longer than to look at a
// few hundred rows. What was made of the query is wiped as soon as the search is over.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "query.h"

namespace lethevec {

using Hit = std::pair<float, int64_t>;  // distance, id: the order of answers

struct SearchMemory {
    PreparedQuery query;
    std::vector<uint32_t> found;
    std::vector<uint16_t> scores;
    std::vector<float> norms;      // of what was found, where the metric needs them
    std::vector<uint32_t> counts;  // of scores
    std::vector<float> keys, factors, refined, estimated, order;
    std::vector<const uint32_t*> tails;
    std::vector<uint32_t> differ;
    std::vector<size_t> ends;  // of the reference set among the candidates
    std::vector<Hit> hits;
};

// The memory of the thread, or new memory where that is in use.
class BorrowedMemory {
public:
    BorrowedMemory() : memory_(std::move(spare())) {
        if (!memory_) memory_ = std::make_unique<SearchMemory>();
    }
    ~BorrowedMemory() {
        memory_->query.wipe();
        // The lists are about as long as one of these two.
        if (memory_->found.capacity() <= MOST_KEPT && memory_->hits.capacity() <= MOST_KEPT) spare() = std::move(memory_);
    }
    BorrowedMemory(const BorrowedMemory&) = delete;
    BorrowedMemory& operator=(const BorrowedMemory&) = delete;
    SearchMemory* operator->() const { return memory_.get(); }

private:
    static constexpr size_t MOST_KEPT = 1 << 14;
    static std::unique_ptr<SearchMemory>& spare() {
        thread_local std::unique_ptr<SearchMemory> kept;
        return kept;
    }
    std::unique_ptr<SearchMemory> memory_;
};

}  // namespace lethevec
