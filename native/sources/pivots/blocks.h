// The blocks that cells of the source "pivots" are made of: 32 rows each, all of one size, without gaps.
//
// A block has two parts, apart from each other in memory: what a scan reads, and the rest. Freeing a block moves the
// last one into its place, so memory follows from the number of blocks alone (but for one spare slab, kept zeroed, so
// that a boundary is not paid for again and again).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lethevec {

class Blocks {
public:
    static constexpr uint32_t NONE = UINT32_MAX;

    // Bytes of either part of a block; multiples of 64.
    Blocks(int64_t scan_bytes, int64_t rest_bytes);
    ~Blocks();
    // May throw.
    Blocks(const Blocks& other);
    Blocks& operator=(const Blocks&) = delete;

    int64_t size() const { return size_; }
    uint8_t* scan(uint32_t block) const { return slabs_[block >> shift_] + place(block) * scan_bytes_; }
    uint8_t* rest(uint32_t block) const {
        return slabs_[block >> shift_] + (scan_bytes_ << shift_) + place(block) * rest_bytes_;
    }

    // Makes room for n blocks, so that `append` cannot fail. May throw, changing nothing.
    void reserve(int64_t n);
    // A new last block, zero.
    uint32_t append();
    // Takes the last block's contents to `block`, and drops the last one.
    void remove(uint32_t block);
    // Gives back what `reserve` took too much.
    void fit();

    int64_t bytes() const { return size_ * (scan_bytes_ + rest_bytes_); }
    void raw_memory(std::vector<uint8_t>& all) const;

private:
    void release() noexcept;
    int64_t place(uint32_t block) const { return block & ((uint32_t{1} << shift_) - 1); }
    int64_t slab_bytes() const { return (scan_bytes_ + rest_bytes_) << shift_; }
    std::size_t slabs_for(int64_t blocks) const {
        return static_cast<std::size_t>((blocks + (int64_t{1} << shift_) - 1) >> shift_);
    }

    int64_t scan_bytes_, rest_bytes_, size_ = 0;
    int shift_;  // of the number of blocks in a slab
    // The scanned parts of all its blocks, then the rest of them. As many as are used, and at most one more unless
    // reserved.
    std::vector<uint8_t*> slabs_;
};

}  // namespace lethevec
