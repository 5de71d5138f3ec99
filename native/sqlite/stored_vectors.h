// The vectors of a store with their numbers, read from the pages of its tables `vectors` and `records`.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/wiped.h"
#include "sqlite/table_pages.h"

namespace lethevec::sqlite {

class StoredVectors {
public:
    StoredVectors(File file, uint32_t vectors_root, uint32_t records_root, int64_t dim);

    // Reads at least `rows` records, or all that are left; how many. What was read before is gone.
    int64_t read(int64_t rows, int64_t threads);

    // By ascending slot, of records that have a vector.
    const std::vector<int64_t>& slots() const { return slots_; }
    const std::vector<int64_t>& numbers() const { return numbers_; }
    WipedVector<float>& vectors() { return values_; }
    // Of those that have none.
    const std::vector<int64_t>& bare_slots() const { return bare_slots_; }
    const std::vector<int64_t>& bare_numbers() const { return bare_numbers_; }
    // The last slot of all.
    int64_t last() const { return last_; }

private:
    void read_numbers(int64_t up_to, int64_t threads);

    int64_t dim_, file_bytes_;
    TablePages vectors_, records_;
    std::vector<int64_t> slots_, numbers_, bare_slots_, bare_numbers_;
    WipedVector<float> values_;
    int64_t last_ = 0;
    // What was read of `records`, and how much of it has been used.
    std::vector<int64_t> record_slots_, record_numbers_;
    size_t used_ = 0;
};

}  // namespace lethevec::sqlite
