#include "tables.h"

#include <algorithm>
#include <cmath>

#include "dispatch.h"
#include "parallel.h"
#include "probing.h"
#include "table_query.h"
#include "wiped.h"

namespace lethevec {

namespace {

constexpr int64_t STRIDE = 4096;      // rows that are hashed, then filed
constexpr int64_t GROUP = 64;         // rows that are worth a thread
constexpr int64_t PROBES_AHEAD = 16;   // buckets asked for before the first is looked into
constexpr int64_t FILE_AHEAD = 8;
constexpr int64_t GROUPING = 8;       // see `group_ends` in the spec
constexpr double PASS_PER_PROBE = 2.5;  // see `pass_rank` in the spec

// At most 64 bits of a code.
uint64_t bits_from(const uint8_t* code, int64_t from, int64_t count) {
    uint64_t word = 0;
    for (int64_t at = from; at < from + count;) {
        const int64_t take = std::min<int64_t>(8 - at % 8, from + count - at);
        word |= static_cast<uint64_t>((code[at / 8] >> (at % 8)) & ((1 << take) - 1)) << (at - from);
        at += take;
    }
    return word;
}

// See `pass_rank` in the spec.
double pass_rank(int64_t wanted, double effort, double limit, int64_t tables) {
    const auto k = static_cast<double>(wanted);
    return std::max(k * static_cast<double>(tables), std::ceil(PASS_PER_PROBE * limit + effort * 6.0 * k));
}

}  // namespace

std::unique_ptr<Source> TableSettings::make() const { return std::make_unique<Tables>(*this); }

Tables::Tables(const TableSettings& settings) : settings_(settings) {
    tables_.reserve(static_cast<size_t>(settings_.frame->m()));
    for (int64_t t = 0; t < settings_.frame->m(); ++t) tables_.emplace_back(settings_.key_bits, signature_bits());
}

Tables::~Tables() {
    for (Piece& piece : pieces_)
        if (piece.places) wipe(piece.places.get(), PIECE_ROWS * tables_.size() * sizeof(uint32_t));
}

// --- Places ------------------------------------------------------------------------------------------------------------

void Tables::take_piece(uint32_t row) {
    const size_t p = row / PIECE_ROWS;
    if (p >= pieces_.size()) pieces_.resize(p + 1);
    Piece& piece = pieces_[p];
    if (!piece.places) piece.places.reset(new uint32_t[PIECE_ROWS * tables_.size()]());
    ++piece.rows;
}

void Tables::release_piece(uint32_t row) {
    Piece& piece = pieces_[row / PIECE_ROWS];
    if (--piece.rows == 0) piece.places.reset();
    while (!pieces_.empty() && !pieces_.back().places) pieces_.pop_back();
}

// --- Changes -----------------------------------------------------------------------------------------------------------

int64_t Tables::signature_bits() const {
    return std::min(SIGNATURE_BITS, settings_.frame->d() - settings_.key_bits);
}

void Tables::prepare(const float* x, bool is_direction, float* hashed) const {
    const int64_t d = settings_.frame->d();
    if (settings_.of_direction && !is_direction) {
        double norm = 0.0;
        active().norms(x, d, 1, &norm);
        const double inverse = norm > 0.0 ? 1.0 / norm : 0.0;
        for (int64_t j = 0; j < d; ++j) hashed[j] = static_cast<float>(static_cast<double>(x[j]) * inverse);
    } else {
        std::copy(x, x + d, hashed);
    }
    if (d < CENTRED_FROM) return;
    constexpr int LANES = 8;
    double lanes[LANES] = {};
    for (int64_t j = 0; j < d; ++j) lanes[j % LANES] += static_cast<double>(hashed[j]);
    for (int half = LANES / 2; half >= 1; half /= 2)
        for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
    const auto mean = static_cast<float>(lanes[0] / static_cast<double>(d));
    for (int64_t j = 0; j < d; ++j) hashed[j] = hashed[j] - mean;
}

void Tables::hash(const float* x, int64_t n, uint32_t* keys, uint64_t* signatures) const {
    const Frame& frame = *settings_.frame;
    const int64_t d = frame.d(), count = tables(), bits = count * d;
    Wiped<float> scratch(frame.scratch()), hashed(d);
    Wiped<uint8_t> code((bits + 7) / 8);
    for (int64_t i = 0; i < n; ++i) {
        prepare(x + i * d, false, hashed.at(0));
        active().superbit(frame.view(), hashed.at(0), 1, {nullptr, code.at(0), bits, nullptr}, scratch.at(0));
        for (int64_t t = 0; t < count; ++t) {
            keys[i * count + t] = static_cast<uint32_t>(bits_from(code.at(0), t * d, settings_.key_bits));
            signatures[i * count + t] = bits_from(code.at(0), t * d + settings_.key_bits, signature_bits());
        }
    }
}

// Each table takes its rows by itself, so threads share out the tables.
void Tables::file(const uint32_t* which, int64_t n, const uint32_t* keys, const uint64_t* signatures, int64_t threads) {
    const int64_t count = tables();
    parallel_for(count, n < 256 ? 1 : threads, 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
            Buckets& table = tables_[static_cast<size_t>(t)];
            for (int64_t i = 0; i < n; ++i) {
                if (i + FILE_AHEAD < n) {
                    const Buckets::Block b = table.first_block(keys[(i + FILE_AHEAD) * count + t]);
                    if (b != Buckets::NONE) {
                        table.prefetch_link(b);
                        table.prefetch_signatures(b);
                        table.prefetch_rows(b);
                    }
                }
                if (i + 2 * FILE_AHEAD < n) table.prefetch_head(keys[(i + 2 * FILE_AHEAD) * count + t]);
                places(which[i])[t] = table.insert(keys[i * count + t], which[i], signatures[i * count + t]);
            }
        }
    });
}

