// The in-memory index: records in, nearest records out, records gone. One object, many readers, one writer at a time.
//
// Everything a caller can see is a function of the configuration and the records: answers are ordered by distance and
// then by id, and no step of a search looks at row numbers except to visit all rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fair_lock.h"
#include "hashing/encoder.h"
#include "rows/rows.h"
#include "search/work.h"
#include "sources/source.h"

namespace lethevec {

struct IndexSettings {
    Metric metric;
    bool hamming;       // rank by Hamming distance; otherwise asymmetric
    bool keep_vectors;  // rerank by true distance
};

// Ids that a search is restricted to, unless there is no list. Ids that are not present match nothing.
struct AllowedIds {
    const int64_t* ids = nullptr;
    int64_t n = 0;
};

struct SearchRequest {
    const float* queries = nullptr;  // (n, dim)
    int64_t n = 0, k = 0;
    double effort = 1.0;
    AllowedIds allowed;
    int64_t threads = 1;
};

// Where answers go: (n, k) of each. Where there are fewer, the id is -1 and the distance infinity.
struct Answers {
    int64_t* ids;
    float* distances;
};

// Records with codes that an index's encoder made before. `x` has their vectors; null where vectors are not kept.
struct CodedRecords {
    const int64_t* ids = nullptr;
    int64_t n = 0;
    const float* x = nullptr;
    const uint8_t* codes = nullptr;
    const float *norms = nullptr, *factors = nullptr;
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
    Index(IndexSettings settings, std::shared_ptr<const Encoder> encoder, std::unique_ptr<Source> source);

    // Each either does all of its work or, when it throws, none.
    // `progress`, if not empty, is told now and then of rows that a source has filed; it may throw, which undoes the
    // call.
    void add(const float* x, const int64_t* ids, int64_t n, int64_t threads, const Progress& progress = nullptr);
    void update(const float* x, const int64_t* ids, int64_t n, int64_t threads);
    int64_t forget(const int64_t* ids, int64_t n, bool ignore_unknown);
    // Codes as `export_codes` gave them.
    void add_codes(const CodedRecords& records, int64_t threads);
    // All codes anew, for another gain. Calls progress(rows done) now and then; nobody else can look meanwhile.
    void reencode(std::shared_ptr<const Encoder> encoder, int64_t threads,
                  const std::function<void(int64_t)>& progress);

    // The k nearest to each query.
    SearchWork search(const SearchRequest& request, const Answers& answers) const;
    // All records within `radius` of one query, by true distance where vectors are kept.
    SearchWork search_radius(const float* query, float radius, const AllowedIds& allowed,
                             std::vector<std::pair<float, int64_t>>& hits) const;

    int64_t size() const;
    int64_t dim() const { return dim_; }
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
    // Lets somebody look at rows and source while nothing changes.
    void inspect(const std::function<void(const Rows&, const Source&)>& look) const;

private:
    Layout layout() const;
    Allowed allowed_rows(const AllowedIds& allowed) const;
    // Some rows leave the source: all of them or, where there is no memory for it, none.
    void leave_source(const uint32_t* rows, int64_t n, int64_t threads);
    void remove_row(uint32_t row);
    // Tells the source of rows that were filled in; `x` is null where vectors are not kept.
    void file_rows(const float* x, const uint32_t* rows, int64_t n, int64_t threads,
                   const Progress& progress = nullptr);
    void encode_rows(const float* x, const uint32_t* rows, int64_t n, int64_t threads);
    void write_row(uint32_t row, const float* x, const uint8_t* code, double norm, float factor);

    IndexSettings settings_;
    const int64_t dim_;  // of every encoder it may get
    std::shared_ptr<const Encoder> encoder_;
    std::unique_ptr<Source> source_;
    Rows rows_;
    mutable FairLock lock_;
};

}  // namespace lethevec
