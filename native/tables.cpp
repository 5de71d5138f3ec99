#include "tables.h"

#include <algorithm>
#include <cmath>

#include "dispatch.h"
#include "parallel.h"
#include "probing.h"
#include "wiped.h"

namespace lethevec {

namespace {

constexpr int64_t STRIDE = 4096;      // rows that are hashed, then filed
constexpr int64_t GROUP = 64;         // rows that a thread hashes in one go
constexpr size_t PROBES_AHEAD = 16;   // buckets asked for before the first is looked into
constexpr int64_t FILE_AHEAD = 8;

uint32_t bits_from(const uint8_t* code, int64_t from, int64_t count) {
    uint64_t word = 0;
    for (int64_t byte = from / 8, shift = 0; byte <= (from + count - 1) / 8; ++byte, shift += 8)
        word |= static_cast<uint64_t>(code[byte]) << shift;
    return static_cast<uint32_t>((word >> (from % 8)) & ((uint64_t{1} << count) - 1));
}

}  // namespace

std::unique_ptr<Source> TableSettings::make() const { return std::make_unique<Tables>(*this); }

Tables::Tables(const TableSettings& settings) : settings_(settings) {
    tables_.reserve(static_cast<size_t>(settings_.frame->m()));
    for (int64_t t = 0; t < settings_.frame->m(); ++t) tables_.emplace_back(settings_.key_bits);
}

Tables::~Tables() {
    for (Piece& piece : pieces_)
        if (piece.places) wipe(piece.places.get(), PIECE_ROWS * tables_.size() * sizeof(uint32_t));
}

// --- Places ------------------------------------------------------------------------------------------------------------

void Tables::take_piece(uint32_t row) {
    const size_t p = row / PIECE_ROWS;
    if (p >= pieces_.size()) pieces_.resize(p + 1);
    Piece& piece = pieces_[p];
    if (!piece.places) piece.places.reset(new uint32_t[PIECE_ROWS * tables_.size()]());
    ++piece.rows;
}

void Tables::release_piece(uint32_t row) {
    Piece& piece = pieces_[row / PIECE_ROWS];
    if (--piece.rows == 0) piece.places.reset();
    while (!pieces_.empty() && !pieces_.back().places) pieces_.pop_back();
}

// --- Changes -----------------------------------------------------------------------------------------------------------

void Tables::keys_of(const float* x, int64_t n, uint32_t* keys) const {
    const Kernels& kernels = active();
    const Frame& frame = *settings_.frame;
    const int64_t d = frame.d(), count = tables(), bits = count * d, bytes = (bits + 7) / 8, group = std::min(GROUP, n);
    Wiped<float> scratch(frame.scratch()), directions(settings_.of_direction ? group * d : 0);
    Wiped<double> norms(settings_.of_direction ? group : 0);
    Wiped<uint8_t> codes(group * bytes);
    for (int64_t at = 0; at < n; at += group) {
        const int64_t rows = std::min(group, n - at);
        const float* hashed = x + at * d;
        if (settings_.of_direction) {
            kernels.norms(hashed, d, rows, norms.at(0));
            for (int64_t i = 0; i < rows; ++i) {
                const double inverse = *norms.at(i) > 0.0 ? 1.0 / *norms.at(i) : 0.0;
                for (int64_t j = 0; j < d; ++j)
                    *directions.at(i * d + j) = static_cast<float>(static_cast<double>(hashed[i * d + j]) * inverse);
            }
            hashed = directions.at(0);
        }
        kernels.superbit(frame.view(), hashed, rows, {nullptr, codes.at(0), bits, nullptr}, scratch.at(0));
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t t = 0; t < count; ++t)
                keys[(at + i) * count + t] = bits_from(codes.at(i * bytes), t * d, settings_.key_bits);
    }
}

// Each table takes its rows by itself, so threads share out the tables.
void Tables::file(const uint32_t* which, int64_t n, const uint32_t* keys, int64_t threads) {
    const int64_t count = tables();
    parallel_for(count, n < 256 ? 1 : threads, 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
            Buckets& table = tables_[static_cast<size_t>(t)];
            for (int64_t i = 0; i < n; ++i) {
                if (i + FILE_AHEAD < n) table.prefetch_rows(keys[(i + FILE_AHEAD) * count + t]);
                if (i + 2 * FILE_AHEAD < n) table.prefetch_head(keys[(i + 2 * FILE_AHEAD) * count + t]);
                places(which[i])[t] = table.insert(keys[i * count + t], which[i]);
            }
        }
    });
}

void Tables::add(const Rows&, const uint32_t* which, int64_t n, const float* x, int64_t threads) {
    const int64_t d = settings_.frame->d(), count = tables();
    int64_t taken = 0;
    try {
        Wiped<uint32_t> keys(std::min(STRIDE, n) * count);
        for (int64_t at = 0; at < n; at += STRIDE) {
            const int64_t some = std::min(STRIDE, n - at);
            parallel_for(some, threads, GROUP, [&](int64_t begin, int64_t end) {
                keys_of(x + (at + begin) * d, end - begin, keys.at(begin * count));
            });
            for (int64_t i = 0; i < some; ++i, ++taken) take_piece(which[at + i]);
            file(which + at, some, keys.at(0), threads);
        }
    } catch (...) {
        for (int64_t i = 0; i < taken; ++i) take_out(which[i]);
        throw;
    }
}

