#include "sources/tables/tables.h"

#include <algorithm>
#include <cmath>

#include "hashing/code_bits.h"
#include "hashing/direction.h"
#include "kernels/dispatch.h"
#include "memory/wiped.h"
#include "parallel.h"

namespace lethevec {

namespace {

constexpr int64_t STRIDE = 4096;  // rows that are hashed, then filed
constexpr int64_t GROUP = 64;     // rows that are worth a thread
constexpr int64_t FILE_AHEAD = 8;

}  // namespace

std::unique_ptr<Source> TableSettings::make() const { return std::make_unique<Tables>(*this); }

Tables::Tables(const TableSettings& settings) : settings_(settings) {
    tables_.reserve(static_cast<size_t>(settings_.frame->m()));
    const int64_t run = Buckets::run_for(settings_.bucket_rows);
    for (int64_t t = 0; t < settings_.frame->m(); ++t) tables_.emplace_back(settings_.key_bits, signature_bits(), run);
}

// Nothing is scanned but signatures: candidates are judged by their whole codes.
Layout Tables::layout(const Encoder& encoder, Metric, bool hamming) const {
    Layout layout;
    layout.bits = encoder.bits;
    if (hamming) {
        layout.hamming_words = (encoder.bits + 63) / 64;
    } else {
        layout.tail_words = (encoder.bits + 31) / 32;
        layout.has_factor = true;
    }
    return layout;
}

// --- Places
// ------------------------------------------------------------------------------------------------------------

void Tables::take_piece(uint32_t row) {
    const size_t p = row / PIECE_ROWS;
    if (p >= pieces_.size()) pieces_.resize(p + 1);
    Piece& piece = pieces_[p];
    if (piece.places.empty()) piece.places.resize(PIECE_ROWS * tables_.size());
    ++piece.rows;
}

void Tables::release_piece(uint32_t row) {
    Piece& piece = pieces_[row / PIECE_ROWS];
    if (--piece.rows == 0) piece.places = {};
    while (!pieces_.empty() && pieces_.back().places.empty()) pieces_.pop_back();
}

// --- Changes
// -----------------------------------------------------------------------------------------------------------

int64_t Tables::signature_bits() const { return std::min(LOOKED_BITS, settings_.frame->d()) - settings_.key_bits; }

void Tables::prepare(const float* x, bool is_direction, float* hashed) const {
    const int64_t d = settings_.frame->d();
    if (settings_.of_direction && !is_direction)
        write_direction(x, d, hashed);
    else
        std::copy(x, x + d, hashed);
    if (d < CENTRED_FROM) return;
    constexpr int LANES = 8;
    double lanes[LANES] = {};
    for (int64_t j = 0; j < d; ++j) lanes[j % LANES] += static_cast<double>(hashed[j]);
    for (int half = LANES / 2; half >= 1; half /= 2)
        for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
    const auto mean = static_cast<float>(lanes[0] / static_cast<double>(d));
    for (int64_t j = 0; j < d; ++j) hashed[j] = hashed[j] - mean;
}

void Tables::hash(const float* x, int64_t n, uint32_t* keys, uint8_t* signatures) const {
    const Frame& frame = *settings_.frame;
    const int64_t d = frame.d(), count = tables(), bits = count * d;
    Wiped<float> scratch(frame.scratch()), hashed(d);
    Wiped<uint8_t> code((bits + 7) / 8);
    for (int64_t i = 0; i < n; ++i) {
        prepare(x + i * d, false, hashed.at(0));
        active().superbit(frame.view(), hashed.at(0), 1, {nullptr, code.at(0), bits, nullptr}, scratch.at(0));
        for (int64_t t = 0; t < count; ++t) {
            keys[i * count + t] = bits_at(code.at(0), t * d, settings_.key_bits);
            uint8_t* signature = signatures + (i * count + t) * signature_bytes();
            copy_bits(code.at(0), t * d + settings_.key_bits, signature_bits(), signature);
        }
    }
}

// Each table takes its rows by itself, so threads share out the tables.
void Tables::file(const uint32_t* which, int64_t n, const uint32_t* keys, const uint8_t* signatures, int64_t threads) {
    const int64_t count = tables(), bytes = signature_bytes();
    parallel_for(count, n < 256 ? 1 : threads, 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
            Buckets& table = tables_[static_cast<size_t>(t)];
            for (int64_t i = 0; i < n; ++i) {
                if (i + FILE_AHEAD < n) table.prefetch_end(keys[(i + FILE_AHEAD) * count + t]);
                if (i + 2 * FILE_AHEAD < n) table.prefetch_head(keys[(i + 2 * FILE_AHEAD) * count + t]);
                places(which[i])[t] = table.insert(keys[i * count + t], which[i], signatures + (i * count + t) * bytes);
            }
        }
    });
}

void Tables::add(const NewRows& added, int64_t threads, const Progress&) {
    const uint32_t* which = added.which;
    const int64_t n = added.n, d = settings_.frame->d(), count = tables(), bytes = count * signature_bytes();
    int64_t taken = 0;
    try {
        Wiped<float> decoded(added.needs_room() ? std::min(STRIDE, n) * d : 0);
        Wiped<uint32_t> keys(std::min(STRIDE, n) * count);
        Wiped<uint8_t> signatures(std::min(STRIDE, n) * bytes);
        for (int64_t at = 0; at < n; at += STRIDE) {
            const int64_t some = std::min(STRIDE, n - at);
            const float* x = added.vectors(at, some, threads, decoded.at(0));
            parallel_for(some, threads, GROUP, [&](int64_t begin, int64_t end) {
                hash(x + begin * d, end - begin, keys.at(begin * count), signatures.at(begin * bytes));
            });
            for (int64_t i = 0; i < some; ++i, ++taken) take_piece(which[at + i]);
            file(which + at, some, keys.at(0), signatures.at(0), threads);
        }
    } catch (...) {
        for (int64_t i = 0; i < taken; ++i) take_out(which[i]);
        throw;
    }
}

bool Tables::filed(uint32_t row) const {
    return row / PIECE_ROWS < pieces_.size() && !pieces_[row / PIECE_ROWS].places.empty() && places(row)[0] != 0;
}

void Tables::leave(const Rows&, const uint32_t* which, int64_t n, int64_t, const Progress&) {
    for (int64_t i = 0; i < n; ++i)
        if (filed(which[i])) take_out(which[i]);
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

// --- What there is
// -----------------------------------------------------------------------------------------------------

bool Tables::find(uint32_t row, int64_t table, uint32_t& key) const {
    if (!filed(row)) return false;
    const Buckets& buckets = tables_[static_cast<size_t>(table)];
    const uint32_t place = places(row)[table];
    if (buckets.row_at(place) != row) return false;
    key = buckets.key_at(place);
    bool there = false;
    buckets.each(key, [&](uint32_t other, Buckets::Place) { there = there || other == row; });
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
    for (const Piece& piece : pieces_) piece.places.raw_memory(all);
}

}  // namespace lethevec
