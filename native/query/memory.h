// What a search fills in, which a thread keeps for its next search: to ask for two dozen lists again takes longer than
// to look at a few hundred rows. What was made of a query is wiped as soon as the search is over.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace lethevec {

// The memory of the thread, or new memory where that is in use. `Memory` has two functions: `leave` wipes what nobody
// may find there and drops what is only worth keeping for one search; `longest` says how long its lists are.
template <class Memory>
class Borrowed {
public:
    Borrowed() : memory_(std::move(spare())) {
        if (!memory_) memory_ = std::make_unique<Memory>();
    }
    ~Borrowed() {
        memory_->leave();
        if (memory_->longest() <= MOST_KEPT) spare() = std::move(memory_);
    }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    Memory* operator->() const { return memory_.get(); }

private:
    static constexpr std::size_t MOST_KEPT = 1 << 14;
    static std::unique_ptr<Memory>& spare() {
        thread_local std::unique_ptr<Memory> kept;
        return kept;
    }
    std::unique_ptr<Memory> memory_;
};

}  // namespace lethevec
