// How a query finds candidates in hash tables, bucket after bucket. Mirrors `table_candidates` of the spec's tables.py.
#include <algorithm>
#include <cmath>

#include "dispatch.h"
#include "probing.h"
#include "table_query.h"
#include "tables.h"
#include "wiped.h"

namespace lethevec {

namespace {

// See the spec for these.
constexpr double REFERENCE = 0.125, BUCKETS_PER_PROBE = 2.0;
constexpr double PASS_SHARE = 0.003, PASS_PER_HIT = 8.0;

// Heads of so many buckets are asked for at once, and signatures of so many rows before their turn comes.
constexpr int64_t HEADS = 16, ROWS_AHEAD = 1024;

// What ends a search, or its first part: whichever comes first.
struct Limit {
    double buckets, rows;
};

struct Plan {
    Limit reference;    // of the reference set, or more if these hold fewer rows than are wanted
    Limit all;
    double wanted;      // estimates that the reference set must have
    double fixed, rank; // places among the estimates of the reference set: of what is in it, and of what passes
};

}  // namespace

// One query's way through the buckets.
class Tables::Looking {
public:
    Looking(const Tables& tables, const Rows& rows, const float* query, const Plan& plan, const std::vector<uint32_t>& masks,
            bool filtered, std::vector<uint32_t>& found)
        : tables_(tables),
          rows_(rows),
          plan_(plan),
          values_(tables.tables() * tables.settings_.frame->d()),
          probing_(tables.values(query, values_.at(0)), tables.settings_.frame->d(), tables.tables(), tables.settings_.key_bits),
          query_(values_.at(0), tables.settings_.frame->d(), tables.tables(), tables.settings_.key_bits,
                 tables.signature_bits()),
          threshold_(TableQuery::MOST, plan.rank),
          filtered_(filtered),
          masks_(masks),
          found_(found) {
        if (tables.tables() > 1) left_ = masks;
        const int64_t run = tables.tables_[0].run();
        ahead_ = static_cast<size_t>(std::max<int64_t>(2, ROWS_AHEAD / run));
        slots_.resize(static_cast<size_t>(run));
        scores_.resize(static_cast<size_t>(run));
        coming_.reserve(256);
        passed_.reserve(4096);
    }

    // Returns how many of those found are of the reference set; they come first.
    size_t look() {
        rising_ = true;
        look_into(plan_.reference);
        while (seen_ < plan_.wanted && look_into({buckets_ + 1.0, INFINITY}) > 0) {}
        const int32_t fixed = threshold_.largest(plan_.fixed);
        take([&](int64_t estimate) { return estimate >= fixed; });
        const size_t reference = found_.size();
        const int32_t least = threshold_.value();
        take([&](int64_t estimate) { return estimate >= least && estimate < fixed; });
        passed_.clear();
        rising_ = false;
        look_into(plan_.all);
        take([](int64_t) { return true; });
        return reference;
    }

    int64_t looked() const { return looked_; }

private:
    // A run whose bucket's turn has come, and the estimate of a row in it whose signature scores nothing.
    struct Coming {
        const uint8_t* signatures;
        const uint32_t* numbers;  // of its rows
        uint32_t rows, table;
        int32_t base;
    };

    // A row that reached the threshold when its run's turn came: where its number lies, and its estimate.
    struct Passed {
        const uint32_t* at;
        int64_t estimate;  // as wide as the pointer: two stores, which are read as they were written
    };

    // Waiting for memory is most of the work: what comes next is asked for before what is there is scanned. Returns how many
    // buckets it looked into.
    int64_t look_into(const Limit& limit) {
        const double before = buckets_;
        coming_.clear();
        size_t at = 0, asked = 0;
        for (bool more = true;; ++at) {
            while (more && coming_.size() <= at + ahead_) {
                if (at > 0 && at >= coming_.size() / 2) {  // forgets those that were scanned
                    coming_.erase(coming_.begin(), coming_.begin() + static_cast<std::ptrdiff_t>(at));
                    asked -= at;
                    at = 0;
                }
                more = plan_next(limit);
            }
            if (at == coming_.size()) break;
            for (; asked < coming_.size() && asked < at + ahead_; ++asked) ask_for(coming_[asked], 0);
            // The kernel asks for one more, line by line as it reads: many lines at once would have to wait for each other.
            const uint8_t* ahead = coming_[at].signatures;
            if (asked < coming_.size() && asked == at + ahead_) {
                ahead = coming_[asked].signatures;
                ask_for(coming_[asked++], coming_[at].rows);
            }
            scan(coming_[at], ahead);
        }
        return static_cast<int64_t>(buckets_ - before);
    }

