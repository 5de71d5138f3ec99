// Which code each row has for a field: a column over all rows, as narrow as its codes allow, or, where few rows have
// the field, a list of those by ascending row.
//
// Bits of rows come in words of 64, row r in bit r % 64 of word r / 64.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/growing.h"

namespace lethevec::filters {

constexpr int64_t words_for(int64_t rows) { return (rows + 63) / 64; }

// The codes that a condition lets pass: a few, or a table with a byte or a bit for each code.
struct Choice {
    static constexpr int FEW = 4;
    static constexpr uint32_t BYTES_UP_TO = 1 << 16;  // codes for which a table has bytes, so that it stays in a cache

    // Codes are below `codes`. NONE (0) is the code of rows that do not have the field.
    explicit Choice(uint32_t codes) : codes(codes) {}
    void add(uint32_t code);
    bool has(uint32_t code) const;
    bool empty() const { return count == 0; }

    uint32_t codes;
    int count = 0;  // FEW + 1: there is a table
    uint32_t few[FEW] = {};
    std::vector<uint8_t> bytes;
    std::vector<uint64_t> bits;
};

class Column {
public:
    // No row has a code: a list of none.
    explicit Column(int64_t rows) : rows_(rows), dense_(rows == 0) {}

    int64_t count() const { return count_; }  // rows that have a code
    int64_t rows() const { return rows_; }
    bool dense() const { return dense_; }
    uint32_t get(uint32_t row) const;

    // Makes room for so many rows, of which so many more have a code, and for these codes. May throw, changing nothing
    // that can be seen.
    void reserve(int64_t rows, int64_t more, uint32_t codes);
    // There is room. New rows have no code.
    void set_rows(int64_t rows) noexcept;
    void set(uint32_t row, uint32_t code) noexcept;  // 0: none
    // The last row takes the place of `row`, and there is one row less.
    void remove(uint32_t row) noexcept;
    // Every code becomes another; all new codes are below `codes`.
    void recode(const std::vector<uint32_t>& moved, uint32_t codes) noexcept;
    // Column or list, as few or many rows have a code. Where memory does not do, it stays as it is.
    void adapt() noexcept;

    // Lets the rows pass in `mask` whose code is chosen; only rows whose bit is set are looked at.
    void keep(const Choice& choice, uint64_t* mask) const;
    // Those that have any code.
    void keep_present(uint64_t* mask) const;

    static int64_t bytes(int64_t rows, int64_t count, int64_t live);
    void raw_memory(std::vector<uint8_t>& all) const;

private:
    struct Pair {
        uint32_t row, code;
    };
    static int width_for(uint32_t codes) { return codes <= 256 ? 1 : codes <= 65536 ? 2 : 4; }
    static bool worth_column(int64_t rows, int64_t count) { return 8 * count >= rows; }
    static bool worth_list(int64_t rows, int64_t count) { return 16 * count < rows; }
    static int64_t padded(int64_t rows) { return words_for(rows) * 64; }
    template <class Work>
    auto with_codes(Work work) const;
    void widen(int width);
    void put(uint32_t row, uint32_t code) noexcept;
    int64_t place(uint32_t row) const;
    template <class Passes>
    void keep_pairs(Passes passes, uint64_t* mask) const;

    int64_t rows_, count_ = 0;
    bool dense_;
    int width_ = 1;
    Growing<uint8_t> narrow_;
    Growing<uint16_t> middle_;
    Growing<uint32_t> wide_;
    Growing<Pair> pairs_;
};

}  // namespace lethevec::filters
