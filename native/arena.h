// Memory for the lists of one search: asked for once and given back once, since each of a search's two dozen lists would
// otherwise take as long to get as a few rows take to look at. Not for what has to be wiped.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace lethevec {

class Arena {
public:
    explicit Arena(std::size_t bytes) { enlarge(bytes); }
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // Room for n numbers, not filled. May throw std::bad_alloc.
    template <class T>
    T* take(std::size_t n) {
        const std::size_t bytes = (n * sizeof(T) + LINE - 1) / LINE * LINE;
        if (bytes > left_) enlarge(2 * bytes + SMALL);
        T* taken = reinterpret_cast<T*>(at_);
        at_ += bytes;
        left_ -= bytes;
        return taken;
    }

private:
    static constexpr std::size_t LINE = 64, SMALL = 1 << 14;

    void enlarge(std::size_t bytes) {
        pieces_.emplace_back(new char[bytes + LINE]);
        void* begin = pieces_.back().get();
        left_ = bytes + LINE;
        at_ = static_cast<char*>(std::align(LINE, bytes, begin, left_));
    }

    std::vector<std::unique_ptr<char[]>> pieces_;
    char* at_ = nullptr;
    std::size_t left_ = 0;
};

// A list in an arena. What it grows out of stays until the arena goes.
template <class T>
class ArenaList {
public:
    explicit ArenaList(Arena& arena) : arena_(arena) {}
    std::size_t size() const { return size_; }
    T* data() { return data_; }
    const T* data() const { return data_; }
    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }
    T& back() { return data_[size_ - 1]; }

    void reserve(std::size_t n) {
        if (n <= room_) return;
        T* larger = arena_.take<T>(n);
        if (size_) std::memcpy(larger, data_, size_ * sizeof(T));
        data_ = larger;
        room_ = n;
    }
    // What is new is not filled.
    void resize(std::size_t n) {
        reserve(n);
        size_ = n;
    }
    void push_back(const T& item) {
        if (size_ == room_) {
            const T kept = item;  // it may be one of the list
            reserve(2 * room_ + 16);
            data_[size_++] = kept;
            return;
        }
        data_[size_++] = item;
    }

private:
    Arena& arena_;
    T* data_ = nullptr;
    std::size_t size_ = 0, room_ = 0;
};

}  // namespace lethevec
