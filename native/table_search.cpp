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
constexpr double REFERENCE = 0.125;
constexpr double PASS_SHARE = 0.003, PASS_PER_HIT = 8.0;

// Buckets that are asked for before those that are scanned: as many as have about so many rows.
constexpr int64_t MOST_AHEAD = 16, ROWS_AHEAD = 3072;

struct Plan {
    int64_t reference;  // buckets of the reference set, or more if they hold fewer rows than are wanted
    int64_t limit;      // buckets to look into
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
        const Buckets& table = tables.tables_[0];
        const int64_t rows_of_all = table.runs() * table.run() + 1;
        ahead_ = std::min(MOST_AHEAD, std::max<int64_t>(2, ROWS_AHEAD * table.keys() / rows_of_all));
    }

    // Returns how many of those found are of the reference set; they come first.
    size_t look() {
        int64_t done = look_into(plan_.reference, true);
        while (seen_ < plan_.wanted) {
            if (look_into(1, true) == 0) break;
            ++done;
        }
        const int32_t fixed = threshold_.largest(plan_.fixed);
        take([&](int32_t estimate) { return estimate >= fixed; });
        const size_t reference = found_.size();
        const int32_t least = threshold_.value();
        take([&](int32_t estimate) { return estimate >= least && estimate < fixed; });
        passed_.clear();
        look_into(plan_.limit - done, false);
        take([](int32_t) { return true; });
        return reference;
    }

    int64_t looked() const { return looked_; }

