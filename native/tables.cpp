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
constexpr int64_t GROUP = 64;         // rows that are worth a thread
constexpr size_t PROBES_AHEAD = 16;   // buckets asked for before the first is looked into
constexpr int64_t FILE_AHEAD = 8;

// At most 64 bits of a code.
uint64_t bits_from(const uint8_t* code, int64_t from, int64_t count) {
    uint64_t word = 0;
    for (int64_t at = from; at < from + count;) {
        const int64_t take = std::min<int64_t>(8 - at % 8, from + count - at);
        word |= static_cast<uint64_t>((code[at / 8] >> (at % 8)) & ((1 << take) - 1)) << (at - from);
        at += take;
    }
    return word;
}

// A query's whole weights for keys and signatures; see `table_weights` in the spec.
struct Weights {
    Weights(const float* values, int64_t d, int64_t tables, int64_t key_bits, int64_t signature_bits)
        : key_bits(key_bits),
          keys(static_cast<size_t>(tables * key_bits)),
          home(static_cast<size_t>(tables)),
          signatures(static_cast<size_t>(tables * Tables::SIGNATURE_BITS)),
          signs(static_cast<size_t>(tables * 2)),
          totals(static_cast<size_t>(tables)) {
        double largest = 0.0;
        for (int64_t t = 0; t < tables; ++t)
            for (int64_t j = 0; j < key_bits + signature_bits; ++j)
                largest = std::max(largest, std::fabs(static_cast<double>(values[t * d + j])));
        const double scale = largest > 0.0 ? static_cast<double>(LARGEST) / largest : 0.0;
        for (int64_t t = 0; t < tables; ++t) {
            for (int64_t j = 0; j < key_bits + signature_bits; ++j) {
                const float v = values[t * d + j];
                const auto w = static_cast<uint8_t>(std::fabs(static_cast<double>(v)) * scale + 0.5);
                totals[static_cast<size_t>(t)] += w;
                if (j < key_bits) {
                    keys[static_cast<size_t>(t * key_bits + j)] = w;
                    home[static_cast<size_t>(t)] |= static_cast<uint32_t>(v >= 0.0f) << j;
                } else {
                    const int64_t i = j - key_bits;
                    signatures[static_cast<size_t>(t * Tables::SIGNATURE_BITS + i)] = w;
                    signs[static_cast<size_t>(2 * t + i / 32)] |= static_cast<uint32_t>(v >= 0.0f) << (i % 32);
                }
            }
        }
    }

    // What a row with this key has at most: all weights, less twice those of the bits in which the keys differ.
    int32_t best(const Probe& probe) const {
        int32_t differ = 0;
        for (uint32_t rest = probe.key ^ home[probe.table]; rest; rest &= rest - 1)
            differ += keys[static_cast<size_t>(probe.table * key_bits + __builtin_ctz(rest))];
        return totals[probe.table] - 2 * differ;
    }

    static constexpr int32_t LARGEST = 31;
    int64_t key_bits;
    std::vector<uint8_t> keys;
    std::vector<uint32_t> home;
    std::vector<uint8_t> signatures;
    std::vector<uint32_t> signs;
    std::vector<int32_t> totals;
};

// The rank-th largest of the numbers counted so far; the lowest possible while there are not as many. It only ever rises.
class Threshold {
public:
    Threshold(int32_t largest, double rank)
        : lowest_(-largest), rank_(rank), counts_(static_cast<size_t>(2 * largest + 1), 0), at_(0) {}
    int32_t value() const { return lowest_ + static_cast<int32_t>(at_); }
    // Only for numbers that reach the value.
    void count(int32_t number) {
        ++counts_[static_cast<size_t>(number - lowest_)];
        reached_ += 1.0;
    }
    void rise() {
        while (reached_ - counts_[at_] >= rank_) reached_ -= counts_[at_++];
    }

private:
    int32_t lowest_;
    double rank_, reached_ = 0.0;  // how many numbers reach the value
    std::vector<uint32_t> counts_;
    size_t at_;
};

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

int64_t Tables::signature_bits() const {
    return std::min(SIGNATURE_BITS, settings_.frame->d() - settings_.key_bits);
}

