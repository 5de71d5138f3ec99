// The cells of the source "pivots": which rows each has, with the codes of their residuals, in pairs of blocks of 32.
//
// A cell takes memory a run of pairs at a time, which lie one after the other: a scan that has to find every pair waits
// more than it reads. Rows of a cell have no order that means anything: the last one fills a gap, and so does the last
// run of all. A row is found by its slot, counted from the cell's first run.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/kernels.h"
#include "memory/growing.h"
#include "sources/pivots/blocks.h"

namespace lethevec {

// What is kept of a row beside its code; see the spec's pivots.py. Those of the first stage have sixteen bits.
struct CellNumbers {
    float size, offset;  // first stage
    float scale, bias;   // second stage
};

struct CellShape {
    int64_t bits;        // of a whole code
    int64_t first_bits;  // of its first plane
    int run_shift;       // a run has 2^run_shift rows
    // As long as they can be without the last one of a cell being mostly empty. At least a pair, which has 2^6 rows.
    // Cells whose size follows the number of records (0) are large where it matters.
    static int shift_for(int64_t cell_size) { return cell_size >= 96 || cell_size == 0 ? 7 : 6; }
    int64_t run() const { return int64_t{1} << run_shift; }
    int64_t scan_bytes() const { return (first_bits + 7) / 8; }
    int64_t words() const { return (bits - first_bits + 31) / 32; }  // of the planes after the first
    int64_t code_bytes() const { return (bits + 7) / 8; }
    // Words of a row that only the second stage reads: its number, the bias, then what `disagreements` reads. Rounded
    // up, so that short ones do not lie across two cache lines.
    int64_t rest_words() const { return (3 + words() + 7) / 8 * 8; }
    // What a search reads of a row: in the first stage its first plane, size and offset, and in the second all the
    // rest.
    int64_t first_bytes() const { return scan_bytes() + 4; }
    int64_t second_bytes() const { return 4 * (3 + words()); }
};

class Cells {
public:
    explicit Cells(CellShape shape);

    int64_t count() const { return sizes_.size(); }
    int64_t filled() const { return filled_; }  // cells that hold rows
    int64_t size(int64_t c) const { return sizes_[c]; }
    const uint32_t* sizes() const { return sizes_.at(0); }

    // A new last cell, empty. May throw, changing nothing.
    void append();
    // Cell c must be empty; the last cell takes its number.
    void remove(int64_t c);

    // So that adding `incoming[c]` rows to every cell c cannot fail. May throw, changing nothing that can be seen.
    void reserve(const std::vector<int64_t>& incoming);
    // Returns the slot, whose code and numbers are zero. May throw, changing nothing, unless room was reserved.
    uint32_t add(int64_t c, uint32_t row);
    void write(int64_t c, uint32_t slot, const uint8_t* code, const CellNumbers& numbers);
    // The last row takes the slot.
    void take(int64_t c, uint32_t slot);
    void renumber(int64_t c, uint32_t slot, uint32_t row) { rest(c, slot)[0] = row; }
    // Gives back what `reserve` took too much: for a cell, and for all of them.
    void fit(int64_t c) noexcept { lists_[static_cast<size_t>(c)].fit(); }
    void fit() noexcept {
        owners_.fit();
        runs_.fit();
    }

    uint32_t row(int64_t c, uint32_t slot) const { return rest(c, slot)[0]; }
    void read(int64_t c, uint32_t slot, uint8_t* code, CellNumbers& numbers) const;

    // For a scan: the runs of a cell, and a run's parts.
    int64_t runs(int64_t c) const { return lists_[static_cast<size_t>(c)].size(); }
    const uint32_t* list(int64_t c) const { return lists_[static_cast<size_t>(c)].at(0); }
    void ask_for_head(int64_t c) const { __builtin_prefetch(&lists_[static_cast<size_t>(c)]); }
    const CellShape& shape() const { return shape_; }
    const uint8_t* scanned(uint32_t run) const { return runs_.scan(run); }
    int64_t pair_stride() const { return pair_stride_; }
    // The rest of a row at `place`: its run's number times the rows of a run, and its number in it.
    const uint32_t* rest_at(uint32_t place) const {
        return reinterpret_cast<const uint32_t*>(runs_.rest(place >> shape_.run_shift)) +
               in_run(place) * shape_.rest_words();
    }

    // Size and offset of the row there, as the first stage has them.
    std::pair<float, float> first_numbers(uint32_t place) const;

    int64_t bytes() const;
    void raw_memory(std::vector<uint8_t>& all) const;

private:
    int64_t in_run(uint32_t place) const { return place & static_cast<uint32_t>(shape_.run() - 1); }
    int64_t runs_for(int64_t rows) const { return (rows + shape_.run() - 1) >> shape_.run_shift; }
    uint32_t run_of(int64_t c, uint32_t slot) const { return lists_[static_cast<size_t>(c)][slot >> shape_.run_shift]; }
    uint8_t* pair_of(int64_t c, uint32_t slot) const {
        return runs_.scan(run_of(c, slot)) + in_run(slot) / PAIR * pair_stride_;
    }
    uint32_t* rest(int64_t c, uint32_t slot) const {
        return reinterpret_cast<uint32_t*>(runs_.rest(run_of(c, slot))) + in_run(slot) * shape_.rest_words();
    }
    // Its byte g is g * PAIR further on.
    uint8_t* code(int64_t c, uint32_t slot) const { return pair_of(c, slot) + slot % PAIR; }
    uint32_t* numbers(int64_t c, uint32_t slot) const {
        return reinterpret_cast<uint32_t*>(pair_of(c, slot) + shape_.scan_bytes() * PAIR) + slot % PAIR;
    }

    CellShape shape_;
    int64_t pair_stride_;  // from a pair of a run to its next
    int64_t filled_ = 0;
    Blocks runs_;
    Growing<uint32_t> owners_;              // the cell of each run
    Growing<uint32_t> sizes_;               // rows of each cell
    std::vector<Growing<uint32_t>> lists_;  // runs of each cell
};

}  // namespace lethevec
