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
            for (int64_t from = 0; from < rows.used(c); from += ROWS_TOGETHER) {
                const int64_t some = std::min(ROWS_TOGETHER, rows.used(c) - from);
                const float* x = chunk.vectors + from * d_;
                bool any = false;
                for (int64_t i = 0; i < some; ++i) any = any || filed(first + static_cast<uint32_t>(from + i));
                if (!any) continue;
                if (count > FEW)
                    kernels.products(panel.at(0), panels, d_, x, some, products.at(0));
                else
                    for (int64_t i = 0; i < some; ++i)
                        for (int64_t k = 0; k < count; ++k)
                            *products.at(i * width + k) =
                                kernels.dot(x + i * d_, centres_.row(changed[static_cast<size_t>(k)]), d_);
                for (int64_t i = 0; i < some; ++i) {
                    const uint32_t row = first + static_cast<uint32_t>(from + i);
                    if (!filed(row) || row == except || planned[link(row).cell - 1]) continue;
                    const float norm = chunk.norms[from + i];
                    const float square = cosine ? 1.0f : norm * norm, twice = cosine ? 2.0f / norm : 2.0f;
                    Move move{row, link(row).cell - 1, link(row).distance};
                    bool nearer = false, known = false;
                    for (int64_t k = 0; k < count; ++k) {
                        const uint32_t other = changed[static_cast<size_t>(k)];
                        const float least = square * (1.0f - share) + centres_.square(other) * (1.0f - share) -
                                            twice * *products.at(i * width + k) - Centres::TINY;
                        // Directions of the smallest vectors are too coarse for the bound.
                        if (least > move.distance && !(cosine && norm < SMALL)) continue;
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
        ++incoming[move.to];
        stale_[move.to] = 1;  // so that refresh gives back what is not used
    }
    cells_.reserve(incoming);
}

void Pivots::make_moves(const Rows& rows, std::vector<Move>& moves, int64_t threads) {
    const auto n = static_cast<int64_t>(moves.size());
    const int64_t most = std::min(n, STRIDE), bytes = shape_.code_bytes();
    Wiped<float> z(most * d_);
    Wiped<uint32_t> cells(most);
    Wiped<uint8_t> codes(most * bytes);
    Wiped<CellNumbers> numbers(most);
    Workspace reserve(d_, *settings_.encoder);
    for (int64_t at = 0; at < n; at += most) {
        const int64_t some = std::min(most, n - at);
        auto work_out = [&](int64_t begin, int64_t end, Workspace& space) {
            for (int64_t i = begin; i < end; ++i) {
                geometry(rows.vector(moves[static_cast<size_t>(at + i)].row), 1, z.at(i * d_));
                *cells.at(i) = moves[static_cast<size_t>(at + i)].to;
            }
            encode(z.at(begin * d_), cells.at(begin), end - begin, codes.at(begin * bytes), numbers.at(begin), space);
        };
        try {
            parallel_for(some, threads, GRAIN, [&](int64_t begin, int64_t end) {
                Workspace space(d_, *settings_.encoder);
                work_out(begin, end, space);
            });
        } catch (const std::bad_alloc&) {
            // Some rows may have moved already, so there is no way back; but there is memory for one thread.
            work_out(0, some, reserve);
        }
        for (int64_t i = 0; i < some; ++i) {
            const Move& move = moves[static_cast<size_t>(at + i)];
            take_out(move.row, z.at(i * d_));
            put(move.row, z.at(i * d_), move.to, move.distance, codes.at(i * bytes), *numbers.at(i));
        }
    }
    wipe(moves.data(), moves.size() * sizeof(Move));  // distances are something of a record too
}

}  // namespace lethevec
