// Buffers that hold something of a record or of a query. By their type they leave nothing behind: whatever they let go
// of, when they shrink, move to other memory or end, is overwritten first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "memory/wipe.h"

namespace lethevec {

// A list on a cache line's boundary. Past its end it never holds what was in it before.
template <class T>
class WipedVector {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>, "it is moved byte by byte");

public:
    using value_type = T;

    WipedVector() = default;
    explicit WipedVector(std::size_t n) { resize(n); }
    WipedVector(std::size_t n, const T& item) { resize(n, item); }
    template <class From, class = std::enable_if_t<!std::is_integral_v<From>>>
    WipedVector(From begin, From end) {
        assign(begin, end);
    }
    WipedVector(std::initializer_list<T> items) { assign(items.begin(), items.end()); }
    WipedVector(const WipedVector& other) { assign(other.begin(), other.end()); }
    WipedVector(WipedVector&& other) noexcept { swap(other); }
    WipedVector& operator=(const WipedVector& other) {
        if (this != &other) assign(other.begin(), other.end());
        return *this;
    }
    // What was here goes at once, and not with the other one.
    WipedVector& operator=(WipedVector&& other) noexcept {
        WipedVector taken(std::move(other));
        swap(taken);
        return *this;
    }
    ~WipedVector() { release(); }
    void swap(WipedVector& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(room_, other.room_);
    }

    std::size_t size() const { return size_; }
    std::size_t capacity() const { return room_; }
    bool empty() const { return size_ == 0; }
    T* data() { return data_; }
    const T* data() const { return data_; }
    T* begin() { return data_; }
    T* end() { return data_ + size_; }
    const T* begin() const { return data_; }
    const T* end() const { return data_ + size_; }
    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }
    T& back() { return data_[size_ - 1]; }
    const T& back() const { return data_[size_ - 1]; }

    // Each may throw std::bad_alloc, changing nothing.
    void reserve(std::size_t n) {
        if (n > room_) move_to(n);
    }
    void resize(std::size_t n) { resize(n, T{}); }
    void resize(std::size_t n, const T& item) {
        if (n < size_) return shrink(n);
        const T kept = item;  // it may be one of the list
        make_room(n);
        std::uninitialized_fill(data_ + size_, data_ + n, kept);
        size_ = n;
    }
    // New ones are whatever is there: for those who fill them in at once.
    void resize_unfilled(std::size_t n) {
        if (n < size_) return shrink(n);
        make_room(n);
        size_ = n;
    }
    void push_back(const T& item) {
        if (size_ == room_) {
            const T kept = item;
            make_room(size_ + 1);
            new (data_ + size_) T(kept);
        } else {
            new (data_ + size_) T(item);
        }
        ++size_;
    }
    template <class... Parts>
    void emplace_back(Parts&&... parts) {
        push_back(T{std::forward<Parts>(parts)...});
    }
    template <class From, class = std::enable_if_t<!std::is_integral_v<From>>>
    void assign(From begin, From end) {
        make_place(static_cast<std::size_t>(std::distance(begin, end)));
        std::uninitialized_copy(begin, end, data_);
    }
    void assign(std::size_t n, const T& item) {
        const T kept = item;
        make_place(n);
        std::uninitialized_fill(data_, data_ + n, kept);
    }
    // Others at the end; not of this list itself.
    template <class From>
    void append(From begin, From end) {
        const auto n = static_cast<std::size_t>(std::distance(begin, end));
        make_room(size_ + n);
        std::uninitialized_copy(begin, end, data_ + size_);
        size_ += n;
    }

    void pop_back() { shrink(size_ - 1); }
    void clear() { shrink(0); }
    // Zeros where something was; the length stays.
    void zero() noexcept { wipe(data_, size_ * sizeof(T)); }

    // A copy of its bytes; past them there are none of ours. For tests.
    template <class Bytes>
    void raw_memory(Bytes& all) const {
        const auto* from = reinterpret_cast<const uint8_t*>(data_);
        if (size_) all.insert(all.end(), from, from + size_ * sizeof(T));
    }

private:
    static constexpr std::align_val_t LINE{64};

    void make_room(std::size_t n) {
        if (n > room_) move_to(std::max(n, room_ + room_ / 2));
    }
    // A length of n for what is written over all that was here.
    void make_place(std::size_t n) {
        if (n > room_) shrink(0);
        resize_unfilled(n);
    }
    void shrink(std::size_t n) noexcept {
        wipe(data_ + n, (size_ - n) * sizeof(T));
        size_ = n;
    }
    void move_to(std::size_t room) {
        if (room > SIZE_MAX / sizeof(T)) throw std::bad_alloc();
        T* fresh = static_cast<T*>(::operator new(room * sizeof(T), LINE));
        if (size_) std::memcpy(static_cast<void*>(fresh), data_, size_ * sizeof(T));
        const std::size_t kept = size_;
        release();
        data_ = fresh;
        size_ = kept;
        room_ = room;
    }
    void release() noexcept {
        if (!data_) return;
        shrink(0);
        ::operator delete(data_, LINE);
        data_ = nullptr;
        room_ = 0;
    }

    T* data_ = nullptr;
    std::size_t size_ = 0, room_ = 0;
};

// For lists of what the other ones cannot hold: whatever memory is given back is overwritten first.
template <class T>
struct WipingAllocator {
    using value_type = T;
    WipingAllocator() = default;
    template <class Other>
    WipingAllocator(const WipingAllocator<Other>&) {}
    T* allocate(std::size_t n) { return std::allocator<T>().allocate(n); }
    void deallocate(T* at, std::size_t n) {
        wipe(static_cast<void*>(at), n * sizeof(T));
        std::allocator<T>().deallocate(at, n);
    }
    friend bool operator==(const WipingAllocator&, const WipingAllocator&) { return true; }
    friend bool operator!=(const WipingAllocator&, const WipingAllocator&) { return false; }
};

// Of one length, zeros at first. Few of them lie in the object itself: a search has half a dozen of these, and to ask
// for memory on a boundary takes as long as to fill it.
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
    ~Wiped() { wipe(few_, bytes_ > INSIDE ? 0 : bytes_); }
    Wiped(const Wiped&) = delete;
    Wiped& operator=(const Wiped&) = delete;
    T* at(int64_t i) { return data_ + i; }

private:
    static constexpr size_t INSIDE = 4096;
    size_t bytes_;
    T* data_;
    WipedVector<T> many_;
    alignas(64) unsigned char few_[INSIDE];
};

}  // namespace lethevec
