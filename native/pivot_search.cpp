// A search of the source "pivots": cells by nearness of their means, their rows by one plane of their codes, the best of those
// by all planes. Mirrors `pivot_candidates` of the spec, which says why more effort never drops a row.
//
// Estimated distances are counted in buckets, so that a rank-th smallest is a count and not a sort.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "dispatch.h"
#include "pivots.h"
#include "wiped.h"

namespace lethevec {

namespace {

constexpr double PI = 3.14159265358979323846;
constexpr int64_t SPAN = 8;  // cells that say how large estimates are

struct Plan {
    int64_t first;      // cells whose rows share one threshold
    int64_t probed;     // cells to look into
    int64_t reference;  // ranks of the first stage
    int64_t survivors;
    int64_t rank;       // and of the second
};

Plan plan_for(int64_t given, int64_t cells, int64_t records, int64_t allowed, int64_t k, double effort) {
    const double share = static_cast<double>(records) / static_cast<double>(std::max<int64_t>(1, allowed));
    const double probes = given ? static_cast<double>(given) : std::max(8.0, 5.0 * std::sqrt(static_cast<double>(cells)));
    const double wanted = static_cast<double>(k), first_rank = 500.0 + 30.0 * wanted;
    const double growth = effort < 1.0 ? std::sqrt(effort) : effort;
    auto whole = [](double number) { return static_cast<int64_t>(std::min(std::ceil(number), 1e15)); };
    Plan plan;
    plan.first = std::max<int64_t>(1, whole(probes * share / 8.0));
    plan.probed = std::max(plan.first, whole(effort * probes * share));
    plan.reference = whole(std::max(wanted, first_rank / 2.0));
    plan.survivors = std::max(plan.reference, whole(growth * first_rank));
    plan.rank = whole(std::max(wanted, growth * (60.0 + 8.0 * wanted)));
    return plan;
}

// Estimated distances in equal intervals.
struct Scale {
    float low, inverse;
    int32_t buckets;

    static Scale over(float low, float size, float per_size, int32_t buckets) {
        const float inverse = size > 0.0f ? per_size / size : 0.0f;
        return {low, std::isfinite(inverse) ? inverse : 0.0f, buckets};
    }
    int32_t bucket(float estimate) const {
        float at = (estimate - low) * inverse;
        at = at > 0.0f ? at : 0.0f;
        const float last = static_cast<float>(buckets - 1);
        return static_cast<int32_t>(at < last ? at : last);
    }
    CellLimit limit(int32_t most, float base) const {
        return {base, base - above(most, base), low, inverse, static_cast<float>(buckets - 1), most};
    }
    // Everything in buckets up to `last` is below this, whatever rounding does.
    float above(int32_t last, float base) const {
        if (last == buckets - 1 || inverse == 0.0f) return std::numeric_limits<float>::infinity();
        const float edge = static_cast<float>(last + 1) / inverse;
        return low + edge + 1e-5f * (std::fabs(low) + edge + std::fabs(base));
    }
};

// The bucket that the rank-th smallest lies in, among those counted so far; the last one while there are not as many. It
// only ever falls, so what lies above it need not be counted any more.
class Rank {
public:
    Rank(int64_t rank, int32_t buckets) : rank_(rank), value_(buckets - 1) {}
    int32_t value() const { return value_; }
    void count(int32_t bucket) { within_ += bucket <= value_; }
    void count_all(int64_t n) { within_ += n; }  // none of them lies above it
    void fall(const uint32_t* counts) {
        while (value_ > 0 && within_ - counts[value_] >= rank_) within_ -= counts[value_--];
    }

private:
    int64_t rank_, within_ = 0;
    int32_t value_;
};

// Cells that hold rows, by falling key and then by rising id; made only as far as it is asked for.
class Order {
public:
    // `filled` counts the cells that hold rows.
    Order(const float* keys, const Pivots& pivots, int64_t filled, int64_t likely)
        : keys_(keys), pivots_(pivots), size_(filled) {
        const uint32_t* sizes = pivots.contents().sizes();
        const int64_t n = pivots.cells();
        if (likely < size_) {
            std::unique_ptr<uint16_t[]> marks(new uint16_t[static_cast<size_t>(n)]);
            std::unique_ptr<uint32_t[]> chosen(new uint32_t[static_cast<size_t>(n)]);
            const int64_t count = active().choose_cells(keys, sizes, n, likely, marks.get(), chosen.get());
            cells_.reserve(static_cast<size_t>(count));
            for (int64_t i = 0; i < count; ++i) take(chosen[static_cast<size_t>(i)]);
        } else {
            for (int64_t c = 0; c < n; ++c)
                if (sizes[c] > 0) take(static_cast<uint32_t>(c));
        }
        sort();
    }
    int64_t size() const { return size_; }
    uint32_t at(int64_t i) {
        if (i >= static_cast<int64_t>(cells_.size())) cells_ = Order(keys_, pivots_, size_, size_).cells_;
        return static_cast<uint32_t>(cells_[static_cast<size_t>(i)]);
    }

private:
    // The key so that larger ones come first as whole numbers, then the cell.
    void take(uint32_t c) {
        uint32_t bits;
        const float key = keys_[c] + 0.0f;  // the two zeros are one
        __builtin_memcpy(&bits, &key, sizeof bits);
        bits = bits >> 31 ? bits : ~bits & 0x7fffffffu;
        cells_.push_back(static_cast<uint64_t>(bits) << 32 | c);
    }

