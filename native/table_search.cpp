// How a query finds candidates in hash tables, bucket after bucket. Mirrors `table_candidates` of the spec's tables.py.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

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

// Heads of so many buckets are asked for at once, and signatures of so many pairs before their turn comes. So many pairs
// are scanned together: fewer while the threshold still rises.
constexpr int64_t HEADS = 16;
constexpr int NEAR = 2;  // how near to ask for memory: into the second cache; see kernels/buckets.cpp
constexpr size_t AHEAD = 16, TOGETHER = 64, WHILE_RISING = 16;

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
          probing_(tables.values(query, values_.at(0)), tables.settings_.frame->d(), tables.tables(), tables.settings_.key_bits,
                   plan.all.buckets / BUCKETS_PER_PROBE),
          query_(values_.at(0), tables.settings_.frame->d(), tables.tables(), tables.settings_.key_bits,
                 tables.signature_bits()),
          threshold_(TableQuery::MOST, plan.rank),
          filtered_(filtered),
          masks_(masks),
          found_(found) {
        if (tables.tables() > 1) left_ = masks;
        coming_.resize(4 * TOGETHER);
        found_.reserve(4096);  // more than will be found, as a rule
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
        passed_.count = 0;
        rising_ = false;
        look_into(plan_.all);
        find_passed();
        return reference;
    }

    int64_t looked() const { return looked_; }

