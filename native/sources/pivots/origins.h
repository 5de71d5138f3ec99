// Where the residuals of the cells of the source "pivots" are taken from: for each cell, the mean of the few of its
// members whose ids have the smallest keyed hashes. Which these are follows from the members alone.
#pragma once

#include <cstdint>

#include "memory/growing.h"

namespace lethevec {

// By hash, then by id.
struct HashedId {
    uint64_t hash;
    int64_t id;
    bool operator<(const HashedId& other) const { return hash < other.hash || (hash == other.hash && id < other.id); }
};

class Origins {
public:
    static constexpr int64_t MEMBERS = 8;  // that count, at most
    static constexpr HashedId ALL = {UINT64_MAX, INT64_MAX};

    // `values` floats are kept for each origin beside its coordinates.
    Origins(int64_t d, int64_t values) : rows_(d), values_(values), last_(1) {}

    int64_t size() const { return last_.size(); }
    const float* row(int64_t c) const { return rows_.at(c); }
    float* row(int64_t c) { return rows_.at(c); }
    const float* values(int64_t c) const { return values_.at(c); }
    float* values(int64_t c) { return values_.at(c); }
    // Whether a record of the cell is among those that count, or one that comes would be.
    bool counts(int64_t c, const HashedId& record) const { return !(last_[c] < record); }
    // The last that counts; ALL where there are fewer than could.
    void set_last(int64_t c, const HashedId& record) { last_[c] = record; }

    // A new last one, zero, of a cell without members. May throw, changing nothing.
    void append() {
        const int64_t c = size();
        rows_.reserve(c + 1);
        values_.reserve(c + 1);
        last_.resize(c + 1);
        rows_.resize(c + 1);
        values_.resize(c + 1);
        last_[c] = ALL;
    }
    // The last one takes the number of c.
    void remove(int64_t c) {
        rows_.remove(c);
        values_.remove(c);
        last_.remove(c);
    }

    int64_t bytes() const { return rows_.bytes() + values_.bytes() + last_.bytes(); }
    void raw_memory(std::vector<uint8_t>& all) const {
        rows_.raw_memory(all);
        values_.raw_memory(all);
        last_.raw_memory(all);
    }

private:
    Growing<float> rows_, values_;
    Growing<HashedId> last_;
};

}  // namespace lethevec
