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
                for (int64_t i = 0; i < some; ++i) geometry(rows.vector(these[i]), 1, z.at(i * d_));
                centres_.nearest(z.at(0), some, gone, nearest.at(0), distances.at(0));
                for (int64_t i = 0; i < some; ++i)
                    moves[start + static_cast<size_t>(from + at + i)] = {these[i], *nearest.at(i), *distances.at(i)};
            }
        });
        if (progress) progress(0);
    }
}

void Pivots::plan_takeovers(const Rows& rows, const CentreNumbers& changed, const std::vector<uint8_t>& planned,
                            const RowSet& leaving, int64_t threads, const Progress& progress,
                            WipedVector<Move>& moves) const {
    if (changed.empty() || pieces_.empty()) return;
    constexpr int64_t FEW = 4;  // up to here one product at a time is faster than a panel
    constexpr int64_t ROWS_TOGETHER = 96;
    const Kernels& kernels = active();
    const auto count = static_cast<int64_t>(changed.size());
    const int64_t panels = (count + PANEL - 1) / PANEL, width = count <= FEW ? count : panels * PANEL;
    Wiped<float> panel(count <= FEW ? 0 : panels * PANEL * d_);
    if (count > FEW)
        for (int64_t i = 0; i < count; ++i)
            for (int64_t j = 0; j < d_; ++j)
                *panel.at((i / PANEL * d_ + j) * PANEL + i % PANEL) = centres_.row(changed[static_cast<size_t>(i)])[j];
    const float share = Centres::error(d_);
    const bool cosine = settings_.metric == Metric::cosine;
    std::mutex adding;
    const auto take_over = [&](int64_t begin, int64_t end) {
        WipedVector<Move> own;
        Wiped<float> products(ROWS_TOGETHER * width), z(d_);
        for (int64_t c = begin; c < end; ++c) {
            const Chunk& chunk = rows.chunk(c);
            const auto first = static_cast<uint32_t>(c * rows.chunk_rows());
            for (int64_t from = 0, some = 0; from < rows.used(c); from += some) {
                const uint32_t start = first + static_cast<uint32_t>(from), inside = start % PIECE_ROWS;
                some = std::min({ROWS_TOGETHER, rows.used(c) - from, static_cast<int64_t>(PIECE_ROWS - inside)});
                if (start / PIECE_ROWS >= pieces_.size() || pieces_[start / PIECE_ROWS].links.empty()) continue;
                const Link* links = pieces_[start / PIECE_ROWS].links.data() + inside;
                const float* x = chunk.vectors + from * d_;
                if (count > FEW)
                    kernels.products(panel.at(0), panels, d_, x, some, products.at(0));
                else
                    for (int64_t k = 0; k < count; ++k)
                        kernels.dots(x, some, centres_.row(changed[static_cast<size_t>(k)]), d_, products.at(k * some));
                const int64_t of_row = count > FEW ? width : 1, of_centre = count > FEW ? 1 : some;
                for (int64_t i = 0; i < some; ++i) {
                    const Link& own_link = links[i];
                    const float norm = chunk.norms[from + i];
                    const float square = cosine ? 1.0f : norm * norm, twice = cosine ? 2.0f / norm : 2.0f;
                    Move move{start + static_cast<uint32_t>(i), own_link.cell - 1, own_link.distance};
                    bool nearer = false, known = false;
                    for (int64_t k = 0; k < count; ++k) {
                        const uint32_t other = changed[static_cast<size_t>(k)];
                        const float least = square * (1.0f - share) + centres_.square(other) * (1.0f - share) -
                                            twice * *products.at(i * of_row + k * of_centre) - Centres::TINY;
                        if (least > move.distance) continue;
                        if (own_link.cell == 0 || planned[own_link.cell - 1] || leaving.has(move.row)) break;
                        if (!known) geometry(x + i * d_, 1, z.at(0));
                        known = true;
                        nearer = centres_.nearer(z.at(0), &other, 1, move.to, move.distance) || nearer;
                    }
                    if (nearer) own.push_back(move);
                }
            }
        }
        std::lock_guard<std::mutex> turn(adding);
        moves.append(own.begin(), own.end());
    };
    // So many chunks at a time as a thread has done before anybody grows impatient.
    const int64_t together =
        progress ? std::max<int64_t>(1, threads * (int64_t{1} << 22) / (rows.chunk_rows() * width)) : rows.chunks();
    for (int64_t from = 0; from < rows.chunks(); from += together) {
        const int64_t some = std::min(together, rows.chunks() - from);
        parallel_for(some, threads, 1, [&](int64_t begin, int64_t end) { take_over(from + begin, from + end); });
        if (progress) progress(0);
    }
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
        geometry(rows.vector(move.row), 1, z.at(0));
        take_out(rows.id(move.row), move.row, z.at(0));
        put(rows.id(move.row), move.row, z.at(0), move.to, move.distance);
    }
}

}  // namespace lethevec
