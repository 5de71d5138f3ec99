// A query made ready: what every stage of a search compares records with.
//
// Weights are whole numbers, so that every instruction set finds the same scores. Mirrors the spec's ranking.py, which
// says why the numbers are what they are.
#pragma once

#include <cstdint>

#include "hashing/encoder.h"
#include "memory/wiped.h"
#include "rows/rows.h"

namespace lethevec {

enum class Metric { cosine, l2, ip };

// What a person looks for can say as much of them as a record. So everything here is wiped when it goes: its lists by
// their type, and its numbers by `wipe`, which also empties the lists where they are kept for the next query.

// A query against the first bits of codes: tables of what the bits are worth.
struct FirstWeights {
    ~FirstWeights() { wipe(); }
    FirstWeights() = default;
    FirstWeights(FirstWeights&&) = default;
    FirstWeights& operator=(FirstWeights&&) = default;
    void wipe();
    // Whole weights for these coordinates of a query: as large as a first stage that sums in bytes allows.
    // `want_wide`: with wider tables, where the kernels that scan have a use for them.
    void set(const float* values, int64_t bits, bool want_wide = true);

    ScanQuery view{};             // for kernels; its gain is left to the caller
    double unit = 0.0;            // what one unit of a score is worth
    WipedVector<uint8_t> tables;  // that the view points to
    WipedVector<uint8_t> wide;    // the same for wider look-ups: each table is a line of the cache
};

// A query against the rest of codes: a weight of up to 127 and a sign for each bit, padded to words of 32 bits.
struct TailWeights {
    ~TailWeights() { wipe(); }
    TailWeights() = default;
    TailWeights(TailWeights&&) = default;
    TailWeights& operator=(TailWeights&&) = default;
    void wipe();
    void set(const float* values, int64_t bits);

    WipedVector<uint8_t> weights;
    WipedVector<uint32_t> signs;
    int32_t sum = 0;    // of all weights
    double unit = 0.0;  // what one unit is worth
};

struct PreparedQuery {
    PreparedQuery() = default;
    PreparedQuery(PreparedQuery&&) = default;
    PreparedQuery& operator=(PreparedQuery&&) = default;
    ~PreparedQuery() { wipe(); }
    void wipe();

    KeyKind kind = KEY_SCORE;
    double norm = 0.0;          // |q|
    WipedVector<float> vector;  // what true distances are taken to: q, or q/|q| under cosine

    // Asymmetric ranking: the coordinates of the query that the bits of a code stand for.
    WipedVector<float> values;
    TailWeights tail;  // for the bits after the first ones of the layout
    // What the first bits of a record come to against its own direction, on average. 0: the query says it better (see
    // the spec's `first_alignment`).
    double alignment = 0.0;
    // Progressive codes: the usual error of a cosine by the first bits and by all of them. 0: not known.
    double first_error = 0.0, code_error = 0.0;

    WipedVector<uint64_t> code;  // Hamming ranking

    // The key of a record by its whole code, larger is nearer, for the estimate of <q/|q|, x/|x|>.
    float key(float estimate, float record_norm) const {
        if (kind == KEY_SCORE) return estimate;
        return kind == KEY_IP ? record_norm * estimate
                              : record_norm * (estimate * static_cast<float>(2.0 * norm) - record_norm);
    }
};

// Only what true distances need.
void prepare_vector(PreparedQuery& query, Metric metric, int64_t d, const float* x);
// What they and codes in this layout need.
void prepare(PreparedQuery& query, const Encoder& encoder, Metric metric, const Layout& layout, const float* x);

}  // namespace lethevec