private:
    // Rows that reached the threshold when their turn came, and room for more, which nobody has to fill.
    struct Passed {
        std::unique_ptr<BucketRow[]> rows;
        size_t count = 0, room = 0;

        BucketRow* room_for(size_t more) {
            if (count + more > room) {
                std::unique_ptr<BucketRow[]> larger(new BucketRow[room = 2 * (count + more)]);
                std::copy_n(rows.get(), count, larger.get());
                rows = std::move(larger);
            }
            return rows.get() + count;
        }
    };

    // Waiting for memory is most of the work: what comes next is asked for before what is there is scanned. Returns how many
    // buckets it looked into.
    int64_t look_into(const Limit& limit) {
        const double before = buckets_;
        const size_t together = rising_ ? WHILE_RISING : TOGETHER;
        comes_ = 0;
        for (bool more = true, first = true; more; first = false) {
            while (more && comes_ < together + AHEAD) more = plan_next(limit);
            if (!more) {  // no rows, but somewhere
                make_room(AHEAD);
                std::fill_n(coming_.data() + comes_, AHEAD, comes_ > 0 ? coming_[comes_ - 1] : BucketPair{});
                comes_ += AHEAD;
            }
            if (first)
                for (size_t i = 0; i < AHEAD; ++i) ask_for(coming_[i]);
            const size_t now = comes_ - AHEAD;
            for (size_t from = 0; from < now; from += together) scan(from, std::min(together, now - from));
            std::copy_n(coming_.data() + now, AHEAD, coming_.data());
            comes_ = AHEAD;
        }
        return static_cast<int64_t>(buckets_ - before);
    }

    void make_room(size_t pairs) {
        if (comes_ + pairs > coming_.size()) coming_.resize(2 * (comes_ + pairs));
    }

    // Adds the pairs of the next bucket, if there is one within the limit.
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
        const int64_t apart = table.apart(), run = table.run(), bytes = table.signature_bytes();
        int64_t rows = table.rows_in_first(head);
        for (Buckets::Run b = head.first; b != Buckets::NONE; rows = run) {
            make_room(static_cast<size_t>(run / BLOCK));
            const Buckets::View view = table.view(b);
            b = view.next;
            if (rising_) seen_ += static_cast<double>(filtered_ ? count_allowed(view.rows, rows) : rows);
            // As many as a full run has are written, whether there are rows in them or not: how many cannot be predicted.
            for (int64_t from = 0; from < run; from += apart) {
                BucketPair& pair = coming_[comes_];  // filled in where it lies: a copy would wait for its parts
                pair.signatures = view.signatures + from * bytes;
                pair.numbers = view.rows + from;
                pair.rows = static_cast<uint32_t>(std::min(rows - from, apart));
                pair.table = probe.table;
                pair.base = base;
                comes_ += from < rows;
            }
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

    void ask_for(const BucketPair& pair) const {
        const Buckets& table = tables_.tables_[pair.table];
        for (int64_t byte = 0; byte < table.apart() * table.signature_bytes(); byte += 64)
            __builtin_prefetch(pair.signatures + byte, 0, NEAR);
    }

    // Some of the coming pairs. While the reference set is looked at, the threshold rises.
    void scan(size_t from, size_t pairs) {
        BucketRow* to = passed_.room_for(pairs * static_cast<size_t>(PAIR) + static_cast<size_t>(BUCKET_ROOM));
        const int64_t reached =
            active().scan_buckets(query_.signatures(), coming_.data() + from, static_cast<int64_t>(pairs),
                                  static_cast<int64_t>(AHEAD), tables_.tables_[0].apart(), threshold_.value(), to);
        const size_t before = passed_.count;
        BucketRow* end = to + reached;
        if (filtered_) end = std::remove_if(to, end, [&](const BucketRow& row) { return !has(masks_, *row.number); });
        passed_.count += static_cast<size_t>(end - to);
        if (rising_) {
            for (; to != end; ++to) threshold_.count(static_cast<int32_t>(to->estimate));
            threshold_.rise();
            return;
        }
        // Numbers are on their way while those of earlier rows, and then their codes, are asked for.
        for (; to != end; ++to) __builtin_prefetch(to->number, 0, NEAR);
        const size_t after = std::exchange(passed_.count, before);
        find_passed();
        std::copy_n(passed_.rows.get() + before, after - before, passed_.rows.get());
        passed_.count = after - before;
    }

    // All that passed are found.
    void find_passed() {
        for (size_t i = 0; i < passed_.count; ++i) find(*passed_.rows[i].number);
        passed_.count = 0;
    }

    int64_t count_allowed(const uint32_t* numbers, int64_t rows) const {
        return std::count_if(numbers, numbers + rows, [&](uint32_t row) { return has(masks_, row); });
    }

    static bool has(const std::vector<uint32_t>& masks, uint32_t row) { return masks[row / BLOCK] >> (row % BLOCK) & 1; }

    // Those of the reference buckets that passed, if their estimate is as asked for.
    template <class Fits>
    void take(Fits fits) {
        taken_.resize(passed_.count + 1);
        size_t taken = 0;
        for (size_t i = 0; i < passed_.count; ++i) {  // without a branch: which fit cannot be predicted
            taken_[taken] = passed_.rows[i].number;
            taken += fits(passed_.rows[i].estimate);
        }
        for (size_t i = 0; i < taken; ++i) __builtin_prefetch(taken_[i], 0, NEAR);
        for (size_t i = 0; i < taken; ++i) find(*taken_[i]);
    }

    // A row, unless it was found before in another table.
    void find(uint32_t row) {
        if (!left_.empty()) {
            if (!has(left_, row)) return;
            left_[row / BLOCK] ^= uint32_t{1} << (row % BLOCK);
        }
        found_.push_back(row);
        ask_for_code(row);
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
    const Plan plan_;
    Wiped<float> values_;
    Probing probing_;
    const TableQuery query_;
    Threshold threshold_;
    const bool filtered_;
    const std::vector<uint32_t>& masks_;
    std::vector<uint32_t> left_;  // rows that may be found and were not yet, a bit each; empty where a row lies in one bucket
    std::vector<uint32_t>& found_;
    Probe probes_[HEADS];
    int64_t head_at_ = 0, heads_ = 0;
    std::vector<BucketPair> coming_;
    size_t comes_ = 0;  // how many of these come
    Passed passed_;
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