    void sort() {
        std::sort(cells_.begin(), cells_.end());
        const auto by_id = [&](uint64_t a, uint64_t b) {
            return pivots_.centres().id(static_cast<uint32_t>(a)) < pivots_.centres().id(static_cast<uint32_t>(b));
        };
        for (size_t from = 0; from + 1 < cells_.size();) {
            size_t to = from + 1;
            while (to < cells_.size() && cells_[to] >> 32 == cells_[from] >> 32) ++to;
            if (to - from > 1) std::sort(cells_.begin() + static_cast<int64_t>(from), cells_.begin() + static_cast<int64_t>(to), by_id);
            from = to;
        }
    }

    const float* keys_;
    const Pivots& pivots_;
    int64_t size_;
    std::vector<uint64_t> cells_;
};

// The blocks of cells in the order in which they are looked into, and a few more pointers, so that one may read ahead.
class Path {
public:
    Path(const Cells& cells, Order& order, int64_t groups) : cells_(cells) {
        constexpr int64_t AHEAD = 12;
        int64_t blocks = CELL_AHEAD;
        for (int64_t g = 0; g < groups; ++g) blocks += cells.blocks(order.at(g));
        pointers_.reserve(static_cast<size_t>(blocks));
        places_.reserve(static_cast<size_t>(blocks));
        // A list is two steps away: its head, then where that points to.
        for (int64_t g = -2 * AHEAD; g < groups; ++g) {
            if (g + 2 * AHEAD < groups) cells.ask_for_head(order.at(g + 2 * AHEAD));
            if (g + AHEAD >= 0 && g + AHEAD < groups) __builtin_prefetch(cells.list(order.at(g + AHEAD)));
            if (g >= 0) append(order.at(g));
        }
        finish();
    }
    // Another cell, by itself.
    void restart(uint32_t c) {
        pointers_.clear();
        places_.clear();
        append(c);
        finish();
    }
    const uint8_t* const* pointers(size_t from) const { return pointers_.data() + from; }
    // Of the first rows of blocks.
    const uint32_t* places(size_t from) const { return places_.data() + from; }

private:
    void append(uint32_t c) {
        const int64_t of_run = cells_.shape().run() / BLOCK;
        const uint32_t* list = cells_.list(c);
        for (int64_t b = 0; b < cells_.blocks(c); ++b) {
            const int64_t in_run = b & (of_run - 1);
            const uint32_t run = list[b * BLOCK >> cells_.shape().run_shift];
            places_.push_back(static_cast<uint32_t>((run * of_run + in_run) * BLOCK));
            pointers_.push_back(cells_.scanned(run) + in_run * cells_.scan_stride());
        }
    }
    void finish() {
        for (int64_t i = 0; i < CELL_AHEAD; ++i) pointers_.push_back(pointers_.back());
    }

