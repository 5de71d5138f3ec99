// The outlines of vectors: their numbers in four bits each, and how far that is from them at the most. A search that
// compares many rows with a query one by one looks at these first, an eighth of the memory, and reads only vectors that
// may belong to the answer. They only help: what is found follows from exact distances alone.
//
// An outline of d numbers x_j: a step s, and for each number a whole one u_j from 0 to 15, which stands for
// (u_j - 7.5) s. In memory the first half of the u_j is in the lower halves of bytes and the second half in the upper
// ones; step, length of the vector and length of the error are in the last twelve bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/pile.h"

namespace lethevec {

struct OutlineNumbers {
    float step, size;  // |x|, about
    float error;       // |x - what the outline stands for|, at the most
};

class Outlines {
public:
    // Shorter vectors are read in about the same time as their outlines.
    static constexpr int64_t LEAST_DIM = 32;

    // Of no rows.
    explicit Outlines(int64_t dim);
    Outlines(const Outlines&) = delete;
    Outlines& operator=(const Outlines&) = delete;

    int64_t rows() const { return rows_; }
    // Bytes of one: a multiple of 16, and one of 64 if they would lie across two lines of the cache otherwise.
    int64_t stride() const { return stride_; }

    // New last rows, all zero. May throw std::bad_alloc, changing nothing.
    void append(int64_t n);
    void set(uint32_t row, const float* x);
    // The last row takes the number, and its old place is overwritten.
    void remove(uint32_t row);

    const uint8_t* at(uint32_t row) const { return place(row); }
    OutlineNumbers numbers(const uint8_t* outline) const;

    void raw_memory(std::vector<uint8_t>& all) const { memory_.raw_memory(all); }

private:
    int64_t of_piece() const { return int64_t{1} << shift_; }
    uint8_t* place(uint32_t row) const {
        return pieces_[row >> shift_] + (row & ((uint32_t{1} << shift_) - 1)) * stride_;
    }

    int64_t dim_, stride_, rows_ = 0;
    int shift_;  // a piece has 2^shift_ rows
    Pile memory_;
    std::vector<uint8_t*> pieces_;
};

}  // namespace lethevec
