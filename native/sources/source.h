// Where a search gets its candidates: scan, tables, pivots or graph.
//
// A source has a structure that is derived from the rows. It is told of every change, under the index's write lock, and
// must at all times equal what a build from scratch over the same records gives. What one search asks of it is another
// object, `Sought`, that belongs to the search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "hashing/encoder.h"
#include "memory/arena.h"
#include "memory/registers.h"
#include "query/prepared.h"
#include "query/work.h"
#include "rows/allowed.h"
#include "rows/rows.h"

namespace lethevec {

// Is told now and then of rows that are done, or that none are yet, and may throw to stop the work. May be empty.
using Progress = std::function<void(int64_t)>;

// Rows that were filled in and are to be found from now on.
class NewRows {
public:
    // `x` has their vectors, (n, dim). Where it is null, the rows have them; or vectors are not kept, and `encoder`
    // decodes the codes of the rows: a snapshot has nothing else to make a structure from again.
    NewRows(const Rows& rows, const uint32_t* which, int64_t n, const float* x, const Encoder& encoder)
        : rows(rows), which(which), n(n), x_(x), encoder_(encoder) {}

    // The vectors of `count` of them from the i-th on. They may be written to `room`, which has room for as many.
    const float* vectors(int64_t i, int64_t count, int64_t threads, float* room) const;
    // Whether that needs the room.
    bool needs_room() const { return x_ == nullptr; }

    const Rows& rows;
    const uint32_t* const which;
    const int64_t n;

private:
    const float* x_;
    const Encoder& encoder_;
};

// What a search asks of a source beside the queries themselves.
struct Scope {
    const Rows& rows;        // while a change goes on, some of them may be in no source
    const Allowed& allowed;  // only these rows may be found
    int64_t k;
    double effort;
};

// What a source has found for a query.
struct Candidates {
    void clear() {
        rows.clear();
        partial.clear();
        norms.clear();
        distances.clear();
        reference = rank = 0;
        judged = measured = false;
    }

    std::vector<uint32_t> rows;  // each once
    // Where vectors are kept, a row goes on to its true distance if its code is at least as near as that of the
    // rank-th nearest of the first `reference` rows. These are a set that effort does not change, so that more effort
    // only ever adds rows. With rank 0 all rows go on.
    int64_t reference = 0, rank = 0;
    // Or, where `judged`, all but the first `reference` rows go on if their codes' keys reach `least`. Of these first
    // rows the true distances are known.
    bool judged = false;
    float least = 0.0f;
    size_t known() const { return judged ? static_cast<size_t>(reference) : 0; }
    // What is known of the rows already. Each list is as long as `rows`, or empty, but for true distances.
    std::vector<float> partial;    // the part of the estimate that their first bits give
    std::vector<float> norms;      // where the metric needs them
    std::vector<float> distances;  // by their whole codes; after the search's last stage, the ones to answer with
    bool measured = false;         // whether they are those to answer with already
};

// A query, and what has been found for it.
struct Sought {
    PreparedQuery query;
    Candidates candidates;
    Arena::Stretch room;  // that a source works in for it: what it leaves there is there for the next query of the call
};

class Source {
public:
    virtual ~Source() = default;

    // How the rows are to keep codes for it. No codes at all, where the structure has its own.
    virtual Layout layout(const Encoder& encoder, Metric metric, bool hamming) const = 0;

    // --- Changes