void Tables::prepare(const float* x, bool is_direction, float* hashed) const {
    const int64_t d = settings_.frame->d();
    if (settings_.of_direction && !is_direction) {
        double norm = 0.0;
        active().norms(x, d, 1, &norm);
        const double inverse = norm > 0.0 ? 1.0 / norm : 0.0;
        for (int64_t j = 0; j < d; ++j) hashed[j] = static_cast<float>(static_cast<double>(x[j]) * inverse);
    } else {
        std::copy(x, x + d, hashed);
    }
    if (d < CENTRED_FROM) return;
    constexpr int LANES = 8;
    double lanes[LANES] = {};
    for (int64_t j = 0; j < d; ++j) lanes[j % LANES] += static_cast<double>(hashed[j]);
    for (int half = LANES / 2; half >= 1; half /= 2)
        for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
    const auto mean = static_cast<float>(lanes[0] / static_cast<double>(d));
    for (int64_t j = 0; j < d; ++j) hashed[j] = hashed[j] - mean;
}

void Tables::hash(const float* x, int64_t n, uint32_t* keys, uint64_t* signatures) const {
    const Frame& frame = *settings_.frame;
    const int64_t d = frame.d(), count = tables(), bits = count * d;
    Wiped<float> scratch(frame.scratch()), hashed(d);
    Wiped<uint8_t> code((bits + 7) / 8);
    for (int64_t i = 0; i < n; ++i) {
        prepare(x + i * d, false, hashed.at(0));
        active().superbit(frame.view(), hashed.at(0), 1, {nullptr, code.at(0), bits, nullptr}, scratch.at(0));
        for (int64_t t = 0; t < count; ++t) {
            keys[i * count + t] = static_cast<uint32_t>(bits_from(code.at(0), t * d, settings_.key_bits));
            signatures[i * count + t] = bits_from(code.at(0), t * d + settings_.key_bits, signature_bits());
        }
    }
}

// Each table takes its rows by itself, so threads share out the tables.
void Tables::file(const uint32_t* which, int64_t n, const uint32_t* keys, const uint64_t* signatures, int64_t threads) {
    const int64_t count = tables();
    parallel_for(count, n < 256 ? 1 : threads, 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
            Buckets& table = tables_[static_cast<size_t>(t)];
            for (int64_t i = 0; i < n; ++i) {
                if (i + FILE_AHEAD < n) {
                    const Buckets::Block b = table.first_block(keys[(i + FILE_AHEAD) * count + t]);
                    if (b != Buckets::NONE) table.prefetch(b);
                }
                if (i + 2 * FILE_AHEAD < n) table.prefetch_head(keys[(i + 2 * FILE_AHEAD) * count + t]);
                places(which[i])[t] = table.insert(keys[i * count + t], which[i], signatures[i * count + t]);
            }
        }
    });
}

