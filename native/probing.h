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

    // `values` has `bits` values for each table, those of table t from t * stride on.
    Probing(const float* values, int64_t stride, int64_t tables, int64_t bits);
    // False when every bucket has been given.
    bool next(Probe& probe);

private:
    // Score, table, flips, from the highest bits down: a heap of plain numbers, since a float that is not negative orders as its
    // bits do.
    using Node = uint64_t;
    Node child(uint32_t table, float prefix, uint32_t flips, int64_t last) const;
    void replace_first(Node node);
    void push(Node node);

    int64_t bits_;
    std::vector<float> sizes_;      // (tables, bits), ascending
    std::vector<uint32_t> flip_;    // (tables, bits): the bit of the key that each of them is about
    std::vector<uint32_t> home_;
    std::vector<Node> heap_;
};

}  // namespace lethevec