    // Adds the runs of the next bucket, if there is one within the limit.
    bool plan_next(const Limit& limit) {
        if (!(buckets_ < limit.buckets && static_cast<double>(looked_) < limit.rows)) return false;
        if (head_at_ == heads_ && !find_heads()) return false;
        const Probe& probe = probes_[head_at_++];
        const Buckets& table = tables_.tables_[probe.table];
        const Buckets::Head head = table.head(probe.key);
        buckets_ += 1.0;
        if (head.rows == 0) return true;
        looked_ += head.rows;
        const int32_t base = query_.least(probe);
        uint32_t rows = table.rows_in_first(head);
        for (Buckets::Run b = head.first; b != Buckets::NONE; b = table.next_run(b)) {
            coming_.push_back({table.signatures_of(b), table.rows_of(b), rows, probe.table, base});
            rows = static_cast<uint32_t>(table.run());
        }
        return true;
    }

    // What says where runs lie is asked for early.
    bool find_heads() {
        head_at_ = heads_ = 0;
        for (; heads_ < HEADS && probing_.next(probes_[heads_]); ++heads_)
            tables_.tables_[probes_[heads_].table].prefetch_head(probes_[heads_].key);
        for (int64_t i = 0; i < heads_; ++i) {
            const Buckets& table = tables_.tables_[probes_[i].table];
            const Buckets::Head& head = table.head(probes_[i].key);
            if (head.rows > table.run()) table.prefetch_next(head.first);
        }
        return heads_ > 0;
    }

    // The signatures of its rows, without those of as many as are asked for otherwise.
    void ask_for(const Coming& run, int64_t without) const {
        const Buckets& table = tables_.tables_[run.table];
        const auto bytes = [&](int64_t rows) { return ((rows + table.apart() - 1) & -table.apart()) * table.signature_bytes(); };
        for (int64_t byte = bytes(without); byte < bytes(run.rows); byte += 64) __builtin_prefetch(run.signatures + byte);
    }

    // While the reference set is looked at, the threshold rises with every run.
    void scan(const Coming& run, const uint8_t* ahead) {
        const Buckets& table = tables_.tables_[run.table];
        if (rising_) seen_ += static_cast<double>(filtered_ ? count_allowed(run) : run.rows);
        // Twice the score, and what the key gives, must reach the threshold.
        const int32_t least = std::max(0, (threshold_.value() - run.base + 1) / 2);
        if (least > TableQuery::MOST) return;
        const auto reached = static_cast<size_t>(
            active().scan_bucket(query_.signatures(run.table), {run.signatures, run.rows, table.apart(), ahead},
                                 static_cast<uint8_t>(least), {slots_.data(), scores_.data()}));
        if (reached == 0) return;
        const size_t before = passed_.size();
        passed_.resize(before + reached);
        Passed* to = passed_.data() + before;
        for (size_t i = 0; i < reached; ++i) {
            if (filtered_ && !has(masks_, run.numbers[slots_[i]])) continue;
            const int32_t estimate = run.base + 2 * scores_[i];
            if (rising_)
                threshold_.count(estimate);
            else
                __builtin_prefetch(run.numbers + slots_[i]);
            *to++ = {run.numbers + slots_[i], estimate};
        }
        passed_.resize(static_cast<size_t>(to - passed_.data()));
        if (rising_) threshold_.rise();
    }

    int64_t count_allowed(const Coming& run) const {
        return std::count_if(run.numbers, run.numbers + run.rows, [&](uint32_t row) { return has(masks_, row); });
    }

    static bool has(const std::vector<uint32_t>& masks, uint32_t row) { return masks[row / BLOCK] >> (row % BLOCK) & 1; }

