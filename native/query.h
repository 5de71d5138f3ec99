// A query made ready: whole-number weights for the bits of a record, so that every instruction set finds the same scores.
//
// Mirrors `prepare` of the spec's ranking.py, which says why the numbers are what they are.
#pragma once

#include <cstdint>
#include <vector>

#include "aligned.h"
#include "encoder.h"

namespace lethevec {

enum class Metric { cosine, l2, ip };

// What a person looks for can say as much of them as a record: it is wiped when it goes, and when only its buffers are kept.
// Filled in again for the next query it keeps them, since their sizes follow from the configuration.
struct PreparedQuery {
    PreparedQuery() = default;
    PreparedQuery(PreparedQuery&&) = default;
    PreparedQuery& operator=(PreparedQuery&&) = default;
    ~PreparedQuery() { wipe(); }
    void wipe();

    ScanQuery scan;
    KeyKind kind;
    double norm;                         // |q|
    std::vector<float> vector;           // what true distances are taken to: q, or q/|q| under cosine
    std::vector<uint8_t> tables;         // of the first stage
    AlignedVector<uint8_t> wide;         // the same for wider look-ups, where they are used: each table is a line of the cache
    std::vector<uint8_t> tail_weights;   // of the bits after the first stage, padded to words of 32
    std::vector<uint32_t> tail_signs;
    int32_t tail_half = 0;
    float first_unit = 0, tail_unit = 0; // what one unit of either score is worth
    float twice_norm = 0;
    std::vector<uint64_t> code;          // hamming

    // The estimated <q/|q|, x/|x|> and the key of the second stage, larger is nearer.
    float estimate(int32_t score, int32_t disagreement, float factor) const {
        const float first = static_cast<float>(2 * score - scan.half) * first_unit;
        const float rest = static_cast<float>(tail_half - 2 * disagreement) * tail_unit;
        return (first + rest) * factor;
    }
    float key(float estimate, float record_norm) const {
        if (kind == KEY_SCORE) return estimate;
        return kind == KEY_IP ? record_norm * estimate : record_norm * (estimate * twice_norm - record_norm);
    }
    float first_key(int32_t score, float record_norm) const {
        if (kind == KEY_SCORE) return static_cast<float>(score);
        const float twice = static_cast<float>(2 * score - scan.half);
        return kind == KEY_IP ? record_norm * twice : record_norm * (twice * scan.gain - record_norm);
    }
};

// `first` bits belong to the first stage; the rest, all of them where a source gives candidates, to the second.
void prepare(PreparedQuery& query, const Encoder& encoder, Metric metric, bool hamming, int64_t first, const float* x);

// What wider look-ups need, where they are used: `scan` has the tables of the query.
void add_wide_tables(PreparedQuery& query, ScanQuery& scan);

// Only what true distances need.
void prepare_vector(PreparedQuery& query, Metric metric, int64_t d, const float* x);
// The two kinds of whole weights by themselves. Tables for the first stage, and half the range of its scores; returns the scale.
double first_tables(const float* values, int64_t bits, std::vector<uint8_t>& tables, int32_t& half);
// Weights and signs for the second stage, padded to words of 32; returns what one unit is worth.
double tail_weights(const float* values, int64_t bits, std::vector<uint8_t>& weights, std::vector<uint32_t>& signs,
                    int32_t& half);

}  // namespace lethevec
