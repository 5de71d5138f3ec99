// The candidate source "tables": several hash tables, each with keys of its own, and query-directed multi-probe over
// them. Mirrors the spec's tables.py.
//
// A row has one place in each table, kept beside it, so that adding and forgetting a row take constant time however
// many rows share its bucket. What is kept is a function of the records: which rows share a bucket. In what order they
// lie there is not, and nobody can see it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hashing/hashing.h"
#include "memory/wiped.h"
#include "sources/source.h"
#include "sources/tables/buckets.h"

namespace lethevec {

struct TableSettings final : SourceSettings {
    std::shared_ptr<const Frame> frame;  // one rotation for each table
    int64_t key_bits = 0;
    int64_t probes = 0;         // buckets that a query looks into at effort 1
    bool of_direction = false;  // hash x/|x|
    int64_t bucket_rows = 0;    // of a bucket on average, when there are as many records as expected

    std::unique_ptr<Source> make() const override;
};

class Tables final : public Source {
public:
    static constexpr int64_t MAX_KEY_BITS = Buckets::MAX_KEY_BITS;  // heads of buckets are a plain array
    static constexpr int64_t LOOKED_BITS = 128;                     // of a key and its signature together; see the spec
    static constexpr int64_t CENTRED_FROM = 16;                     // dimensions
    static constexpr int64_t ROWS_PER_PROBE = 4;                    // see the spec

    explicit Tables(const TableSettings& settings);

    Layout layout(const Encoder& encoder, Metric metric, bool hamming) const override;
    void add(const NewRows& added, int64_t threads, const Progress& progress) override;
    void leave(const Rows& rows, const uint32_t* which, int64_t n, int64_t threads, const Progress& progress) override;
    size_t stack_of_leave() const override { return LITTLE_STACK; }
    bool changes_in_pieces() const override { return true; }
    void renumber(const Rows& rows, uint32_t last, uint32_t row) override;
    using Source::candidates;
    SearchWork candidates(const Scope& scope, Sought& sought) const override;
    int64_t bytes() const override;
    void raw_memory(std::vector<uint8_t>& all) const override;

    int64_t tables() const { return static_cast<int64_t>(tables_.size()); }
    const Buckets& table(int64_t t) const { return tables_[static_cast<size_t>(t)]; }
    // The key that a row is filed under, and whether it lies in that bucket. For tests.
    bool find(uint32_t row, int64_t table, uint32_t& key) const;

private:
    class Looking;
    static constexpr uint32_t PIECE_ROWS = 1024;

    // The places of PIECE_ROWS rows, (rows, tables), 0 where a row is in no bucket; made when the first comes, gone
    // with the last.
    struct Piece {
        WipedVector<uint32_t> places;
        uint32_t rows = 0;
    };

    uint32_t* places(uint32_t row) {
        return pieces_[row / PIECE_ROWS].places.data() + (row % PIECE_ROWS) * tables_.size();
    }
    const uint32_t* places(uint32_t row) const { return const_cast<Tables*>(this)->places(row); }
    bool filed(uint32_t row) const;
    void take_out(uint32_t row);
    void take_piece(uint32_t row);
    void release_piece(uint32_t row);
    int64_t signature_bits() const;
    int64_t signature_bytes() const { return (signature_bits() + 7) / 8; }
    // What is hashed of a vector; see `hashed` in the spec.
    void prepare(const float* x, bool is_direction, float* hashed) const;
    // Fills in a query's values, d for each table, and returns them.
    const float* values(const float* query, float* values) const;
    void hash(const float* x, int64_t n, uint32_t* keys, uint8_t* signatures) const;
    void file(const uint32_t* which, int64_t n, const uint32_t* keys, const uint8_t* signatures, int64_t threads);

    TableSettings settings_;
    std::vector<Buckets> tables_;
    std::vector<Piece> pieces_;
};

}  // namespace lethevec
