#include "pivots.h"

#include <algorithm>
#include <cstring>

#include "dispatch.h"
#include "parallel.h"
#include "wiped.h"

namespace lethevec {

std::unique_ptr<Source> PivotSettings::make() const { return std::make_unique<Pivots>(*this); }

Pivots::Pivots(const PivotSettings& settings)
    : settings_(settings),
      d_(settings.encoder->dim),
      limit_(UINT64_MAX / static_cast<uint64_t>(settings.cell_size) +
             (UINT64_MAX % static_cast<uint64_t>(settings.cell_size) + 1) / static_cast<uint64_t>(settings.cell_size)),
      shape_{settings.encoder->bits, settings.encoder->dim, CellShape::shift_for(settings.cell_size)},
      centres_(d_),
      origins_(d_, settings.encoder->bits),
      means_(d_),
      cells_(shape_),
      samples_(settings.refine ? std::make_unique<Samples>(d_) : nullptr),
      scratch_(static_cast<size_t>(Means::scratch(*settings.encoder->frame))),
      own_(d_, *settings.encoder) {
    append_centre(0, std::vector<float>(static_cast<size_t>(d_), 0.0f).data(), 0.0);
}

Pivots::~Pivots() {
    for (Piece& piece : pieces_) {
        if (piece.links) wipe(piece.links.get(), PIECE_ROWS * sizeof(Link));
        if (piece.homes) wipe(piece.homes.get(), PIECE_ROWS * sizeof(Home));
    }
}

// --- Where rows are ----------------------------------------------------------------------------------------------------

bool Pivots::filed(uint32_t row) const {
    return row / PIECE_ROWS < pieces_.size() && pieces_[row / PIECE_ROWS].links && link(row).cell != 0;
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
    if (samples_ && !pieces_[p].homes) pieces_[p].homes.reset(new Home[PIECE_ROWS]());
    if (!pieces_[p].links) pieces_[p].links.reset(new Link[PIECE_ROWS]());
    ++pieces_[p].rows;
}

// From the end alone: rows have no gaps, but those that a call is about to fill, and filling one must not need memory.
void Pivots::release_piece(uint32_t row) {
    link(row) = Link{};
    if (samples_) home(row) = Home{};
    --pieces_[row / PIECE_ROWS].rows;
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
    geometry(rows.vector(row), 1, z.at(0));
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
    wipe(scratch_.data(), scratch_.size() * sizeof(float));
}

// --- Centres -----------------------------------------------------------------------------------------------------------

void Pivots::geometry(const float* x, int64_t n, float* z) const {
    if (settings_.metric != Metric::cosine) {
        std::copy(x, x + n * d_, z);
        return;
    }
    for (int64_t i = 0; i < n; ++i) {
        double norm = 0.0;
        active().norms(x + i * d_, d_, 1, &norm);
        const double inverse = norm > 0.0 ? 1.0 / norm : 0.0;
        for (int64_t j = 0; j < d_; ++j) z[i * d_ + j] = static_cast<float>(static_cast<double>(x[i * d_ + j]) * inverse);
    }
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

void Pivots::remove_centre(uint32_t c) {
    const auto last = static_cast<uint32_t>(cells_.count() - 1);
    cells_.remove(c);
    if (c != last) {
        for (uint32_t slot = 0; slot < cells_.size(c); ++slot) link(cells_.row(c, slot)).cell = c + 1;
        stale_[c] = stale_[last];
    }
    stale_.pop_back();
    centres_.remove(c);
    origins_.remove(c);
    means_.remove(c);
    if (!samples_) return;
    samples_->pivots.remove(c);
    samples_->sums.remove(c);
    samples_->counts.remove(c);
    if (c == last) return;
    for (Piece& piece : pieces_)
        for (uint32_t i = 0; piece.homes && i < PIECE_ROWS; ++i)
            if (piece.homes[i].pivot == last + 1) piece.homes[i].pivot = c + 1;
}

// --- Changes -----------------------------------------------------------------------------------------------------------

void Pivots::add(const Rows& rows, const uint32_t* which, int64_t n, const float* x, int64_t threads,
                 const std::function<void(int64_t)>& progress) {
    const int64_t before = centres_.size();
    int64_t taken = 0, placed = 0;
    bool ends_void = false;
    std::vector<uint32_t> changed;  // centres that are new or elsewhere; `old` has where those of the latter were, which come first
    std::vector<float> old;
    std::vector<Rehoming> journal;
    std::vector<Move> moves;
    try {
        for (; taken < n; ++taken) take_piece(which[taken]);
        std::vector<uint32_t> fresh;
        Wiped<float> z(d_);
        for (int64_t i = 0; i < n; ++i) {
            if (!is_pivot(rows.id(which[i]))) continue;
            geometry(x + i * d_, 1, z.at(0));
            double norm = 0.0;
            active().norms(z.at(0), d_, 1, &norm);
            append_centre(rows.id(which[i]), z.at(0), norm);
            fresh.push_back(static_cast<uint32_t>(centres_.size() - 1));
        }
        ends_void = void_ && !fresh.empty();
        const uint32_t without = ends_void ? 0 : NONE;
        changed = fresh;
        if (samples_ && (!void_ || ends_void)) {
            find_homes(rows, which, n, fresh, ends_void, journal);
            recentre(journal, fresh, without, changed, old);
        }
        std::vector<uint8_t> planned(static_cast<size_t>(centres_.size()), 0);
        if (ends_void) {
            plan_own(rows, 0, without, NONE, threads, moves);
        } else {
            for (uint32_t c : changed) {
                plan_own(rows, c, NONE, NONE, threads, moves);
                planned[c] = 1;
            }
            plan_takeovers(rows, changed, planned, NONE, threads, moves);
        }
        place(rows, which, n, x, without, threads, progress, placed);
        prepare_moves(moves);
        make_moves(rows, moves);
    } catch (...) {
        while (placed > 0) take_out(rows, which[--placed]);
        for (size_t i = 0; i < old.size() / static_cast<size_t>(d_); ++i)
            centres_.replace(changed[i], old.data() + i * static_cast<size_t>(d_));
        for (auto change = journal.rbegin(); change != journal.rend(); ++change) rehome(rows, *change, true);
        while (centres_.size() > before) remove_centre(static_cast<uint32_t>(centres_.size() - 1));
        while (taken > 0) release_piece(which[--taken]);
        refresh();
        throw;
    }
    wipe(old.data(), old.size() * sizeof(float));
    if (ends_void) {
        remove_centre(0);
        void_ = false;
    }
    settle(rows, which, n, moves, threads);
    wipe_moves(moves);
    refresh();
}

void Pivots::place(const Rows& rows, const uint32_t* which, int64_t n, const float* x, uint32_t without, int64_t threads,
                   const std::function<void(int64_t)>& progress, int64_t& placed) {
    const int64_t most = std::min(n, STRIDE);
    Wiped<float> z(most * d_), distances(most);
    Wiped<uint32_t> cells(most);
    for (int64_t at = 0; at < n; at += most) {
        const int64_t some = std::min(most, n - at);
        parallel_for(some, threads, GRAIN, [&](int64_t begin, int64_t end) {
            geometry(x + (at + begin) * d_, end - begin, z.at(begin * d_));
            centres_.nearest(z.at(begin * d_), end - begin, without, cells.at(begin), distances.at(begin));
        });
        for (int64_t i = 0; i < some; ++i, ++placed)
            put(rows.id(which[at + i]), which[at + i], z.at(i * d_), *cells.at(i), *distances.at(i));
        if (progress) progress(some);
    }
}

void Pivots::leave(const Rows& rows, uint32_t row) {
    if (!filed(row)) return;
    const int64_t id = rows.id(row);
    const bool pivot = is_pivot(id);
    Wiped<float> z(d_);
    geometry(rows.vector(row), 1, z.at(0));
    if (!pivot && (!samples_ || home(row).pivot == 0)) {
        take_out(id, row, z.at(0));
        release_piece(row);
        settle(rows, nullptr, 0, {}, 1);
        refresh();
        return;
    }
    const uint32_t gone = pivot ? centres_.find(id) : NONE;
    const bool last = pivot && centres_.size() == 1;
    std::vector<uint32_t> changed;
    std::vector<float> old;
    std::vector<Rehoming> journal;
    std::vector<Move> moves;
    if (last) append_centre(0, std::vector<float>(static_cast<size_t>(d_), 0.0f).data(), 0.0);
    try {
        std::vector<uint8_t> planned(static_cast<size_t>(centres_.size()), 0);
        if (samples_ && !last) {
            lose_homes(rows, gone, row, journal);
            recentre(journal, {}, gone, changed, old);
        }
        if (pivot) {
            plan_own(rows, gone, gone, row, 1, moves);
            planned[gone] = 1;
        }
        for (uint32_t c : changed) {
            plan_own(rows, c, gone, row, 1, moves);
            planned[c] = 1;
        }
        plan_takeovers(rows, changed, planned, row, 1, moves);
        prepare_moves(moves);
        make_moves(rows, moves);
    } catch (...) {
        for (size_t i = 0; i < changed.size(); ++i) centres_.replace(changed[i], old.data() + i * static_cast<size_t>(d_));
        for (auto change = journal.rbegin(); change != journal.rend(); ++change) rehome(rows, *change, true);
        if (last) remove_centre(static_cast<uint32_t>(centres_.size() - 1));
        refresh();
        throw;
    }
    wipe(old.data(), old.size() * sizeof(float));
    take_out(id, row, z.at(0));
    release_piece(row);
    if (last && samples_)  // nobody has a home in the void
        for (Piece& piece : pieces_)
            for (uint32_t i = 0; piece.homes && i < PIECE_ROWS; ++i) piece.homes[i] = Home{};
    if (pivot) remove_centre(gone);
    void_ = void_ || last;
    settle(rows, nullptr, 0, moves, 1);
    wipe_moves(moves);
    refresh();
}

void Pivots::renumber(const Rows&, uint32_t last, uint32_t row) {
    if (!filed(last)) return;
    take_piece(row);
    link(row) = link(last);
    if (samples_) home(row) = home(last);
    cells_.renumber(link(row).cell - 1, link(row).slot, row);
    release_piece(last);
}

// --- Memory ------------------------------------------------------------------------------------------------------------

int64_t Pivots::bytes() const {
    int64_t total = centres_.bytes() + origins_.bytes() + means_.bytes() + cells_.bytes();
    if (samples_) total += samples_->pivots.bytes() + samples_->sums.bytes() + samples_->counts.bytes();
    for (const Piece& piece : pieces_)
        if (piece.links) total += PIECE_ROWS * static_cast<int64_t>(sizeof(Link) + (samples_ ? sizeof(Home) : 0));
    return total;
}

void Pivots::raw_memory(std::vector<uint8_t>& all) const {
    centres_.raw_memory(all);
    origins_.raw_memory(all);
    means_.raw_memory(all);
    cells_.raw_memory(all);
    if (samples_) {
        samples_->pivots.raw_memory(all);
        samples_->sums.raw_memory(all);
    }
    for (const Piece& piece : pieces_)
        if (piece.links) {
            const auto* at = reinterpret_cast<const uint8_t*>(piece.links.get());
            all.insert(all.end(), at, at + PIECE_ROWS * sizeof(Link));
        }
}

}  // namespace lethevec
