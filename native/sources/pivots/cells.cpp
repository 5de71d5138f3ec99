#include "sources/pivots/cells.h"

#include <algorithm>
#include <cstring>

#include "hashing/code_bits.h"

namespace lethevec {

namespace {

int64_t lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// The upper half of a float, rounded to nearest, ties to even. Finite numbers stay finite: they are far from the
// largest.
uint32_t upper_half(float number) {
    uint32_t bits;
    std::memcpy(&bits, &number, 4);
    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

float from_upper_half(uint32_t half) {
    const uint32_t bits = half << 16;
    float number;
    std::memcpy(&number, &bits, 4);
    return number;
}

}  // namespace

Cells::Cells(CellShape shape)
    : shape_(shape),
      pair_stride_((shape.scan_bytes() + 4) * PAIR),
      runs_(lines(pair_stride_ * shape.run() / PAIR), lines(4 * shape.rest_words() * shape.run())),
      owners_(1),
      sizes_(1) {}

void Cells::append() {
    lists_.reserve(lists_.size() + 1);
    sizes_.resize(sizes_.size() + 1);
    lists_.emplace_back(1);
}

void Cells::remove(int64_t c) {
    const int64_t last = count() - 1;
    if (c != last) {
        lists_[static_cast<size_t>(c)].swap(lists_[static_cast<size_t>(last)]);
        for (int64_t b = 0; b < lists_[static_cast<size_t>(c)].size(); ++b)
            owners_[lists_[static_cast<size_t>(c)][b]] = static_cast<uint32_t>(c);
    }
    lists_.pop_back();
    sizes_.remove(c);
}

void Cells::reserve(const std::vector<int64_t>& incoming) {
    int64_t more = 0;
    for (size_t c = 0; c < incoming.size(); ++c) {
        if (!incoming[c]) continue;
        const int64_t after = runs_for(size(static_cast<int64_t>(c)) + incoming[c]);
        more += after - lists_[c].size();
        lists_[c].reserve(after);
    }
    owners_.reserve(runs_.size() + more);
    runs_.reserve(runs_.size() + more);
}

uint32_t Cells::add(int64_t c, uint32_t row) {
    Growing<uint32_t>& list = lists_[static_cast<size_t>(c)];
    const uint32_t slot = sizes_[c];
    if (runs_for(slot + 1) > list.size()) {
        list.reserve(list.size() + 1);
        owners_.reserve(runs_.size() + 1);
        const uint32_t run = runs_.append();
        owners_.grow(runs_.size());
        owners_[run] = static_cast<uint32_t>(c);
        list.grow(list.size() + 1);
        list[list.size() - 1] = run;
    }
    filled_ += slot == 0;
    ++sizes_[c];
    rest(c, slot)[0] = row;
    return slot;
}

void Cells::write(int64_t c, uint32_t slot, const uint8_t* from, const CellNumbers& given) {
    const int64_t bytes = shape_.scan_bytes(), last = shape_.first_bits % 8;
    uint8_t* to = code(c, slot);
    for (int64_t g = 0; g < bytes; ++g) to[g * PAIR] = from[g];
    if (last) to[(bytes - 1) * PAIR] = static_cast<uint8_t>(from[bytes - 1] & ((1 << last) - 1));
    *numbers(c, slot) = upper_half(given.offset) << 16 | upper_half(given.size);
    uint32_t* tail = rest(c, slot);
    std::memcpy(tail + 1, &given.bias, 4);
    std::memcpy(tail + 2, &given.scale, 4);
    bits_to_words(from, shape_.first_bits, shape_.bits, tail + 3);
}

void Cells::take(int64_t c, uint32_t slot) {
    Growing<uint32_t>& list = lists_[static_cast<size_t>(c)];
    const uint32_t last = sizes_[c] - 1;
    const auto words = static_cast<size_t>(4 * shape_.rest_words());
    uint8_t *to = code(c, slot), *from = code(c, last);
    for (int64_t g = 0; g < shape_.scan_bytes(); ++g) {
        to[g * PAIR] = from[g * PAIR];
        from[g * PAIR] = 0;
    }
    *numbers(c, slot) = *numbers(c, last);
    *numbers(c, last) = 0;
    if (slot != last) std::memcpy(rest(c, slot), rest(c, last), words);
    wipe(rest(c, last), words);
    sizes_[c] = last;
    filled_ -= last == 0;
    if (runs_for(last) == list.size()) return;
    const uint32_t freed = list[list.size() - 1];
    list.resize(list.size() - 1);
    const auto moved = static_cast<uint32_t>(runs_.size() - 1);
    if (moved != freed) {
        const uint32_t owner = owners_[moved];
        Growing<uint32_t>& others = lists_[owner];
        *std::find(others.at(0), others.at(0) + others.size(), moved) = freed;
        owners_[freed] = owner;
    }
    runs_.remove(freed);
    owners_.resize(runs_.size());
}

void Cells::read(int64_t c, uint32_t slot, uint8_t* to, CellNumbers& given) const {
    const uint32_t* tail = rest(c, slot);
    given.size = from_upper_half(*numbers(c, slot) & 0xffff);
    given.offset = from_upper_half(*numbers(c, slot) >> 16);
    std::memcpy(&given.bias, tail + 1, 4);
    std::memcpy(&given.scale, tail + 2, 4);
    std::memset(to, 0, static_cast<size_t>(shape_.code_bytes()));
    for (int64_t g = 0; g < shape_.scan_bytes(); ++g) to[g] = code(c, slot)[g * PAIR];
    words_to_bits(tail + 3, shape_.first_bits, shape_.bits, to);
}

std::pair<float, float> Cells::first_numbers(uint32_t place) const {
    const int64_t inside = in_run(place);
    const uint8_t* pair = runs_.scan(place >> shape_.run_shift) + inside / PAIR * pair_stride_;
    uint32_t both;
    std::memcpy(&both, pair + shape_.scan_bytes() * PAIR + 4 * (inside % PAIR), 4);
    return {from_upper_half(both & 0xffff), from_upper_half(both >> 16)};
}

int64_t Cells::bytes() const {
    int64_t total = runs_.bytes() + owners_.bytes() + sizes_.bytes();
    for (const auto& list : lists_) total += list.bytes() + static_cast<int64_t>(sizeof list);
    return total;
}

void Cells::raw_memory(std::vector<uint8_t>& all) const {
    runs_.raw_memory(all);
    owners_.raw_memory(all);
    sizes_.raw_memory(all);
    for (const auto& list : lists_) list.raw_memory(all);
}

}  // namespace lethevec
