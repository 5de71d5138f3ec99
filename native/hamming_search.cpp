#include "hamming_search.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "dispatch.h"
#include "wiped.h"

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
void write_codes(const PreparedQuery* queries, int64_t n, int64_t words, uint32_t* out) {
    for (int64_t i = 0; i < n; ++i)
        std::memcpy(out + i * words, queries[i].code.data(), static_cast<size_t>(words) * sizeof(uint32_t));
}

// Calls visit(first row, its codes, its mask, blocks) for tiles of at most `most` blocks.
template <class Visit>
void each_tile(const Rows& rows, const std::vector<uint32_t>& masks, int64_t first, int64_t most, Visit visit) {
    const int64_t words = rows.layout().block_words, per_chunk = rows.chunk_rows() / BLOCK;
    for (int64_t c = 0; c < rows.chunks(); ++c) {
        const int64_t blocks = (rows.used(c) + BLOCK - 1) / BLOCK;
        for (int64_t b = 0, count = 0; b < blocks; b += count) {
            count = std::min(c == 0 && b == 0 ? first : most, blocks - b);
            visit(static_cast<uint32_t>(c * rows.chunk_rows() + b * BLOCK), rows.chunk(c).blocks + b * words * BLOCK,
                  masks.data() + c * per_chunk + b, count);
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

void nearest_by_hamming(const Rows& rows, const std::vector<uint32_t>& masks, const std::vector<PreparedQuery>& queries,
                        std::vector<Reservoir>& reservoirs) {
    const auto n = static_cast<int64_t>(queries.size());
    const int64_t words = rows.layout().block_words, tile_bytes = words * BLOCK * static_cast<int64_t>(sizeof(uint32_t));
    const int64_t most = n > HAMMING_QUERIES ? std::max<int64_t>(1, TILE_BYTES / tile_bytes) : LONG_TILE;
    Wiped<uint32_t> codes(n * words);
    write_codes(queries.data(), n, words, codes.at(0));
    Room found(std::max(most, FIRST_TILE) * BLOCK);
    const Kernels& kernels = active();
    each_tile(rows, masks, FIRST_TILE, most, [&](uint32_t first, const uint32_t* tile, const uint32_t* allowed, int64_t blocks) {
        for (int64_t i = 0; i < n; i += HAMMING_QUERIES) {
            const int64_t group = std::min(HAMMING_QUERIES, n - i);
            uint32_t limits[HAMMING_QUERIES];
            for (int64_t q = 0; q < group; ++q) limits[q] = reservoirs[static_cast<size_t>(i + q)].limit();
            found.clear();
            kernels.hamming_scan(codes.at(i * words), group, words, tile, allowed, blocks, limits, found.of);
            for (int64_t q = 0; q < group; ++q) reservoirs[static_cast<size_t>(i + q)].offer(found.of[q], first);
        }
    });
    for (Reservoir& reservoir : reservoirs) reservoir.finish();
}

void within_hamming(const Rows& rows, const std::vector<uint32_t>& masks, const PreparedQuery& query, uint32_t limit,
                    std::vector<uint32_t>& found, std::vector<uint32_t>& bits) {
    const int64_t words = rows.layout().block_words;
    Wiped<uint32_t> code(words);
    write_codes(&query, 1, words, code.at(0));
    Room here(LONG_TILE * BLOCK);
    each_tile(rows, masks, LONG_TILE, LONG_TILE,
              [&](uint32_t first, const uint32_t* tile, const uint32_t* allowed, int64_t blocks) {
        here.clear();
        active().hamming_scan(code.at(0), 1, words, tile, allowed, blocks, &limit, here.of);
        for (int64_t i = 0; i < here.of[0].count; ++i) found.push_back(first + here.of[0].rows[i]);
        bits.insert(bits.end(), here.of[0].bits, here.of[0].bits + here.of[0].count);
    });
}

}  // namespace lethevec
