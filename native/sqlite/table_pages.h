// The rows of an SQLite table, read from the pages of its file: many at once, without a call for each of them.
//
// It is for tables whose key is the rowid, in a file that nobody writes meanwhile and whose log is empty: whoever asks
// has seen to that. Nothing that the file says is believed: what does not hold together throws Damaged, and SQLite,
// which is asked then, says what is wrong. Format: https://www.sqlite.org/fileformat2.html
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "memory/wiped.h"

namespace lethevec::sqlite {

struct Damaged : std::runtime_error {
    explicit Damaged(const char* what) : std::runtime_error(what) {}
};

struct File {
    int descriptor;
    int64_t page_size;
    int64_t pages;
};

// A row in a leaf: its key, how long its record is, and the part of the record that lies in the leaf.
struct Cell {
    int64_t key;
    int64_t length;
    const uint8_t* local;
    int64_t local_length;
    uint32_t overflow;  // the page on which it goes on, 0 if there is none
};

// The column of a record after its key, which has no bytes of its own there.
struct Column {
    uint64_t type;
    int64_t at;  // in the record
};

class TablePages {
public:
    // Finds the leaves of the table.
    TablePages(File file, uint32_t root);

    bool ended() const { return next_ == leaves_.size(); }
    // Reads the leaves that follow, so many that they have at least `rows` rows, or all that are left. What was read
    // before is gone.
    void read(int64_t rows, int64_t threads);

    int64_t leaves() const { return static_cast<int64_t>(starts_.size()) - 1; }
    // Of those that were read: rows in leaves before this one.
    int64_t start(int64_t leaf) const { return starts_[static_cast<size_t>(leaf)]; }
    int64_t rows() const { return starts_.back(); }
    int64_t rows_in(int64_t leaf) const { return start(leaf + 1) - start(leaf); }
    Cell cell(int64_t leaf, int64_t row) const;

    static Column second_column(const Cell& cell);
    // Some bytes of a record, wherever they lie.
    void copy(const Cell& cell, int64_t from, int64_t length, uint8_t* to) const;

private:
    void find_leaves(uint32_t root);
    void load(uint32_t page, int64_t count, uint8_t* to) const;
    const uint8_t* page(int64_t leaf) const { return bytes_.data() + leaf * file_.page_size; }

    File file_;
    std::vector<uint32_t> leaves_;
    size_t next_ = 0;
    WipedVector<uint8_t> bytes_;         // of the leaves that were read
    std::vector<int64_t> starts_ = {0};  // one more than those
};

// An integer column; throws where it is none.
int64_t read_integer(const TablePages& table, const Cell& cell, const Column& column);

}  // namespace lethevec::sqlite
