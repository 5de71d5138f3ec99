// Memory for the lists of one search: asked for once and given back once, since each of a search's two dozen lists
// would otherwise take as long to get as a few rows take to look at. Not for what has to be wiped.
//
// A stretch is kept for the next search, by the thread or whoever else: to free as much makes the C library tidy up all
// that is small, each time.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace lethevec {

class Arena {
public:
    static constexpr std::size_t LINE = 64;  // everything begins on one

    struct Stretch {
        Stretch() = default;
        explicit Stretch(std::size_t n) : memory(new char[n]), bytes(n) {}
        void swap(Stretch& other) {
            memory.swap(other.memory);
            std::swap(bytes, other.bytes);
        }
        std::unique_ptr<char[]> memory;
        std::size_t bytes = 0;
    };

    explicit Arena(std::size_t bytes) : Arena(bytes, spare()) {}
    // With what is kept there; in the end it is kept there again.
    Arena(std::size_t bytes, Stretch& kept) : kept_(kept) {
        first_.swap(kept_);
        if (first_.bytes < bytes + LINE) first_ = Stretch(bytes + LINE);
        use(first_);
    }
    ~Arena() {
        if (first_.bytes <= MOST_KEPT) first_.swap(kept_);
    }
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
    static constexpr std::size_t SMALL = 1 << 14, MOST_KEPT = 1 << 19;

    static Stretch& spare() {
        thread_local Stretch kept;
        return kept;
    }

    void enlarge(std::size_t bytes) {
        others_.emplace_back(bytes + LINE);
        use(others_.back());
    }

    void use(const Stretch& stretch) {
        void* begin = stretch.memory.get();
        left_ = stretch.bytes;
        at_ = static_cast<char*>(std::align(LINE, stretch.bytes - LINE, begin, left_));
    }

    Stretch& kept_;
    Stretch first_;
    std::vector<Stretch> others_;
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
    // So many more, not filled.
    T* extend(std::size_t n) {
        if (size_ + n > room_) reserve(2 * room_ + n);
        size_ += n;
        return data_ + size_ - n;
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
