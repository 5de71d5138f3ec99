// How a query finds candidates in hash tables, bucket after bucket. Mirrors `table_candidates` of the spec's tables.py.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "kernels/dispatch.h"
#include "memory/wiped.h"
#include "sources/elsewhere.h"
#include "sources/tables/bucket_path.h"
#include "sources/tables/known_rows.h"
#include "sources/tables/tables.h"

namespace lethevec {

namespace {

// See the spec for these.
constexpr double REFERENCE_EFFORT = 0.13, BUCKETS_PER_PROBE = 2.0;
constexpr double PASS_SHARE = 0.003, PASS_PER_K = 15.0;
constexpr double TABLE_REFERENCE = 16.0, TABLE_REFERENCE_PER_K = 4.0, TABLE_REFERENCE_ONE_IN = 3.0;
constexpr double FILTER = 12.0, FILTER_PER_K = 2.4, FAR_BEYOND = 4.0;

constexpr int NEAR = 2;  // how near to ask for memory: into the second cache; see kernels/buckets.cpp
// So many rows are scanned together: fewer while the threshold still rises.
constexpr int64_t TOGETHER = 4096, WHILE_RISING = 1024;

using Limit = BucketPath::Limit;

struct TablePlan {
    Limit reference;  // of the reference set, or more if these hold fewer rows than are wanted
    Limit all;
    double wanted;       // estimates that the reference set must have
    double fixed, rank;  // places among the estimates of the reference set: of what is in it, and of what passes
};

// Room for what the kernel finds, which nobody has to fill.
class FoundRoom {
public:
    // For so many after the first `count`, which stay.
    BucketRows for_more(size_t count, size_t more) {
        more += static_cast<size_t>(BUCKET_ROOM);
        if (count + more > room_) {
            const size_t larger = 2 * (count + more);
            std::unique_ptr<uint32_t[]> places(new uint32_t[larger]);
            std::unique_ptr<int32_t[]> estimates(new int32_t[larger]);
            std::copy_n(places_.get(), count, places.get());
            std::copy_n(estimates_.get(), count, estimates.get());
            places_ = std::move(places);
            estimates_ = std::move(estimates);
            room_ = larger;
        }
        return {places_.get() + count, estimates_.get() + count};
    }
    uint32_t place(size_t i) const { return places_[i]; }
    int32_t estimate(size_t i) const { return estimates_[i]; }

private:
    std::unique_ptr<uint32_t[]> places_;
    std::unique_ptr<int32_t[]> estimates_;
    size_t room_ = 0;
};

}  // namespace

// One query's search of the buckets.
class Tables::Looking {
public:
    Looking(const Tables& tables, const Scope& scope, const float* query, const TablePlan& plan,
            std::vector<uint32_t>& found)
        : tables_(tables),
          rows_(scope.rows),
          plan_(plan),
          values_(tables.tables() * tables.settings_.frame->d()),
          query_(tables.values(query, values_.at(0)), tables.settings_.frame->d(), tables.tables(),
                 tables.settings_.key_bits, tables.signature_bits()),
          path_(tables.tables_, query_, values_.at(0), tables.settings_.frame->d(), tables.settings_.key_bits,
                plan.all.buckets / BUCKETS_PER_PROBE),
          threshold_(TableQuery::TABLE_WEIGHT, plan.rank),
          run_(tables.tables_[0].run()),
          run_shift_(__builtin_ctzll(static_cast<uint64_t>(run_))),
          filtered_(!scope.allowed.masks().empty() && scope.allowed.count() != rows_.size()),
          masks_(scope.allowed.masks()),
          allowed_(scope.allowed.count()),
          found_(found),
          known_(tables.tables() > 1 ? rows_.size() : 0, found) {
        found_.reserve(4096);  // more than will be found, as a rule
        runs_.reserve(256);
    }

    // Returns how many of those found are of the reference set; they come first. -1: what may be found lies elsewhere,
    // and nothing has been found.
    int64_t look() {
        look_at_first(plan_.reference);
        while (seen_ < plan_.wanted && look_at_first({static_cast<double>(path_.buckets()) + 1.0, INFINITY})) {
        }
        if (filtered_ && fewer_than_chance(rows_.size(), allowed_, path_.rows(), static_cast<int64_t>(seen_)))
            return -1;
        const int32_t fixed = threshold_.largest(plan_.fixed), least = threshold_.value();
        take([&](int32_t estimate) { return estimate >= fixed; });
        const auto reference = static_cast<int64_t>(found_.size());
        take([&](int32_t estimate) { return estimate >= least && estimate < fixed; });
        runs_.clear();
        look_at_others();
        return reference;
    }

