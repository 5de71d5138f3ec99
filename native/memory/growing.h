// An array whose memory follows from its length alone, zero where it is not used, and wiped wherever it has been.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "memory/pages.h"
#include "memory/wipe.h"

namespace lethevec {

// Room for n things, in steps of an eighth.
constexpr int64_t room_for(int64_t n) {
    int64_t step = 1;
    while (step * 16 <= n) step *= 2;
    return (n + step - 1) / step * step;
}

template <class T>
class Growing {
    static_assert(std::is_trivially_copyable<T>::value, "it is copied byte by byte");

public:
    // Things come in groups of `stride`.
    explicit Growing(int64_t stride = 1) : stride_(stride) {}
    // May throw.
    Growing(const Growing& other) : stride_(other.stride_) {
        resize(other.size_);
        if (size_ > 0) std::memcpy(static_cast<void*>(data_), other.data_, static_cast<size_t>(bytes_of(size_)));
    }
    Growing(Growing&& other) noexcept
        : stride_(other.stride_),
          size_(std::exchange(other.size_, 0)),
          room_(std::exchange(other.room_, 0)),
          data_(std::exchange(other.data_, nullptr)) {}
    Growing& operator=(Growing&&) = delete;
    // Two of one stride.
    void swap(Growing& other) noexcept {
        std::swap(size_, other.size_);
        std::swap(room_, other.room_);
        std::swap(data_, other.data_);
    }
    ~Growing() { free(data_, room_); }

    int64_t size() const { return size_; }
    T* at(int64_t i) { return data_ + i * stride_; }
    const T* at(int64_t i) const { return data_ + i * stride_; }
    T& operator[](int64_t i) { return data_[i]; }
    const T& operator[](int64_t i) const { return data_[i]; }

    // Makes room for n groups without using it. May throw, changing nothing.
    void reserve(int64_t n) {
        if (room_for(n) > room_) move_to(room_for(n));
    }
    // New groups are zero. Growing may throw, changing nothing; shrinking cannot.
    void resize(int64_t n) {
        if (n < size_) wipe(at(n), static_cast<size_t>((size_ - n) * stride_) * sizeof(T));
        if (room_for(n) > room_) move_to(room_for(n));
        size_ = n;
        fit();
    }
    // Uses what was reserved, and keeps what was reserved beyond.
    void grow(int64_t n) {
        reserve(n);
        size_ = n;
    }
    // Gives back what `reserve` took too much. Where even that needs memory that there is not, it stays.
    void fit() noexcept {
        if (room_for(size_) >= room_) return;
        try {
            move_to(room_for(size_));
        } catch (const std::bad_alloc&) {
        }
    }
    // The last group takes the place of group i.
    void remove(int64_t i) {
        if (i != size_ - 1) std::memcpy(at(i), at(size_ - 1), static_cast<size_t>(stride_) * sizeof(T));
        resize(size_ - 1);
    }
    int64_t bytes() const { return bytes_of(room_for(size_)); }
    void raw_memory(std::vector<uint8_t>& all) const {
        const auto* from = reinterpret_cast<const uint8_t*>(data_);
        all.insert(all.end(), from, from + static_cast<size_t>(room_ * stride_) * sizeof(T));
    }

private:
    void move_to(int64_t room) {
        T* fresh = nullptr;
        if (room > 0) {
            fresh = static_cast<T*>(allocate_pages(bytes_of(room)));
            if (size_ > 0)
                std::memcpy(static_cast<void*>(fresh), data_, static_cast<size_t>(size_ * stride_) * sizeof(T));
        }
        free(data_, room_);
        data_ = fresh;
        room_ = room;
    }
    void free(T* data, int64_t room) { free_pages(data, bytes_of(room)); }
    int64_t bytes_of(int64_t groups) const { return groups * stride_ * static_cast<int64_t>(sizeof(T)); }

    int64_t stride_;
    int64_t size_ = 0, room_ = 0;
    T* data_ = nullptr;
};

}  // namespace lethevec
