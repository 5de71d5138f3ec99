// A query made ready for the hash tables: whole weights for the bits of keys and signatures, so that every instruction
// set finds the same estimates. Mirrors `table_weights` of the spec's tables.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "memory/wiped.h"
#include "sources/tables/probing.h"

namespace lethevec {

class TableQuery {
public:
    // `values` has d values for each table: first those of the key, then those of the signature.
    TableQuery(const float* values, int64_t d, int64_t tables, int64_t key_bits, int64_t signature_bits);
    TableQuery(const TableQuery&) = delete;
    TableQuery& operator=(const TableQuery&) = delete;

    // How a kernel scores the signatures of each table: the sum of the weights of the bits that agree.
    const ScanQuery* signatures() const { return scans_.data(); }
    // The estimate of a row whose signature scores nothing: twice the weights of the bits that agree, less all weights.
    // Every point of the signature's score adds two.
    int32_t least(const Probe& probe) const {
        const uint32_t differ = probe.key ^ home_[probe.table];
        const uint16_t* own = differing_.data() + (2 * probe.table << half_);
        return bases_[probe.table] - 2 * (own[differ & ((1u << half_) - 1)] + own[(1u << half_) + (differ >> half_)]);
    }

    // All weights of a table add up to at most this.
    static constexpr int32_t TABLE_WEIGHT = 255;

private:
    int64_t half_;  // of a key's bits
    WipedVector<uint16_t>
        differing_;  // (tables, 2, 2^half): the weights of any pattern of bits that differ in half of a key
    WipedVector<uint32_t> home_;  // the query's own keys
    WipedVector<int32_t> bases_;  // the estimate of a row that has the query's key and a signature that scores nothing
    WipedVector<uint8_t> lookups_;  // (tables, bytes, 2, 16)
    WipedVector<uint8_t> wide_;     // the same for wider look-ups, where they are used
    WipedVector<ScanQuery> scans_;
};

// The rank-th largest of the numbers counted so far; the lowest possible while there are not as many. It only ever
// rises.
class Threshold {
public:
    // Numbers from -largest to largest.
    Threshold(int32_t largest, double rank)
        : lowest_(-largest), rank_(rank), counts_(static_cast<std::size_t>(2 * (2 * largest + 1)), 0) {}
    int32_t value() const { return lowest_ + static_cast<int32_t>(at_); }
    // Only for numbers that reach the value. `turn` is another for the next number: equal ones often come one after the
    // other, and would wait for each other.
    void count(int32_t number, std::size_t turn) {
        ++counts_[2 * static_cast<std::size_t>(number - lowest_) + turn % 2];
        reached_ += 1.0;
    }
    // The rank-th largest of the numbers counted, where that reaches the value; the value otherwise.
    int32_t largest(double rank) const {
        std::size_t at = counts_.size() / 2 - 1;
        for (double left = rank; at > at_ && left > counted(at); --at) left -= counted(at);
        return lowest_ + static_cast<int32_t>(at);
    }
    void rise() {
        while (reached_ - counted(at_) >= rank_) reached_ -= counted(at_++);
    }

private:
    double counted(std::size_t at) const { return static_cast<double>(counts_[2 * at] + counts_[2 * at + 1]); }

    int32_t lowest_;
    double rank_, reached_ = 0.0;  // how many numbers reach the value
    std::vector<uint32_t> counts_;
    std::size_t at_ = 0;
};

}  // namespace lethevec
