// The source "pivots": which rows go to another cell when centres come, move or go, and how they get there.
#include <algorithm>
#include <mutex>

#include "dispatch.h"
#include "parallel.h"
#include "pivots.h"
#include "wiped.h"

namespace lethevec {

namespace {

constexpr float SMALL = 1e-30f;  // a norm

}  // namespace

void Pivots::plan_own(const Rows& rows, uint32_t cell, uint32_t without, uint32_t except, int64_t threads,
                      std::vector<Move>& moves) const {
    std::vector<uint32_t> own;
    for (uint32_t slot = 0; slot < cells_.size(cell); ++slot)
        if (cells_.row(cell, slot) != except) own.push_back(cells_.row(cell, slot));
    const size_t start = moves.size();
    moves.resize(start + own.size());
    parallel_for(static_cast<int64_t>(own.size()), threads, GRAIN, [&](int64_t begin, int64_t end) {
        const int64_t most = std::min<int64_t>(end - begin, 256);
        Wiped<float> z(most * d_), distances(most);
        Wiped<uint32_t> cells(most);
        for (int64_t at = begin; at < end; at += most) {
            const int64_t some = std::min(most, end - at);
            for (int64_t i = 0; i < some; ++i) geometry(rows.vector(own[static_cast<size_t>(at + i)]), 1, z.at(i * d_));
            centres_.nearest(z.at(0), some, without, cells.at(0), distances.at(0));
            for (int64_t i = 0; i < some; ++i)
                moves[start + static_cast<size_t>(at + i)] = {own[static_cast<size_t>(at + i)], *cells.at(i), *distances.at(i)};
        }
    });
}

void Pivots::plan_takeovers(const Rows& rows, const std::vector<uint32_t>& changed, const std::vector<uint8_t>& planned,
                            uint32_t except, int64_t threads, std::vector<Move>& moves) const {
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
    parallel_for(rows.chunks(), threads, 1, [&](int64_t begin, int64_t end) {
        std::vector<Move> own;
        Wiped<float> products(ROWS_TOGETHER * width), z(d_);
        for (int64_t c = begin; c < end; ++c) {
            const Chunk& chunk = rows.chunk(c);
            const auto first = static_cast<uint32_t>(c * rows.chunk_rows());
            for (int64_t from = 0, some = 0; from < rows.used(c); from += some) {
                const uint32_t start = first + static_cast<uint32_t>(from), inside = start % PIECE_ROWS;
                some = std::min({ROWS_TOGETHER, rows.used(c) - from, static_cast<int64_t>(PIECE_ROWS - inside)});
                if (start / PIECE_ROWS >= pieces_.size() || !pieces_[start / PIECE_ROWS].links) continue;
                const Link* links = pieces_[start / PIECE_ROWS].links.get() + inside;
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
                    // Directions of the smallest vectors are too coarse for the bound.
                    const bool bounded = !(cosine && norm < SMALL);
                    Move move{start + static_cast<uint32_t>(i), own_link.cell - 1, own_link.distance};
                    bool nearer = false, known = false;
                    for (int64_t k = 0; k < count; ++k) {
                        const uint32_t other = changed[static_cast<size_t>(k)];
                        const float least = square * (1.0f - share) + centres_.square(other) * (1.0f - share) -
                                            twice * *products.at(i * of_row + k * of_centre) - Centres::TINY;
                        if (least > move.distance && bounded) continue;
                        if (own_link.cell == 0 || move.row == except || planned[own_link.cell - 1]) break;
                        if (!known) geometry(x + i * d_, 1, z.at(0));
                        known = true;
                        nearer = centres_.nearer(z.at(0), &other, 1, move.to, move.distance) || nearer;
                    }
                    if (nearer) own.push_back(move);
                }
            }
        }
        std::lock_guard<std::mutex> turn(adding);
        moves.insert(moves.end(), own.begin(), own.end());
        wipe(own.data(), own.size() * sizeof(Move));
    });
}

void Pivots::prepare_moves(const std::vector<Move>& moves) {
    std::vector<int64_t> incoming(static_cast<size_t>(cells_.count()), 0);
    for (const Move& move : moves) {
        if (move.to == link(move.row).cell - 1) continue;
        ++incoming[move.to];
        stale_[move.to] |= CHANGED;  // so that refresh gives back what is not used
    }
    cells_.reserve(incoming);
}

// May throw before anything has moved, and not later.
void Pivots::make_moves(const Rows& rows, const std::vector<Move>& moves) {
    Wiped<float> z(d_);
    for (const Move& move : moves) {
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
