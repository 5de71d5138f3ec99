// A search of the source "pivots": cells by nearness of their means, their rows by one plane of their codes, the best
// of those by all planes. Mirrors `pivot_candidates` of the spec, which says why more effort never drops a row.
//
// Many queries may go through the cells in step: each has its own path, but all look at the same few cells at a time,
// so that these come from memory once.
//
// A group is what one cell gives. Memory is asked for long before it is read wherever it is known what will be: cells
// lie scattered, and so do the records.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/dispatch.h"
#include "memory/arena.h"
#include "memory/wipe.h"
#include "memory/wiped.h"
#include "sources/elsewhere.h"
#include "sources/pivots/cell_order.h"
#include "sources/pivots/pivots.h"
#include "sources/pivots/plan.h"

namespace lethevec {

namespace {

constexpr double PI = 3.14159265358979323846;
constexpr double FIRST_ERRORS = 1.6, SECOND_ERRORS = 1.8;  // see the spec
constexpr double FALLOFF = 0.6;
constexpr float CELLS_WITHIN = 0.6f;
constexpr double CELL_ERRORS = 3.0;
constexpr int64_t AHEAD = 8;
constexpr size_t ARENA = 100000;  // bytes that many searches do with, beside a few for each cell
constexpr int64_t QUERIES_IN_STEP = 32;

// Into the second cache: more can be on their way there than to the first.
void ask_for(const void* from, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(from) + at, 0, 2);
}

// Rows that a kernel has kept; see CellFound.
class Kept {
public:
    Kept(const Cells& cells, Arena& arena)
        : cells_(cells), places_(arena), groups_(arena), scores_(arena), rests_(arena) {}
    size_t size() const { return size_; }
    uint32_t place(size_t i) const { return places_[i]; }
    uint32_t group(size_t i) const { return groups_[i]; }
    uint16_t score(size_t i) const { return scores_[i]; }
    uint32_t row(size_t i) const { return rests_[i][-1]; }
    const uint32_t* const* tails() const { return rests_.data(); }
    CellFound all() { return from(0); }
    CellFound from(size_t at) { return {places_.data() + at, groups_.data() + at, scores_.data() + at}; }
    // Where a kernel may write `most` more.
    CellFound room(size_t most) {
        if (size_ + most > places_.size()) {
            const size_t larger = std::max<size_t>(2 * (size_ + most), 4096);
            places_.resize(larger);
            groups_.resize(larger);
            scores_.resize(larger);
        }
        return from(size_);
    }
    // It has written so many: what else there is of them is asked for.
    void add(int64_t n) {
        const uint32_t** to = rests_.extend(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) {
            const uint32_t* rest = cells_.rest_at(places_[size_++]);
            to[i] = rest + 1;
            ask_for(rest, 1);
        }
    }

private:
    const Cells& cells_;
    size_t size_ = 0;
    ArenaList<uint32_t> places_, groups_;
    ArenaList<uint16_t> scores_;
    ArenaList<const uint32_t*> rests_;  // after the row's number
};

}  // namespace

// One query, stage by stage.
class Pivots::Search {
public:
    Search(const Pivots& pivots, const Scope& scope, const PivotPlan& plan, Sought& sought, bool in_step)
        : pivots_(pivots),
          cells_(pivots.cells_),
          rows_(scope.rows),
          allowed_(scope.allowed),
          plan_(plan),
          query_(sought.query.vector.data()),
          in_step_(in_step),
          d_(pivots.d_),
          ip_(pivots.settings_.metric == Metric::ip),
          kernels_(active()),
          arena_(ARENA + 12 * static_cast<size_t>(cells_.count()), sought.room),
          keys_(arena_.take<float>(static_cast<size_t>(cells_.count()))) {}

    // What follows from a query is in the object itself as well: limits, lengths, distances.
    static void operator delete(void* at, size_t bytes) {
        wipe(at, bytes);
        ::operator delete(at);
    }

