// One query's scan under asymmetric ranking.
//
// What it finds is every record whose key reaches a threshold, ties included, so it does not depend on the order of
// rows. A sample of the records only suggests where to look for the best of them; which these are is exact.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/dispatch.h"
#include "memory/arena.h"
#include "query/memory.h"
#include "sources/scan/limits.h"
#include "sources/scan/plan.h"
#include "sources/scan/scan.h"

namespace lethevec {

class Scan::Query {
public:
    Query(const Scope& scope, Sought& sought);
    // The candidates that the plan asks for.
    SearchWork find_nearest();
    // The same for many queries, whose first pass over all rows is one: what it reads is read once for all. Not where
    // scores are kept (see `keeps_scores`).
    static SearchWork find_nearest(const Scope& scope, Sought* sought, int64_t n);
    // Whether a search keeps the scores of all rows.
    static bool keeps_scores(const Rows& rows, const PreparedQuery& query);
    // Every row that may be found.
    SearchWork find_all();

private:
    static constexpr float LOWEST = -std::numeric_limits<float>::infinity();

    struct Memory {
        void leave() { first.wipe(); }
        std::size_t longest() const { return scores.capacity(); }
        FirstWeights first;
        std::vector<uint16_t> scores;      // of what was found
        std::vector<float> keys;           // of what was found
        std::vector<uint32_t> judge_rows;  // the reference, with what is known of it
        std::vector<uint16_t> judge_scores;
        std::vector<float> judge_norms, judge_keys, judge_factors;
        std::vector<const uint32_t*> judge_tails;
        std::vector<uint32_t> judge_differs;
        std::vector<Judge> judges;
    };

    bool keyed() const { return query_.kind != KEY_SCORE; }  // by score and norm; otherwise the score is the key
    int64_t score_bytes() const { return rows_.layout().scan_bytes > CHUNK_BYTES ? 2 : 1; }
    SearchWork work() const;
    // The first pass looks for what reaches a threshold, which is found before; what is done with it comes after.
    void begin();
    SearchWork finish();
    void judge_by_errors();
    void aim(int64_t want, int64_t least);
    void find_best();
    void find_more();
    ScanLimits judge(float reference, const ScanPlan& plan, int64_t many);
    bool more_reach(float key, int64_t many);
    std::vector<float> sample(int64_t want) const;
    float likely_threshold() const;
    void scan(float threshold);
    void begin_pass();
    template <class Visit>
    static void each_run(const Rows& rows, int64_t most_chunks, Visit visit);
    void scan_rows(int64_t c, int64_t used, float threshold);
    void scan_blocks(int64_t c, int64_t first, int64_t blocks, const uint32_t* masks, float threshold);
    void make_room(bool all_scores);
    void find_keys();
    float largest_key(int64_t rank) const;
    void keep(float threshold, std::optional<float> reference = {});
    void write_partial(float lift = 0.0f);

    const Scope& scope_;
    const Rows& rows_;
    const PreparedQuery& query_;
    Candidates& found_;
    const Kernels& kernels_;
    const Borrowed<Memory> memory_;
    const ScanPlan plan_;
    enum class Way { all, by_rank, by_errors } way_ = Way::all;  // all rows go on, or the best by their first bits
    const int64_t run_chunks_;    // chunks that one call of the kernel scans, and where it writes what it finds
    std::vector<float> sampled_;  // keys of some rows, which say how many reach a threshold
    int64_t want_ = 0;            // about so many rows are looked for,
    int64_t least_ = 0;           // and at least so many
    int64_t many_ = 0;            // no more of them are to go on, as a rule
    double slack_ = 1.0;          // and so many times as many, to have enough
    float threshold_ = LOWEST;    // that all rows reach that were found
    std::optional<Arena> room_;
    Found run_{};
    uint8_t* scores_ = nullptr;  // of all rows, where they are looked at twice
    bool scored_ = false;        // these are there
};

}  // namespace lethevec