    // Those that passed, and were not found yet, if their estimate is as asked for.
    template <class Fits>
    void take(Fits fits) {
        taken_.clear();
        for (const Passed& passed : passed_) {
            if (!fits(passed.estimate)) continue;
            if (rising_) __builtin_prefetch(passed.at);
            taken_.push_back(passed.at);
        }
        for (const uint32_t* at : taken_) {
            const uint32_t row = *at;
            if (!left_.empty()) {
                if (!has(left_, row)) continue;
                left_[row / BLOCK] ^= uint32_t{1} << (row % BLOCK);
            }
            found_.push_back(row);
            ask_for_code(row);
        }
    }

    void ask_for_code(uint32_t row) const {
        const Layout& layout = rows_.layout();
        const char* at = layout.hamming_words ? reinterpret_cast<const char*>(rows_.hamming(row))
                                              : reinterpret_cast<const char*>(rows_.tail(row));
        const int64_t bytes = layout.hamming_words ? 8 * layout.hamming_words : 4 * rows_.tail_stride();
        for (int64_t byte = 0; byte < bytes - 1; byte += 64) __builtin_prefetch(at + byte);
        __builtin_prefetch(at + bytes - 1);
    }

    const Tables& tables_;
    const Rows& rows_;
    const Plan plan_;
    Wiped<float> values_;
    Probing probing_;
    const TableQuery query_;
    Threshold threshold_;
    const bool filtered_;
    size_t ahead_;  // runs
    const std::vector<uint32_t>& masks_;
    std::vector<uint32_t> left_;  // rows that may be found and were not yet, a bit each; empty where a row lies in one bucket
    std::vector<uint32_t>& found_;
    Probe probes_[HEADS];
    int64_t head_at_ = 0, heads_ = 0;
    std::vector<Coming> coming_;
    std::vector<uint32_t> slots_;
    std::vector<uint8_t> scores_;
    std::vector<Passed> passed_;
    std::vector<const uint32_t*> taken_;
    bool rising_ = true;
    double buckets_ = 0.0;
    int64_t looked_ = 0;
    double seen_ = 0.0;  // estimates of the reference set
};

const float* Tables::values(const float* query, float* values) const {
    const Frame& frame = *settings_.frame;
    Wiped<float> scratch(frame.scratch()), hashed(frame.d());
    prepare(query, true, hashed.at(0));  // under cosine the search has made it a direction already
    active().superbit(frame.view(), hashed.at(0), 1, {values, nullptr, tables() * frame.d(), nullptr}, scratch.at(0));
    return values;
}

SourceWork Tables::candidates(const Rows& rows, const float* query, int64_t wanted, double effort,
                              const std::vector<uint32_t>& masks, int64_t allowed, std::vector<uint32_t>& found,
                              std::vector<size_t>& ends) const {
    const auto some = static_cast<double>(allowed), k = static_cast<double>(wanted);
    const double share = static_cast<double>(rows.size()) / std::max(1.0, some);
    const auto probes = [&](double how) { return std::ceil(how * static_cast<double>(settings_.probes) * share); };
    const double limit = probes(effort);
    if (some <= k + static_cast<double>(ROWS_PER_PROBE) * limit) {
        for (size_t word = 0; word < masks.size(); ++word)
            for (uint32_t mask = masks[word]; mask; mask &= mask - 1)
                found.push_back(static_cast<uint32_t>(word * BLOCK) + static_cast<uint32_t>(__builtin_ctz(mask)));
        return {allowed, 0};
    }
    // In buckets of average size.
    const double looked = probes(1.0) * some / static_cast<double>(int64_t{1} << settings_.key_bits);
    const double base = PASS_SHARE * looked + PASS_PER_HIT * k, least = k * static_cast<double>(tables());
    const double fixed = std::max((4.0 * k + 16.0) * static_cast<double>(tables()), std::ceil(0.5 * base));
    const double average = static_cast<double>(rows.size()) / static_cast<double>(int64_t{1} << settings_.key_bits);
    const auto within = [&](double how) { return Limit{BUCKETS_PER_PROBE * probes(how), average * probes(how)}; };
    const Plan plan = {within(REFERENCE), within(effort), least, fixed, std::max(fixed, std::ceil(effort * base))};
    Looking looking(*this, rows, query, plan, masks, allowed != rows.size(), found);
    ends.push_back(looking.look());
    return {looking.looked(), 0};
}

}  // namespace lethevec