    const Cells& cells_;
    std::vector<const uint8_t*> pointers_;
    std::vector<uint32_t> places_;
};

// Drops entries from `from` on that lie above the threshold, and says how many are left. No group before them ends later.
size_t settle(std::vector<CellEntry>& entries, std::vector<size_t>& ends, size_t from, size_t to, int32_t threshold) {
    auto end = std::upper_bound(ends.begin(), ends.end(), from);  // of the first group that is not empty
    size_t kept = from;
    for (size_t i = from; i < to; ++i) {
        for (; end != ends.end() && *end == i; ++end) *end = kept;
        // Written without a branch: which entries stay cannot be predicted.
        const CellEntry entry = entries[i];
        entries[kept] = entry;
        kept += entry.bucket <= threshold;
    }
    for (; end != ends.end(); ++end) *end = kept;
    return kept;
}

}  // namespace

SourceWork Pivots::candidates(const Rows& rows, const float* query, int64_t wanted, double effort,
                              const std::vector<uint32_t>& masks, int64_t allowed, std::vector<uint32_t>& found,
                              std::vector<size_t>&) const {
    int64_t filled = 0;
    for (int64_t c = 0; c < cells_.count(); ++c) filled += cells_.sizes()[c] > 0;
    const Plan plan = plan_for(settings_.probes, filled, rows.size(), allowed, wanted, effort);
    auto permitted = [&](uint32_t row) { return masks.empty() || (masks[row / BLOCK] >> (row % BLOCK) & 1); };
    if (allowed <= plan.rank) {
        for (uint32_t row = 0; row < rows.size(); ++row)
            if (permitted(row)) found.push_back(row);
        return {allowed, 0};
    }

    const Kernels& kernels = active();
    const Encoder& encoder = *settings_.encoder;
    const bool ip = settings_.metric == Metric::ip;
    Wiped<float> coordinates(encoder.bits), scratch(encoder.scratch());
    AlignedVector<float>& values = coordinates.data;
    kernels.superbit(encoder.frame->view(), query, 1, {values.data(), nullptr, encoder.bits, nullptr}, scratch.at(0));
    std::vector<float> keys(static_cast<size_t>(means_.padded_size()));
    means_.keys(values.data(), ip ? 0.0f : settings_.metric == Metric::cosine ? 0.5f : 1.0f, keys.data());
    Order order(keys.data(), *this, filled, plan.probed);

    PreparedQuery prepared;  // for its buffers, which are wiped
    std::vector<uint8_t>&tables = prepared.tables, &weights = prepared.tail_weights;
    std::vector<uint32_t>& signs = prepared.tail_signs;
    int32_t half = 0, whole = 0;
    const double scale = first_tables(values.data(), d_, tables, half), unit = scale > 0.0 ? 1.0 / scale : 0.0;
    const double alignment = std::sqrt(2.0 * static_cast<double>(d_) / PI);
    const ScanQuery scan{tables.data(), shape_.scan_bytes(), half,
                         static_cast<float>(ip ? unit / alignment : 2.0 * unit / alignment)};
    for (int64_t j = 0; j < encoder.bits; ++j)
        values[static_cast<size_t>(j)] = values[static_cast<size_t>(j)] * encoder.weights[static_cast<size_t>(j / d_)];
    const auto first_unit = static_cast<float>(unit * static_cast<double>(encoder.weights[0]));
    const auto tail_unit = static_cast<float>(tail_weights(values.data() + d_, encoder.bits - d_, weights, signs, whole));

    auto base_of = [&](uint32_t c) {
        return ip ? -kernels.dot(query, centres_.row(c), d_) : kernels.squared_distance(query, centres_.row(c), d_);
    };
    const int64_t sure = std::min(plan.probed, order.size());
    std::vector<float> bases;  // of every group
    bases.reserve(static_cast<size_t>(sure));
    for (int64_t g = -6; g < sure; ++g) {
        if (g + 6 < sure)
            for (int64_t j = 0; j < d_; j += 16) __builtin_prefetch(centres_.row(order.at(g + 6)) + j);
        if (g >= 0) bases.push_back(base_of(order.at(g)));
    }
    // The span of estimates is taken from several cells: a query that is a pivot has no distance to its own.
    float low = 0.0f, size = 0.0f;
    for (int64_t g = 0; g < std::min(SPAN, order.size()); ++g) {
        float span = g < sure ? bases[static_cast<size_t>(g)] : base_of(order.at(g));
        if (ip) {
            double query_norm = 0.0, centre_norm = 0.0;
            kernels.norms(query, d_, 1, &query_norm);
            kernels.norms(centres_.row(order.at(g)), d_, 1, &centre_norm);
            span = static_cast<float>(query_norm) * static_cast<float>(centre_norm);
        }
        size = std::max(size, span);
    }
    if (ip) low = bases[0] - size;
    const Scale coarse = Scale::over(low, size, 256.0f, 1024), fine = Scale::over(low, size, 1024.0f, 4096);

    // The first stage, cell by cell.
    SourceWork work;
    std::vector<CellEntry> entries;
    size_t passed = 0, settled = 0;  // entries, and those of groups whose threshold is known
    std::vector<uint32_t> counts(static_cast<size_t>(coarse.buckets), 0), cell_masks;
    std::vector<int32_t> reference_limits;  // of every group
    std::vector<size_t> ends;               // of every group's entries
    reference_limits.reserve(static_cast<size_t>(sure));
    ends.reserve(static_cast<size_t>(sure));
    Rank survivors(plan.survivors, coarse.buckets), reference(plan.reference, coarse.buckets);
    int64_t seen = 0, group = 0;
    Path path(cells_, order, sure);
    size_t at = 0;  // on the path
    for (; group < order.size() && (group < plan.probed || seen < wanted); ++group) {
        const uint32_t c = order.at(group);
        if (group >= sure) {
            path.restart(c);
            at = 0;
            bases.push_back(base_of(c));
        }
        const int64_t rows_here = cells_.size(c);
        if (passed + static_cast<size_t>(rows_here) > entries.size())
            entries.resize(2 * passed + static_cast<size_t>(std::max(rows_here, plan.survivors)));
        const uint32_t* allowed_here = nullptr;
        int64_t here = rows_here;
        if (!masks.empty()) {
            cell_masks.assign(static_cast<size_t>(cells_.blocks(c)), 0);
            here = 0;
            for (uint32_t slot = 0; slot < rows_here; ++slot) {
                if (!permitted(cells_.row(c, slot))) continue;
                cell_masks[slot / BLOCK] |= uint32_t{1} << (slot % BLOCK);
                ++here;
            }
            allowed_here = cell_masks.data();
        }
        seen += here;
        const float base = bases[static_cast<size_t>(group)];
        const CellLimit limit = coarse.limit(survivors.value(), base);
        CellEntry* fresh = entries.data() + passed;
        const int64_t n =
            kernels.scan_cell(scan, {path.pointers(at), path.places(at), allowed_here, rows_here}, limit, fresh);
        for (int64_t i = 0; i < n; ++i) {
            ++counts[static_cast<size_t>(fresh[i].bucket)];
            reference.count(fresh[i].bucket);
        }
        survivors.count_all(n);
        passed += static_cast<size_t>(n);
        at += static_cast<size_t>(cells_.blocks(c));
        survivors.fall(counts.data());
        reference.fall(counts.data());
        reference_limits.push_back(reference.value());
        ends.push_back(passed);
        if (group + 1 < plan.first && group + 1 < order.size()) continue;
        settled = passed = settle(entries, ends, settled, passed, survivors.value());
    }
    work.scanned = seen;
    work.refined = static_cast<int64_t>(passed);
    // Where the loop ended before the first threshold was settled, the last group settles it.
    const int64_t last_first = std::min(plan.first, group) - 1;
    for (int64_t g = 0; g < last_first; ++g)
        reference_limits[static_cast<size_t>(g)] = reference_limits[static_cast<size_t>(last_first)];

    // The second stage: all planes of what is left, and the same rule once more.
    const size_t n = passed;
    std::vector<const uint32_t*> tails(n);
    std::vector<uint32_t> differ(n), fine_counts(static_cast<size_t>(fine.buckets), 0);
    std::vector<float> scales(n);
    std::vector<int32_t> buckets(n);
    for (size_t i = 0; i < n; ++i)
        tails[i] = cells_.rest_at(entries[i].place) + 2;
    kernels.disagreements(tails.data(), static_cast<int64_t>(n), signs.data(), weights.data(), shape_.words(), differ.data(),
                          scales.data());
    size_t i = 0;
    for (int64_t g = 0; g < group; ++g)
        for (const float base = bases[static_cast<size_t>(g)]; i < ends[static_cast<size_t>(g)]; ++i) {
            float bias;
            __builtin_memcpy(&bias, tails[i] - 1, sizeof bias);
            const float first = static_cast<float>(2 * static_cast<int32_t>(entries[i].score) - half) * first_unit;
            const float rest = static_cast<float>(whole - 2 * static_cast<int32_t>(differ[i])) * tail_unit;
            buckets[i] = fine.bucket(base + (bias - (first + rest) * scales[i]));
        }
    Rank rank(plan.rank, fine.buckets);
    size_t from = 0;
    i = 0;
    for (int64_t g = 0; g < group; ++g) {
        for (; i < ends[static_cast<size_t>(g)]; ++i) {
            if (entries[i].bucket > reference_limits[static_cast<size_t>(g)]) continue;
            ++fine_counts[static_cast<size_t>(buckets[i])];
            rank.count(buckets[i]);
        }
        if (g < last_first) continue;  // groups up to the first threshold go together, the others one by one
        rank.fall(fine_counts.data());
        for (; from < i; ++from)
            if (buckets[from] <= rank.value()) found.push_back(tails[from][-2]);
    }
    return work;
}

}  // namespace lethevec