    // All but the judgement of the rows of the path. False where there are fewer rows than are wanted.
    bool start(int64_t wanted, std::vector<uint32_t>& found) {
        prepare();
        CellOrder order(keys_, cells_, pivots_.centres_, 0, likely_first(), arena_);
        find_first(order);
        if (first_rows_ < wanted) return false;
        find_limit(wanted);
        find_path(order);
        set_limits();
        referred_ = static_cast<int64_t>(best_.size());
        take_overlooked(found);
        distances_.resize(0);
        return true;
    }

    // In step: the rows of the cells before this one, and of the first cells.
    void judge_before(uint32_t cell) {
        size_t to = std::max(at_, first_pairs_);
        for (; next_ < path_.size() && path_[next_] < cell; ++next_) to = ends_[next_];
        judge(to);
    }

    // All rows that are left.
    SearchWork finish(std::vector<uint32_t>& found) {
        judge(pairs_.size() - CELL_AHEAD);
        const int64_t refined = referred_ + take_near(found);
        const CellShape& shape = cells_.shape();
        return {seen_, refined, 0, seen_ * shape.first_bytes() + refined * shape.second_bytes()};
    }

private:
    // The query against means, and in whole numbers against codes.
    void prepare() {
        const Encoder& encoder = *pivots_.settings_.encoder;
        Wiped<float> coordinates(encoder.bits), scratch(encoder.scratch());
        float* values = coordinates.at(0);
        kernels_.superbit(encoder.frame->view(), query_, 1, {values, nullptr, encoder.bits, nullptr}, scratch.at(0));
        double norm = 0.0;
        kernels_.norms(query_, d_, 1, &norm);
        size_ = static_cast<float>(norm);
        pivots_.means_.keys(values, size_, keys_);
        first_.set(values, d_);
        const int32_t half = first_.view.half;
        const double unit = first_.unit;
        const double alignment = std::sqrt(2.0 * static_cast<double>(d_) / PI);
        const auto gain = static_cast<float>((ip_ ? 1.0 : 2.0) * unit / alignment);
        middle_ = static_cast<float>(half) * gain;
        first_.view.gain = 2.0f * gain;
        for (int64_t plane = 0; plane < encoder.bits / d_; ++plane)
            for (int64_t j = 0; j < d_; ++j) values[plane * d_ + j] *= encoder.weights[static_cast<size_t>(plane)];
        tails_.half = half;
        tails_.first_unit = static_cast<float>(unit * static_cast<double>(encoder.weights[0]));
        tail_.set(values + d_, encoder.bits - d_);
        tails_.tail_unit = static_cast<float>(tail_.unit);
        tails_.whole = tail_.sum;
        tails_.signs = tail_.signs.data();
        tails_.weights = tail_.weights.data();
        tails_.words = pivots_.shape_.words();
    }

    // About how many cells it takes to see the first rows, and some more: where they do not do, more have to be put in
    // order.
    int64_t likely_first() const {
        return 4 + 3 * plan_.first * cells_.filled() / (2 * std::min(allowed_.count(), pivots_.filed_));
    }

    float base_of(uint32_t c) const {
        const float* origin = pivots_.origins_.row(c);
        return ip_ ? -kernels_.dot(query_, origin, d_) : kernels_.squared_distance(query_, origin, d_);
    }

    // The pairs of the first cells, best first, and the distances of their origins.
    void find_first(CellOrder& order) {
        const int64_t sure = std::min(likely_first(), order.size());
        make_room(sure);
        // A list is two steps away: its head, then where that points to.
        const auto cell = [&](int64_t g) { return order.any(g); };
        for (int64_t g = -2 * AHEAD; g < 0; ++g) ask_for_cell(cell, g, 0, sure, AHEAD);
        for (int64_t g = 0; g < order.size() && first_rows_ < plan_.first; ++g) {
            ask_for_cell(cell, g, 0, sure, AHEAD);
            const uint32_t c = order.at(g);
            enter(c);
            first_rows_ += allowed_.all() ? cells_.size(c) : mask(c);
            last_ = c;
        }
        first_pairs_ = pairs_.size();
    }

