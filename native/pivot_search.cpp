// A search of the source "pivots": cells by nearness of their means, their rows by one plane of their codes, the best of those
// by all planes. Mirrors `pivot_candidates` of the spec, which says why more effort never drops a row.
//
// Estimated distances are counted in buckets, so that a rank-th smallest is a count and not a sort.
#include <algorithm>
#include <cmath>
#include <limits>

#include "dispatch.h"
#include "pivots.h"

namespace lethevec {

namespace {

constexpr double PI = 3.14159265358979323846;
constexpr float LOWEST = -std::numeric_limits<float>::infinity();

struct Plan {
    int64_t first;      // cells whose rows share one threshold
    int64_t probed;     // cells to look into
    double reference;   // ranks of the first stage
    double survivors;
    double rank;        // and of the second
};

Plan plan_for(double probes, int64_t records, int64_t allowed, int64_t k, double effort) {
    const double share = static_cast<double>(records) / static_cast<double>(std::max<int64_t>(1, allowed));
    const double wanted = static_cast<double>(k), first_rank = 600.0 + 40.0 * wanted;
    auto whole = [](double number) { return static_cast<int64_t>(std::min(std::ceil(number), 1e15)); };
    Plan plan;
    plan.first = std::max<int64_t>(1, whole(probes * share / 8.0));
    plan.probed = std::max(plan.first, whole(effort * probes * share));
    plan.reference = std::ceil(std::max(wanted, first_rank / 2.0));
    plan.survivors = std::max(plan.reference, std::ceil(effort * first_rank));
    plan.rank = std::ceil(std::max(wanted, effort * (50.0 + 5.0 * wanted)));
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
        const float at = (estimate - low) * inverse;
        return static_cast<int32_t>(std::min(std::max(at, 0.0f), static_cast<float>(buckets - 1)));
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
    Rank(double rank, int32_t buckets) : rank_(rank), value_(buckets - 1) {}
    int32_t value() const { return value_; }
    void count(int32_t bucket) { within_ += bucket <= value_; }
    void fall(const std::vector<uint32_t>& counts) {
        while (value_ > 0 && within_ - counts[static_cast<size_t>(value_)] >= rank_)
            within_ -= counts[static_cast<size_t>(value_--)];
    }

private:
    double rank_, within_ = 0.0;
    int32_t value_;
};

// Cells by falling key, then by rising id; made only as far as it is asked for.
class Order {
public:
    Order(const float* keys, const Pivots& pivots, int64_t likely) : keys_(keys), pivots_(pivots) {
        for (int64_t c = 0; c < pivots.cells(); ++c)
            if (pivots.cell(c).size() > 0) cells_.push_back(static_cast<uint32_t>(c));
        extend(likely);
    }
    int64_t size() const { return static_cast<int64_t>(cells_.size()); }
    uint32_t at(int64_t i) {
        if (i >= sorted_) extend(size());
        return cells_[static_cast<size_t>(i)];
    }

private:
    void extend(int64_t to) {
        const auto nearer = [&](uint32_t a, uint32_t b) {
            if (keys_[a] != keys_[b]) return keys_[a] > keys_[b];
            return pivots_.centres().id(a) < pivots_.centres().id(b);
        };
        const auto begin = cells_.begin() + sorted_, end = cells_.begin() + std::min(to, size());
        if (begin >= end) return;
        if (end != cells_.end()) std::nth_element(begin, end - 1, cells_.end(), nearer);
        std::sort(begin, end, nearer);
        sorted_ = end - cells_.begin();
    }