void Tables::add(const Rows&, const uint32_t* which, int64_t n, const float* x, int64_t threads,
                 const std::function<void(int64_t)>&) {
    const int64_t d = settings_.frame->d(), count = tables();
    int64_t taken = 0;
    try {
        Wiped<uint32_t> keys(std::min(STRIDE, n) * count);
        Wiped<uint64_t> signatures(std::min(STRIDE, n) * count);
        for (int64_t at = 0; at < n; at += STRIDE) {
            const int64_t some = std::min(STRIDE, n - at);
            parallel_for(some, threads, GROUP, [&](int64_t begin, int64_t end) {
                hash(x + (at + begin) * d, end - begin, keys.at(begin * count), signatures.at(begin * count));
            });
            for (int64_t i = 0; i < some; ++i, ++taken) take_piece(which[at + i]);
            file(which + at, some, keys.at(0), signatures.at(0), threads);
        }
    } catch (...) {
        for (int64_t i = 0; i < taken; ++i) take_out(which[i]);
        throw;
    }
}

bool Tables::filed(uint32_t row) const {
    return row / PIECE_ROWS < pieces_.size() && pieces_[row / PIECE_ROWS].places && places(row)[0] != 0;
}

void Tables::leave(const Rows&, uint32_t row) {
    if (filed(row)) take_out(row);
}

void Tables::take_out(uint32_t row) {
    uint32_t* own = places(row);
    for (size_t t = 0; t < tables_.size(); ++t) {
        if (own[t] == 0) continue;  // when an add is undone
        const uint32_t place = own[t];
        own[t] = 0;
        tables_[t].remove(place, [&](uint32_t moved, uint32_t to) { places(moved)[t] = to; });
    }
    release_piece(row);
}

// `row` has left, but its piece is there: rows have no gaps, so another row lives in it, or the last one does.
void Tables::renumber(const Rows&, uint32_t last, uint32_t row) {
    if (!filed(last)) return;
    take_piece(row);
    uint32_t *from = places(last), *to = places(row);
    for (size_t t = 0; t < tables_.size(); ++t) {
        to[t] = from[t];
        from[t] = 0;
        tables_[t].renumber(to[t], row);
    }
    release_piece(last);
}

// --- Search ------------------------------------------------------------------------------------------------------------

