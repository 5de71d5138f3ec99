#include "sources/pivots/pivots.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hashing/direction.h"
#include "kernels/dispatch.h"
#include "memory/wiped.h"
#include "parallel.h"

namespace lethevec {

namespace {

constexpr uint64_t LEAST_CELL = 4, RECORDS_PER_SQUARE = 20;  // see the spec

uint64_t whole_root(uint64_t number) {
    auto root = static_cast<uint64_t>(std::sqrt(static_cast<double>(number)));
    while (root * root > number) --root;
    while ((root + 1) * (root + 1) <= number) ++root;
    return root;
}

}  // namespace

std::unique_ptr<Source> PivotSettings::make() const { return std::make_unique<Pivots>(*this); }

// Mirrors `pivot_limit` of the spec.
uint64_t PivotSettings::limit(int64_t records) const {
    if (cell_size) {
        const auto size = static_cast<uint64_t>(cell_size);
        return UINT64_MAX / size + (UINT64_MAX % size + 1) / size;
    }
    const uint64_t root = whole_root((static_cast<uint64_t>(records) << 24) / RECORDS_PER_SQUARE);
    const uint64_t size = std::max(LEAST_CELL << 12, root);  // in parts of 2^-12
    // 2^76 / size, by 64 bits at a time.
    const uint64_t high = (uint64_t{1} << 63) / size, rest = (uint64_t{1} << 63) % size;
    return (high << 13) + (rest << 13) / size;
}

Pivots::Pivots(const PivotSettings& settings)
    : settings_(settings),
      d_(settings.encoder->dim),
      limit_(settings.limit(0)),
      shape_{settings.encoder->bits, settings.encoder->dim, CellShape::shift_for(settings.cell_size)},
      centres_(d_),
      origins_(d_, settings.encoder->bits),
      means_(d_, settings.metric),
      cells_(shape_),
      samples_(settings.refine ? std::make_unique<Samples>(d_, settings.metric) : nullptr),
      scratch_(static_cast<size_t>(Means::scratch(*settings.encoder->frame))),
      own_(d_, *settings.encoder) {
    append_centre(0, std::vector<float>(static_cast<size_t>(d_), 0.0f).data(), 0.0);
    settle();
}

// What a call needs is not copied.
Pivots::Pivots(const Pivots& other)
    : Source(other),
      settings_(other.settings_),
      d_(other.d_),
      limit_(other.limit_),
      order_(other.order_),
      shape_(other.shape_),
      void_(other.void_),
      centres_(other.centres_),
      origins_(other.origins_),
      means_(other.means_),
      cells_(other.cells_),
      samples_(other.samples_ ? std::make_unique<Samples>(*other.samples_) : nullptr),
      pieces_(other.pieces_),
      filed_(other.filed_),
      stale_(other.stale_),
      scratch_(other.scratch_.size()),
      own_(d_, *settings_.encoder) {}

std::unique_ptr<Source> Pivots::copy_for(int64_t n) const {
    if (n < WORTH_A_COPY || n < filed_ / WORTH_A_COPY_SHARE) return nullptr;
    return std::unique_ptr<Source>(new Pivots(*this));
}

std::unique_ptr<Source> Pivots::copy_without(const Rows& rows, const uint32_t* which, int64_t n, int64_t threads,
                                             const Progress& progress) const {
    if (n < WORTH_A_COPY || !sooner_rebuilt(rows, which, n))
        return Source::copy_without(rows, which, n, threads, progress);
    const RowSet leaving(rows.size(), which, n);
    std::vector<uint32_t> staying;
    staying.reserve(static_cast<size_t>(std::max<int64_t>(0, filed_ - n)));
    for (uint32_t row = 0; row < rows.size(); ++row)
        if (filed(row) && !leaving.has(row)) staying.push_back(row);
    auto made = std::make_unique<Pivots>(settings_);
    // The numbers that rows get when the others are gone: to give them out must not need memory.
    made->pieces_.resize((staying.size() + PIECE_ROWS - 1) / PIECE_ROWS);
    for (Piece& piece : made->pieces_) made->fill_piece(piece);
    const Progress still_there = [&](int64_t) { progress(0); };
    made->add(NewRows(rows, staying.data(), static_cast<int64_t>(staying.size()), nullptr, *settings_.encoder), threads,
              still_there);
    return made;
}

// In comparisons of a row with a centre, as shares of all rows with all centres. A centre that goes, or moves because
// the sample that it is the mean of has changed, has the rows of its cell compared with all centres, and all other rows
// with itself. A new structure has every row that stays compared with every centre that stays.
bool Pivots::sooner_rebuilt(const Rows& rows, const uint32_t* which, int64_t n) const {
    if (void_ || n >= filed_) return false;
    int64_t pivots = 0, homes = 0;
    for (int64_t i = 0; i < n; ++i) {
        pivots += is_pivot(rows.id(which[i]));
        homes += samples_ && filed(which[i]) && home(which[i]).pivot;
    }
    const auto centres = static_cast<double>(centres_.size()), all = static_cast<double>(filed_);
    const double gone = static_cast<double>(pivots) / centres, stay = 1.0 - static_cast<double>(n) / all;
    // Samples change where one of them leaves, and where one comes whose pivot is gone.
    const double changes = static_cast<double>(homes) + (samples_ ? gone * all * stay * SAMPLED_SHARE : 0.0);
    const double moved = 1.0 - std::exp(-changes / centres);
    // Those that become pivots because there are fewer records.
    const auto more = static_cast<double>(settings_.limit(filed_ - n) - limit_) / static_cast<double>(limit_);
    const double come = std::max(0.0, (1.0 - gone) * more);
    return gone * stay + (1.0 - gone) * moved * (1.0 + stay) + come * stay > REBUILD_FROM * stay * (1.0 - gone + come);
}

// --- Where rows are
// ----------------------------------------------------------------------------------------------------

bool Pivots::filed(uint32_t row) const {
    return row / PIECE_ROWS < pieces_.size() && !pieces_[row / PIECE_ROWS].links.empty() && link(row).cell != 0;
}

bool Pivots::find(uint32_t row, uint32_t& cell, uint32_t& slot) const {
    if (!filed(row)) return false;
    cell = link(row).cell - 1;
    slot = link(row).slot;
    return true;
}

void Pivots::take_piece(uint32_t row) {
    const size_t p = row / PIECE_ROWS;
    if (p >= pieces_.size()) pieces_.resize(p + 1);
    fill_piece(pieces_[p]);
    ++pieces_[p].rows;
    ++filed_;
}

void Pivots::fill_piece(Piece& piece) const {
    if (samples_ && piece.homes.empty()) piece.homes.resize(PIECE_ROWS);
    if (piece.links.empty()) piece.links.resize(PIECE_ROWS);
}

// From the end alone: rows have no gaps, but those that a call is about to fill, and filling one must not need memory.
void Pivots::release_piece(uint32_t row) {
    link(row) = Link{};
    if (samples_) home(row) = Home{};
    --pieces_[row / PIECE_ROWS].rows;
    --filed_;
    while (!pieces_.empty() && pieces_.back().rows == 0) pieces_.pop_back();
}

void Pivots::put(int64_t id, uint32_t row, const float* z, uint32_t cell, float distance) {
    link(row) = {cell + 1, cells_.add(cell, row), distance};
    means_.add(cell, z);
    stale_[cell] |= CHANGED | (origins_.counts(cell, hashed(id)) ? SAMPLE : 0);
}

void Pivots::take_out(int64_t id, uint32_t row, const float* z) {
    const Link at = link(row);
    const uint32_t cell = at.cell - 1;
    cells_.take(cell, at.slot);
    if (at.slot < cells_.size(cell)) link(cells_.row(cell, at.slot)).slot = at.slot;
    link(row) = Link{};
    means_.subtract(cell, z);
    stale_[cell] |= CHANGED | (origins_.counts(cell, hashed(id)) ? SAMPLE : 0);
}

void Pivots::take_out(const Rows& rows, uint32_t row) {
    Wiped<float> z(d_);
    geometry(rows.vector(row, z.at(0)), 1, z.at(0));
    take_out(rows.id(row), row, z.at(0));
}

// There are thousands of cells, and most calls change one: eight are looked at together.
int64_t Pivots::next_stale(int64_t c) const {
    const auto size = static_cast<int64_t>(stale_.size());
    for (uint64_t eight = 0; c + 8 <= size; c += 8) {
        std::memcpy(&eight, stale_.data() + c, 8);
        if (eight) break;
    }
    while (c < size && !stale_[static_cast<size_t>(c)]) ++c;
    return c;
}

void Pivots::refresh() {
    for (int64_t c = next_stale(0); c < cells_.count(); c = next_stale(c + 1)) {
        means_.refresh(c, cells_.size(c), *settings_.encoder->frame, scratch_.data());
        cells_.fit(c);
        stale_[static_cast<size_t>(c)] = 0;
    }
    cells_.fit();
    scratch_.zero();
}

// --- Centres
// -----------------------------------------------------------------------------------------------------------

void Pivots::geometry(const float* x, int64_t n, float* z) const {
    if (settings_.metric != Metric::cosine) {
        if (x != z) std::copy(x, x + n * d_, z);
        return;
    }
    for (int64_t i = 0; i < n; ++i) write_direction(x + i * d_, d_, z + i * d_);
}

void Pivots::append_centre(int64_t id, const float* z, double norm) {
    const int64_t c = centres_.size();
    stale_.reserve(stale_.size() + 1);
    try {
        means_.append(norm);
        centres_.append(id, z);
        origins_.append();
        if (samples_) {
            samples_->pivots.append(id, z);
            samples_->sums.append(norm);
            samples_->counts.resize(c + 1);
            samples_->sums.add(c, z);
            samples_->counts[c] = 1;
        }
        cells_.append();
    } catch (...) {
        if (means_.size() > c) means_.remove(c);
        if (centres_.size() > c) centres_.remove(c);
        if (origins_.size() > c) origins_.remove(c);
        if (samples_ && samples_->pivots.size() > c) samples_->pivots.remove(c);
        if (samples_ && samples_->sums.size() > c) samples_->sums.remove(c);
        throw;
    }
    stale_.push_back(CHANGED);
}

// Cannot fail where there are no more centres than at the last time.
void Pivots::settle() {
    centres_.settle();
    if (samples_) samples_->pivots.settle();
}

void Pivots::remove_last_centre() {
    const int64_t c = centres_.size() - 1;
    cells_.remove(c);
    stale_.pop_back();
    centres_.remove(c);
    origins_.remove(c);
    means_.remove(c);
    if (!samples_) return;
    samples_->pivots.remove(c);
    samples_->sums.remove(c);
    samples_->counts.remove(c);
}

// From the last one on, so that none that is still to go gets another number.
void Pivots::remove_centres(const CentreNumbers& gone, CentreNumbers& numbers) {
    numbers.resize(static_cast<size_t>(centres_.size()));
    for (uint32_t c = 0; c < numbers.size(); ++c) numbers[c] = c;
    CentreNumbers& now = numbers;  // which of them lies at each number
    for (auto c = gone.rbegin(); c != gone.rend(); ++c) {
        const auto last = static_cast<uint32_t>(centres_.size() - 1);
        if (*c != last) {
            cells_.remove(*c);
            for (uint32_t slot = 0; slot < cells_.size(*c); ++slot) link(cells_.row(*c, slot)).cell = *c + 1;
            stale_[*c] = stale_[last];
            stale_.pop_back();
            centres_.remove(*c);
            origins_.remove(*c);
            means_.remove(*c);
            if (samples_) {
                samples_->pivots.remove(*c);
                samples_->sums.remove(*c);
                samples_->counts.remove(*c);
            }
            now[*c] = now[last];
        } else {
            remove_last_centre();
        }
    }
    if (!samples_ || gone.empty()) return;
    // Turned round: the number that each has now. Those beyond the new end have moved to a number below it.
    const auto size = static_cast<uint32_t>(centres_.size());
    for (uint32_t c = 0; c < size; ++c)
        if (now[c] >= size) now[now[c]] = c;
    for (Piece& piece : pieces_)
        for (Home& home : piece.homes)
            if (home.pivot > size) home.pivot = now[home.pivot - 1] + 1;
}

CentreNumbers Pivots::centres_of(const Rows& rows, const uint32_t* which, int64_t n) const {
    constexpr size_t FEW = 8;  // up to here it is faster to look for each
    if (n == 0) return {};
    WipedVector<int64_t> ids;
    for (int64_t i = 0; i < n; ++i)
        if (filed(which[i]) && is_pivot(rows.id(which[i]))) ids.push_back(rows.id(which[i]));
    CentreNumbers found;
    found.reserve(ids.size());
    if (ids.size() <= FEW) {
        for (int64_t id : ids) found.push_back(centres_.find(id));
        std::sort(found.begin(), found.end());
        return found;
    }
    std::sort(ids.begin(), ids.end());
    for (int64_t c = 0; c < centres_.size(); ++c)
        if (std::binary_search(ids.begin(), ids.end(), centres_.id(c))) found.push_back(static_cast<uint32_t>(c));
    return found;
}

// --- Changes
// -----------------------------------------------------------------------------------------------------------

WipedVector<HashedId> Pivots::hashed(const Rows& rows, const uint32_t* which, int64_t n) const {
    WipedVector<HashedId> records(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) records[static_cast<size_t>(i)] = hashed(rows.id(which[i]));
    return records;
}

// Which rows become pivots and which centres go, when so many records are there as `limit` is for. One that comes makes
// the limit smaller, one that leaves makes it larger.
void Pivots::find_pivots(const Rows& rows, uint64_t limit, const RowSet& leaving, Change& change) {
    if (follows())
        order_.reach_for(std::max(limit, limit_), [&](const auto& take) {
            for (uint32_t row = 0; row < rows.size(); ++row)
                if (filed(row)) take(hashed(rows.id(row)));
        });
    const HashedId *from = nullptr, *to = nullptr;
    if (follows()) {
        from = order_.begin(std::min(limit, limit_));
        to = order_.end(std::max(limit, limit_));
    }
    for (; from != to; ++from) {
        const uint32_t row = rows.find(from->id);
        if (leaving.has(row)) continue;
        (limit < limit_ ? change.demoted : change.promoted).push_back(row);
    }
}

// Everything that a change of pivots comes to, but nothing is moved yet. `coming` rows are not filed, and `leaving` is
// the set of those that are `going`. May throw: then `undo` makes it undone.
void Pivots::plan(const Rows& rows, RowList coming, RowList going, const RowSet& leaving, int64_t threads,
                  const Progress& progress, Change& change) {
    CentreNumbers fresh;
    fresh.reserve(change.promoted.size());
    Wiped<float> z(d_);
    for (uint32_t row : change.promoted) {
        geometry(rows.vector(row, z.at(0)), 1, z.at(0));
        double norm = 0.0;
        active().norms(z.at(0), d_, 1, &norm);
        append_centre(rows.id(row), z.at(0), norm);
        fresh.push_back(static_cast<uint32_t>(centres_.size() - 1));
    }
    settle();
    change.ends_void = void_ && !fresh.empty();
    if (change.ends_void) change.gone.push_back(0);
    change.becomes_void = !void_ && fresh.empty() && static_cast<int64_t>(change.gone.size()) == centres_.size();
    if (change.becomes_void) append_centre(0, std::vector<float>(static_cast<size_t>(d_), 0.0f).data(), 0.0);
    change.changed = fresh;
    if (samples_ && (!void_ || change.ends_void) && !change.becomes_void) {
        lose_homes(rows, going.which, going.n, leaving, progress, change);
        find_homes(rows, coming.which, coming.n, leaving, fresh, progress, change);
        recentre(fresh, change);
    }
    settle();
    if (change.gone.empty() && change.changed.empty()) return;
    CentreNumbers emptied = change.gone;
    emptied.insert(emptied.end(), change.changed.begin(), change.changed.end());
    std::vector<uint8_t> planned(static_cast<size_t>(centres_.size()), 0);
    for (uint32_t c : emptied) planned[c] = 1;
    plan_own(rows, emptied, change.gone, leaving, threads, progress, change.moves);
    if (!change.ends_void) plan_takeovers(rows, change.changed, planned, leaving, threads, progress, change.moves);
}

void Pivots::add(const NewRows& added, int64_t threads, const Progress& progress) {
    const Rows& rows = added.rows;
    const uint32_t* which = added.which;
    const int64_t n = added.n, before = centres_.size();
    const uint64_t limit_before = limit_;
    int64_t taken = 0, placed = 0;
    Change change;
    CentreNumbers numbers;
    WipedVector<HashedId> ordered;
    try {
        const uint64_t limit = settings_.limit(filed_ + n);
        find_pivots(rows, limit, {}, change);
        WipedVector<HashedId> records = hashed(rows, which, n);
        for (int64_t i = 0; i < n; ++i)
            if (records[static_cast<size_t>(i)].hash < limit) change.promoted.push_back(which[i]);
        if (follows()) order_.prepare(records, ordered);
        change.gone = centres_of(rows, change.demoted.data(), static_cast<int64_t>(change.demoted.size()));
        limit_ = limit;
        for (; taken < n; ++taken) take_piece(which[taken]);
        plan(rows, {which, n}, {}, {}, threads, progress, change);
        place(rows, which, n, change.gone, threads, progress, placed);
        prepare_moves(change.moves);
        numbers.reserve(static_cast<size_t>(change.gone.empty() ? 0 : centres_.size()));
        make_moves(rows, change.moves, progress);
    } catch (...) {
        if (progress) throw;  // a copy, which is dropped
        while (placed > 0) take_out(rows, which[--placed]);
        undo(rows, change);
        while (centres_.size() > before) remove_last_centre();
        settle();
        while (taken > 0) release_piece(which[--taken]);
        limit_ = limit_before;
        refresh();
        throw;
    }
    finish(change, numbers);
    if (follows()) order_.insert(ordered);
    if (follows()) order_.shorten(limit_);
    recode(rows, which, n, change.moves, threads, progress);
    refresh();
}

// Rows are in their new cells. Cannot fail.
void Pivots::finish(const Change& change, CentreNumbers& numbers) {
    if (change.becomes_void && samples_)  // nobody has a home in the void
        for (Piece& piece : pieces_) piece.homes.zero();
    if (!change.gone.empty()) remove_centres(change.gone, numbers);
    settle();
    ++changes_;
    forget_foreseen();
    void_ = (void_ || change.becomes_void) && !change.ends_void;
}

void Pivots::place(const Rows& rows, const uint32_t* which, int64_t n, const CentreNumbers& without, int64_t threads,
                   const Progress& progress, int64_t& placed) {
    const int64_t most = std::min(n, STRIDE);
    Wiped<float> z(most * d_), distances(most);
    Wiped<uint32_t> cells(most);
    for (int64_t at = 0; at < n; at += most) {
        const int64_t some = std::min(most, n - at);
        parallel_for(some, threads, GRAIN, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) geometry(rows.vector(which[at + i], z.at(i * d_)), 1, z.at(i * d_));
            centres_.nearest(z.at(begin * d_), end - begin, without, cells.at(begin), distances.at(begin));
        });
        for (int64_t i = 0; i < some; ++i, ++placed)
            put(rows.id(which[at + i]), which[at + i], z.at(i * d_), *cells.at(i), *distances.at(i));
        if (progress) progress(some);
    }
}