    int64_t looked() const { return path_.rows(); }

private:
    // The first buckets. The threshold rises as they are looked at, so not all that reach it now will do so in the end;
    // they wait, and so do the runs that they lie in. Returns whether there was a bucket.
    bool look_at_first(const Limit& limit) {
        const int64_t before = path_.buckets();
        each_part(limit, WHILE_RISING, [&](size_t from, size_t to) {
            const size_t first = waiting_;
            waiting_ += scan(from, to, first);
            if (filtered_) waiting_ = keep_allowed(first);
            for (size_t i = first; i < waiting_; ++i) threshold_.count(room_.estimate(i), i);
            threshold_.rise();
            for (size_t r = from; r < to; ++r)
                seen_ += static_cast<double>(filtered_ ? count_allowed(runs_[r]) : int64_t{runs_[r].rows});
        });
        return path_.buckets() > before;
    }

    // All others. The threshold is known, and what reaches it is found.
    void look_at_others() {
        std::vector<const uint32_t*> numbers, earlier;
        each_part(plan_.all, TOGETHER, [&](size_t from, size_t to) {
            // Numbers are on their way while those of earlier rows, and then their codes, are asked for.
            const size_t reached = scan(from, to, 0);
            numbers.resize(reached);
            for (size_t i = 0; i < reached; ++i) {
                numbers[i] = number(room_.place(i));
                __builtin_prefetch(numbers[i], 0, NEAR);
            }
            find(earlier.data(), earlier.size());
            earlier.swap(numbers);
        });
        find(earlier.data(), earlier.size());
    }

    // Calls look(from, to) for runs from `from` on, up to `to`, about as many rows together as it says, until the limit
    // is reached. The last run that is known is not looked at before it is known what comes after it: this is asked for
    // meanwhile.
    template <class Look>
    void each_part(const Limit& limit, int64_t together, Look look) {
        size_t from = runs_.size();
        for (bool more = true; more;) {
            for (const int64_t before = path_.rows(); more && path_.rows() < before + together;)
                more = path_.next(limit, runs_);
            if (from == runs_.size()) return;
            if (!more) runs_.push_back(runs_.back());  // somewhere
            while (from + 1 < runs_.size()) {
                size_t to = from;
                for (int64_t rows = 0; to + 1 < runs_.size() && rows < together; ++to) rows += runs_[to].rows;
                look(from, to);
                from = to;
            }
        }
        runs_.pop_back();
    }

    // Rows that reach the threshold, after the first `count` of those that are known: returns how many. Their places
    // are counted from the first of all runs.
    size_t scan(size_t from, size_t to, size_t count) {
        size_t rows = 0;
        for (size_t r = from; r < to; ++r) rows += runs_[r].rows;
        const BucketRows found = room_.for_more(count, rows);
        const int64_t reached = active().scan_buckets(query_.signatures(), tables_.tables(), runs_.data() + from,
                                                      static_cast<int64_t>(to - from), run_, threshold_.value(), found);
        const auto offset = static_cast<uint32_t>(from << run_shift_);
        for (int64_t i = 0; i < reached; ++i) found.places[i] += offset;
        return static_cast<size_t>(reached);
    }

    const uint32_t* number(uint32_t place) const {
        return runs_[place >> run_shift_].numbers + (place & static_cast<uint32_t>(run_ - 1));
    }

    // Of those that wait, from the first on, the ones that may be found; returns how many wait then.
    size_t keep_allowed(size_t first) {
        const BucketRows rows = room_.for_more(0, 0);
        size_t kept = first;
        for (size_t i = first; i < waiting_; ++i) {
            rows.places[kept] = rows.places[i];
            rows.estimates[kept] = rows.estimates[i];
            kept += allowed(*number(rows.places[i]));
        }
        return kept;
    }

    int64_t count_allowed(const BucketRun& run) const {
        return std::count_if(run.numbers, run.numbers + run.rows, [&](uint32_t row) { return allowed(row); });
    }

    bool allowed(uint32_t row) const { return masks_[row / BLOCK] >> (row % BLOCK) & 1; }

    // Those that wait, if their estimate is as asked for.
    template <class Fits>
    void take(Fits fits) {
        std::vector<uint32_t> places(waiting_ + 1);
        size_t count = 0;
        for (size_t i = 0; i < waiting_; ++i) {  // without a branch: which fit cannot be predicted
            places[count] = room_.place(i);
            count += fits(room_.estimate(i));
        }
        std::vector<const uint32_t*> numbers(count);
        for (size_t i = 0; i < count; ++i) {
            numbers[i] = number(places[i]);
            __builtin_prefetch(numbers[i], 0, NEAR);
        }
        find(numbers.data(), count);
    }

