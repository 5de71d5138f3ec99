// Which rows a search has found, a bit each, so that a row that lies in several buckets is found once.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/kernels.h"

namespace lethevec {

// A thread keeps the bits for its next search and takes out of them what it put in: they are many, and the rows found
// are few.
class KnownRows {
public:
    // Of so many rows, or of none: then nothing may be asked of it. `found` will have all rows that are added when this
    // ends.
    KnownRows(int64_t rows, const std::vector<uint32_t>& found) : found_(found) {
        if (rows == 0) return;
        bits_ = std::move(spare());
        const auto words = static_cast<std::size_t>((rows + BLOCK - 1) / BLOCK);
        if (bits_.size() < words) bits_.resize(words, 0);
    }
    ~KnownRows() {
        if (bits_.empty()) return;
        for (const uint32_t row : found_) bits_[row / BLOCK] = 0;
        spare() = std::move(bits_);
    }
    KnownRows(const KnownRows&) = delete;
    KnownRows& operator=(const KnownRows&) = delete;

    // Whether it was not known yet; it is now.
    bool add(uint32_t row) {
        uint32_t& word = bits_[row / BLOCK];
        const uint32_t bit = uint32_t{1} << (row % BLOCK), before = word;
        word |= bit;
        return !(before & bit);
    }

private:
    static std::vector<uint32_t>& spare() {
        thread_local std::vector<uint32_t> kept;
        return kept;
    }
    const std::vector<uint32_t>& found_;
    std::vector<uint32_t> bits_;
};

}  // namespace lethevec
