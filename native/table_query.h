// A query made ready for the hash tables: whole weights for the bits of keys and signatures, so that every instruction set finds
// the same estimates. Mirrors `table_weights` of the spec's tables.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "probing.h"

namespace lethevec {

class TableQuery {
public:
    // `values` has d values for each table: first those of the key, then those of the signature.
    TableQuery(const float* values, int64_t d, int64_t tables, int64_t key_bits, int64_t signature_bits);
    ~TableQuery();
    TableQuery(const TableQuery&) = delete;
    TableQuery& operator=(const TableQuery&) = delete;

    // How a kernel scores the signatures of a table: the sum of the weights of the bits that agree.
    const ScanQuery& signatures(uint32_t table) const { return scans_[table]; }
    // The estimate of a row whose signature scores nothing: twice the weights of the bits that agree, less all weights. Every
    // point of the signature's score adds two.
    int32_t least(const Probe& probe) const {
        int32_t agree = key_totals_[probe.table];
        for (uint32_t rest = probe.key ^ home_[probe.table]; rest; rest &= rest - 1)
            agree -= keys_[static_cast<std::size_t>(probe.table * key_bits_ + __builtin_ctz(rest))];
        return 2 * agree - totals_[probe.table];
    }

    // All weights of a table add up to at most this.
    static constexpr int32_t MOST = 255;

private:
    int64_t key_bits_;
    std::vector<uint8_t> keys_;       // (tables, key_bits)
    std::vector<uint32_t> home_;      // the query's own keys
    std::vector<int32_t> key_totals_, totals_;
    std::vector<uint8_t> lookups_;    // (tables, bytes, 2, 16)
    std::vector<uint8_t> wide_;       // the same for wider look-ups, where they are used
    std::vector<ScanQuery> scans_;
};

// The rank-th largest of the numbers counted so far; the lowest possible while there are not as many. It only ever rises.
class Threshold {
public:
    // Numbers from -largest to largest.
    Threshold(int32_t largest, double rank)
        : lowest_(-largest), rank_(rank), counts_(static_cast<std::size_t>(2 * largest + 1), 0), at_(0) {}
    int32_t value() const { return lowest_ + static_cast<int32_t>(at_); }
    // Only for numbers that reach the value.
    void count(int32_t number) {
        ++counts_[static_cast<std::size_t>(number - lowest_)];
        reached_ += 1.0;
    }
    // The rank-th largest of the numbers counted, where that reaches the value; the value otherwise.
    int32_t largest(double rank) const {
        std::size_t at = counts_.size() - 1;
        for (double left = rank; at > at_ && left > counts_[at]; --at) left -= counts_[at];
        return lowest_ + static_cast<int32_t>(at);
    }
    void rise() {
        while (reached_ - counts_[at_] >= rank_) reached_ -= counts_[at_++];
    }

private:
    int32_t lowest_;
    double rank_, reached_ = 0.0;  // how many numbers reach the value
    std::vector<uint32_t> counts_;
    std::size_t at_;
};

}  // namespace lethevec
