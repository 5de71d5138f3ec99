#include "buckets.h"

#include <cstring>
#include <new>

namespace lethevec {

uint32_t Buckets::add_block() {
    if (blocks_ % PIECE_BLOCKS == 0 && blocks_ / PIECE_BLOCKS == pieces_.size()) {
        // Places are numbers of 32 bits.
        if (blocks_ > UINT32_MAX / BLOCK_WORDS - PIECE_BLOCKS) throw std::bad_alloc();
        auto* memory = static_cast<uint32_t*>(::operator new(PIECE_WORDS * sizeof(uint32_t), std::align_val_t{64}));
        std::unique_ptr<uint32_t, Free> piece(memory);
        std::memset(memory, 0, PIECE_WORDS * sizeof(uint32_t));
        pieces_.push_back(std::move(piece));
    }
    return blocks_++;
}

void Buckets::drop_last_block() {
    wipe(block(--blocks_), BLOCK_WORDS * sizeof(uint32_t));
    if (blocks_ % PIECE_BLOCKS == 0) pieces_.pop_back();
}

void Buckets::introduce(uint32_t b) {
    const uint32_t* known = block(b);
    if (known[PREVIOUS] == NONE)
        heads_[known[KEY]] = b;
    else
        block(known[PREVIOUS])[NEXT] = b;
    if (known[NEXT] != NONE) block(known[NEXT])[PREVIOUS] = b;
}

Buckets::Place Buckets::insert(uint32_t key, uint32_t row, uint64_t signature) {
    uint32_t b = heads_[key];
    if (b == NONE || block(b)[LAST]) {
        const uint32_t added = add_block();
        uint32_t* fresh = block(added);
        fresh[NEXT] = b;
        fresh[PREVIOUS] = NONE;
        fresh[KEY] = key;
        used_ += b == NONE;
        introduce(added);
        b = added;
    }
    uint32_t* entries = block(b);
    uint32_t w = FIRST;
    while (entries[w]) w += ENTRY;
    entries[w] = row + 1;
    entries[w + 1] = static_cast<uint32_t>(signature);
    entries[w + 2] = static_cast<uint32_t>(signature >> 32);
    return b * BLOCK_WORDS + w;
}

void Buckets::raw_memory(std::vector<uint8_t>& all) const {
    const auto* heads = reinterpret_cast<const uint8_t*>(heads_.data());
    all.insert(all.end(), heads, heads + heads_.size() * sizeof(uint32_t));
    for (const auto& piece : pieces_) {
        const auto* from = reinterpret_cast<const uint8_t*>(piece.get());
        all.insert(all.end(), from, from + PIECE_WORDS * sizeof(uint32_t));
    }
}

}  // namespace lethevec
