// The in-memory index: records in, nearest records out, records gone. One object, many readers, one writer at a time.
//
// Everything a caller can see is a function of the configuration and the records: answers are ordered by distance and then by
// id, and no step of a search looks at row numbers except to visit all rows.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "encoder.h"
#include "fair_lock.h"
#include "query.h"
#include "rows.h"
#include "search_plan.h"
#include "source.h"

namespace lethevec {

struct IndexSettings {
    Metric metric;
    bool hamming;       // rank by Hamming distance; otherwise asymmetric
    bool keep_vectors;  // rerank by true distance
    // What a search reads of a record that it scans, refines or reranks, in bytes.
    std::array<int64_t, 3> bytes_of_stages{};
};

struct SearchWork {
    int64_t scanned = 0, refined = 0, reranked = 0, bytes_read = 0;
};

// An id that a call cannot use: already present, absent, or given twice.
struct IdRefused : std::runtime_error {
    enum Why { present, absent, repeated };
    IdRefused(int64_t id, Why why) : std::runtime_error("id refused"), id(id), why(why) {}
    int64_t id;
    Why why;
};

class Index {
public:
    // Without a source, all codes are scanned.
    Index(IndexSettings settings, std::shared_ptr<const Encoder> encoder, std::unique_ptr<Source> source = nullptr);

    // Each either does all of its work or, when it throws, none.
    // `progress`, if not empty, is told now and then of rows that a source has filed; it may throw, which undoes the call.
    void add(const float* x, const int64_t* ids, int64_t n, int64_t threads,
             const std::function<void(int64_t)>& progress = nullptr);
    void update(const float* x, const int64_t* ids, int64_t n, int64_t threads);
    int64_t forget(const int64_t* ids, int64_t n, bool ignore_unknown);
    // Records with codes that this index's encoder made before, as `export_codes` gave them. `x` has their vectors; null where
    // vectors are not kept.
    void add_codes(const float* x, const uint8_t* codes, const float* norms, const float* factors, const int64_t* ids,
                   int64_t n, int64_t threads);
    // All codes anew, for another gain. Calls progress(rows done) now and then; nobody else can look meanwhile.
    void reencode(std::shared_ptr<const Encoder> encoder, int64_t threads, const std::function<void(int64_t)>& progress);

    // k nearest to each query: ids (n, k), -1 where there are fewer, and distances (n, k), infinity there.
    // `allowed` restricts to these ids (unknown ones match nothing) unless null.
    SearchWork search(const float* queries, int64_t n, int64_t k, double effort, const int64_t* allowed, int64_t allowed_n,
                      int64_t threads, int64_t* ids, float* distances) const;
    // All records within `radius` of one query, by true distance where vectors are kept.
    void search_radius(const float* query, float radius, const int64_t* allowed, int64_t allowed_n,
                       std::vector<std::pair<float, int64_t>>& hits) const;

    int64_t size() const;
    int64_t dim() const { return dim_; }
    // Whether a vector of zeros means nothing to it.
    bool needs_direction() const { return settings_.metric == Metric::cosine; }
    void contains(const int64_t* ids, int64_t n, bool* out) const;
    // Ids in ascending order.
    std::vector<int64_t> ids() const;
    // Vectors of ids, (n, dim); throws IdRefused.
    void get(const int64_t* ids, int64_t n, float* out) const;
    // Zeros for codes where the source has codes of its own.
    void export_codes(const int64_t* ids, int64_t n, uint8_t* codes, float* norms, float* factors) const;
    // Adds to lanes (1024, modulo 2^16) the expansion of every record; see digest.h.
    int64_t digest_lanes(int64_t threads, uint16_t* lanes) const;

    struct Bytes {
        int64_t vectors, codes, map, allocated;
    };
    Bytes bytes() const;
    // For tests: a copy of every byte of every buffer that records live in, in use or not.
    std::vector<uint8_t> raw_memory() const;
    // Lets somebody look at rows and source (null for a scan) while nothing changes.
    void inspect(const std::function<void(const Rows&, const Source*)>& look) const;

    SearchPlan plan(int64_t records, int64_t k, double effort) const;
    // Bits of a code that the first stage looks at; none when a source gives the candidates.
    int64_t first_bits() const { return source_ ? 0 : encoder_->first_bits(); }

private:
    friend class Searcher;
    struct Held;  // see index_rows.h
    // A source that ranks has codes of its own, and then there are no others.
    bool keeps_codes() const { return !source_ || !source_->ranks(); }
    // Some rows leave the source, one after the other: all of them or, where one cannot, none.
    void leave_source(const std::vector<uint32_t>& rows);
    void remove_row(uint32_t row);
    void file_rows(const float* x, const uint32_t* rows, int64_t n, int64_t threads,
                   const std::function<void(int64_t)>& progress = nullptr);
    void encode_rows(const float* x, const uint32_t* rows, int64_t n, int64_t threads);
    void write_row(uint32_t row, const float* x, const uint8_t* code, double norm, float factor);
    void read_code(uint32_t row, uint8_t* code) const;

    IndexSettings settings_;
    const int64_t dim_;  // of every encoder it may get
    std::shared_ptr<const Encoder> encoder_;
    std::unique_ptr<Source> source_;
    Rows rows_;
    mutable FairLock lock_;
};

}  // namespace lethevec