    // The same for all others that are looked into: in any order.
    void find_path(CellOrder& order) {
        const auto first = static_cast<int64_t>(bases_.size());
        const auto errors = static_cast<float>((ip_ ? 1.0 : 2.0) * CELL_ERRORS / std::sqrt(12.0));
        const float by_means = errors * (size_ * pivots_.means_.step(last_));
        const float least = keys_[last_] - (CELLS_WITHIN * (middle_distance_ - limit_) + by_means);
        int64_t worth = 0;
        for (int64_t c = 0; c < cells_.count(); ++c) worth += cells_.size(c) > 0 && keys_[c] >= least;
        const int64_t probed = plan_.probed(worth, first, order.size(), lies_elsewhere());
        order.widen(first, probed);
        make_room(probed);
        if (in_step_) find_stepwise(order, first, probed);
        const auto cell = [&](int64_t g) { return in_step_ ? path_[static_cast<size_t>(g - first)] : order.any(g); };
        for (int64_t g = first - 2 * AHEAD; g < first; ++g)
            if (g >= -2 * AHEAD) ask_for_cell(cell, g, first, probed, AHEAD);
        for (int64_t g = first; g < probed; ++g) {
            ask_for_cell(cell, g, first, probed, AHEAD);
            enter(cell(g));
            if (in_step_) ends_.push_back(pairs_.size());
        }
        pad();
    }

    // The cells of the path after the first ones, by their numbers.
    void find_stepwise(CellOrder& order, int64_t first, int64_t probed) {
        const auto words = static_cast<size_t>((cells_.count() + 63) / 64), most = static_cast<size_t>(probed - first);
        uint64_t* bits = arena_.take<uint64_t>(words);
        std::fill_n(bits, words, uint64_t{0});
        for (int64_t g = first; g < probed; ++g) {
            const uint32_t c = order.any(g);
            bits[c / 64] |= uint64_t{1} << (c % 64);
        }
        path_.reserve(most);
        ends_.reserve(most);
        for (size_t word = 0; word < words; ++word)
            for (uint64_t left = bits[word]; left; left &= left - 1)
                path_.push_back(static_cast<uint32_t>(64 * word) + static_cast<uint32_t>(__builtin_ctzll(left)));
    }

    // For so many cells, as if they were of one size, and for some more.
    void make_room(int64_t cells) {
        const int64_t usual = pivots_.filed_ / (cells_.filled() * PAIR) + 2;
        bases_.reserve(static_cast<size_t>(cells));
        pairs_.reserve(static_cast<size_t>(usual * cells + CELL_AHEAD));
    }

    void enter(uint32_t c) {
        append(c, static_cast<uint32_t>(bases_.size()));
        bases_.push_back(base_of(c));
    }

    // Kernels ask for pairs that come later, and these must be some.
    void pad() {
        for (int64_t i = 0; i < CELL_AHEAD; ++i) pairs_.push_back(pairs_.back());
    }

    // When the first cells are known, and no others yet.
    bool lies_elsewhere() const {
        const int64_t allowed = std::min(allowed_.count(), pivots_.filed_);
        return !allowed_.all() && fewer_than_chance(pivots_.filed_, allowed, seen_, first_rows_);
    }

    // The list of the cell that comes so many after the g-th, and the head of one that comes later: of those from
    // `begin` up to `end`.
    template <class Cell>
    void ask_for_cell(const Cell& cell, int64_t g, int64_t begin, int64_t end, int64_t ahead) const {
        if (g + 2 * ahead >= begin && g + 2 * ahead < end) cells_.ask_for_head(cell(g + 2 * ahead));
        if (g + ahead < begin || g + ahead >= end) return;
        const uint32_t c = cell(g + ahead);
        __builtin_prefetch(cells_.list(c));
        ask_for(pivots_.origins_.row(c), 4 * d_);
    }

