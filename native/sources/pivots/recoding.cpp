// The source "pivots": the origins of cells whose members have changed, and the codes that have to be made for it.
// Mirrors
// `_origins` and `_with_residuals` of the spec.
//
// Nothing here can fail: rows have come and gone already. Where there is no memory for more threads, one does it all,
// with the workspace that is always there.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/dispatch.h"
#include "parallel.h"
#include "sources/pivots/pivots.h"

namespace lethevec {

namespace {

constexpr double PI = 3.14159265358979323846;
constexpr int64_t CELLS_TOGETHER = 64;  // between two looks at who waits
constexpr uint32_t AHEAD = 8;           // rows whose vectors are asked for before their turn comes: they lie scattered

}  // namespace

Pivots::Workspace::Workspace(int64_t d, const Encoder& encoder)
    : z(static_cast<size_t>(d)),
      residual(static_cast<size_t>(d)),
      scratch(static_cast<size_t>(std::max(encoder.scratch(), encoder.frame->scratch()))),
      sum(static_cast<size_t>(d)),
      code(static_cast<size_t>(encoder.code_bytes())) {}

void Pivots::Workspace::zero() noexcept {
    z.zero();
    residual.zero();
    scratch.zero();
    sum.zero();
    code.zero();
}

template <class Work>
void Pivots::with_workspaces(int64_t begin, int64_t end, int64_t threads, int64_t grain, Work work) noexcept {
    if (begin == end) return;
    if (threads > 1 && end - begin > grain) {
        try {
            parallel_for(end - begin, threads, grain, [&](int64_t from, int64_t to) {
                Workspace space(d_, *settings_.encoder);
                work(begin + from, begin + to, space);
            });
            return;
        } catch (const std::bad_alloc&) {
        }
    }
    work(begin, end, own_);
    own_.zero();
}

void Pivots::recode_cells(const Rows& rows, int64_t begin, int64_t end, Workspace& space) {
    for (int64_t c = next_stale(begin); c < end; c = next_stale(c + 1)) {
        uint8_t& state = stale_[static_cast<size_t>(c)];
        if ((state & SAMPLE) && find_origin(rows, c, space)) state |= MOVED;
        if (!(state & MOVED)) continue;
        const auto size = static_cast<uint32_t>(cells_.size(c));
        for (uint32_t slot = 0; slot < size; ++slot) {
            if (slot + AHEAD < size) rows.ask_for_vector(cells_.row(c, slot + AHEAD));
            code(rows, static_cast<uint32_t>(c), slot, space);
        }
    }
}

void Pivots::recode(const Rows& rows, const uint32_t* which, int64_t n, const WipedVector<Move>& moves, int64_t threads,
                    const Progress& progress) {
    const int64_t count = cells_.count();
    int64_t changed = 0;
    for (int64_t c = next_stale(0); c < count; c = next_stale(c + 1)) ++changed;
    // Cells first: what is coded with them need not be coded again.
    const int64_t cells_together = progress ? CELLS_TOGETHER : std::max<int64_t>(1, count);
    for (int64_t from = next_stale(0); from < count; from = next_stale(from + cells_together)) {
        with_workspaces(from, std::min(count, from + cells_together), changed < GRAIN ? 1 : threads, 1,
                        [&](int64_t begin, int64_t end, Workspace& space) { recode_cells(rows, begin, end, space); });
        if (progress) progress(0);
    }
    const int64_t all = n + static_cast<int64_t>(moves.size());
    const int64_t rows_together = progress ? STRIDE : std::max<int64_t>(1, all);
    for (int64_t from = 0; from < all; from += rows_together) {
        with_workspaces(from, std::min(all, from + rows_together), threads, GRAIN,
                        [&](int64_t begin, int64_t end, Workspace& space) {
                            for (int64_t i = begin; i < end; ++i) {
                                const Link& at = link(i < n ? which[i] : moves[static_cast<size_t>(i - n)].row);
                                if (!(stale_[at.cell - 1] & MOVED)) code(rows, at.cell - 1, at.slot, space);
                            }
                        });
        if (progress) progress(0);
    }
}

void Pivots::fill_cells(const Rows& rows, int64_t threads, const Progress& progress) {
    const int64_t count = cells_.count(), together = progress ? CELLS_TOGETHER : std::max<int64_t>(1, count);
    for (int64_t from = 0; from < count; from += together) {
        with_workspaces(from, std::min(count, from + together), threads, 1,
                        [&](int64_t begin, int64_t end, Workspace& space) {
                            for (int64_t c = begin; c < end; ++c) fill_cell(rows, c, space);
                        });
        if (progress) progress(0);
    }
}

void Pivots::fill_cell(const Rows& rows, int64_t c, Workspace& space) {
    const auto size = static_cast<uint32_t>(cells_.size(c));
    uint8_t& state = stale_[static_cast<size_t>(c)];
    if (size == 0 || (state & FILLED)) return;
    state |= FILLED;
    float* z = space.z.data();
    for (uint32_t slot = 0; slot < size; ++slot) {
        if (slot + AHEAD < size) rows.ask_for_vector(cells_.row(c, slot + AHEAD));
        const uint32_t row = cells_.row(c, slot);
        geometry(rows.vector(row, z), 1, z);
        means_.add(c, z);
        link(row).distance = active().squared_distance(z, centres_.row(c), d_);
    }
    recode_cells(rows, c, c + 1, space);
    if (state & MOVED) return;
    for (uint32_t slot = 0; slot < size; ++slot) code(rows, static_cast<uint32_t>(c), slot, space);
}

// Whether it is elsewhere now.
bool Pivots::find_origin(const Rows& rows, int64_t c, Workspace& space) {
    struct Chosen {
        HashedId record;
        uint32_t row;
    } chosen[Origins::MEMBERS];
    int64_t count = 0;
    for (uint32_t slot = 0; slot < cells_.size(c); ++slot) {
        const uint32_t row = cells_.row(c, slot);
        const HashedId record = hashed(rows.id(row));
        if (count == Origins::MEMBERS && !(record < chosen[count - 1].record)) continue;
        int64_t at = count < Origins::MEMBERS ? count++ : count - 1;
        for (; at > 0 && record < chosen[at - 1].record; --at) chosen[at] = chosen[at - 1];
        chosen[at] = {record, row};
    }
    origins_.set_last(c, count < Origins::MEMBERS ? Origins::ALL : chosen[count - 1].record);
    std::fill(space.sum.begin(), space.sum.end(), 0);
    for (int64_t i = 0; i < count; ++i) {
        geometry(rows.vector(chosen[i].row, space.z.data()), 1, space.z.data());
        means_.add_units(c, space.z.data(), 1, space.sum.data());
    }
    float* origin = space.residual.data();
    means_.mean_of(c, space.sum.data(), count, origin);
    if (std::memcmp(origin, origins_.row(c), static_cast<size_t>(d_) * sizeof(float)) == 0) return false;
    std::copy(origin, origin + d_, origins_.row(c));
    if (count == 0) {  // as a new one has it: rotated, some zeros would be negative
        std::fill_n(origins_.values(c), settings_.encoder->bits, 0.0f);
        return true;
    }
    active().superbit(settings_.encoder->frame->view(), origin, 1,
                      {origins_.values(c), nullptr, settings_.encoder->bits, nullptr}, space.scratch.data());
    return true;
}

void Pivots::code(const Rows& rows, uint32_t cell, uint32_t slot, Workspace& space) {
    const Encoder& encoder = *settings_.encoder;
    const float *origin = origins_.row(cell), *values = origins_.values(cell);
    float *z = space.z.data(), *residual = space.residual.data();
    uint8_t* code = space.code.data();
    geometry(rows.vector(cells_.row(cell, slot), z), 1, z);
    for (int64_t j = 0; j < d_; ++j) residual[j] = z[j] - origin[j];
    double norm = 0.0, alignment = 0.0;
    float factor = 0.0f;
    encoder.encode(residual, 1, code, &norm, &factor, &alignment, space.scratch.data());
    const double scale = norm * static_cast<double>(factor);
    if (settings_.metric == Metric::ip) {
        cells_.write(cell, slot, code, {static_cast<float>(norm), 0.0f, static_cast<float>(scale), 0.0f});
        return;
    }
    const double mean_alignment = std::sqrt(2.0 * static_cast<double>(d_) / PI);
    double first = 0.0, all = 0.0;
    for (size_t plane = 0; plane < encoder.weights.size(); ++plane) {
        const int64_t from = static_cast<int64_t>(plane) * d_;
        const double total = active().code_sum(code, from, values + from, d_);
        if (plane == 0) first = total;
        all = all + static_cast<double>(encoder.weights[plane]) * total;
    }
    cells_.write(cell, slot, code,
                 {static_cast<float>(norm), static_cast<float>(norm + 2.0 * first / mean_alignment),
                  static_cast<float>(2.0 * scale),
                  static_cast<float>(norm * norm + 2.0 * norm * static_cast<double>(factor) * all)});
}

}  // namespace lethevec
