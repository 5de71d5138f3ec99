#include "cells.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lethevec {

namespace {

int64_t blocks_for(int64_t rows) { return (rows + BLOCK - 1) / BLOCK; }

}  // namespace

void Cell::swap(Cell& other) {
    Cell held(std::move(*this));
    this->~Cell();
    new (this) Cell(std::move(other));
    other.~Cell();
    new (&other) Cell(std::move(held));
}

void Cell::reserve(int64_t n) {
    const int64_t blocks = blocks_for(n);
    codes_.reserve(blocks);
    sizes_.reserve(blocks);
    offsets_.reserve(blocks);
    rows_.reserve(blocks);
    tails_.reserve(blocks);
}

void Cell::append(uint32_t row, const uint8_t* code, const CellNumbers& numbers) {
    reserve(size_ + 1);
    const int64_t slot = size_++, blocks = blocks_for(size_);
    if (blocks > rows_.size()) {
        codes_.resize(blocks);
        sizes_.resize(blocks);
        offsets_.resize(blocks);
        rows_.resize(blocks);
        tails_.resize(blocks);
    }
    const int64_t bytes = shape_.scan_bytes(), last = shape_.first_bits % 8;
    uint8_t* to = codes_.at(slot / BLOCK) + slot % BLOCK;
    for (int64_t g = 0; g < bytes; ++g) to[g * BLOCK] = code[g];
    if (last) to[(bytes - 1) * BLOCK] = static_cast<uint8_t>(code[bytes - 1] & ((1 << last) - 1));
    sizes_[slot] = numbers.size;
    offsets_[slot] = numbers.offset;
    rows_[slot] = row;
    uint32_t* tail = tail_of(slot);
    std::memcpy(tail, &numbers.bias, 4);
    std::memcpy(tail + 1, &numbers.scale, 4);
    std::memcpy(tail + 2, code, static_cast<size_t>(shape_.code_bytes()));
}

void Cell::remove(int64_t slot) {
    const int64_t last = size_ - 1, bytes = shape_.scan_bytes();
    const auto stride = static_cast<size_t>(4 * (2 + shape_.words()));
    uint8_t *to = codes_.at(slot / BLOCK) + slot % BLOCK, *from = codes_.at(last / BLOCK) + last % BLOCK;
    for (int64_t g = 0; g < bytes; ++g) {
        to[g * BLOCK] = from[g * BLOCK];
        from[g * BLOCK] = 0;
    }
    if (slot != last) {
        sizes_[slot] = sizes_[last];
        offsets_[slot] = offsets_[last];
        rows_[slot] = rows_[last];
        std::memcpy(tail_of(slot), tail_of(last), stride);
    }
    sizes_[last] = offsets_[last] = 0.0f;
    rows_[last] = 0;
    wipe(tail_of(last), stride);
    size_ = last;
    if (blocks_for(size_) < rows_.size()) {
        codes_.resize(blocks_for(size_));
        sizes_.resize(blocks_for(size_));
        offsets_.resize(blocks_for(size_));
        rows_.resize(blocks_for(size_));
        tails_.resize(blocks_for(size_));
    }
}

void Cell::fit() noexcept {
    codes_.fit();
    sizes_.fit();
    offsets_.fit();
    rows_.fit();
    tails_.fit();
}

void Cell::read(int64_t slot, uint8_t* code, CellNumbers& numbers) const {
    const uint32_t* at = tail(slot);
    numbers.size = sizes_[slot];
    numbers.offset = offsets_[slot];
    std::memcpy(&numbers.bias, at, 4);
    std::memcpy(&numbers.scale, at + 1, 4);
    std::memcpy(code, at + 2, static_cast<size_t>(shape_.code_bytes()));
}

// The parts that a scan reads; the hardware follows once it has seen a part begin.
void Cell::prefetch() const {
    const uint8_t* codes = codes_.at(0);
    const int64_t bytes = std::min<int64_t>(blocks_for(size_) * shape_.scan_bytes() * BLOCK, 2048);
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(codes + at);
    const int64_t numbers = std::min<int64_t>(size_, 256);
    for (int64_t at = 0; at < numbers; at += 16) {
        __builtin_prefetch(sizes_.at(0) + at);
        __builtin_prefetch(offsets_.at(0) + at);
    }
}

int64_t Cell::bytes() const {
    return codes_.bytes() + sizes_.bytes() + offsets_.bytes() + rows_.bytes() + tails_.bytes();
}

void Cell::raw_memory(std::vector<uint8_t>& all) const {
    codes_.raw_memory(all);
    sizes_.raw_memory(all);
    offsets_.raw_memory(all);
    rows_.raw_memory(all);
    tails_.raw_memory(all);
}

}  // namespace lethevec