    void append(uint32_t c, uint32_t group) {
        const int shift = cells_.shape().run_shift;  // dividing would take longer than all the rest
        const int64_t of_run = cells_.shape().run(), stride = cells_.pair_stride();
        const uint32_t* list = cells_.list(c);
        const int64_t size = cells_.size(c);
        CellPair* to = pairs_.extend(static_cast<size_t>((size + PAIR - 1) / PAIR));
        for (int64_t from = 0; from < size; from += PAIR) {
            const uint32_t run = list[from >> shift];
            const int64_t inside = from & (of_run - 1);
            *to++ = {cells_.scanned(run) + inside / PAIR * stride, (run << shift) + static_cast<uint32_t>(inside),
                     group, static_cast<uint32_t>(std::min(size - from, PAIR))};
        }
        seen_ += size;
    }

    // The masks of the blocks of one of the first cells, and how many rows they let pass.
    int64_t mask(uint32_t c) {
        int64_t count = 0;
        for (uint32_t slot = 0; slot < cells_.size(c); ++slot) {
            if (slot % BLOCK == 0) first_masks_.push_back(0);
            const uint32_t row = cells_.row(c, slot);
            const uint32_t bit = allowed_.has(row) ? 1 : 0;
            first_masks_.back() |= bit << (slot % BLOCK);
            count += bit;
        }
        return count;
    }

    // How far the k-th neighbour is at most, by true distances: those of the rows of the first cells that are the best
    // by their codes. Of the rows of the first cells, the best by their first plane are then in best_.
    void find_limit(int64_t wanted) {
        const size_t all = first_pairs_ * static_cast<size_t>(PAIR);
        best_.room(all);
        float* near = arena_.take<float>(all);
        limits_.resize(bases_.size());
        for (size_t g = 0; g < bases_.size(); ++g) limits_[g] = {-middle_, bases_[g]};
        pad();
        const int64_t n =
            kernels_.score_cells(first_.view, pairs_.data(), static_cast<int64_t>(first_pairs_), limits_.data(),
                                 allowed_.all() ? nullptr : first_masks_.data(), best_.all(), near);
        pairs_.resize(first_pairs_);
        middle_distance_ = -kernels_.largest(near, n, (n + 1) / 2);
        const float threshold = kernels_.largest(near, n, std::min(plan_.reference, n));
        best_.add(kernels_.keep_near(best_.all(), near, n, threshold));
        lifts_.resize(bases_.size());
        std::fill_n(lifts_.data(), lifts_.size(), 0.0f);
        refine(best_, best_.size());
        for (size_t i = 0; i < best_.size(); ++i) near[i] = -distances_[i];
        const float least = kernels_.largest(near, static_cast<int64_t>(best_.size()), wanted);
        judges_.reserve(static_cast<size_t>(wanted));
        for (size_t i = 0; i < best_.size(); ++i) {
            if (!(near[i] >= least)) continue;
            judges_.push_back(static_cast<uint32_t>(i));
            ask_for(rows_.packed(best_.row(i)), rows_.layout().vector_bytes());
        }
        Wiped<float> room(rows_.room(1));
        for (size_t i = 0; i < judges_.size(); ++i) {
            const uint32_t row = best_.row(judges_[i]);
            const float* x = rows_.vector(row, room.at(0));
            near[i] = -true_distance(x, row);
        }
        limit_ = -kernels_.largest(near, static_cast<int64_t>(judges_.size()), wanted);
    }

    // As it is estimated: squared, or minus the inner product.
    float true_distance(const float* x, uint32_t row) const {
        switch (pivots_.settings_.metric) {
            case Metric::cosine: return 2.0f * (1.0f - kernels_.dot(query_, x, d_) / rows_.norm(row));
            case Metric::ip: return -kernels_.dot(query_, x, d_);
            default: return kernels_.squared_distance(query_, x, d_);
        }
    }