// One query's way through the buckets.
class Tables::Looking {
public:
    Looking(const Tables& tables, const Rows& rows, const float* query, int64_t wanted, double effort, double limit,
            const std::vector<uint32_t>& masks, std::vector<uint32_t>& found, std::vector<size_t>& ends)
        : tables_(tables),
          rows_(rows),
          values_(tables.tables() * tables.settings_.frame->d()),
          probing_(tables.values(query, values_.at(0)), tables.settings_.frame->d(), tables.tables(), tables.settings_.key_bits),
          query_(values_.at(0), tables.settings_.frame->d(), tables.tables(), tables.settings_.key_bits,
                 tables.signature_bits()),
          threshold_(TableQuery::MOST, pass_rank(wanted, effort, limit, tables.tables())),
          wanted_(static_cast<size_t>(wanted)),
          limit_(limit),
          left_(masks),
          found_(found),
          ends_(ends) {}

    // Some buckets at a time: their heads, then their links, then their signatures, and then the rows that may pass are asked for
    // together, because waiting for memory is most of the work.
    SourceWork until(size_t all) {
        int64_t done = 0, end = (tables_.settings_.probes + GROUPING - 1) / GROUPING;
        for (bool more = true; more && found_.size() < all && (static_cast<double>(done) < limit_ || found_.size() < wanted_);) {
            while (more && done < end) {
                const size_t some = ask_for_next(static_cast<size_t>(std::min(PROBES_AHEAD, end - done)));
                for (size_t i = 0; i < some; ++i) scan(buckets_[i]);
                for (size_t i = 0; i < some; ++i) judge(buckets_[i]);
                done += static_cast<int64_t>(some);
                more = some > 0;
            }
            end_group();
            end += (end + GROUPING - 1) / GROUPING;
        }
        return {looked_, 0};
    }

private:
    // A bucket that is looked into, and the rows that may pass: 32 times the number of their block in it, plus their slot there.
    struct Bucket {
        Probe probe;
        const Buckets* table;
        std::vector<Buckets::Block> blocks;
        std::vector<uint32_t> slots;
        std::vector<uint8_t> scores;
        size_t reached = 0;
    };

    size_t ask_for_next(size_t most) {
        size_t some = 0;
        for (; some < most && probing_.next(buckets_[some].probe); ++some) {
            Bucket& bucket = buckets_[some];
            bucket.table = &tables_.tables_[bucket.probe.table];
            bucket.table->prefetch_head(bucket.probe.key);
            bucket.blocks.clear();
        }
        for (size_t depth = 0, more = some; more > 0; ++depth) {
            more = 0;
            for (size_t i = 0; i < some; ++i) {
                Bucket& bucket = buckets_[i];
                if (bucket.blocks.size() < depth) continue;
                const Buckets& table = *bucket.table;
                const Buckets::Block b = depth ? table.next_block(bucket.blocks.back()) : table.first_block(bucket.probe.key);
                if (b == Buckets::NONE) continue;
                table.prefetch_next(b);
                if (depth == 0) table.prefetch_link(b);  // it has the number of rows
                table.prefetch_signatures(b);
                bucket.blocks.push_back(b);
                ++more;
            }
        }
        return some;
    }

    // Which rows reach the threshold as it is now. It may rise until their bucket's turn comes.
    void scan(Bucket& bucket) {
        bucket.reached = 0;
        const size_t n = bucket.blocks.size();
        if (n == 0) return;
        // Twice the score, and what the key gives, must reach it.
        const int32_t least = std::max(0, (threshold_.value() - query_.least(bucket.probe) + 1) / 2);
        if (least > TableQuery::MOST) return;
        if (codes_.size() < n) codes_.resize(n);
        if (bucket.slots.size() < n * BLOCK) {
            bucket.slots.resize(n * BLOCK);
            bucket.scores.resize(n * BLOCK);
        }
        const Buckets& table = *bucket.table;
        for (size_t b = 0; b < n; ++b) codes_[b] = table.signatures_of(bucket.blocks[b]);
        const BucketView view = {codes_.data(), static_cast<int64_t>(n), static_cast<int64_t>(table.rows_in(bucket.blocks[0]))};
        bucket.reached = static_cast<size_t>(active().scan_bucket(query_.signatures(bucket.probe.table), view,
                                                                  static_cast<uint8_t>(least),
                                                                  {bucket.slots.data(), bucket.scores.data()}));
        for (size_t i = 0; i < bucket.reached; ++i)
            __builtin_prefetch(table.rows_of(bucket.blocks[bucket.slots[i] / BLOCK]) + bucket.slots[i] % BLOCK);
    }