    const float* keys_;
    const Pivots& pivots_;
    std::vector<uint32_t> cells_;
    int64_t sorted_ = 0;
};

// A row that the first stage let pass.
struct Entry {
    uint32_t cell, slot;
    int32_t group, bucket;
    float base;
};

}  // namespace

SourceWork Pivots::candidates(const Rows& rows, const float* query, int64_t wanted, double effort,
                              const std::vector<uint32_t>& masks, int64_t allowed, std::vector<uint32_t>& found,
                              std::vector<size_t>&) const {
    const Plan plan = plan_for(static_cast<double>(settings_.probes), rows.size(), allowed, wanted, effort);
    auto permitted = [&](uint32_t row) { return masks.empty() || (masks[row / BLOCK] >> (row % BLOCK) & 1); };
    if (static_cast<double>(allowed) <= plan.rank) {
        for (uint32_t row = 0; row < rows.size(); ++row)
            if (permitted(row)) found.push_back(row);
        return {allowed, 0};
    }

    const Kernels& kernels = active();
    const Encoder& encoder = *settings_.encoder;
    const bool ip = settings_.metric == Metric::ip;
    AlignedVector<float> values(static_cast<size_t>(encoder.bits)), scratch(static_cast<size_t>(encoder.scratch()));
    kernels.superbit(encoder.frame->view(), query, 1, {values.data(), nullptr, encoder.bits, nullptr}, scratch.data());
    std::vector<float> keys(static_cast<size_t>(means_.padded_size()));
    means_.keys(values.data(), !ip, keys.data());
    Order order(keys.data(), *this, plan.probed);

    std::vector<uint8_t> tables, weights;
    std::vector<uint32_t> signs;
    int32_t half = 0, whole = 0;
    const double scale = first_tables(values.data(), d_, tables, half), unit = scale > 0.0 ? 1.0 / scale : 0.0;
    const double alignment = std::sqrt(2.0 * static_cast<double>(d_) / PI);
    const ScanQuery scan{tables.data(), shape_.scan_bytes(), half,
                         static_cast<float>(ip ? unit / alignment : 2.0 * unit / alignment)};
    for (int64_t j = 0; j < encoder.bits; ++j)
        values[static_cast<size_t>(j)] = values[static_cast<size_t>(j)] * encoder.weights[static_cast<size_t>(j / d_)];
    const auto tail_unit = static_cast<float>(tail_weights(values.data(), encoder.bits, weights, signs, whole));

    auto base_of = [&](uint32_t c) {
        return ip ? -kernels.dot(query, centres_.row(c), d_) : kernels.squared_distance(query, centres_.row(c), d_);
    };
    const uint32_t nearest = order.at(0);
    float low = 0.0f, size = base_of(nearest);
    if (ip) {
        double query_norm = 0.0, centre_norm = 0.0;
        kernels.norms(query, d_, 1, &query_norm);
        kernels.norms(centres_.row(nearest), d_, 1, &centre_norm);
        const float product = static_cast<float>(query_norm) * static_cast<float>(centre_norm);
        low = size - product;
        size = product;
    }
    const Scale coarse = Scale::over(low, size, 256.0f, 1024), fine = Scale::over(low, size, 1024.0f, 4096);

    // The first stage, cell by cell.
    SourceWork work;
    std::vector<Entry> entries;
    entries.reserve(static_cast<size_t>(2.0 * plan.survivors) + 256);
    std::vector<uint32_t> counts(static_cast<size_t>(coarse.buckets), 0), slots, cell_masks;
    std::vector<float> raw;
    std::vector<int32_t> reference_limits;  // by group
    Rank survivors(plan.survivors, coarse.buckets), reference(plan.reference, coarse.buckets);
    size_t settled = 0;  // entries of groups whose threshold is known
    int64_t seen = 0, group = 0;
    for (; group < order.size() && (group < plan.probed || seen < wanted); ++group) {
        const uint32_t c = order.at(group);
        const Cell& cell = cells_[c];
        if (group + 1 < plan.probed && group + 1 < order.size()) {
            const uint32_t next = order.at(group + 1);
            cells_[next].prefetch();
            for (int64_t j = 0; j < d_; j += 16) __builtin_prefetch(centres_.row(next) + j);
        }
        if (static_cast<size_t>(cell.size()) > slots.size()) {
            slots.resize(static_cast<size_t>(cell.size()));
            raw.resize(static_cast<size_t>(cell.size()));
        }
        const uint32_t* allowed_here = nullptr;
        int64_t here = cell.size();
        if (!masks.empty()) {
            cell_masks.assign(static_cast<size_t>((cell.size() + BLOCK - 1) / BLOCK), 0);
            here = 0;
            for (int64_t slot = 0; slot < cell.size(); ++slot) {
                if (!permitted(cell.row(slot))) continue;
                cell_masks[static_cast<size_t>(slot / BLOCK)] |= uint32_t{1} << (slot % BLOCK);
                ++here;
            }
            allowed_here = cell_masks.data();
        }
        seen += here;
        const float base = base_of(c);
        const int32_t limit = survivors.value();
        const float threshold = base - coarse.above(limit, base);
        const int64_t n = kernels.scan_cell(scan, cell.view(allowed_here), threshold, slots.data(), raw.data());
        for (int64_t i = 0; i < n; ++i) {
            const int32_t bucket = coarse.bucket(base - raw[static_cast<size_t>(i)]);
            if (bucket > limit) continue;
            ++counts[static_cast<size_t>(bucket)];
            survivors.count(bucket);
            reference.count(bucket);
            entries.push_back({c, slots[static_cast<size_t>(i)], static_cast<int32_t>(group), bucket, base});
        }
        survivors.fall(counts);
        reference.fall(counts);
        reference_limits.push_back(reference.value());
        if (group + 1 < plan.first && group + 1 < order.size()) continue;
        size_t kept = settled;
        for (size_t i = settled; i < entries.size(); ++i)
            if (entries[i].bucket <= survivors.value()) entries[kept++] = entries[i];
        entries.resize(kept);
        settled = kept;
    }
    work.scanned = seen;
    work.refined = static_cast<int64_t>(entries.size());
    // Where the loop ended before the first threshold was settled, the last group settles it.
    const int64_t last_first = std::min(plan.first, group) - 1;
    for (int64_t g = 0; g < last_first; ++g)
        reference_limits[static_cast<size_t>(g)] = reference_limits[static_cast<size_t>(last_first)];

    // The second stage: all planes of what is left, and the same rule once more.
    const size_t n = entries.size();
    std::vector<const uint32_t*> tails(n);
    std::vector<uint32_t> differ(n), fine_counts(static_cast<size_t>(fine.buckets), 0);
    std::vector<float> scales(n);
    std::vector<int32_t> buckets(n);
    for (size_t i = 0; i < n; ++i) tails[i] = cells_[entries[i].cell].tail(entries[i].slot) + 1;
    kernels.disagreements(tails.data(), static_cast<int64_t>(n), signs.data(), weights.data(), shape_.words(), differ.data(),
                          scales.data());
    for (size_t i = 0; i < n; ++i) {
        float bias;
        __builtin_memcpy(&bias, tails[i] - 1, sizeof bias);
        const float product = static_cast<float>(whole - 2 * static_cast<int32_t>(differ[i])) * tail_unit;
        buckets[i] = fine.bucket(entries[i].base + (bias - product * scales[i]));
    }
    Rank rank(plan.rank, fine.buckets);
    for (size_t i = 0; i < n;) {
        // Groups up to the first threshold go together, the others one by one.
        const int32_t from = std::max(entries[i].group, static_cast<int32_t>(last_first));
        size_t end = i;
        for (; end < n && entries[end].group <= from; ++end) {
            if (entries[end].bucket > reference_limits[static_cast<size_t>(entries[end].group)]) continue;
            ++fine_counts[static_cast<size_t>(buckets[end])];
            rank.count(buckets[end]);
        }
        rank.fall(fine_counts);
        for (; i < end; ++i)
            if (buckets[i] <= rank.value()) found.push_back(cells_[entries[i].cell].row(entries[i].slot));
    }
    return work;
}

}  // namespace lethevec