void Tables::add(const Rows&, const uint32_t* which, int64_t n, const float* x, int64_t threads,
                 const std::function<void(int64_t)>&) {
    const int64_t d = settings_.frame->d(), count = tables();
    int64_t taken = 0;
    try {
        Wiped<uint32_t> keys(std::min(STRIDE, n) * count);
        Wiped<uint64_t> signatures(std::min(STRIDE, n) * count);
        for (int64_t at = 0; at < n; at += STRIDE) {
            const int64_t some = std::min(STRIDE, n - at);
            parallel_for(some, threads, GROUP, [&](int64_t begin, int64_t end) {
                hash(x + (at + begin) * d, end - begin, keys.at(begin * count), signatures.at(begin * count));
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

SourceWork Tables::candidates(const Rows& rows, const float* query, int64_t wanted, double effort,
                              const std::vector<uint32_t>& masks, int64_t allowed, std::vector<uint32_t>& found,
                              std::vector<size_t>& ends) const {
    const double share = static_cast<double>(rows.size()) / static_cast<double>(std::max<int64_t>(1, allowed));
    const double limit = std::ceil(effort * static_cast<double>(settings_.probes) * share);
    if (static_cast<double>(allowed) <= static_cast<double>(wanted) + static_cast<double>(ROWS_PER_PROBE) * limit) {
        for (size_t word = 0; word < masks.size(); ++word)
            for (uint32_t mask = masks[word]; mask; mask &= mask - 1)
                found.push_back(static_cast<uint32_t>(word * BLOCK) + static_cast<uint32_t>(__builtin_ctz(mask)));
        return {allowed, 0};
    }

    const Frame& frame = *settings_.frame;
    const Kernels& kernels = active();
    const int64_t d = frame.d(), count = tables();
    AlignedVector<float> values(static_cast<size_t>(count * d)), scratch(static_cast<size_t>(frame.scratch()));
    std::vector<float> hashed(static_cast<size_t>(d));
    prepare(query, true, hashed.data());  // under cosine the search has made it a direction already
    kernels.superbit(frame.view(), hashed.data(), 1, {values.data(), nullptr, count * d, nullptr}, scratch.data());
    Probing probing(values.data(), d, count, settings_.key_bits);
    const Weights weights(values.data(), d, count, settings_.key_bits, signature_bits());
    Threshold threshold(*std::max_element(weights.totals.begin(), weights.totals.end()),
                        std::max(static_cast<double>(wanted),
                                 std::ceil(limit / 4.0 + effort * 6.0 * static_cast<double>(wanted))));
    // Rows that may be found and were not yet: a row leaves it when it is, so no row is found twice.
    std::vector<uint32_t> left = masks;
    std::vector<const uint32_t*> entries;
    std::vector<uint32_t> differ, rows_here;
    std::vector<int32_t> estimates;
    std::vector<float> unused;
    int64_t looked = 0;
    auto look_into = [&](const Probe& probe, const std::vector<Buckets::Block>& blocks) {
        if (blocks.empty()) return;
        if (entries.size() < blocks.size() * Buckets::BLOCK_ROWS) entries.resize(blocks.size() * Buckets::BLOCK_ROWS);
        size_t n = 0;
        for (Buckets::Block b : blocks)
            tables_[probe.table].each_in(b, [&](uint32_t, const uint32_t* entry) { entries[n++] = entry; });
        looked += static_cast<int64_t>(n);
        if (differ.size() < n) {
            differ.resize(n);
            unused.resize(n);
            rows_here.resize(n);
            estimates.resize(n);
        }
        kernels.disagreements(entries.data(), static_cast<int64_t>(n), weights.signs.data() + 2 * probe.table,
                              weights.signatures.data() + probe.table * SIGNATURE_BITS, 2, differ.data(), unused.data());
        const int32_t best = weights.best(probe), least = threshold.value();
        size_t hopeful = 0;
        for (size_t i = 0; i < n; ++i) {
            const int32_t estimate = best - 2 * static_cast<int32_t>(differ[i]);
            if (estimate < least) continue;
            const uint32_t row = entries[i][0] - 1;
            if (!(left[row / BLOCK] >> (row % BLOCK) & 1)) continue;
            threshold.count(estimate);
            rows_here[hopeful] = row;
            estimates[hopeful++] = estimate;
        }
        threshold.rise();
        const size_t before = found.size();
        for (size_t i = 0; i < hopeful; ++i) {
            if (estimates[i] < threshold.value()) continue;
            const uint32_t row = rows_here[i];
            left[row / BLOCK] ^= uint32_t{1} << (row % BLOCK);
            found.push_back(row);
        }
        if (found.size() == before) return;
        ends.push_back(found.size());
    };

    // Some buckets at a time: their heads, then their first blocks, then their second ones and so on are asked for together,
    // because waiting for memory is most of the work.
    Probe ahead[PROBES_AHEAD];
    std::vector<Buckets::Block> blocks[PROBES_AHEAD];
    const auto enough = static_cast<size_t>(wanted), all = static_cast<size_t>(allowed);
    for (double done = 0.0;;) {
        size_t some = 0;
        while (some < PROBES_AHEAD && probing.next(ahead[some])) {
            tables_[ahead[some].table].prefetch_head(ahead[some].key);
            blocks[some++].clear();
        }
        if (some == 0) return {looked, 0};
        for (bool more = true, first = true; more; first = false) {
            more = false;
            for (size_t i = 0; i < some; ++i) {
                const Buckets& table = tables_[ahead[i].table];
                if (!first && (blocks[i].empty() || blocks[i].back() == Buckets::NONE)) continue;
                const Buckets::Block b = first ? table.first_block(ahead[i].key) : table.next_block(blocks[i].back());
                blocks[i].push_back(b);
                if (b == Buckets::NONE) continue;
                table.prefetch(b);
                more = true;
            }
        }
        for (size_t i = 0; i < some; ++i, done += 1.0) {
            if ((done >= limit && found.size() >= enough) || found.size() == all) return {looked, 0};
            blocks[i].pop_back();  // the end of the list
            look_into(ahead[i], blocks[i]);
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
    buckets.each(key, [&](uint32_t other, const uint32_t*) { there = there || other == row; });
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
