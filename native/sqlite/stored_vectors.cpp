#include "sqlite/stored_vectors.h"

#include <algorithm>

#include "parallel.h"

namespace lethevec::sqlite {

namespace {

constexpr int64_t FEW_LEAVES = 16;  // that are worth a thread
constexpr int64_t RECORDS_TOGETHER = 1 << 15;
constexpr uint64_t FIRST_BLOB = 12;  // the type of an empty one; one that is a byte longer is two further

[[noreturn]] void refuse(const char* what) { throw Damaged(what); }

}  // namespace

StoredVectors::StoredVectors(File file, uint32_t vectors_root, uint32_t records_root, int64_t dim)
    : dim_(dim), file_bytes_(file.pages * file.page_size), vectors_(file, vectors_root), records_(file, records_root) {}

int64_t StoredVectors::read(int64_t rows, int64_t threads) {
    slots_.clear();
    numbers_.clear();
    bare_slots_.clear();
    bare_numbers_.clear();
    values_.clear();
    vectors_.read(rows, threads);
    const int64_t n = vectors_.rows();
    if (n == 0) return 0;
    // Cells that lie over each other would ask for more memory than the file has.
    int64_t held = 0;
    for (int64_t leaf = 0; leaf < vectors_.leaves(); ++leaf)
        for (int64_t i = 0; i < vectors_.rows_in(leaf); ++i) held += vectors_.cell(leaf, i).length;
    if (held > file_bytes_) refuse("rows that are longer than the file");
    const auto bytes = static_cast<uint64_t>(4 * dim_);
    slots_.resize(static_cast<size_t>(n));
    std::vector<uint8_t> has(static_cast<size_t>(n));
    values_.resize_unfilled(static_cast<size_t>(n * dim_));
    parallel_for(vectors_.leaves(), threads, FEW_LEAVES, [&](int64_t begin, int64_t end) {
        for (int64_t leaf = begin; leaf < end; ++leaf)
            for (int64_t i = 0, at = vectors_.start(leaf); i < vectors_.rows_in(leaf); ++i, ++at) {
                const Cell cell = vectors_.cell(leaf, i);
                const Column column = TablePages::second_column(cell);
                slots_[static_cast<size_t>(at)] = cell.key;
                has[static_cast<size_t>(at)] = column.type != FIRST_BLOB;
                if (column.type == FIRST_BLOB) continue;
                if (column.type != FIRST_BLOB + 2 * bytes) refuse("not a vector of this dimension");
                vectors_.copy(cell, column.at, static_cast<int64_t>(bytes),
                              reinterpret_cast<uint8_t*>(values_.data() + at * dim_));
            }
    });
    read_numbers(slots_.back(), threads);
    int64_t kept = 0;
    numbers_.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
        const int64_t slot = slots_[static_cast<size_t>(i)];
        if (slot <= last_) refuse("slots are out of order");
        last_ = slot;
        while (used_ < record_slots_.size() && record_slots_[used_] < slot) ++used_;
        if (used_ == record_slots_.size() || record_slots_[used_] != slot) refuse("a vector of no record");
        const int64_t number = record_numbers_[used_++];
        if (!has[static_cast<size_t>(i)]) {
            bare_slots_.push_back(slot);
            bare_numbers_.push_back(number);
            continue;
        }
        if (kept < i) std::copy_n(values_.data() + i * dim_, dim_, values_.data() + kept * dim_);
        slots_[static_cast<size_t>(kept)] = slot;
        numbers_[static_cast<size_t>(kept++)] = number;
    }
    slots_.resize(static_cast<size_t>(kept));
    numbers_.resize(static_cast<size_t>(kept));
    values_.resize(static_cast<size_t>(kept * dim_));
    return n;
}

void StoredVectors::read_numbers(int64_t up_to, int64_t threads) {
    while (!records_.ended() && (record_slots_.empty() || record_slots_.back() < up_to)) {
        record_slots_.erase(record_slots_.begin(), record_slots_.begin() + static_cast<ptrdiff_t>(used_));
        record_numbers_.erase(record_numbers_.begin(), record_numbers_.begin() + static_cast<ptrdiff_t>(used_));
        used_ = 0;
        const auto had = static_cast<int64_t>(record_slots_.size());
        records_.read(RECORDS_TOGETHER, threads);
        record_slots_.resize(static_cast<size_t>(had + records_.rows()));
        record_numbers_.resize(record_slots_.size());
        parallel_for(records_.leaves(), threads, FEW_LEAVES, [&](int64_t begin, int64_t end) {
            for (int64_t leaf = begin; leaf < end; ++leaf)
                for (int64_t i = 0; i < records_.rows_in(leaf); ++i) {
                    const Cell cell = records_.cell(leaf, i);
                    const auto at = static_cast<size_t>(had + records_.start(leaf) + i);
                    record_slots_[at] = cell.key;
                    record_numbers_[at] = read_integer(records_, cell, TablePages::second_column(cell));
                }
        });
        for (size_t i = static_cast<size_t>(std::max<int64_t>(1, had)); i < record_slots_.size(); ++i)
            if (record_slots_[i] <= record_slots_[i - 1]) refuse("slots are out of order");
    }
}

}  // namespace lethevec::sqlite