    // Those that set the limit but would not pass both stages.
    void take_overlooked(std::vector<uint32_t>& found) {
        distances_.resize(best_.size());
        refine_from(best_, 0, best_.size());
        for (size_t j = 0; j < judges_.size(); ++j) {
            const size_t i = judges_[j];
            const CellLimit& limit = limits_[best_.group(i)];
            const auto [size, offset] = cells_.first_numbers(best_.place(i));
            const float key = size * ((static_cast<float>(best_.score(i)) * first_.view.gain + limit.shift) - offset);
            if (!(key >= limit.least) || distances_[i] > limit_) found.push_back(best_.row(i));
        }
    }

    // The rows of the path up to a pair, by one plane and then by all. The rest of a row's code is asked for when its
    // first plane has passed, and read when the pairs after it have been scanned: later still, those would have driven
    // it out of the cache again.
    void judge(size_t to) {
        constexpr size_t TOGETHER = 16;
        while (at_ < to) {
            const size_t some = std::min(TOGETHER, to - at_), before = kept_.size();
            kept_.add(kernels_.scan_cells(first_.view, pairs_.data() + at_, static_cast<int64_t>(some), limits_.data(),
                                          nullptr, kept_.room(some * static_cast<size_t>(PAIR))));
            refine(kept_, asked_);
            asked_ = before;
            at_ += some;
        }
    }

    // Those that are near enough, and only then whether they may be found: a row's number lies with the rest of its
    // code.
    int64_t take_near(std::vector<uint32_t>& found) {
        refine(kept_, kept_.size());
        // First without a branch: which ones are near enough cannot be predicted.
        uint32_t* near = arena_.take<uint32_t>(kept_.size());
        size_t n = 0;
        for (size_t i = 0; i < kept_.size(); ++i) {
            near[n] = static_cast<uint32_t>(i);
            n += !(distances_[i] > limit_);
        }
        found.reserve(found.size() + n);
        for (size_t i = 0; i < n; ++i) {
            const uint32_t row = kept_.row(near[i]);
            if (!allowed_.has(row)) continue;
            found.push_back(row);
            // In step, the turns of others come before these are read.
            if (!in_step_) ask_for(rows_.packed(row), rows_.layout().vector_bytes());
        }
        return static_cast<int64_t>(kept_.size());
    }

    void set_limits() {
        const double d = static_cast<double>(d_),
                     planes = static_cast<double>(pivots_.settings_.encoder->weights.size());
        const double first_error = std::sqrt((PI / 2.0 - 1.0) / d),
                     second_error = std::pow(FALLOFF, planes) / std::sqrt(d);
        const double first_step = first_.unit * pivots_.settings_.encoder->weights[0] * std::sqrt(d),
                     later_step = tail_.unit * std::sqrt((planes - 1.0) * d);
        const auto reach = static_cast<float>((ip_ ? 1.0 : 2.0) * FIRST_ERRORS * plan_.errors);
        const auto lift = static_cast<float>(SECOND_ERRORS * plan_.errors);
        const auto first_square = static_cast<float>(first_error * first_error),
                   second_square = static_cast<float>(second_error * second_error);
        // What the rounding of weights adds.
        const auto by_first = static_cast<float>(first_.unit * first_.unit * (PI / 24.0)),
                   by_both = static_cast<float>((first_step * first_step + later_step * later_step) / 12.0);
        limits_.resize(bases_.size());
        lifts_.resize(bases_.size());
        for (size_t g = 0; g < bases_.size(); ++g) {
            const float away = ip_ ? size_ * size_ : std::max(bases_[g], 0.0f);
            limits_[g] = {reach * std::sqrt(first_square * away + by_first) - middle_, bases_[g] - limit_};
            lifts_[g] = lift * std::sqrt(second_square * away + by_both);
        }
    }

    // The distances by all planes of those up to `to` that have none yet.
    void refine(Kept& kept, size_t to) {
        const size_t from = distances_.size();
        if (to <= from) return;
        distances_.extend(to - from);
        refine_from(kept, from, to);
    }
    void refine_from(Kept& kept, size_t from, size_t to) {
        tails_.bases = bases_.data();
        tails_.lifts = lifts_.data();
        kernels_.refine_cells(tails_, kept.tails() + from, kept.from(from), static_cast<int64_t>(to - from),
                              distances_.data() + from);
    }

