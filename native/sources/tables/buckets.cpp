#include "sources/tables/buckets.h"

#include <cstring>
#include <new>

#include "memory/pages.h"
#include "memory/wipe.h"

namespace lethevec {

Buckets::~Buckets() {
    for (size_t p = 0; p < pieces_.size(); ++p) free_pages(pieces_[p], piece_bytes(p));
    wipe(heads_.data(), heads_.size() * sizeof(Head));
}

Buckets::Run Buckets::add_run() {
    const size_t pieces = piece_of(runs_) + 1;
    if (pieces > pieces_.size()) {
        // Places are numbers of 32 bits.
        if (runs_ > (UINT32_MAX >> run_shift_) - 2 * runs_in(pieces)) throw std::bad_alloc();
        pieces_.reserve(pieces);
        pieces_.push_back(static_cast<uint8_t*>(allocate_pages(piece_bytes(pieces - 1))));
    }
    return runs_++;
}

void Buckets::drop_last_run() {
    const Run b = --runs_;
    wipe(signatures_of(b), static_cast<size_t>(signature_bytes_ * run()));
    wipe(rows_of(b), static_cast<size_t>(run()) * sizeof(uint32_t));
    wipe(&next(b), sizeof(Run));
    wipe(&link(b), sizeof(Link));
    if (part_of(b).at != 0) return;
    free_pages(pieces_.back(), piece_bytes(pieces_.size() - 1));
    pieces_.pop_back();
}

void Buckets::copy(Run from, Run to) {
    std::memcpy(signatures_of(to), signatures_of(from), static_cast<size_t>(signature_bytes_ * run()));
    std::memcpy(rows_of(to), rows_of(from), static_cast<size_t>(run()) * sizeof(uint32_t));
    next(to) = next(from);
    link(to) = link(from);
}

void Buckets::introduce(Run b) {
    const Link& known = link(b);
    if (known.previous == NONE)
        heads_[known.key].first = b;
    else
        next(known.previous) = b;
    if (next(b) != NONE) link(next(b)).previous = b;
}

void Buckets::put(Run b, uint32_t slot, uint32_t row, const uint8_t* from, int64_t stride) {
    rows_of(b)[slot] = row;
    uint8_t* at = signature(b, slot);
    for (int64_t g = 0; g < signature_bytes_; ++g) at[g * apart_] = from[g * stride];
}

void Buckets::clear(Run b, uint32_t slot) {
    wipe(rows_of(b) + slot, sizeof(uint32_t));
    uint8_t* at = signature(b, slot);
    for (int64_t g = 0; g < signature_bytes_; ++g) wipe(at + g * apart_, 1);
}

Buckets::Place Buckets::insert(uint32_t key, uint32_t row, const uint8_t* signature) {
    Head& head = heads_[key];
    const uint32_t slot = head.rows & static_cast<uint32_t>(run() - 1);
    if (slot == 0) {
        const Run added = add_run();
        next(added) = head.first;
        link(added) = {NONE, key};
        used_ += head.rows == 0;
        introduce(added);
    }
    put(head.first, slot, row, signature, 1);
    ++head.rows;
    return place(head.first, slot);
}

void Buckets::raw_memory(std::vector<uint8_t>& all) const {
    const auto* heads = reinterpret_cast<const uint8_t*>(heads_.data());
    all.insert(all.end(), heads, heads + heads_.size() * sizeof(Head));
    for (size_t p = 0; p < pieces_.size(); ++p) all.insert(all.end(), pieces_[p], pieces_[p] + piece_bytes(p));
}

}  // namespace lethevec
