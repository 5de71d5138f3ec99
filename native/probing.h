// The order in which a query looks into buckets: by (score, table, set of flips), over all tables at once, found as it is
// asked for. Mirrors `probing` of the spec's tables.py, which says why the order is exact.
#pragma once

#include <cstdint>
#include <vector>

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

    // `values` has `bits` values for each table, those of table t from t * stride on. About `likely` buckets will be asked for:
    // where that is a good part of all of them, all are put in bins at once, which takes less time than a heap.
    Probing(const float* values, int64_t stride, int64_t tables, int64_t bits, double likely);
    // False when every bucket has been given.
    bool next(Probe& probe);

private:
    // Score, table, flips, from the highest bits down: a heap of plain numbers, since a float that is not negative orders as its
    // bits do.
    using Node = uint64_t;
    Node child(uint32_t table, float prefix, uint32_t flips, int64_t last) const;
    void replace_first(Node node);
    void push(Node node);
    void order_all(int64_t tables);
    bool next_in_order(Probe& probe);
    uint32_t key_of(uint32_t table, uint32_t flips) const;

    int64_t bits_;
    std::vector<float> sizes_;      // (tables, bits), ascending
    std::vector<uint32_t> flip_;    // (tables, bits): the bit of the key that each of them is about
    std::vector<uint32_t> home_;
    std::vector<Node> heap_;

    // All buckets, in bins of rising scores. A bin is sorted when its turn comes.
    std::vector<Node> nodes_;
    std::vector<uint32_t> ends_;  // of bins
    std::size_t at_ = 0, sorted_ = 0, bin_ = 0;
};

}  // namespace lethevec
