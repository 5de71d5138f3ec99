// The source "pivots": which rows go to another cell when centres come, move or go, and how they get there.
#include <algorithm>
#include <mutex>

#include "kernels/dispatch.h"
#include "memory/wiped.h"
#include "parallel.h"
#include "sources/pivots/pivots.h"

namespace lethevec {

void Pivots::plan_own(const Rows& rows, const CentreNumbers& cells, const CentreNumbers& gone, const RowSet& leaving,
                      int64_t threads, const Progress& progress, WipedVector<Move>& moves) const {
    std::vector<uint32_t> own;
    for (uint32_t c : cells)
        for (uint32_t slot = 0; slot < cells_.size(c); ++slot)
            if (!leaving.has(cells_.row(c, slot))) own.push_back(cells_.row(c, slot));
    const size_t start = moves.size();
    moves.resize(start + own.size());
    const auto all = static_cast<int64_t>(own.size());
    for (int64_t from = 0; from < all; from += STRIDE) {
        parallel_for(std::min(STRIDE, all - from), threads, GRAIN, [&](int64_t begin, int64_t end) {
            const int64_t most = std::min<int64_t>(end - begin, 256);
            Wiped<float> z(most * d_), distances(most);
            Wiped<uint32_t> nearest(most);
            for (int64_t at = begin; at < end; at += most) {
                const int64_t some = std::min(most, end - at);
                const uint32_t* these = own.data() + from + at;
                for (int64_t i = 0; i < some; ++i) geometry(rows.vector(these[i], z.at(i * d_)), 1, z.at(i * d_));
                centres_.nearest(z.at(0), some, gone, nearest.at(0), distances.at(0));
                for (int64_t i = 0; i < some; ++i)
                    moves[start + static_cast<size_t>(from + at + i)] = {these[i], *nearest.at(i), *distances.at(i)};
            }
        });
        if (progress) progress(0);
    }
}

// Rows that one of `count` centres may be nearer to than their own; all pairs of a row stand together.
void Pivots::find_rivals(const Rows& rows, const float* centres, int64_t count, int64_t threads,
                         const Progress& progress, WipedVector<Rival>& rivals) const {
    if (count == 0 || pieces_.empty()) return;
    constexpr int64_t FEW = 4;  // up to here one product at a time is faster than a panel
    constexpr int64_t ROWS_TOGETHER = 96;
    const Kernels& kernels = active();
    const int64_t panels = (count + PANEL - 1) / PANEL, width = count <= FEW ? count : panels * PANEL;
    Wiped<float> panel(count <= FEW ? 0 : panels * PANEL * d_), squares(count);
    for (int64_t i = 0; i < count; ++i) {
        const float* centre = centres + i * d_;
        *squares.at(i) = kernels.dot(centre, centre, d_);
        for (int64_t j = 0; count > FEW && j < d_; ++j) *panel.at((i / PANEL * d_ + j) * PANEL + i % PANEL) = centre[j];
    }
    const float share = Centres::error(d_);
    const bool cosine = settings_.metric == Metric::cosine;
    std::mutex adding;
    const auto look = [&](int64_t begin, int64_t end) {
        WipedVector<Rival> own;
        Wiped<float> products(ROWS_TOGETHER * width), room(rows.room(ROWS_TOGETHER));
        for (int64_t c = begin; c < end; ++c) {
            const Chunk& chunk = rows.chunk(c);
            const auto first = static_cast<uint32_t>(c * rows.chunk_rows());
            for (int64_t from = 0, some = 0; from < rows.used(c); from += some) {
                const uint32_t start = first + static_cast<uint32_t>(from), inside = start % PIECE_ROWS;
                some = std::min({ROWS_TOGETHER, rows.used(c) - from, static_cast<int64_t>(PIECE_ROWS - inside)});
                if (start / PIECE_ROWS >= pieces_.size() || pieces_[start / PIECE_ROWS].links.empty()) continue;
                const Link* links = pieces_[start / PIECE_ROWS].links.data() + inside;
                const float* x = rows.vectors(start, some, room.at(0));
                if (count > FEW)
                    kernels.products(panel.at(0), panels, d_, x, some, products.at(0));
                else
                    for (int64_t k = 0; k < count; ++k)
                        kernels.dots(x, some, centres + k * d_, d_, products.at(k * some));
                const int64_t of_row = count > FEW ? width : 1, of_centre = count > FEW ? 1 : some;
                for (int64_t i = 0; i < some; ++i) {
                    const Link& link = links[i];
                    const float norm = chunk.norms[from + i];
                    const float square = cosine ? 1.0f : norm * norm, twice = cosine ? 2.0f / norm : 2.0f;
                    for (int64_t k = 0; k < count; ++k) {
                        const float least = square * (1.0f - share) + *squares.at(k) * (1.0f - share) -
                                            twice * *products.at(i * of_row + k * of_centre) - Centres::TINY;
                        if (least > link.distance || link.cell == 0) continue;
                        own.push_back({start + static_cast<uint32_t>(i), static_cast<uint32_t>(k)});
                    }
                }
            }
        }
        std::lock_guard<std::mutex> turn(adding);
        rivals.append(own.begin(), own.end());
    };
    // So many chunks at a time as a thread has done before anybody grows impatient.
    const int64_t together =
        progress ? std::max<int64_t>(1, threads * (int64_t{1} << 22) / (rows.chunk_rows() * width)) : rows.chunks();
    for (int64_t from = 0; from < rows.chunks(); from += together) {
        const int64_t some = std::min(together, rows.chunks() - from);
        parallel_for(some, threads, 1, [&](int64_t begin, int64_t end) { look(from + begin, from + end); });
        if (progress) progress(0);
    }
}

void Pivots::plan_takeovers(const Rows& rows, const CentreNumbers& changed, const std::vector<uint8_t>& planned,
                            const RowSet& leaving, int64_t threads, const Progress& progress,
                            WipedVector<Move>& moves) {
    const auto count = static_cast<int64_t>(changed.size());
    WipedVector<Rival> rivals;
    if (was_foreseen(changed)) {
        rivals.swap(foreseen_.rivals);
    } else {
        WipedVector<float> centres(static_cast<size_t>(count * d_));
        for (int64_t i = 0; i < count; ++i) {
            const float* centre = centres_.row(changed[static_cast<size_t>(i)]);
            std::copy(centre, centre + d_, centres.data() + i * d_);
        }
        find_rivals(rows, centres.data(), count, threads, progress, rivals);
    }
    Wiped<float> z(d_);
    for (size_t from = 0, to = 0; from < rivals.size(); from = to) {
        const uint32_t row = rivals[from].row;
        const Link& own = link(row);
        while (to < rivals.size() && rivals[to].row == row) ++to;
        if (planned[own.cell - 1] || leaving.has(row)) continue;
        Move move{row, own.cell - 1, own.distance};
        bool nearer = false;
        geometry(rows.vector(row, z.at(0)), 1, z.at(0));
        for (size_t i = from; i < to; ++i)
            nearer = centres_.nearer(z.at(0), &changed[rivals[i].centre], 1, move.to, move.distance) || nearer;
        if (nearer) moves.push_back(move);
    }
}

// --- Before a change, while searches go on

// What takes longest when a record becomes a pivot is to compare all others with it.
void Pivots::foresee(const Rows& rows, const float* z, WipedVector<int64_t>& ids, int64_t threads) {
    forget_foreseen();
    if (void_ || samples_ || ids.empty()) return;
    WipedVector<Rival> rivals;
    find_rivals(rows, z, static_cast<int64_t>(ids.size()), threads, nullptr, rivals);
    foreseen_.rivals.swap(rivals);
    foreseen_.ids.swap(ids);
    foreseen_.change = changes_;
}

void Pivots::foresee_add(const Rows& rows, const float* x, const int64_t* ids, int64_t n, int64_t threads) {
    const uint64_t limit = settings_.limit(filed_ + n);
    WipedVector<int64_t> fresh;
    WipedVector<float> z;
    for (int64_t i = 0; i < n; ++i) {
        if (siphash(settings_.key, static_cast<uint64_t>(ids[i])) >= limit) continue;
        fresh.push_back(ids[i]);
        z.resize(z.size() + static_cast<size_t>(d_));
        geometry(x + i * d_, 1, z.end() - d_);
    }
    foresee(rows, z.data(), fresh, threads);
}

void Pivots::foresee_leave(const Rows& rows, const uint32_t* which, int64_t n, int64_t threads) {
    if (!follows()) return;
    int64_t leave = 0;
    for (int64_t i = 0; i < n; ++i) leave += filed(which[i]);
    Change change;
    find_pivots(rows, settings_.limit(filed_ - leave), RowSet(rows.size(), which, n), change);
    WipedVector<int64_t> fresh;
    WipedVector<float> z;
    for (uint32_t row : change.promoted) {
        fresh.push_back(rows.id(row));
        z.resize(z.size() + static_cast<size_t>(d_));
        geometry(rows.vector(row, z.end() - d_), 1, z.end() - d_);
    }
    foresee(rows, z.data(), fresh, threads);
}

void Pivots::forget_foreseen() {
    foreseen_.ids.clear();
    foreseen_.rivals = {};
}

bool Pivots::was_foreseen(const CentreNumbers& fresh) const {
    if (foreseen_.change != changes_ || foreseen_.ids.size() != fresh.size()) return false;
    for (size_t i = 0; i < fresh.size(); ++i)
        if (centres_.id(fresh[i]) != foreseen_.ids[i]) return false;
    return !fresh.empty();
}

void Pivots::prepare_moves(const WipedVector<Move>& moves) {
    std::vector<int64_t> incoming(static_cast<size_t>(cells_.count()), 0);
    for (const Move& move : moves) {
        if (move.to == link(move.row).cell - 1) continue;
        ++incoming[move.to];
        stale_[move.to] |= CHANGED;  // so that refresh gives back what is not used
    }
    cells_.reserve(incoming);
}

// May throw before anything has moved, and later only if `progress` does.
void Pivots::make_moves(const Rows& rows, const WipedVector<Move>& moves, const Progress& progress) {
    Wiped<float> z(d_);
    int64_t made = 0;
    for (const Move& move : moves) {
        if (progress && ++made % STRIDE == 0) progress(0);
        if (move.to == link(move.row).cell - 1) {  // its centre has moved a little, that is all
            link(move.row).distance = move.distance;
            continue;
        }
        geometry(rows.vector(move.row, z.at(0)), 1, z.at(0));
        take_out(rows.id(move.row), move.row, z.at(0));
        put(rows.id(move.row), move.row, z.at(0), move.to, move.distance);
    }
}

}  // namespace lethevec
