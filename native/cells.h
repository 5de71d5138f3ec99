// A cell of the source "pivots": its rows, with the codes of their residuals, in blocks that a scan reads in one go.
//
// Rows of a cell have no order that means anything: the last one fills a gap. The memory of a cell follows from how many rows
// it has.
#pragma once

#include <cstdint>
#include <vector>

#include "growing.h"
#include "kernels/kernels.h"

namespace lethevec {

// What is kept of a row beside its code; see the spec's pivots.py.
struct CellNumbers {
    float size, offset;  // first stage
    float scale, bias;   // second stage
};

struct CellShape {
    int64_t bits;        // of a whole code
    int64_t first_bits;  // of its first plane
    int64_t scan_bytes() const { return (first_bits + 7) / 8; }
    int64_t words() const { return (bits + 31) / 32; }
    int64_t code_bytes() const { return (bits + 7) / 8; }
};

class Cell {
public:
    explicit Cell(CellShape shape)
        : shape_(shape),
          codes_(shape.scan_bytes() * BLOCK),
          sizes_(BLOCK),
          offsets_(BLOCK),
          rows_(BLOCK),
          tails_(BLOCK * (2 + shape.words())) {}
    Cell(Cell&&) = default;
    // Exchanges what two cells of one shape hold.
    void swap(Cell& other);

    int64_t size() const { return size_; }
    uint32_t row(int64_t slot) const { return rows_[slot]; }
    CellView view(const uint32_t* masks) const {
        return {codes_.at(0), sizes_.at(0), offsets_.at(0), masks, size_};
    }
    const uint32_t* rows() const { return rows_.at(0); }
    // The bias, then what `disagreements` reads: the scale, then all bits of the code.
    const uint32_t* tail(int64_t slot) const { return tails_.at(0) + slot * (2 + shape_.words()); }

    // Room for n rows, so that `append` cannot fail. May throw, changing nothing.
    void reserve(int64_t n);
    void append(uint32_t row, const uint8_t* code, const CellNumbers& numbers);
    // The last row takes the slot. Returns the row that is there now; `slot` may be past the end then.
    void remove(int64_t slot);
    void renumber(int64_t slot, uint32_t row) { rows_[slot] = row; }
    void fit() noexcept;

    void read(int64_t slot, uint8_t* code, CellNumbers& numbers) const;
    void prefetch() const;
    int64_t bytes() const;
    void raw_memory(std::vector<uint8_t>& all) const;

private:
    uint32_t* tail_of(int64_t slot) { return tails_.at(0) + slot * (2 + shape_.words()); }

    CellShape shape_;
    int64_t size_ = 0;
    // In blocks of BLOCK rows.
    Growing<uint8_t> codes_;
    Growing<float> sizes_, offsets_;
    Growing<uint32_t> rows_, tails_;
};

}  // namespace lethevec
