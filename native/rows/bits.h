// Bits that stand for rows: how many are set, and which. Plain x86-64 has no instruction that counts bits, so they are
// counted in a way that compilers make vector code of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lethevec {

// How many of the bits of n words are set.
inline int64_t count_bits(const uint64_t* words, size_t n) {
    constexpr size_t TOGETHER = 31;  // words whose counts of a byte fit that byte
    constexpr uint64_t TWOS = 0x5555555555555555ull, FOURS = 0x3333333333333333ull, BYTES = 0x0F0F0F0F0F0F0F0Full,
                       PAIRS = 0x00FF00FF00FF00FFull;
    uint64_t total = 0;
    for (size_t from = 0; from < n; from += TOGETHER) {
        uint64_t bytes = 0;
        for (size_t w = from; w < std::min(n, from + TOGETHER); ++w) {
            uint64_t x = words[w];
            x = x - (x >> 1 & TWOS);
            x = (x & FOURS) + (x >> 2 & FOURS);
            bytes += (x + (x >> 4)) & BYTES;
        }
        uint64_t pairs = (bytes & PAIRS) + (bytes >> 8 & PAIRS);
        pairs += pairs >> 16;
        pairs += pairs >> 32;
        total += pairs & 0xFFFF;
    }
    return static_cast<int64_t>(total);
}

constexpr size_t BITS_BEYOND = 4;  // numbers that `numbers_of` may write behind the last one

// The numbers of the bits that are set in n words of 32, ascending; returns how many. Few of a word are written without
// asking whether there are so many: where about one row in fifty passes, how many a word has cannot be predicted, and
// guessing wrong would take longer than everything else.
inline size_t numbers_of(const uint32_t* words, size_t n, uint32_t* out) {
    size_t found = 0;
    for (size_t at = 0; at < n; at += 2) {
        uint64_t word = words[at];
        if (at + 1 < n) word |= static_cast<uint64_t>(words[at + 1]) << 32;
        const auto first = static_cast<uint32_t>(32 * at);
        for (size_t i = 0; i < BITS_BEYOND; ++i) {
            out[found] = first + static_cast<uint32_t>(__builtin_ctzll(word | uint64_t{1} << 63));
            found += word != 0;
            word &= word - 1;
        }
        for (; word; word &= word - 1) out[found++] = first + static_cast<uint32_t>(__builtin_ctzll(word));
    }
    return found;
}

}  // namespace lethevec