bool Tables::filed(uint32_t row) const {
    return row / PIECE_ROWS < pieces_.size() && pieces_[row / PIECE_ROWS].places && places(row)[0] != 0;
}

void Tables::leave(const Rows&, uint32_t row) {
    if (filed(row)) take_out(row);
}

void Tables::take_out(uint32_t row) {
    uint32_t* own = places(row);
    for (size_t t = 0; t < tables_.size(); ++t) {
        if (own[t] == 0) continue;  // when an add is undone
        const uint32_t place = own[t];
        own[t] = 0;
        tables_[t].remove(place, [&](uint32_t moved, uint32_t to) { places(moved)[t] = to; });
    }
    release_piece(row);
}

// `row` has left, but its piece is there: rows have no gaps, so another row lives in it, or the last one does.
void Tables::renumber(const Rows&, uint32_t last, uint32_t row) {
    if (!filed(last)) return;
    take_piece(row);
    uint32_t *from = places(last), *to = places(row);
    for (size_t t = 0; t < tables_.size(); ++t) {
        to[t] = from[t];
        from[t] = 0;
        tables_[t].renumber(to[t], row);
    }
    release_piece(last);
}

// --- Search ------------------------------------------------------------------------------------------------------------

void Tables::candidates(const Rows& rows, const float* query, int64_t wanted, double effort,
                        const std::vector<uint32_t>& masks, int64_t allowed, std::vector<uint32_t>& found,
                        std::vector<size_t>& ends) const {
    const double share = static_cast<double>(rows.size()) / static_cast<double>(std::max<int64_t>(1, allowed));
    const double limit = std::ceil(effort * static_cast<double>(settings_.probes) * share);
    if (static_cast<double>(allowed) <= static_cast<double>(wanted) + static_cast<double>(ROWS_PER_PROBE) * limit) {
        for (size_t word = 0; word < masks.size(); ++word)
            for (uint32_t mask = masks[word]; mask; mask &= mask - 1)
                found.push_back(static_cast<uint32_t>(word * BLOCK) + static_cast<uint32_t>(__builtin_ctz(mask)));
        ends.push_back(found.size());
        return;
    }

    const Frame& frame = *settings_.frame;
    const int64_t d = frame.d(), count = tables();
    AlignedVector<float> values(static_cast<size_t>(count * d)), scratch(static_cast<size_t>(frame.scratch()));
    active().superbit(frame.view(), query, 1, {values.data(), nullptr, count * d, nullptr}, scratch.data());
    Probing probing(values.data(), d, count, settings_.key_bits);
    // Rows that may be found and were not yet: a row leaves it when it is, so no row is found twice.
    std::vector<uint32_t> left = masks;
    Probe ahead[PROBES_AHEAD];
    const auto enough = static_cast<size_t>(wanted), all = static_cast<size_t>(allowed);
    for (double done = 0.0;;) {
        size_t some = 0;
        while (some < PROBES_AHEAD && probing.next(ahead[some])) {
            tables_[ahead[some].table].prefetch_head(ahead[some].key);
            ++some;
        }
        if (some == 0) return;
        for (size_t i = 0; i < some; ++i) tables_[ahead[i].table].prefetch_rows(ahead[i].key);
        for (size_t i = 0; i < some; ++i, done += 1.0) {
            if ((done >= limit && found.size() >= enough) || found.size() == all) return;
            const size_t before = found.size();
            tables_[ahead[i].table].each(ahead[i].key, [&](uint32_t row) {
                uint32_t& word = left[row / BLOCK];
                const uint32_t bit = uint32_t{1} << (row % BLOCK);
                if (word & bit) {
                    word ^= bit;
                    found.push_back(row);
                }
            });
            if (found.size() > before) ends.push_back(found.size());
        }
    }
}

// --- What there is -----------------------------------------------------------------------------------------------------

bool Tables::find(uint32_t row, int64_t table, uint32_t& key) const {
    if (!filed(row)) return false;
    const Buckets& buckets = tables_[static_cast<size_t>(table)];
    const uint32_t place = places(row)[table];
    if (buckets.row_at(place) != row) return false;
    key = buckets.key_at(place);
    bool there = false;
    buckets.each(key, [&](uint32_t other) { there = there || other == row; });
    return there;
}

int64_t Tables::bytes() const {
    int64_t total = 0;
    for (const Buckets& table : tables_) total += table.bytes();
    for (const Piece& piece : pieces_) total += 4 * static_cast<int64_t>(piece.rows) * tables();
    return total;
}

void Tables::raw_memory(std::vector<uint8_t>& all) const {
    for (const Buckets& table : tables_) table.raw_memory(all);
    for (const Piece& piece : pieces_) {
        const auto* at = reinterpret_cast<const uint8_t*>(piece.places.get());
        if (at) all.insert(all.end(), at, at + PIECE_ROWS * tables_.size() * sizeof(uint32_t));
    }
}

}  // namespace lethevec