// Homes and centres are as they were. Neither needs memory.
void Pivots::undo(const Rows& rows, const Change& change) {
    for (size_t i = 0; i < change.old.size() / static_cast<size_t>(d_); ++i)
        centres_.replace(change.changed[i], change.old.data() + i * static_cast<size_t>(d_));
    for (size_t i = change.homes.size(); i > 0; --i) {
        const Rehoming& one = change.homes[i - 1];
        exchange_home(rows, one.row, one.after, one.before);
    }
}

void Pivots::leave_quietly(const Rows& rows, const uint32_t* which, int64_t n, float* z, const Progress& progress) {
    for (int64_t i = 0; i < n; ++i) {
        if (!filed(which[i])) continue;
        geometry(rows.vector(which[i], z), 1, z);
        take_out(rows.id(which[i]), which[i], z);
        release_piece(which[i]);
        if (progress && i % STRIDE == STRIDE - 1) progress(0);
    }
}

void Pivots::leave(const Rows& rows, const uint32_t* which, int64_t n, int64_t threads, const Progress& progress) {
    bool quiet = true;
    int64_t leave = 0;
    for (int64_t i = 0; i < n; ++i) {
        if (!filed(which[i])) continue;
        ++leave;
        quiet = quiet && !is_pivot(rows.id(which[i])) && (!samples_ || home(which[i]).pivot == 0);
    }
    const uint64_t limit = settings_.limit(filed_ - leave), limit_before = limit_;
    const int64_t before = centres_.size();
    Change change;
    WipedVector<HashedId> records;
    if (follows()) records = hashed(rows, which, n);
    const RowSet leaving(rows.size(), which, n);
    find_pivots(rows, limit, leaving, change);
    Wiped<float> z(d_);
    if (quiet && change.promoted.empty()) {
        limit_ = limit;
        ++changes_;
        leave_quietly(rows, which, n, z.at(0), progress);
        if (follows()) order_.erase(records);
        recode(rows, nullptr, 0, {}, threads, progress);
        refresh();
        return;
    }
    change.gone = centres_of(rows, which, n);
    CentreNumbers numbers;
    numbers.reserve(static_cast<size_t>(centres_.size()) + change.promoted.size() + 1);
    try {
        limit_ = limit;
        plan(rows, {}, {which, n}, leaving, threads, progress, change);
        prepare_moves(change.moves);
        make_moves(rows, change.moves, progress);
    } catch (...) {
        if (progress) throw;  // likewise
        undo(rows, change);
        while (centres_.size() > before) remove_last_centre();
        settle();
        limit_ = limit_before;
        refresh();
        throw;
    }
    leave_quietly(rows, which, n, z.at(0), progress);
    finish(change, numbers);
    if (follows()) order_.erase(records);
    recode(rows, nullptr, 0, change.moves, threads, progress);
    refresh();
}

