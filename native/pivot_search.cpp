// A search of the source "pivots": cells by nearness of their means, their rows by one plane of their codes, the best of those
// by all planes. Mirrors `pivot_candidates` of the spec, which says why more effort never drops a row.
//
// A group is what one cell gives. Memory is asked for long before it is read wherever it is known what will be: cells lie
// scattered, and so do the records.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "cell_order.h"
#include "dispatch.h"
#include "pivot_plan.h"
#include "pivots.h"
#include "wiped.h"

namespace lethevec {

namespace {

constexpr double PI = 3.14159265358979323846;
constexpr int64_t SPAN = 8;  // cells that say how large estimates are

// Into the second cache: more can be on their way there than to the first.
void ask_for(const void* from, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(from) + at, 0, 2);
}

// The runs of cells in the order in which they are looked into, and CELL_AHEAD empty ones.
class Path {
public:
    Path(const Cells& cells, CellOrder& order, int64_t groups) : cells_(cells) {
        constexpr int64_t AHEAD = 12;
        runs_.reserve(static_cast<size_t>(4 * groups));
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
        runs_.clear();
        append(c);
        finish();
    }
    const CellRun* runs(size_t from) const { return runs_.data() + from; }

private:
    void append(uint32_t c) {
        const int64_t of_run = cells_.shape().run();
        const uint32_t* list = cells_.list(c);
        int64_t left = cells_.size(c);
        for (int64_t i = 0; left > 0; ++i, left -= of_run)
            runs_.push_back({cells_.scanned(list[i]), static_cast<uint32_t>(list[i] * of_run),
                             static_cast<uint32_t>(std::min(left, of_run))});
    }
    void finish() { runs_.insert(runs_.end(), CELL_AHEAD, CellRun{nullptr, 0, 0}); }

    const Cells& cells_;
    std::vector<CellRun> runs_;
};

// What the first stage keeps, group after group; see CellFound.
class Kept {
public:
    explicit Kept(int64_t room) { grow(static_cast<size_t>(room)); }
    size_t size() const { return size_; }
    uint32_t place(size_t i) const { return places_[i]; }
    const uint32_t* marks() const { return marks_.get(); }
    int32_t bucket(size_t i) const { return static_cast<int32_t>(marks_[i] & 0xffff); }

    // Where a kernel may write `most` more.
    CellFound room(int64_t most) {
        const size_t needed = size_ + static_cast<size_t>(most + CELL_ROOM);
        if (needed > room_) grow(2 * needed);
        return {places_.get() + size_, marks_.get() + size_};
    }
    void add(int64_t n) { size_ += static_cast<size_t>(n); }
    // Drops those of each group that lie above its threshold; `ends` are moved.
    void settle(const std::vector<int32_t>& thresholds, std::vector<size_t>& ends) {
        size_t kept = 0, i = 0;
        for (size_t g = 0; g < ends.size(); ++g) {
            // Written without a branch: which of them stay cannot be predicted.
            for (; i < ends[g]; ++i) {
                const uint32_t place = places_[i], mark = marks_[i];
                places_[kept] = place;
                marks_[kept] = mark;
                kept += static_cast<int32_t>(mark & 0xffff) <= thresholds[g];
            }
            ends[g] = kept;
        }
        size_ = kept;
    }

private:
    // Not filled: all of it is written before it is read.
    void grow(size_t room) {
        std::unique_ptr<uint32_t[]> places(new uint32_t[room]), marks(new uint32_t[room]);
        if (size_) {
            std::memcpy(places.get(), places_.get(), size_ * sizeof(uint32_t));
            std::memcpy(marks.get(), marks_.get(), size_ * sizeof(uint32_t));
        }
        places_.swap(places);
        marks_.swap(marks);
        room_ = room;
    }
    size_t size_ = 0, room_ = 0;
    std::unique_ptr<uint32_t[]> places_, marks_;
};

}  // namespace

// One query, stage by stage.
class Pivots::Search {
public:
    Search(const Pivots& pivots, const Rows& rows, const std::vector<uint32_t>& masks, const Plan& plan, const float* query)
        : pivots_(pivots),
          cells_(pivots.cells_),
          rows_(rows),
          masks_(masks),
          plan_(plan),
          query_(query),
          d_(pivots.d_),
          ip_(pivots.settings_.metric == Metric::ip),
          kernels_(active()),
          keys_(new float[static_cast<size_t>(cells_.count())]),
          kept_(4 * plan.survivors + 4096) {}

