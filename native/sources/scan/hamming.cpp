#include "sources/scan/hamming.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/dispatch.h"
#include "memory/wiped.h"
#include "sources/scan/plan.h"

namespace lethevec {

namespace {

constexpr int64_t FIRST_TILE = 8;         // blocks that are read before there is any limit
constexpr int64_t TILE_BYTES = 64 << 10;  // of codes, which stay in the cache for all queries of a batch
constexpr int64_t LONG_TILE = 128;        // blocks, where there is one query and nothing to stay for

// Where a kernel writes what it finds for a group of queries.
class Room {
public:
    explicit Room(int64_t rows) : room_(rows), memory_(new uint32_t[static_cast<size_t>(2 * HAMMING_QUERIES * rows)]) {
        clear();
    }
    void clear() {
        for (int64_t q = 0; q < HAMMING_QUERIES; ++q)
            of[q] = {memory_.get() + 2 * q * room_, memory_.get() + (2 * q + 1) * room_, 0};
    }
    HammingFound of[HAMMING_QUERIES];

private:
    int64_t room_;
    const std::unique_ptr<uint32_t[]> memory_;
};

// The codes of queries as words of 32 bits, one after the other.
void write_codes(const Sought* sought, int64_t n, int64_t words, uint32_t* out) {
    for (int64_t i = 0; i < n; ++i)
        std::memcpy(out + i * words, sought[i].query.code.data(), static_cast<size_t>(words) * sizeof(uint32_t));
}

// A pass looks at all rows, whether they may be found or not.
SearchWork work_for(const Rows& rows, int64_t queries) {
    const int64_t scanned = rows.size() * queries;
    return {scanned, 0, 0, scanned * rows.layout().block_words * static_cast<int64_t>(sizeof(uint32_t))};
}

// Calls visit(first row, task with its codes and masks) for tiles of at most `most` blocks.
template <class Visit>
void each_tile(const Rows& rows, const std::vector<uint32_t>& masks, int64_t first, int64_t most, Visit visit) {
    const int64_t words = rows.layout().block_words, per_chunk = rows.chunk_rows() / BLOCK;
    for (int64_t c = 0; c < rows.chunks(); ++c) {
        const int64_t blocks = (rows.used(c) + BLOCK - 1) / BLOCK;
        for (int64_t b = 0, count = 0; b < blocks; b += count) {
            count = std::min(c == 0 && b == 0 ? first : most, blocks - b);
            HammingTask task{};
            task.codes = rows.chunk(c).blocks + b * words * BLOCK;
            task.masks = masks.data() + c * per_chunk + b;
            task.blocks = count;
            visit(static_cast<uint32_t>(c * rows.chunk_rows() + b * BLOCK), task);
        }
    }
}

}  // namespace

void Reservoir::offer(const HammingFound& found, uint32_t first) {
    if (found.count == 0) return;
    for (int64_t i = 0; i < found.count; ++i) rows.push_back(first + found.rows[i]);
    bits.insert(bits.end(), found.bits, found.bits + found.count);
    if (static_cast<int64_t>(rows.size()) >= full_) tighten();
}

void Reservoir::tighten() {
    if (want_ <= 0 || static_cast<int64_t>(rows.size()) <= want_) return;
    order_ = bits;
    std::nth_element(order_.begin(), order_.begin() + (want_ - 1), order_.end());
    limit_ = order_[static_cast<size_t>(want_ - 1)];
    size_t kept = 0;
    for (size_t i = 0; i < rows.size(); ++i)
        if (bits[i] <= limit_) {
            rows[kept] = rows[i];
            bits[kept++] = bits[i];
        }
    rows.resize(kept);
    bits.resize(kept);
    full_ = std::max(2 * static_cast<int64_t>(kept), 2 * want_ + 64);
}

SearchWork nearest_by_hamming(const Scope& scope, Sought* sought, int64_t n) {
    const Rows& rows = scope.rows;
    const int64_t words = rows.layout().block_words,
                  tile_bytes = words * BLOCK * static_cast<int64_t>(sizeof(uint32_t));
    const int64_t most = n > HAMMING_QUERIES ? std::max<int64_t>(1, TILE_BYTES / tile_bytes) : LONG_TILE;
    // Where there are vectors to look at after the codes, more than k rows go on.
    const int64_t allowed = scope.allowed.count();
    const int64_t want = rows.layout().dim > 0
                             ? scan_survivors(scope.allowed.shown(), allowed, scope.k, scope.effort, false)
                             : std::min(scope.k, allowed);
    std::vector<Reservoir> reservoirs(static_cast<size_t>(n), Reservoir(want));
    Wiped<uint32_t> codes(n * words);
    write_codes(sought, n, words, codes.at(0));
    Room found(std::max(most, FIRST_TILE) * BLOCK);
    const Kernels& kernels = active();
    each_tile(rows, scope.allowed.all_masks(), FIRST_TILE, most, [&](uint32_t first, HammingTask task) {
        task.words = words;
        for (int64_t i = 0; i < n; i += HAMMING_QUERIES) {
            uint32_t limits[HAMMING_QUERIES];
            task.queries = codes.at(i * words);
            task.n = std::min(HAMMING_QUERIES, n - i);
            task.limits = limits;
            for (int64_t q = 0; q < task.n; ++q) limits[q] = reservoirs[static_cast<size_t>(i + q)].limit();
            found.clear();
            kernels.hamming_scan(task, found.of);
            for (int64_t q = 0; q < task.n; ++q) reservoirs[static_cast<size_t>(i + q)].offer(found.of[q], first);
        }
    });
    for (int64_t i = 0; i < n; ++i) {
        Reservoir& reservoir = reservoirs[static_cast<size_t>(i)];
        reservoir.finish();
        sought[i].candidates.rows.swap(reservoir.rows);
        sought[i].candidates.distances.assign(reservoir.bits.begin(), reservoir.bits.end());
    }
    return work_for(rows, n);
}

SearchWork within_hamming(const Scope& scope, float within, Sought& sought) {
    if (!(within >= 0.0f)) return {};
    const auto limit = static_cast<uint32_t>(std::min(within, 4e9f));
    const int64_t words = scope.rows.layout().block_words;
    Wiped<uint32_t> code(words);
    write_codes(&sought, 1, words, code.at(0));
    Room here(LONG_TILE * BLOCK);
    Candidates& found = sought.candidates;
    each_tile(scope.rows, scope.allowed.all_masks(), LONG_TILE, LONG_TILE, [&](uint32_t first, HammingTask task) {
        task.words = words;
        task.queries = code.at(0);
        task.n = 1;
        task.limits = &limit;
        here.clear();
        active().hamming_scan(task, here.of);
        for (int64_t i = 0; i < here.of[0].count; ++i) found.rows.push_back(first + here.of[0].rows[i]);
        found.distances.insert(found.distances.end(), here.of[0].bits, here.of[0].bits + here.of[0].count);
    });
    return work_for(scope.rows, 1);
}

}  // namespace lethevec
