// Pieces of memory of one size; the last one taken is the first to be given back.
//
// The first few are taken one by one, so that a small index stays small. Those after them lie together in regions on
// large pages: records are read here and there, and finding out where a small page lies takes longer than reading from
// it.
#pragma once

#include <cstdint>
#include <vector>

namespace lethevec {

class Pile {
public:
    // Pieces of `bytes`, which is a multiple of 64; regions begin after about `small` bytes.
    Pile(int64_t bytes, int64_t small);
    ~Pile();
    Pile(const Pile&) = delete;
    Pile& operator=(const Pile&) = delete;

    int64_t size() const { return size_; }
    int64_t bytes() const { return size_ * bytes_; }

    // A new last piece: zeroed, on a cache line's boundary. May throw std::bad_alloc, changing nothing.
    uint8_t* push();
    // The last piece must be zero by now. One is kept for the next push, so that a boundary is not paid for again and
    // again.
    void pop();

    // Every piece that there is memory for.
    void raw_memory(std::vector<uint8_t>& all) const;

private:
    uint8_t* at(int64_t piece) const;
    void make(int64_t piece);
    void release(int64_t piece);
    int64_t in_region() const;
    int64_t region_bytes() const;

    int64_t bytes_, alone_;        // of a piece; how many are alone
    int64_t size_ = 0, made_ = 0;  // in use; that there is memory for
    std::vector<uint8_t*> singles_, regions_;
};

}  // namespace lethevec