    void judge(Bucket& bucket) {
        const Buckets& table = *bucket.table;
        if (bucket.blocks.empty()) return;
        looked_ += static_cast<int64_t>(table.rows_in(bucket.blocks[0]) + (bucket.blocks.size() - 1) * BLOCK);
        const int32_t base = query_.least(bucket.probe), before = threshold_.value();
        for (size_t i = 0; i < bucket.reached; ++i) {
            const int32_t estimate = base + 2 * bucket.scores[i];
            if (estimate < before) continue;
            const uint32_t row = table.rows_of(bucket.blocks[bucket.slots[i] / BLOCK])[bucket.slots[i] % BLOCK];
            if (!(left_[row / BLOCK] >> (row % BLOCK) & 1)) continue;
            threshold_.count(estimate);
            group_.push_back({row, estimate});
        }
        threshold_.rise();
    }

    // The threshold has risen to what the whole group must reach.
    void end_group() {
        const size_t before = found_.size();
        for (const Hopeful& hopeful : group_) {
            const uint32_t row = hopeful.row, bit = uint32_t{1} << (row % BLOCK);
            if (hopeful.estimate < threshold_.value() || !(left_[row / BLOCK] & bit)) continue;
            left_[row / BLOCK] ^= bit;
            found_.push_back(row);
            __builtin_prefetch(rows_.tail(row));
        }
        group_.clear();
        if (found_.size() != before) ends_.push_back(found_.size());
    }

    struct Hopeful {
        uint32_t row;
        int32_t estimate;
    };

    const Tables& tables_;
    const Rows& rows_;
    Wiped<float> values_;
    Probing probing_;
    const TableQuery query_;
    Threshold threshold_;
    const size_t wanted_;
    const double limit_;
    std::vector<uint32_t> left_;  // rows that may be found and were not yet, a bit each: so no row is found twice
    std::vector<uint32_t>& found_;
    std::vector<size_t>& ends_;
    Bucket buckets_[PROBES_AHEAD];
    std::vector<const uint8_t*> codes_;
    std::vector<Hopeful> group_;  // the rows of this group that reached the threshold when their bucket's turn came
    int64_t looked_ = 0;
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
    const double share = static_cast<double>(rows.size()) / static_cast<double>(std::max<int64_t>(1, allowed));
    const double limit = std::ceil(effort * static_cast<double>(settings_.probes) * share);
    if (static_cast<double>(allowed) <= static_cast<double>(wanted) + static_cast<double>(ROWS_PER_PROBE) * limit) {
        for (size_t word = 0; word < masks.size(); ++word)
            for (uint32_t mask = masks[word]; mask; mask &= mask - 1)
                found.push_back(static_cast<uint32_t>(word * BLOCK) + static_cast<uint32_t>(__builtin_ctz(mask)));
        return {allowed, 0};
    }

    return Looking(*this, rows, query, wanted, effort, limit, masks, found, ends).until(static_cast<size_t>(allowed));
}

// --- What there is -----------------------------------------------------------------------------------------------------

bool Tables::find(uint32_t row, int64_t table, uint32_t& key) const {
    if (!filed(row)) return false;
    const Buckets& buckets = tables_[static_cast<size_t>(table)];
    const uint32_t place = places(row)[table];
    if (buckets.row_at(place) != row) return false;
    key = buckets.key_at(place);
    bool there = false;
    buckets.each(key, [&](uint32_t other, uint64_t) { there = there || other == row; });
    return there;
}

int64_t Tables::bytes() const {
    int64_t total = 0;
    for (const Buckets& table : tables_) total += table.bytes();
    for (const Piece& piece : pieces_) total += 4 * static_cast<int64_t>(piece.rows) * tables();
    return total;
}

void Tables::raw_memory(std::vector<uint8_t>& all) const {
    for (const Buckets& table : tables_) table.raw_memory(all);
    for (const Piece& piece : pieces_) {
        const auto* at = reinterpret_cast<const uint8_t*>(piece.places.get());
        if (at) all.insert(all.end(), at, at + PIECE_ROWS * tables_.size() * sizeof(uint32_t));
    }
}

}  // namespace lethevec