    // These rows are to be found from now on. Where there is no memory it throws with nothing changed. `progress` is
    // for copies alone: when it throws, all that can be done with the copy is to drop it.
    virtual void add(const NewRows& added, int64_t threads, const Progress& progress) = 0;
    // These rows are not to be found any more. They keep their numbers and what is in them until the call returns.
    // Throws as `add` does.
    virtual void leave(const Rows& rows, const uint32_t* which, int64_t n, int64_t threads,
                       const Progress& progress) = 0;
    // What the next call of `add` or `leave` on this source needs and can be found out while searches go on, so that
    // they wait less. It may be called for a change that is then not made. May throw, changing nothing.
    virtual void foresee_add(const Rows& rows, const float* x, const int64_t* ids, int64_t n, int64_t threads) {
        (void)rows, (void)x, (void)ids, (void)n, (void)threads;
    }
    virtual void foresee_leave(const Rows& rows, const uint32_t* which, int64_t n, int64_t threads) {
        (void)rows, (void)which, (void)n, (void)threads;
    }
    // Called when the change is over.
    virtual void forget_foreseen() {}
    // A copy to make a change of n rows on while searches use this one; null where the change is so small, or so easily
    // made in pieces, that they had better wait for it. May throw.
    virtual std::unique_ptr<Source> copy_for(int64_t n) const {
        (void)n;
        return nullptr;
    }
    // A copy without these rows, or null likewise. It never takes much longer than a new source of those that stay.
    virtual std::unique_ptr<Source> copy_without(const Rows& rows, const uint32_t* which, int64_t n, int64_t threads,
                                                 const Progress& progress) const {
        std::unique_ptr<Source> copy = copy_for(n);
        if (copy) copy->leave(rows, which, n, threads, progress);
        return copy;
    }
    // How much of the stack `leave` of a single row may take.
    virtual size_t stack_of_leave() const { return STACK; }
    // Whether a change may be made in pieces: `leave` never throws, and many rows cost as much as each of them.
    virtual bool changes_in_pieces() const { return false; }
    // The last row is about to take the number of `row`, which has left.
    virtual void renumber(const Rows& rows, uint32_t last, uint32_t row) = 0;

    // --- Images: what of a structure takes long to find, for a store to keep, so that it opens quickly

    // Of these rows, which are all that it has, in this order; empty where nothing takes long. What it says follows
    // from the records and their order alone.
    virtual std::vector<uint8_t> image(const Rows& rows, const uint32_t* which, int64_t n) const {
        (void)rows, (void)which, (void)n;
        return {};
    }
    // `add` to a source that has no rows, with the image of the same rows in the same order. False, and nothing has
    // changed, where it can be no image of them. When it throws, all that can be done with the source is to drop it.
    virtual bool restore(const NewRows& added, const uint8_t* image, size_t bytes, int64_t threads,
                         const Progress& progress) {
        (void)added, (void)image, (void)bytes, (void)threads, (void)progress;
        return false;
    }

    // --- Queries

    // Fills in the candidates of a query, at least k where as many rows may be found. Returns what it looked at.
    virtual SearchWork candidates(const Scope& scope, Sought& sought) const = 0;
    // How many queries are worth looking for in one pass, and that pass. Each finds what it finds alone.
    virtual int64_t queries_together(const Scope&) const { return 1; }
    virtual SearchWork candidates(const Scope& scope, Sought* sought, int64_t n) const {
        SearchWork work;
        for (int64_t i = 0; i < n; ++i) work += candidates(scope, sought[i]);
        return work;
    }
    // Every row that may be found, whatever k and effort; those whose codes are further than `within` may be left out.
    // Only for codes alone, where vectors are not kept. Returns what it looked at.
    virtual SearchWork everything(const Scope& scope, float within, Sought& sought) const;

protected:
    // So many queries, or fewer, where each finds so many rows that those of all would take much memory.
    static int64_t few_enough(int64_t queries, int64_t found) {
        constexpr int64_t FOUND_TOGETHER = 1 << 20;
        return std::max<int64_t>(1, std::min(queries, FOUND_TOGETHER / std::max<int64_t>(1, found)));
    }

public:
    // --- Memory

    virtual int64_t bytes() const = 0;
    // A copy of all of its memory, in use or not. For tests.
    virtual void raw_memory(std::vector<uint8_t>& all) const = 0;
};

// What a source is made from.
class SourceSettings {
public:
    virtual ~SourceSettings() = default;
    virtual std::unique_ptr<Source> make() const = 0;
};

}  // namespace lethevec
