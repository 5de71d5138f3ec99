// The in-memory index: records in, nearest records out, records gone. One object, many readers, one writer at a time.
//
// Everything a caller can see is a function of the configuration and the records: answers are ordered by distance and
// then by id, and no step of a search looks at row numbers except to visit all rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "fair_lock.h"
#include "filters/filters.h"
#include "hashing/encoder.h"
#include "query/work.h"
#include "rows/held.h"
#include "rows/outlines.h"
#include "rows/rows.h"
#include "rows/selected.h"
#include "sources/source.h"

namespace lethevec {

struct IndexSettings {
    Metric metric;
    bool hamming;        // rank by Hamming distance; otherwise asymmetric
    VectorForm vectors;  // what is kept to rerank by true distance
};

// What a search is restricted to, unless there is neither: ids, of which those that are not present match nothing, or
// rows.
struct AllowedIds {
    const int64_t* ids = nullptr;
    int64_t n = 0;
    const SelectedRows* rows = nullptr;
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

// What a store has kept of an index's source, and the rows that it is of. Null where there is none.
struct Image {
    const uint8_t* data = nullptr;
    size_t bytes = 0;
    const uint32_t* rows = nullptr;
    int64_t n = 0;
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
    // With the descriptor of a file, vectors lie in it; see memory/file_pile.h.
    Index(IndexSettings settings, std::shared_ptr<const Encoder> encoder, std::unique_ptr<Source> source,
          const FileOfVectors& file = {});

    // Each either does all of its work or, when it throws, none; only when it throws FileUnsettled, all is done, but a
    // disk has not confirmed what was overwritten. What takes long is made in pieces, or on a copy of the
    // source, and searches come in between: until the call returns they may find some of its records changed and others
    // not yet. `progress`, if not empty, is told now and then of rows that are done; it may throw, which undoes the
    // call.
    void add(const float* x, const int64_t* ids, int64_t n, int64_t threads, const Progress& progress = nullptr);
    void update(const float* x, const int64_t* ids, int64_t n, int64_t threads, const Progress& progress = nullptr);
    int64_t forget(const int64_t* ids, int64_t n, bool ignore_unknown, int64_t threads = 1,
                   const Progress& progress = nullptr);
    // Codes as `export_codes` gave them.
    void add_codes(const CodedRecords& records, int64_t threads);
    // --- Many records for an index that is being made, which nobody else uses yet. When one of these throws, all that
    // can be done with the index is to drop it.

    // Rows that no search finds before `file_loaded`. A record that is there gets this vector; returns how many were.
    // Throws IdRefused where an id is given twice.
    int64_t load(const float* x, const int64_t* ids, int64_t n, int64_t threads);
    // Files every row. With an image, those of these numbers (of rows, in the order in which they were loaded) as it
    // says, where it is one of them; returns whether it is.
    bool file_loaded(const Image& image, int64_t threads, const Progress& progress);
    // What `file_loaded` takes for an index with the same configuration into which the same records were loaded in this
    // order. Empty where it would be no faster. These are all records there are.
    std::vector<uint8_t> image(const int64_t* ids, int64_t n, int64_t threads) const;

    // All codes for another gain. They are made while searches use the old ones, and exchanged at once.
    void reencode(std::shared_ptr<const Encoder> encoder, int64_t threads, const Progress& progress);

    // The k nearest to each query. Throws RowsMoved.
    SearchWork search(const SearchRequest& request, const Answers& answers) const;
    // All records within `radius` of one query, by true distance where vectors are kept.
    SearchWork search_radius(const float* query, float radius, const AllowedIds& allowed, HitList& hits) const;

    // --- Filters: fields of payloads beside the rows, which come and go with them.

    // From now on there are fields, all of them or these, and outlines of long vectors beside them unless these are
    // none. No row has any fields until `set_fields`.
    void keep_fields(std::optional<std::vector<std::string>> only);
    // The fields of records, in place of those they had; each id once. Ids that are not present are passed over.
    void set_fields(const int64_t* ids, int64_t n, const filters::Texts& texts);
    // The rows that pass for certain, and the ids of those that somebody else has to look at.
    SelectedRows select(const filters::Condition& condition, int64_t unsure_from, std::vector<int64_t>& unsure) const;
    // Adds the rows of these ids. Throws RowsMoved, as all do that are given a set of rows.
    void include(SelectedRows& rows, const int64_t* ids, int64_t n) const;
    std::vector<int64_t> ids_of(const SelectedRows& rows) const;
    // Which of these ids are among them; those that are not there are not.
    void are_selected(const SelectedRows& rows, const int64_t* ids, int64_t n, bool* out) const;