private:
    // Buckets whose blocks are on their way from memory.
    struct Batch {
        Probe probes[MOST_AHEAD];
        size_t ends[MOST_AHEAD];   // of their blocks
        uint32_t rows[MOST_AHEAD];
        int64_t count = 0;
        std::vector<const uint8_t*> blocks;  // those with rows in them, full ones first
        std::vector<Buckets::Place> places;  // of their first rows
    };

    struct Coming {
        Probe probe;
        Buckets::Run first;
    };

    // A row that reached the threshold when its bucket's turn came.
    struct Passed {
        Buckets::Place place;
        uint16_t table;
        int16_t estimate;
    };

    // Waiting for memory is most of the work: what comes next is asked for before what is there is scanned.
    int64_t look_into(int64_t count, bool rising) {
        Batch *now = &batches_[0], *after = &batches_[1];
        int64_t asked = ask_for(*now, count);
        while (now->count > 0) {
            asked += ask_for(*after, count - asked);
            size_t from = 0;
            for (int64_t i = 0; i < now->count; ++i) {
                if (now->rows[i] > 0)
                    scan(now->probes[i], now->rows[i], now->blocks.data() + from, now->places.data() + from, rising);
                from = now->ends[i];
            }
            std::swap(now, after);
        }
        return asked;
    }

    int64_t ask_for(Batch& batch, int64_t most) {
        batch.count = 0;
        batch.blocks.clear();
        batch.places.clear();
        for (most = std::min(most, ahead_); batch.count < most && next(); ++batch.count) {
            const Coming& coming = coming_[coming_at_++];
            const Buckets& table = tables_.tables_[coming.probe.table];
            uint32_t& rows = batch.rows[batch.count] = 0;
            batch.probes[batch.count] = coming.probe;
            if (coming.first != Buckets::NONE) {
                for (Buckets::Run b = table.next_run(coming.first); b != Buckets::NONE; b = table.next_run(b))
                    ask_for(batch, table, b, static_cast<uint32_t>(table.run()), rows);
                ask_for(batch, table, coming.first, table.rows_in(coming.first), rows);
            }
            batch.ends[batch.count] = batch.blocks.size();
        }
        return batch.count;
    }

    // Sees to it that there is a bucket to come; false when all have been given. What says where runs lie is asked for early.
    bool next() {
        if (coming_at_ < coming_count_) return true;
        coming_at_ = coming_count_ = 0;
        for (; coming_count_ < MOST_AHEAD && probing_.next(coming_[coming_count_].probe); ++coming_count_) {
            const Probe& probe = coming_[coming_count_].probe;
            tables_.tables_[probe.table].prefetch_head(probe.key);
        }
        for (int64_t i = 0; i < coming_count_; ++i) {
            const Buckets& table = tables_.tables_[coming_[i].probe.table];
            coming_[i].first = table.first_run(coming_[i].probe.key);
            if (coming_[i].first != Buckets::NONE) table.prefetch_links(coming_[i].first);
        }
        return coming_count_ > 0;
    }

    static void ask_for(Batch& batch, const Buckets& table, Buckets::Run run, uint32_t rows, uint32_t& all) {
        const uint8_t* at = table.signatures_of(run);
        const int64_t blocks = (rows + BLOCK - 1) / BLOCK, bytes = table.signature_bytes() * BLOCK;
        table.prefetch_signatures(at, blocks);
        const size_t before = batch.blocks.size();
        batch.blocks.resize(before + static_cast<size_t>(blocks));
        batch.places.resize(before + static_cast<size_t>(blocks));
        for (int64_t b = 0; b < blocks; ++b) {
            batch.blocks[before + static_cast<size_t>(b)] = at + b * bytes;
            batch.places[before + static_cast<size_t>(b)] = table.place(run, static_cast<uint32_t>(b * BLOCK));
        }
        all += rows;
    }

    // While the reference set is looked at, the threshold rises with every bucket.
    void scan(const Probe& probe, uint32_t rows, const uint8_t* const* blocks, const Buckets::Place* places, bool rising) {
        const Buckets& table = tables_.tables_[probe.table];
        looked_ += rows;
        if (rising && !filtered_) seen_ += rows;
        if (rising && filtered_) seen_ += count_allowed(table, rows, places);
        // Twice the score, and what the key gives, must reach the threshold.
        const int32_t base = query_.least(probe), least = std::max(0, (threshold_.value() - base + 1) / 2);
        if (least > TableQuery::MOST) return;
        if (slots_.size() < rows) {
            slots_.resize(rows);
            scores_.resize(rows);
        }
        const auto reached = static_cast<size_t>(active().scan_bucket(query_.signatures(probe.table), {blocks, rows},
                                                                      static_cast<uint8_t>(least),
                                                                      {slots_.data(), scores_.data()}));
        const size_t before = passed_.size();
        passed_.resize(before + reached);
        Passed* to = passed_.data() + before;
        for (size_t i = 0; i < reached; ++i) {
            const Buckets::Place place = places[slots_[i] / BLOCK] + slots_[i] % BLOCK;
            if (filtered_ && !has(masks_, table.row_at(place))) continue;
            const int32_t estimate = base + 2 * scores_[i];
            if (rising)
                threshold_.count(estimate);
            else
                table.prefetch_row(place);
            *to++ = {place, static_cast<uint16_t>(probe.table), static_cast<int16_t>(estimate)};
        }
        passed_.resize(static_cast<size_t>(to - passed_.data()));
        if (rising) threshold_.rise();
    }

    int64_t count_allowed(const Buckets& table, uint32_t rows, const Buckets::Place* places) const {
        int64_t count = 0;
        for (uint32_t i = 0; i < rows; ++i) count += has(masks_, table.row_at(places[i / BLOCK] + i % BLOCK));
        return count;
    }

    static bool has(const std::vector<uint32_t>& masks, uint32_t row) { return masks[row / BLOCK] >> (row % BLOCK) & 1; }

    // Those that passed, and were not found yet, if their estimate is as asked for.
    template <class Fits>
    void take(Fits fits) {
        for (const Passed& passed : passed_) {
            if (!fits(passed.estimate)) continue;
            const uint32_t row = tables_.tables_[passed.table].row_at(passed.place);
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
    int64_t ahead_;
    const std::vector<uint32_t>& masks_;
    std::vector<uint32_t> left_;  // rows that may be found and were not yet, a bit each; empty where a row lies in one bucket
    std::vector<uint32_t>& found_;
    Coming coming_[MOST_AHEAD];
    int64_t coming_at_ = 0, coming_count_ = 0;
    Batch batches_[2];
    std::vector<uint32_t> slots_;
    std::vector<uint8_t> scores_;
    std::vector<Passed> passed_;
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
    const auto buckets = [&](double how) { return std::ceil(how * static_cast<double>(settings_.probes) * share); };
    const double limit = buckets(effort);
    if (some <= k + static_cast<double>(ROWS_PER_PROBE) * limit) {
        for (size_t word = 0; word < masks.size(); ++word)
            for (uint32_t mask = masks[word]; mask; mask &= mask - 1)
                found.push_back(static_cast<uint32_t>(word * BLOCK) + static_cast<uint32_t>(__builtin_ctz(mask)));
        return {allowed, 0};
    }
    // In buckets of average size.
    const double looked = buckets(1.0) * some / static_cast<double>(int64_t{1} << settings_.key_bits);
    const double base = PASS_SHARE * looked + PASS_PER_HIT * k, least = k * static_cast<double>(tables());
    const double fixed = std::max((4.0 * k + 16.0) * static_cast<double>(tables()), std::ceil(0.5 * base));
    const double most = static_cast<double>(tables() << settings_.key_bits);
    const Plan plan = {static_cast<int64_t>(std::min(most, buckets(REFERENCE))), static_cast<int64_t>(std::min(most, limit)),
                       least, fixed, std::max(fixed, std::ceil(effort * base))};
    Looking looking(*this, rows, query, plan, masks, allowed != rows.size(), found);
    ends.push_back(looking.look());
    return {looking.looked(), 0};
}

}  // namespace lethevec
