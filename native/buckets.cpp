#include "buckets.h"

#include <cstring>
#include <new>

#include "pages.h"
#include "wipe.h"

namespace lethevec {

Buckets::~Buckets() {
    for (size_t p = 0; p < pieces_.size(); ++p) free_pages(pieces_[p], piece_bytes(p));
    wipe(heads_.data(), heads_.size() * sizeof(Block));
}

Buckets::Block Buckets::add_block() {
    const size_t pieces = blocks_ < FROM ? blocks_ / SMALL + 1 : (blocks_ - FROM) / LARGE + SMALL_PIECES + 1;
    if (pieces > pieces_.size()) {
        if (blocks_ > UINT32_MAX / BLOCK - 2 * LARGE) throw std::bad_alloc();  // places are numbers of 32 bits
        pieces_.reserve(pieces);
        pieces_.push_back(static_cast<uint8_t*>(allocate_pages(piece_bytes(pieces - 1))));
    }
    return blocks_++;
}

void Buckets::drop_last_block() {
    const Block b = --blocks_;
    wipe(signatures_of(b), static_cast<size_t>(signature_bytes_ * BLOCK));
    wipe(rows_of(b), BLOCK * sizeof(uint32_t));
    wipe(&next(b), sizeof(Block));
    wipe(&link(b), sizeof(Link));
    if (part_of(b).at != 0) return;
    free_pages(pieces_.back(), piece_bytes(pieces_.size() - 1));
    pieces_.pop_back();
}

void Buckets::copy(Block from, Block to) {
    std::memcpy(signatures_of(to), signatures_of(from), static_cast<size_t>(signature_bytes_ * BLOCK));
    std::memcpy(rows_of(to), rows_of(from), BLOCK * sizeof(uint32_t));
    next(to) = next(from);
    link(to) = link(from);
}

void Buckets::introduce(Block b) {
    const Link& known = link(b);
    if (known.previous == NONE)
        heads_[known.state & KEY] = b;
    else
        next(known.previous) = b;
    if (next(b) != NONE) link(next(b)).previous = b;
}

uint64_t Buckets::signature_at(Block b, uint32_t slot) const {
    const uint8_t* at = signatures_of(b) + slot;
    uint64_t signature = 0;
    for (int64_t g = 0; g < signature_bytes_; ++g) signature |= static_cast<uint64_t>(at[g * BLOCK]) << (8 * g);
    return signature;
}

void Buckets::put(Block b, uint32_t slot, uint32_t row, uint64_t signature) {
    rows_of(b)[slot] = row;
    uint8_t* at = signatures_of(b) + slot;
    for (int64_t g = 0; g < signature_bytes_; ++g) at[g * BLOCK] = static_cast<uint8_t>(signature >> (8 * g));
}

Buckets::Place Buckets::insert(uint32_t key, uint32_t row, uint64_t signature) {
    Block b = heads_[key];
    if (b == NONE || rows_in(b) == BLOCK) {
        const Block added = add_block();
        next(added) = b;
        link(added) = {NONE, key};
        used_ += b == NONE;
        introduce(added);
        b = added;
    }
    const uint32_t slot = rows_in(b);
    put(b, slot, row, signature);
    link(b).state = key | (slot + 1) << COUNT_SHIFT;
    return place(b, slot);
}

void Buckets::raw_memory(std::vector<uint8_t>& all) const {
    const auto* heads = reinterpret_cast<const uint8_t*>(heads_.data());
    all.insert(all.end(), heads, heads + heads_.size() * sizeof(Block));
    for (size_t p = 0; p < pieces_.size(); ++p) all.insert(all.end(), pieces_[p], pieces_[p] + piece_bytes(p));
}

}  // namespace lethevec
