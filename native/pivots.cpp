#include "pivots.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "dispatch.h"
#include "parallel.h"
#include "wiped.h"

namespace lethevec {

namespace {

constexpr int64_t STRIDE = 4096;  // rows that are worked out, then filed
constexpr int64_t GRAIN = 64;     // rows that are worth a thread
constexpr double PI = 3.14159265358979323846;

// sum_j b_j values_j over d bits of a code, in the order of the spec's lane_sum.
double signed_total(const uint8_t* code, int64_t from, const float* values, int64_t d) {
    constexpr int LANES = 8;
    double lanes[LANES] = {};
    for (int64_t j = 0; j < d; ++j) {
        const int64_t bit = from + j;
        const auto v = static_cast<double>(values[j]);
        lanes[j % LANES] += (code[bit >> 3] >> (bit & 7)) & 1 ? v : -v;
    }
    for (int half = LANES / 2; half >= 1; half /= 2)
        for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
    return lanes[0];
}

}  // namespace

std::unique_ptr<Source> PivotSettings::make() const { return std::make_unique<Pivots>(*this); }

Pivots::Pivots(const PivotSettings& settings)
    : settings_(settings),
      d_(settings.encoder->dim),
      limit_(UINT64_MAX / static_cast<uint64_t>(settings.cell_size) +
             (UINT64_MAX % static_cast<uint64_t>(settings.cell_size) + 1) / static_cast<uint64_t>(settings.cell_size)),
      shape_{settings.encoder->bits, settings.encoder->dim},
      centres_(d_, settings.encoder->bits),
      means_(d_),
      scratch_(static_cast<size_t>(Means::scratch(*settings.encoder->frame))) {
    append_centre(0, std::vector<float>(static_cast<size_t>(d_), 0.0f).data(), 0.0);
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
    if (!pieces_[p].links) pieces_[p].links.reset(new Link[PIECE_ROWS]());
    ++pieces_[p].rows;
}

void Pivots::release_piece(uint32_t row) {
    Piece& piece = pieces_[row / PIECE_ROWS];
    link(row) = Link{};
    if (--piece.rows == 0) piece.links.reset();
    while (!pieces_.empty() && !pieces_.back().links) pieces_.pop_back();
}

void Pivots::put(uint32_t row, const float* z, uint32_t cell, float distance, const uint8_t* code,
                 const CellNumbers& numbers) {
    Cell& to = cells_[cell];
    to.append(row, code, numbers);
    link(row) = {cell + 1, static_cast<uint32_t>(to.size() - 1), distance};
    means_.add(cell, z);
    stale_[cell] = 1;
}

void Pivots::take_out(uint32_t row, const float* z) {
    const Link at = link(row);
    Cell& from = cells_[at.cell - 1];
    from.remove(at.slot);
    if (at.slot < from.size()) link(from.row(at.slot)).slot = at.slot;
    link(row) = Link{};
    means_.subtract(at.cell - 1, z);
    stale_[at.cell - 1] = 1;
}

void Pivots::take_out(const Rows& rows, uint32_t row) {
    Wiped<float> z(d_);
    geometry(rows.vector(row), 1, z.at(0));
    take_out(row, z.at(0));
}

void Pivots::refresh() {
    for (size_t c = 0; c < stale_.size(); ++c) {
        if (!stale_[c]) continue;
        means_.refresh(static_cast<int64_t>(c), cells_[c].size(), *settings_.encoder->frame, scratch_.data());
        cells_[c].fit();
        stale_[c] = 0;
    }
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
    const Frame& frame = *settings_.encoder->frame;
    Wiped<float> scratch(frame.scratch());
    cells_.reserve(cells_.size() + 1);
    stale_.reserve(stale_.size() + 1);
    means_.append(norm);
    try {
        centres_.append(id, z);
    } catch (...) {
        means_.remove(means_.size() - 1);
        throw;
    }
    active().superbit(frame.view(), z, 1, {centres_.values(centres_.size() - 1), nullptr, settings_.encoder->bits, nullptr},
                      scratch.at(0));
    cells_.emplace_back(shape_);
    stale_.push_back(1);
}

void Pivots::remove_centre(uint32_t c) {
    const auto last = static_cast<uint32_t>(cells_.size() - 1);
    if (c != last) {
        cells_[c].swap(cells_[last]);
        for (int64_t slot = 0; slot < cells_[c].size(); ++slot) link(cells_[c].row(slot)).cell = c + 1;
        stale_[c] = stale_[last];
    }
    cells_.pop_back();
    stale_.pop_back();
    centres_.remove(c);
    means_.remove(c);
}

// Memory that one thread encodes with.
struct Pivots::Workspace {
    Workspace(int64_t d, const Encoder& encoder) : residual(d), scratch(encoder.scratch()) {}
    Wiped<float> residual, scratch;
};

void Pivots::encode(const float* z, const uint32_t* cells, int64_t n, uint8_t* codes, CellNumbers* numbers,
                    Workspace& space) const {
    const Encoder& encoder = *settings_.encoder;
    const bool ip = settings_.metric == Metric::ip;
    const double mean_alignment = std::sqrt(2.0 * static_cast<double>(d_) / PI);
    float* residual = space.residual.at(0);
    for (int64_t i = 0; i < n; ++i) {
        const float *centre = centres_.row(cells[i]), *values = centres_.values(cells[i]);
        uint8_t* code = codes + i * shape_.code_bytes();
        for (int64_t j = 0; j < d_; ++j) residual[j] = z[i * d_ + j] - centre[j];
        double norm = 0.0, alignment = 0.0;
        float factor = 0.0f;
        encoder.encode(residual, 1, code, &norm, &factor, &alignment, space.scratch.at(0));
        const double scale = norm * static_cast<double>(factor);
        if (ip) {
            numbers[i] = {static_cast<float>(norm), 0.0f, static_cast<float>(scale), 0.0f};
            continue;
        }
        double first = 0.0, all = 0.0;
        for (size_t plane = 0; plane < encoder.weights.size(); ++plane) {
            const int64_t from = static_cast<int64_t>(plane) * d_;
            const double total = signed_total(code, from, values + from, d_);
            if (plane == 0) first = total;
            all = all + static_cast<double>(encoder.weights[plane]) * total;
        }
        numbers[i].size = static_cast<float>(norm);
        numbers[i].offset = static_cast<float>(norm + 2.0 * first / mean_alignment);
        numbers[i].scale = static_cast<float>(2.0 * norm * static_cast<double>(factor));
        numbers[i].bias = static_cast<float>(norm * norm + 2.0 * norm * static_cast<double>(factor) * all);
    }
}

// --- Changes -----------------------------------------------------------------------------------------------------------

void Pivots::add(const Rows& rows, const uint32_t* which, int64_t n, const float* x, int64_t threads) {
    const int64_t before = centres_.size();
    int64_t taken = 0, placed = 0;
    bool ends_void = false;
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
        std::vector<Move> moves;
        if (ends_void)
            plan_own(rows, 0, without, NONE, threads, moves);
        else
            plan_takeovers(rows, fresh, threads, moves);
        place(rows, which, n, x, without, threads, placed);
        prepare_moves(moves);
        make_moves(rows, moves, threads);
    } catch (...) {
        while (placed > 0) take_out(rows, which[--placed]);
        while (centres_.size() > before) remove_centre(static_cast<uint32_t>(centres_.size() - 1));
        while (taken > 0) release_piece(which[--taken]);
        refresh();
        throw;
    }
    if (ends_void) {
        remove_centre(0);
        void_ = false;
    }
    refresh();
}