    SourceWork run(int64_t wanted, std::vector<uint32_t>& found) {
        prepare();
        CellOrder order(keys_.get(), cells_, pivots_.centres_, plan_.probed);
        measure_bases(order);
        first_stage(order, wanted);
        second_stage(found);
        return {seen_, static_cast<int64_t>(kept_.size())};
    }

private:
    // The query against means, and in whole numbers against codes.
    void prepare() {
        const Encoder& encoder = *pivots_.settings_.encoder;
        Wiped<float> coordinates(encoder.bits), scratch(encoder.scratch());
        float* values = coordinates.at(0);
        kernels_.superbit(encoder.frame->view(), query_, 1, {values, nullptr, encoder.bits, nullptr}, scratch.at(0));
        pivots_.means_.keys(values, ip_ ? 0.0f : 0.75f, keys_.get());
        int32_t half = 0;
        const double scale = first_tables(values, d_, prepared_.tables, half), unit = scale > 0.0 ? 1.0 / scale : 0.0;
        const double alignment = std::sqrt(2.0 * static_cast<double>(d_) / PI);
        scan_ = {prepared_.tables.data(), pivots_.shape_.scan_bytes(), half,
                 static_cast<float>(ip_ ? unit / alignment : 2.0 * unit / alignment)};
        add_wide_tables(prepared_, scan_);
        for (int64_t plane = 0; plane < encoder.bits / d_; ++plane)
            for (int64_t j = 0; j < d_; ++j) values[plane * d_ + j] *= encoder.weights[static_cast<size_t>(plane)];
        tails_.half = half;
        tails_.first_unit = static_cast<float>(unit * static_cast<double>(encoder.weights[0]));
        tails_.tail_unit = static_cast<float>(tail_weights(values + d_, encoder.bits - d_, prepared_.tail_weights,
                                                           prepared_.tail_signs, tails_.whole));
        tails_.signs = prepared_.tail_signs.data();
        tails_.weights = prepared_.tail_weights.data();
        tails_.words = pivots_.shape_.words();
    }

    float base_of(uint32_t c) const {
        const float* centre = pivots_.centres_.row(c);
        return ip_ ? -kernels_.dot(query_, centre, d_) : kernels_.squared_distance(query_, centre, d_);
    }

    // Of every group that is sure to be looked into; and how large estimates are.
    void measure_bases(CellOrder& order) {
        constexpr int64_t AHEAD = 6;
        sure_ = std::min(plan_.probed, order.size());
        bases_.reserve(static_cast<size_t>(sure_));
        for (int64_t g = -AHEAD; g < sure_; ++g) {
            if (g + AHEAD < sure_) ask_for(pivots_.centres_.row(order.at(g + AHEAD)), 4 * d_);
            if (g >= 0) bases_.push_back(base_of(order.at(g)));
        }
        // The span of estimates is taken from several cells: a query that is a pivot has no distance to its own.
        float low = 0.0f, size = 0.0f;
        for (int64_t g = 0; g < std::min(SPAN, order.size()); ++g) {
            float span = g < sure_ ? bases_[static_cast<size_t>(g)] : base_of(order.at(g));
            if (ip_) {
                double query_norm = 0.0, centre_norm = 0.0;
                kernels_.norms(query_, d_, 1, &query_norm);
                kernels_.norms(pivots_.centres_.row(order.at(g)), d_, 1, &centre_norm);
                span = static_cast<float>(query_norm) * static_cast<float>(centre_norm);
            }
            size = std::max(size, span);
        }
        if (ip_) low = bases_[0] - size;
        coarse_ = Scale::over(low, size, 256.0f, 1024);
        fine_ = Scale::over(low, size, 1024.0f, 4096);
    }

    bool permitted(uint32_t row) const { return masks_.empty() || (masks_[row / BLOCK] >> (row % BLOCK) & 1); }

    // Masks of a cell's blocks, in cell_masks_, and how many rows they let pass.
    int64_t mask_cell(uint32_t c) {
        cell_masks_.assign(static_cast<size_t>((cells_.size(c) + BLOCK - 1) / BLOCK), 0);
        int64_t count = 0;
        for (uint32_t slot = 0; slot < cells_.size(c); ++slot) {
            if (!permitted(cells_.row(c, slot))) continue;
            cell_masks_[slot / BLOCK] |= uint32_t{1} << (slot % BLOCK);
            ++count;
        }
        return count;
    }

