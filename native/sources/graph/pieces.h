// Things of one size, in pieces of memory that stay where they are: a list that grows moves nothing.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "memory/pile.h"
#include "memory/wipe.h"

namespace lethevec {

template <class T>
class Pieces {
    static_assert(std::is_trivially_copyable<T>::value, "it is zeroed byte by byte");

public:
    // Each thing is `stride` numbers.
    explicit Pieces(int64_t stride)
        : stride_(stride), pile_((ITEMS * stride * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64, SMALL) {}

    int64_t size() const { return size_; }
    T* at(int64_t i) const { return pieces_[static_cast<size_t>(i >> SHIFT)] + (i & (ITEMS - 1)) * stride_; }
    // For whoever computes `at` by itself; until the next `resize`.
    T* const* pieces() const { return pieces_.data(); }
    // New things are zero. Growing may throw, changing nothing that can be seen; shrinking cannot.
    void resize(int64_t n) {
        const auto wanted = static_cast<size_t>((n + ITEMS - 1) >> SHIFT);
        for (int64_t i = n; i < size_; ++i) clear(i);
        pieces_.reserve(wanted);
        while (pieces_.size() < wanted) pieces_.push_back(reinterpret_cast<T*>(pile_.push()));
        for (; pieces_.size() > wanted; pieces_.pop_back()) pile_.pop();
        size_ = n;
    }
    void clear(int64_t i) { wipe(at(i), static_cast<size_t>(stride_) * sizeof(T)); }
    int64_t bytes_of(int64_t n) const { return n * stride_ * static_cast<int64_t>(sizeof(T)); }
    void raw_memory(std::vector<uint8_t>& all) const { pile_.raw_memory(all); }

    static constexpr int SHIFT = 8;

private:
    static constexpr int64_t ITEMS = 1 << SHIFT, SMALL = 1 << 21;

    int64_t stride_, size_ = 0;
    Pile pile_;
    std::vector<T*> pieces_;
};

}  // namespace lethevec