    const Pivots& pivots_;
    const Cells& cells_;
    const Rows& rows_;
    const Allowed& allowed_;
    const PivotPlan& plan_;
    const float* query_;
    const bool in_step_;  // with others
    const int64_t d_;
    const bool ip_;
    const Kernels& kernels_;
    Arena arena_;
    float* keys_;  // of every cell
    FirstWeights first_;
    TailWeights tail_;
    float middle_ = 0.0f, size_ = 0.0f;  // half of the query's whole weights in distances; its norm
    CellTails tails_{};
    uint32_t last_ = 0;             // of the first cells
    float middle_distance_ = 0.0f;  // of the middle row of the first cells
    float limit_ = 0.0f;
    Kept best_{cells_, arena_};           // of the first cells
    ArenaList<uint32_t> judges_{arena_};  // those of best_ that the limit follows from
    ArenaList<CellPair> pairs_{arena_};
    size_t first_pairs_ = 0;                          // those of the first cells,
    int64_t first_rows_ = 0;                          // and their rows that may be found
    std::vector<uint32_t> first_masks_;               // of their blocks
    ArenaList<float> bases_{arena_}, lifts_{arena_};  // of every group
    ArenaList<CellLimit> limits_{arena_};
    ArenaList<float> distances_{arena_};  // of what was refined last
    int64_t seen_ = 0, referred_ = 0;
    Kept kept_{cells_, arena_};         // of the path, by one plane
    size_t at_ = 0, asked_ = 0;         // pairs that were scanned; rows kept before the last of them
    ArenaList<uint32_t> path_{arena_};  // in step: cells after the first ones,
    ArenaList<size_t> ends_{arena_};    // where the pairs of each end,
    size_t next_ = 0;                   // and the first cell that was not looked at
};

// Where cells are in the cache anyway, what each query in step keeps drives out more than they share.
int64_t Pivots::queries_together(const Scope& scope) const {
    const int64_t codes = filed_ * (cells_.shape().first_bytes() + 4 * cells_.shape().rest_words());
    return codes < steps_from_ ? 1 : few_enough(QUERIES_IN_STEP, scope.k);
}

// While a change goes on, there are rows that are not filed: they have not come yet, or have left.
SearchWork Pivots::candidates(const Scope& scope, Sought* sought, int64_t n) const {
    const int64_t allowed = std::min(scope.allowed.count(), filed_);
    SearchWork work;
    if (allowed == 0) return work;
    // They see by themselves where more has to be looked at.
    const double effort = scope.allowed.all() ? scope.effort : scope.effort / ALLOWED_EFFORT;
    const PivotPlan plan = pivot_plan(settings_.probes, cells_.filled(), filed_, allowed, scope.k, effort);
    std::vector<std::unique_ptr<Search>> searches(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
        std::unique_ptr<Search>& search = searches[static_cast<size_t>(i)];
        std::vector<uint32_t>& found = sought[i].candidates.rows;
        if (allowed > plan.few) search = std::make_unique<Search>(*this, scope, plan, sought[i], n > 1);
        if (search && search->start(scope.k, found)) continue;
        search.reset();
        scope.allowed.list(found);
        found.erase(std::remove_if(found.begin(), found.end(), [&](uint32_t row) { return !filed(row); }), found.end());
        work.scanned += static_cast<int64_t>(found.size());
    }
    const int64_t of_cell = std::max<int64_t>(1, filed_ * cells_.shape().first_bytes() / cells_.count());
    const int64_t step = n > 1 ? std::max<int64_t>(1, step_ / of_cell) : cells_.count();
    for (int64_t cell = step; cell < cells_.count(); cell += step)
        for (const std::unique_ptr<Search>& search : searches)
            if (search) search->judge_before(static_cast<uint32_t>(cell));
    for (int64_t i = 0; i < n; ++i)
        if (searches[static_cast<size_t>(i)])
            work += searches[static_cast<size_t>(i)]->finish(sought[i].candidates.rows);
    return work;
}

}  // namespace lethevec
