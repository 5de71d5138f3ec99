// The order in which a query looks into buckets: by (score, table, set of flips), over all tables at once, found as it
// is asked for. Mirrors `probing` of the spec's tables.py, which says why the order is exact.
#pragma once

#include <cstdint>

#include "memory/wiped.h"

namespace lethevec {

struct Probe {
    float score;
    uint32_t table;
    uint32_t key;
};

class Probing {
public:
    // What fits beside the score in a number of 64 bits.
    static constexpr int64_t MAX_TABLES = 256;
    static constexpr int64_t MAX_BITS = 24;

    // `values` has `bits` values for each table, those of table t from t * stride on. About `likely` buckets will be
    // asked for: where they are many, about as many are put in order at once, which takes less time than a heap.
    Probing(const float* values, int64_t stride, int64_t tables, int64_t bits, double likely);
    Probing(const Probing&) = delete;
    Probing& operator=(const Probing&) = delete;
    // False when every bucket has been given.
    bool next(Probe& probe);

private:
    // Score, table, flips, from the highest bits down: a heap of plain numbers, since a float that is not negative
    // orders as its bits do.
    using Node = uint64_t;
    Node child(uint32_t table, float prefix, uint32_t flips, int64_t last) const;
    void replace_first(Node node);
    void push(Node node);
    bool next_of_heap(Probe& probe);
    void count_buckets();
    std::size_t level_of(double buckets) const;
    bool order_more();
    void list_buckets(float above, float most);
    bool next_in_order(Probe& probe);
    void fill_keys();
    uint32_t key_of(uint32_t table, uint32_t flips) const {
        const uint32_t* keys = keys_.data() + (std::size_t{2} * table << half_);
        return keys[flips & ((1u << half_) - 1)] ^ keys[(std::size_t{1} << half_) + (flips >> half_)];
    }

    int64_t bits_;
    WipedVector<float> sizes_;    // (tables, bits), ascending
    WipedVector<uint32_t> flip_;  // (tables, bits): the bit of the key that each of them is about
    WipedVector<uint32_t> home_;
    WipedVector<Node> heap_;

    // Where buckets are put in order: so far those whose scores are at most `most_`, the last of them in bins of rising
    // scores. A bin is sorted when its turn comes.
    static constexpr int64_t LEVELS = 128;
    bool in_order_ = false;
    double wanted_ = 0.0;        // how many there should be in order
    WipedVector<double> up_to_;  // about how many buckets there are up to each level of the score
    float level_ = 0.0f, most_ = -1.0f;
    int64_t half_ = 0;  // of a key's bits
    WipedVector<uint32_t>
        keys_;  // (tables, 2, 2^half): what sets of flips of either half make of a key; the lower has the home
    WipedVector<float> scores_;
    WipedVector<uint32_t> sets_;  // table and flips
    WipedVector<int32_t> bins_;
    WipedVector<Node> nodes_;
    WipedVector<uint32_t> ends_;  // of bins
    std::size_t at_ = 0, sorted_ = 0, bin_ = 0;
};

}  // namespace lethevec