    // How much of the stack a forget of one id takes.
    size_t stack_of_forget() const { return stack_of_forget_; }

    int64_t size() const;
    int64_t dim() const { return dim_; }
    VectorForm form() const { return settings_.vectors; }
    void contains(const int64_t* ids, int64_t n, bool* out) const;
    // Ids in ascending order.
    std::vector<int64_t> ids() const;
    // Vectors of ids, (n, dim); throws IdRefused.
    void get(const int64_t* ids, int64_t n, float* out) const;
    // Zeros for codes where the source has codes of its own.
    void export_codes(const int64_t* ids, int64_t n, uint8_t* codes, float* norms, float* factors) const;
    // Adds to lanes (1024, modulo 2^16) the expansion of every record; see digest.h.
    int64_t digest_lanes(int64_t threads, uint16_t* lanes) const;

    // --- The file that vectors lie in. No call does anything where there is none.

    bool in_file() const { return rows_.file() != nullptr; }
    std::string file_path() const { return in_file() ? rows_.file()->path() : std::string(); }
    // See memory/file_pile.h.
    std::vector<std::pair<int64_t, int64_t>> parts_of_file(bool rewritten);
    // The id of the record whose vector is at this place of the file.
    std::optional<int64_t> id_at(int64_t in_file) const;
    // What is asked of vectors from then on throws FileGone.
    void overwrite_file();
    void let_go_of_file();

    struct Bytes {
        int64_t vectors, codes, map, allocated;
    };
    Bytes bytes() const;
    // For tests: a copy of every byte of every buffer that records live in, in use or not.
    std::vector<uint8_t> raw_memory() const;
    // Lets somebody look at rows and source while nothing changes.
    void inspect(const std::function<void(const Rows&, const Source&)>& look) const;

private:
    // A change of the records. In the end the disk has what it has overwritten in a file of vectors.
    class Change {
    public:
        explicit Change(Index& index);
        ~Change() noexcept(false);
        Change(const Change&) = delete;
        Change& operator=(const Change&) = delete;

    private:
        const FairLock::Change change_;
        Index& index_;
        const int before_;  // exceptions on their way
    };
    // With the lock held, or within a change. Throws Inherited in a forked child, which has none of the file of
    // vectors, and FileGone after `overwrite_file`.
    void expect_vectors() const;
    Layout layout() const;
    Allowed allowed_rows(const AllowedIds& allowed) const;
    // The row of an id, if its record can be seen.
    uint32_t find(int64_t id) const;
    // Calls work(from, count) over [0, n) with the lock held, in pieces where the source allows it, or where nobody can
    // see what is changed; between them readers get their turn, and `progress` is told.
    template <class Work>
    void in_pieces(int64_t n, int64_t threads, bool allowed, const Progress& progress, Work work);
    // Replaces the source by a copy that was changed.
    void install(std::unique_ptr<Source> changed);
    // Rows with these ids, which must be new and no two the same; `before` is how many there were before the call.
    void append_rows(const int64_t* ids, int64_t n, int64_t before, uint32_t* rows);
    // Takes rows at the end back, those from `filed` on without asking the source to let them go.
    void take_back(int64_t before, int64_t filed);
    bool restore(const Image& image, int64_t threads, const Progress& progress, std::vector<uint32_t>& rest);
    void remove_row(uint32_t row);
    // The last row, which no source knows.
    void drop_last_row();
    void expect_unmoved(const SelectedRows& rows) const;
    // Tells a source of rows that were filled in; `x` is null where vectors are not kept.
    void file_rows(Source& source, const float* x, const uint32_t* rows, int64_t n, int64_t threads,
                   const Progress& progress = nullptr) const;
    void encode_rows(const float* x, const uint32_t* rows, int64_t n, int64_t threads);
    void write_row(uint32_t row, const float* x, const uint8_t* code, double norm, float factor);

    // What rows held before a change that has failed.
    void put_back(HeldRows& before, const uint32_t* which, int64_t first, int64_t count);

    bool keeps_vectors() const { return settings_.vectors != VectorForm::none; }
    IndexSettings settings_;
    const int64_t dim_;  // of every encoder it may get
    std::shared_ptr<const Encoder> encoder_;
    std::unique_ptr<Source> source_;
    const size_t stack_of_forget_;
    Rows rows_;
    std::unique_ptr<filters::Filters> filters_;  // as many rows as there are, wherever nobody changes them
    std::unique_ptr<Outlines> outlines_;         // likewise; only beside fields, and where vectors are long
    uint64_t arrangement_;                       // another one whenever rows come or go
    int64_t shown_ = 0;  // the first rows, whose records can be seen; others are on their way in
    mutable FairLock lock_;
};

}  // namespace lethevec