    // One plane of all rows, cell by cell.
    void first_stage(CellOrder& order, int64_t wanted) {
        std::vector<uint32_t> counts(static_cast<size_t>(coarse_.buckets), 0);
        Rank survivors(plan_.survivors, coarse_.buckets), reference(plan_.reference, coarse_.buckets);
        Path path(cells_, order, sure_);
        size_t at = 0;  // runs
        std::vector<int32_t> limits;
        for (auto* list : {&limits, &reference_limits_}) list->reserve(static_cast<size_t>(sure_));
        ends_.reserve(static_cast<size_t>(sure_));
        int64_t group = 0;
        for (; group < order.size() && (group < plan_.probed || seen_ < wanted); ++group) {
            const uint32_t c = order.at(group);
            if (group >= sure_) {
                path.restart(c);
                at = 0;
                bases_.push_back(base_of(c));
            }
            seen_ += masks_.empty() ? cells_.size(c) : mask_cell(c);
            const CellView cell{path.runs(at), cells_.runs(c), masks_.empty() ? nullptr : cell_masks_.data()};
            const CellLimit limit = coarse_.limit(survivors.value(), bases_[static_cast<size_t>(group)]);
            const CellFound fresh = kept_.room(cells_.size(c));
            const int64_t n = kernels_.scan_cell(scan_, cell, limit, fresh);
            at += static_cast<size_t>(cell.count);
            for (int64_t i = 0; i < n; ++i) {
                const auto bucket = static_cast<int32_t>(fresh.marks[i] & 0xffff);
                ++counts[static_cast<size_t>(bucket)];
                survivors.count(bucket);
                reference.count(bucket);
            }
            kept_.add(n);
            survivors.fall(counts.data());
            reference.fall(counts.data());
            limits.push_back(survivors.value());
            reference_limits_.push_back(reference.value());
            ends_.push_back(kept_.size());
            // Of the first groups most will go again.
            if (group >= plan_.first)
                for (int64_t i = 0; i < n; ++i) ask_for(cells_.rest_at(fresh.places[i]), 1);
        }
        // The first groups share a threshold. Where the loop ended before all of them, the last one settles it.
        last_first_ = std::min(plan_.first, group) - 1;
        for (auto* list : {&limits, &reference_limits_})
            std::fill_n(list->begin(), last_first_, (*list)[static_cast<size_t>(last_first_)]);
        kept_.settle(limits, ends_);
    }

    // All planes of what is left, and the same rule once more.
    void second_stage(std::vector<uint32_t>& found) {
        const size_t n = kept_.size();
        std::unique_ptr<const uint32_t*[]> tails(new const uint32_t*[n]);
        std::unique_ptr<float[]> bases(new float[n]);
        std::unique_ptr<int32_t[]> buckets(new int32_t[n]);
        const size_t first = ends_[static_cast<size_t>(last_first_)];
        for (size_t i = 0; i < n; ++i) {
            tails[i] = cells_.rest_at(kept_.place(i)) + 1;
            if (i < first) ask_for(tails[i], 1);
        }
        for (size_t g = 0, i = 0; g < ends_.size(); i = ends_[g++]) std::fill(bases.get() + i, bases.get() + ends_[g], bases_[g]);
        tails_.low = fine_.low;
        tails_.inverse = fine_.inverse;
        tails_.last = static_cast<float>(fine_.buckets - 1);
        kernels_.refine_cells(tails_, tails.get(), kept_.marks(), bases.get(), static_cast<int64_t>(n), buckets.get());

        std::vector<uint32_t> counts(static_cast<size_t>(fine_.buckets), 0);
        Rank rank(plan_.rank, fine_.buckets);
        size_t from = 0, i = 0;
        for (size_t g = 0; g < ends_.size(); ++g) {
            for (const int32_t limit = reference_limits_[g]; i < ends_[g]; ++i) {
                if (kept_.bucket(i) > limit) continue;
                ++counts[static_cast<size_t>(buckets[i])];
                rank.count(buckets[i]);
            }
            if (static_cast<int64_t>(g) < last_first_) continue;  // the first groups go together, the others one by one
            rank.fall(counts.data());
            for (; from < i; ++from) {
                if (buckets[from] > rank.value()) continue;
                const uint32_t row = tails[from][-1];
                found.push_back(row);
                ask_for(rows_.vector(row), 4 * d_);
            }
        }
    }

    const Pivots& pivots_;
    const Cells& cells_;
    const Rows& rows_;
    const std::vector<uint32_t>& masks_;
    const Plan& plan_;
    const float* query_;
    const int64_t d_;
    const bool ip_;
    const Kernels& kernels_;
    std::unique_ptr<float[]> keys_;
    PreparedQuery prepared_;  // for its buffers, which are wiped
    ScanQuery scan_{};
    CellTails tails_{};
    Scale coarse_{}, fine_{};
    int64_t sure_ = 0;
    std::vector<float> bases_;              // of every group
    std::vector<int32_t> reference_limits_;  // of every group
    std::vector<size_t> ends_;               // of every group's entries
    std::vector<uint32_t> cell_masks_;
    Kept kept_;
    int64_t seen_ = 0, last_first_ = 0;
};

SourceWork Pivots::candidates(const Rows& rows, const float* query, int64_t wanted, double effort,
                              const std::vector<uint32_t>& masks, int64_t allowed, std::vector<uint32_t>& found,
                              std::vector<size_t>&) const {
    const Plan plan = plan_for(settings_.probes, cells_.filled(), rows.size(), allowed, wanted, effort);
    if (allowed > plan.rank) return Search(*this, rows, masks, plan, query).run(wanted, found);
    for (uint32_t row = 0; row < rows.size(); ++row)
        if (masks.empty() || (masks[row / BLOCK] >> (row % BLOCK) & 1)) found.push_back(row);
    return {allowed, 0};
}

}  // namespace lethevec
