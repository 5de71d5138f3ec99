// Memory for the lists of one search: asked for once and given back once, since each of a search's two dozen lists would
// otherwise take as long to get as a few rows take to look at. Not for what has to be wiped.
//
// A thread keeps the first piece for its next search, and makes it as large as its searches have needed, up to a limit: whenever
// so much comes back the allocator tidies up, which takes longer still.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace lethevec {

class Arena {
public:
    explicit Arena(std::size_t bytes) {
        Spare& spare = own_spare();
        if (bytes > MOST_SPARE || spare.taken) {
            enlarge(bytes);
            return;
        }
        if (bytes < spare.needed) bytes = spare.needed;
        if (bytes > spare.bytes) {
            spare.bytes = 0;  // should there be no more memory
            spare.piece.reset(new char[bytes + LINE]);
            spare.bytes = bytes;
        }
        spare_ = &spare;
        spare.taken = true;
        begin(spare.piece.get(), spare.bytes);
    }
    ~Arena() {
        if (!spare_) return;
        spare_->taken = false;
        if (taken_ > spare_->needed) spare_->needed = taken_ < MOST_SPARE ? taken_ : MOST_SPARE;
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
        taken_ += bytes;
        return taken;
    }

private:
    static constexpr std::size_t LINE = 64, SMALL = 1 << 14, MOST_SPARE = 1 << 19;

    // What a thread keeps: one piece, which one arena has at a time.
    struct Spare {
        std::unique_ptr<char[]> piece;
        std::size_t bytes = 0, needed = 0;
        bool taken = false;
    };
    static Spare& own_spare() {
        static thread_local Spare spare;
        return spare;
    }

    void enlarge(std::size_t bytes) {
        pieces_.emplace_back(new char[bytes + LINE]);
        begin(pieces_.back().get(), bytes);
    }
    // A piece has a line more than these bytes.
    void begin(void* piece, std::size_t bytes) {
        left_ = bytes + LINE;
        at_ = static_cast<char*>(std::align(LINE, bytes, piece, left_));
    }

    Spare* spare_ = nullptr;
    std::vector<std::unique_ptr<char[]>> pieces_;
    char* at_ = nullptr;
    std::size_t left_ = 0, taken_ = 0;
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
