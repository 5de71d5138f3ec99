// One hash table: for every key, the rows that have it, each with a signature. A bucket is a list of blocks of 32 rows, and the
// blocks of all buckets lie side by side without gaps.
//
// A block's signatures lie byte by byte, as `scan_bucket` of the kernels reads them: byte g of the block's row r is at 32 g + r.
// Its rows, which are read only where a signature is worth it, and its links lie elsewhere, so that a search reads little more
// than signatures, and knows where the next block lies before it has come from memory.
//
// All blocks of a bucket but the first are full, and a block that empties is given back: the last block of all takes its place.
// So the number of blocks follows from the sizes of the buckets alone, however they came about, and a bucket that empties
// leaves nothing but its head, which every key has from the start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace lethevec {

class Buckets {
public:
    // A place in a table, by which a row is taken out of it in constant time. Never 0.
    using Place = uint32_t;
    static constexpr int64_t MAX_KEY_BITS = 20;

    Buckets(int64_t key_bits, int64_t signature_bits)
        : signature_bytes_((signature_bits + 7) / 8), heads_(static_cast<std::size_t>(int64_t{1} << key_bits), NONE) {}
    ~Buckets();
    Buckets(const Buckets&) = delete;
    Buckets& operator=(const Buckets&) = delete;
    Buckets(Buckets&&) = default;

    // May throw std::bad_alloc, changing nothing.
    Place insert(uint32_t key, uint32_t row, uint64_t signature);
    // Takes out what is at a place. Calls moved(row, place) for every row whose place is another now. Cannot fail.
    template <class Moved>
    void remove(Place place, Moved moved);
    // The row at a place has another number.
    void renumber(Place place, uint32_t row) { rows_of(block_of(place))[slot_of(place)] = row; }

    uint32_t key_at(Place place) const { return link(block_of(place)).state & KEY; }
    uint32_t row_at(Place place) const { return rows_of(block_of(place))[slot_of(place)]; }

    // A bucket's blocks one by one, so that a caller can have many buckets on their way from memory at once.
    using Block = uint32_t;
    static constexpr Block NONE = UINT32_MAX;
    void prefetch_head(uint32_t key) const { __builtin_prefetch(&heads_[key]); }
    void prefetch_next(Block b) const { __builtin_prefetch(&next(b)); }
    void prefetch_link(Block b) const { __builtin_prefetch(&link(b)); }
    void prefetch_rows(Block b) const {
        __builtin_prefetch(rows_of(b));
        __builtin_prefetch(rows_of(b) + BLOCK / 2);
    }
    void prefetch_signatures(Block b) const {
        const uint8_t* at = signatures_of(b);
        for (int64_t byte = 0; byte < signature_bytes_ * BLOCK; byte += 64) __builtin_prefetch(at + byte);
    }
    Block first_block(uint32_t key) const { return heads_[key]; }
    Block next_block(Block b) const { return next(b); }
    uint32_t rows_in(Block b) const { return link(b).state >> COUNT_SHIFT; }
    uint32_t* rows_of(Block b) const {
        const Part part = part_of(b);
        return reinterpret_cast<uint32_t*>(part.piece + part.blocks * signature_bytes_ * BLOCK) + part.at * BLOCK;
    }
    uint8_t* signatures_of(Block b) const {
        const Part part = part_of(b);
        return part.piece + part.at * signature_bytes_ * BLOCK;
    }
    // Calls visit(row, signature) for each row of a bucket.
    template <class Visit>
    void each(uint32_t key, Visit visit) const {
        for (Block b = heads_[key]; b != NONE; b = next_block(b))
            for (uint32_t slot = 0; slot < rows_in(b); ++slot) visit(rows_of(b)[slot], signature_at(b, slot));
    }