void Pivots::renumber(const Rows&, uint32_t last, uint32_t row) {
    if (!filed(last)) return;
    ++changes_;
    take_piece(row);
    link(row) = link(last);
    if (samples_) home(row) = home(last);
    cells_.renumber(link(row).cell - 1, link(row).slot, row);
    release_piece(last);
}

// --- Memory
// ------------------------------------------------------------------------------------------------------------

// Without the order of hashes, which is small and depends on history.
int64_t Pivots::bytes() const {
    int64_t total = centres_.bytes() + origins_.bytes() + means_.bytes() + cells_.bytes();
    if (samples_) total += samples_->pivots.bytes() + samples_->sums.bytes() + samples_->counts.bytes();
    for (const Piece& piece : pieces_)
        if (!piece.links.empty())
            total += PIECE_ROWS * static_cast<int64_t>(sizeof(Link) + (samples_ ? sizeof(Home) : 0));
    return total;
}

void Pivots::raw_memory(std::vector<uint8_t>& all) const {
    order_.raw_memory(all);
    centres_.raw_memory(all);
    origins_.raw_memory(all);
    means_.raw_memory(all);
    cells_.raw_memory(all);
    if (samples_) {
        samples_->pivots.raw_memory(all);
        samples_->sums.raw_memory(all);
        samples_->counts.raw_memory(all);
    }
    for (const Piece& piece : pieces_) {
        piece.links.raw_memory(all);
        piece.homes.raw_memory(all);
    }
    scratch_.raw_memory(all);
    own_.z.raw_memory(all);
    own_.residual.raw_memory(all);
    own_.scratch.raw_memory(all);
    own_.sum.raw_memory(all);
    own_.code.raw_memory(all);
    foreseen_.ids.raw_memory(all);
    foreseen_.rivals.raw_memory(all);
}

}  // namespace lethevec