    // Rows, except those that are shut out or were found before: in another table, or in the reference set.
    void find(const uint32_t* const* numbers, size_t n) {
        size_t count = found_.size();
        found_.resize(count + n);
        uint32_t* found = found_.data();
        const bool once = tables_.tables() == 1;
        for (size_t i = 0; i < n; ++i) {
            const uint32_t row = *numbers[i];
            if (filtered_ && !allowed(row)) continue;
            if (!once && !known_.add(row)) continue;
            found[count++] = row;
            ask_for_code(row);
        }
        found_.resize(count);
    }

    void ask_for_code(uint32_t row) const {
        const Layout& layout = rows_.layout();
        const char* at = layout.hamming_words ? reinterpret_cast<const char*>(rows_.hamming(row))
                                              : reinterpret_cast<const char*>(rows_.tail(row));
        const int64_t bytes = layout.hamming_words ? 8 * layout.hamming_words : 4 * rows_.tail_stride();
        for (int64_t byte = 0; byte < bytes - 1; byte += 64) __builtin_prefetch(at + byte, 0, NEAR);
        __builtin_prefetch(at + bytes - 1, 0, NEAR);
    }

    const Tables& tables_;
    const Rows& rows_;
    const TablePlan plan_;
    Wiped<float> values_;
    const TableQuery query_;
    BucketPath path_;
    Threshold threshold_;
    const int64_t run_;
    const int run_shift_;
    const bool filtered_;
    const std::vector<uint32_t>& masks_;
    const int64_t allowed_;
    std::vector<uint32_t>& found_;
    KnownRows known_;
    std::vector<BucketRun> runs_;  // that were looked at and are still needed, and that come
    FoundRoom room_;
    size_t waiting_ = 0;  // rows of the first buckets that reached the threshold when their turn came
    double seen_ = 0.0;   // rows of the first buckets that may be found
};

const float* Tables::values(const float* query, float* values) const {
    const Frame& frame = *settings_.frame;
    Wiped<float> scratch(frame.scratch()), hashed(frame.d());
    prepare(query, true, hashed.at(0));  // under cosine the search has made it a direction already
    active().superbit(frame.view(), hashed.at(0), 1, {values, nullptr, tables() * frame.d(), nullptr}, scratch.at(0));
    return values;
}

SearchWork Tables::candidates(const Scope& scope, Sought& sought) const {
    const Rows& rows = scope.rows;
    Candidates& found = sought.candidates;
    const auto some = static_cast<double>(scope.allowed.count()), k = static_cast<double>(scope.k);
    const double share = static_cast<double>(rows.size()) / std::max(1.0, some);
    const auto probes = [&](double how) { return std::ceil(how * static_cast<double>(settings_.probes) * share); };
    const double limit = probes(scope.effort);
    const auto take_all = [&] { scope.allowed.list(found.rows); };
    if (some <= k + static_cast<double>(ROWS_PER_PROBE) * limit) {
        take_all();
        return {scope.allowed.count(), 0, 0, 0};
    }
    // In buckets of average size.
    const double looked = probes(1.0) * some / static_cast<double>(int64_t{1} << settings_.key_bits);
    const double base = PASS_SHARE * looked + PASS_PER_K * k, least = k * static_cast<double>(tables());
    const double fixed = std::max((TABLE_REFERENCE_PER_K * k + TABLE_REFERENCE) * static_cast<double>(tables()),
                                  std::ceil(base / TABLE_REFERENCE_ONE_IN));
    const double average = static_cast<double>(rows.size()) / static_cast<double>(int64_t{1} << settings_.key_bits);
    const auto within = [&](double how) { return Limit{BUCKETS_PER_PROBE * probes(how), average * probes(how)}; };
    const TablePlan plan = {within(REFERENCE_EFFORT), within(scope.effort), least, fixed,
                            std::max(fixed, std::ceil(scope.effort * base))};
    Looking looking(*this, scope, sought.query.vector.data(), plan, found.rows);
    const int64_t of_reference = looking.look();
    if (of_reference < 0) {
        take_all();
        return {looking.looked(), 0, 0, looking.looked() * signature_bytes()};
    }
    found.reference = of_reference;
    // Looking at codes is for nothing when all candidates would go on.
    const double rank = std::ceil(std::max(k, scope.effort * (FILTER_PER_K * k + FILTER)));
    const auto reference = static_cast<double>(found.reference);
    if (rank <= FAR_BEYOND * reference) found.rank = static_cast<int64_t>(std::min(rank, reference));
    return {looking.looked(), 0, 0, looking.looked() * signature_bytes()};
}

}  // namespace lethevec
