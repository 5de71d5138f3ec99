// Buffers that held something of a record, wiped when they go.
#pragma once

#include <cstdint>

#include "aligned.h"
#include "wipe.h"

namespace lethevec {

template <class T>
struct Wiped {
    explicit Wiped(int64_t n) : data(static_cast<size_t>(n)) {}
    ~Wiped() { wipe(data.data(), data.size() * sizeof(T)); }
    Wiped(const Wiped&) = delete;
    Wiped& operator=(const Wiped&) = delete;
    T* at(int64_t i) { return data.data() + i; }
    AlignedVector<T> data;
};

}  // namespace lethevec
