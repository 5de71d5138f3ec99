// One hash table: for every key, the rows that have it, each with a signature. A bucket is a list of blocks of two cache lines
// each, and the blocks of all buckets lie side by side without gaps.
//
// All blocks of a bucket but the first are full, and a block that empties is given back: the last block of all takes its place.
// So the number of blocks follows from the sizes of the buckets alone, however they came about, and a bucket that empties
// leaves nothing but its head, which every key has from the start.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "wipe.h"

namespace lethevec {

class Buckets {
public:
    // A place in a table, by which a row is taken out of it in constant time. Never 0.
    using Place = uint32_t;

    explicit Buckets(int64_t key_bits) : heads_(static_cast<size_t>(int64_t{1} << key_bits), NONE) {}
    ~Buckets() {
        for (auto& piece : pieces_) wipe(piece.get(), PIECE_WORDS * sizeof(uint32_t));
        wipe(heads_.data(), heads_.size() * sizeof(uint32_t));
    }
    Buckets(const Buckets&) = delete;
    Buckets& operator=(const Buckets&) = delete;
    Buckets(Buckets&&) = default;

    // May throw std::bad_alloc, changing nothing.
    Place insert(uint32_t key, uint32_t row, uint64_t signature);
    // Takes out what is at a place. Calls moved(row, place) for every row whose place is another now. Cannot fail.
    template <class Moved>
    void remove(Place place, Moved moved);
    // The row at a place has another number.
    void renumber(Place place, uint32_t row) { *at(place) = row + 1; }

    uint32_t key_at(Place place) const { return block(place / BLOCK_WORDS)[KEY]; }
    uint32_t row_at(Place place) const { return *at(place) - 1; }

    // A bucket's blocks one by one, so that a caller can have many buckets on their way from memory at once.
    using Block = uint32_t;
    static constexpr Block NONE = UINT32_MAX;
    static constexpr size_t BLOCK_ROWS = 9;
    void prefetch_head(uint32_t key) const { __builtin_prefetch(&heads_[key]); }
    Block first_block(uint32_t key) const { return heads_[key]; }
    Block next_block(Block b) const { return block(b)[NEXT]; }
    void prefetch(Block b) const {
        __builtin_prefetch(block(b));
        __builtin_prefetch(block(b) + BLOCK_WORDS / 2);
    }
    // Calls visit(row, entry) for each row of a block; entry + 1 points to the two words of the signature.
    template <class Visit>
    void each_in(Block b, Visit visit) const {
        const uint32_t* from = block(b);
        for (uint32_t w = FIRST; w <= LAST && from[w]; w += ENTRY) visit(from[w] - 1, from + w);
    }
    template <class Visit>
    void each(uint32_t key, Visit visit) const {
        for (Block b = heads_[key]; b != NONE; b = next_block(b)) each_in(b, visit);
    }

    int64_t keys() const { return static_cast<int64_t>(heads_.size()); }
    // Buckets with a row in them.
    int64_t used() const { return used_; }
    int64_t blocks() const { return blocks_; }
    int64_t bytes() const { return 4 * (keys() + static_cast<int64_t>(BLOCK_WORDS) * blocks_); }
    void raw_memory(std::vector<uint8_t>& all) const;

private:
    // Words of a block: neighbours in the bucket, the key, then entries: a row's number + 1, so that 0 is a free place, and its
    // signature.
    static constexpr uint32_t NEXT = 0, PREVIOUS = 1, KEY = 2, FIRST = 3, ENTRY = 3, BLOCK_WORDS = 32;
    static constexpr uint32_t LAST = FIRST + (BLOCK_ROWS - 1) * ENTRY;
    static_assert(LAST + ENTRY <= BLOCK_WORDS, "a block has room for its rows");
    static constexpr uint32_t PIECE_BLOCKS = 256;
    static constexpr size_t PIECE_WORDS = static_cast<size_t>(PIECE_BLOCKS) * BLOCK_WORDS;

    struct Free {
        void operator()(uint32_t* at) const { ::operator delete(at, std::align_val_t{64}); }
    };

    uint32_t* block(uint32_t b) const { return pieces_[b / PIECE_BLOCKS].get() + (b % PIECE_BLOCKS) * BLOCK_WORDS; }
    uint32_t* at(Place place) const { return block(place / BLOCK_WORDS) + place % BLOCK_WORDS; }
    uint32_t add_block();
    // Both neighbours of a block, or the head of its bucket, are to know it by this number.
    void introduce(uint32_t b);
    void drop_last_block();

    std::vector<uint32_t> heads_;
    std::vector<std::unique_ptr<uint32_t, Free>> pieces_;
    uint32_t blocks_ = 0;
    int64_t used_ = 0;
};

template <class Moved>
void Buckets::remove(Place place, Moved moved) {
    const uint32_t key = block(place / BLOCK_WORDS)[KEY], b = heads_[key];
    uint32_t* first = block(b);
    uint32_t last = FIRST;
    while (last < LAST && first[last + ENTRY]) last += ENTRY;
    // The last entry of the first block fills the gap.
    if (b * BLOCK_WORDS + last != place) {
        for (uint32_t w = 0; w < ENTRY; ++w) at(place)[w] = first[last + w];
        moved(first[last] - 1, place);
    }
    for (uint32_t w = 0; w < ENTRY; ++w) first[last + w] = 0;
    if (last != FIRST) return;

    heads_[key] = first[NEXT];
    if (first[NEXT] != NONE)
        block(first[NEXT])[PREVIOUS] = NONE;
    else
        --used_;
    // The last block fills this one's place.
    if (b != blocks_ - 1) {
        const uint32_t* from = block(blocks_ - 1);
        for (uint32_t w = 0; w < BLOCK_WORDS; ++w) first[w] = from[w];
        introduce(b);
        for (uint32_t w = FIRST; w <= LAST && first[w]; w += ENTRY) moved(first[w] - 1, b * BLOCK_WORDS + w);
    }
    drop_last_block();
}

}  // namespace lethevec
