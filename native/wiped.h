// Buffers that held something of a record, wiped when they go.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "aligned.h"
#include "wipe.h"

namespace lethevec {

// Zeros at first. Few of them lie in the object itself: a search has half a dozen of these, and to ask for memory on a boundary
// takes as long as to fill it.
template <class T>
class Wiped {
    static_assert(std::is_trivially_destructible_v<T>, "it is wiped and not destroyed");

public:
    explicit Wiped(int64_t n) : bytes_(static_cast<size_t>(n) * sizeof(T)) {
        if (bytes_ > INSIDE) {
            many_.resize(static_cast<size_t>(n));
            data_ = many_.data();
        } else {
            data_ = reinterpret_cast<T*>(few_);
            std::uninitialized_value_construct_n(data_, n);
        }
    }
    ~Wiped() { wipe(data_, bytes_); }
    Wiped(const Wiped&) = delete;
    Wiped& operator=(const Wiped&) = delete;
    T* at(int64_t i) { return data_ + i; }

private:
    static constexpr size_t INSIDE = 4096;
    size_t bytes_;
    T* data_;
    AlignedVector<T> many_;
    alignas(64) unsigned char few_[INSIDE];
};

}  // namespace lethevec