    int64_t keys() const { return static_cast<int64_t>(heads_.size()); }
    // Buckets with a row in them.
    int64_t used() const { return used_; }
    int64_t blocks() const { return blocks_; }
    int64_t bytes() const { return 4 * keys() + block_bytes() * blocks_; }
    void raw_memory(std::vector<uint8_t>& all) const;

private:
    // The block before this one in its bucket; its key and its number of rows, in one word.
    struct Link {
        Block previous;
        uint32_t state;
    };
    static constexpr int COUNT_SHIFT = MAX_KEY_BITS;
    static constexpr uint32_t KEY = (uint32_t{1} << MAX_KEY_BITS) - 1;

    // Blocks lie in pieces: signatures of all its blocks, then their rows, then for each the block after it
    // in its bucket, close together because these are followed one by one, then the other links. The first SMALL_PIECES are small, for
    // the sake of small tables; later ones take a large page each.
    static constexpr uint32_t SMALL = 256, SMALL_PIECES = 8, LARGE = 4096, FROM = SMALL * SMALL_PIECES;
    struct Part {
        uint8_t* piece;
        int64_t blocks, at;  // how many blocks it has, and which of them is meant
    };
    Part part_of(Block b) const {
        if (b < FROM) return {pieces_[b / SMALL], SMALL, b % SMALL};
        return {pieces_[(b - FROM) / LARGE + SMALL_PIECES], LARGE, (b - FROM) % LARGE};
    }
    static uint32_t blocks_of_piece(std::size_t piece) { return piece < SMALL_PIECES ? SMALL : LARGE; }
    int64_t piece_bytes(std::size_t piece) const { return block_bytes() * blocks_of_piece(piece); }
    int64_t block_bytes() const {
        return signature_bytes_ * BLOCK + (BLOCK + 1) * 4 + static_cast<int64_t>(sizeof(Link));
    }
    Link& link(Block b) const {
        const Part part = part_of(b);
        return reinterpret_cast<Link*>(part.piece + part.blocks * ((signature_bytes_ + 4) * BLOCK + 4))[part.at];
    }
    Block& next(Block b) const {
        const Part part = part_of(b);
        return reinterpret_cast<Block*>(part.piece + part.blocks * (signature_bytes_ + 4) * BLOCK)[part.at];
    }

    static Place place(Block b, uint32_t slot) { return b * static_cast<uint32_t>(BLOCK) + slot + 1; }
    static uint32_t slot_of(Place place) { return (place - 1) % BLOCK; }
    static Block block_of(Place place) { return (place - 1) / BLOCK; }
    uint64_t signature_at(Block b, uint32_t slot) const;
    void put(Block b, uint32_t slot, uint32_t row, uint64_t signature);
    void copy(Block from, Block to);
    Block add_block();
    // Both neighbours of a block, or the head of its bucket, are to know it by this number.
    void introduce(Block b);
    void drop_last_block();

    int64_t signature_bytes_;
    std::vector<Block> heads_;
    std::vector<uint8_t*> pieces_;
    uint32_t blocks_ = 0;
    int64_t used_ = 0;
};

template <class Moved>
void Buckets::remove(Place gone, Moved moved) {
    const uint32_t key = key_at(gone);
    const Block b = heads_[key];
    const uint32_t last = rows_in(b) - 1;
    // The last row of the first block fills the gap.
    if (place(b, last) != gone) {
        put(block_of(gone), slot_of(gone), rows_of(b)[last], signature_at(b, last));
        moved(rows_of(b)[last], gone);
    }
    put(b, last, 0, 0);
    link(b).state = key | last << COUNT_SHIFT;
    if (last != 0) return;

    const Block second = next(b);
    heads_[key] = second;
    if (second != NONE)
        link(second).previous = NONE;
    else
        --used_;
    // The last block fills this one's place.
    if (b != blocks_ - 1) {
        copy(blocks_ - 1, b);
        introduce(b);
        for (uint32_t slot = 0; slot < rows_in(b); ++slot) moved(rows_of(b)[slot], place(b, slot));
    }
    drop_last_block();
}

}  // namespace lethevec