void Pivots::place(const Rows&, const uint32_t* which, int64_t n, const float* x, uint32_t without, int64_t threads,
                   int64_t& placed) {
    const int64_t most = std::min(n, STRIDE), bytes = shape_.code_bytes();
    Wiped<float> z(most * d_), distances(most);
    Wiped<uint32_t> cells(most);
    Wiped<uint8_t> codes(most * bytes);
    Wiped<CellNumbers> numbers(most);
    for (int64_t at = 0; at < n; at += most) {
        const int64_t some = std::min(most, n - at);
        parallel_for(some, threads, GRAIN, [&](int64_t begin, int64_t end) {
            Workspace space(d_, *settings_.encoder);
            geometry(x + (at + begin) * d_, end - begin, z.at(begin * d_));
            centres_.nearest(z.at(begin * d_), end - begin, without, cells.at(begin), distances.at(begin));
            encode(z.at(begin * d_), cells.at(begin), end - begin, codes.at(begin * bytes), numbers.at(begin), space);
        });
        for (int64_t i = 0; i < some; ++i, ++placed)
            put(which[at + i], z.at(i * d_), *cells.at(i), *distances.at(i), codes.at(i * bytes), *numbers.at(i));
    }
}

void Pivots::leave(const Rows& rows, uint32_t row) {
    if (!filed(row)) return;
    const int64_t id = rows.id(row);
    if (!is_pivot(id)) {
        take_out(rows, row);
        release_piece(row);
        refresh();
        return;
    }
    const uint32_t gone = centres_.find(id);
    const bool last = centres_.size() == 1;
    std::vector<Move> moves;
    Wiped<float> z(d_);
    if (last) append_centre(0, std::vector<float>(static_cast<size_t>(d_), 0.0f).data(), 0.0);
    try {
        plan_own(rows, gone, gone, row, 1, moves);
        prepare_moves(moves);
        make_moves(rows, moves, 1);
    } catch (...) {
        if (last) remove_centre(static_cast<uint32_t>(centres_.size() - 1));
        refresh();
        throw;
    }
    geometry(rows.vector(row), 1, z.at(0));
    take_out(row, z.at(0));
    release_piece(row);
    remove_centre(gone);
    void_ = last;
    refresh();
}

void Pivots::renumber(const Rows&, uint32_t last, uint32_t row) {
    if (!filed(last)) return;
    take_piece(row);
    link(row) = link(last);
    cells_[link(row).cell - 1].renumber(link(row).slot, row);
    release_piece(last);
}

// --- Moves -------------------------------------------------------------------------------------------------------------

void Pivots::plan_own(const Rows& rows, uint32_t cell, uint32_t without, uint32_t except, int64_t threads,
                      std::vector<Move>& moves) const {
    const Cell& from = cells_[cell];
    std::vector<uint32_t> own;
    for (int64_t slot = 0; slot < from.size(); ++slot)
        if (from.row(slot) != except) own.push_back(from.row(slot));
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

void Pivots::plan_takeovers(const Rows& rows, const std::vector<uint32_t>& changed, int64_t threads,
                            std::vector<Move>& moves) const {
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
                    if (!filed(row)) continue;
                    const float norm = chunk.norms[from + i];
                    const float square = cosine ? 1.0f : norm * norm, twice = cosine ? 2.0f / norm : 2.0f;
                    Move move{row, link(row).cell - 1, link(row).distance};
                    bool nearer = false, known = false;
                    for (int64_t k = 0; k < count; ++k) {
                        const uint32_t other = changed[static_cast<size_t>(k)];
                        const float least = square * (1.0f - share) + centres_.square(other) * (1.0f - share) -
                                            twice * *products.at(i * width + k) - Centres::TINY;
                        if (least > move.distance) continue;
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
    });
}

void Pivots::prepare_moves(const std::vector<Move>& moves) {
    std::vector<int64_t> incoming(cells_.size(), 0);
    for (const Move& move : moves) ++incoming[move.to];
    for (size_t c = 0; c < cells_.size(); ++c)
        if (incoming[c]) {
            stale_[c] = 1;  // so that refresh gives back what is not used
            cells_[c].reserve(cells_[c].size() + incoming[c]);
        }
}

void Pivots::make_moves(const Rows& rows, const std::vector<Move>& moves, int64_t threads) {
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
}

// --- Memory ------------------------------------------------------------------------------------------------------------

int64_t Pivots::bytes() const {
    int64_t total = centres_.bytes() + means_.bytes();
    for (const Cell& cell : cells_) total += cell.bytes();
    for (const Piece& piece : pieces_)
        if (piece.links) total += PIECE_ROWS * static_cast<int64_t>(sizeof(Link));
    return total;
}

void Pivots::raw_memory(std::vector<uint8_t>& all) const {
    centres_.raw_memory(all);
    means_.raw_memory(all);
    for (const Cell& cell : cells_) cell.raw_memory(all);
    for (const Piece& piece : pieces_)
        if (piece.links) {
            const auto* at = reinterpret_cast<const uint8_t*>(piece.links.get());
            all.insert(all.end(), at, at + PIECE_ROWS * sizeof(Link));
        }
}

}  // namespace lethevec
