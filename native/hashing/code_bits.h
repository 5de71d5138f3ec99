// Parts of a code. Bit j is bit j % 8, from the least significant, of byte j / 8.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace lethevec {

// Up to 32 bits from bit `from` on, as a number. Reads no byte that has none of them.
inline uint32_t bits_at(const uint8_t* code, int64_t from, int64_t count) {
    const int64_t shift = from % 8;
    uint64_t held = 0;  // they may begin anywhere in a byte: five bytes have all of them
    std::memcpy(&held, code + from / 8, static_cast<size_t>((shift + count + 7) / 8));
    return static_cast<uint32_t>((held >> shift) & ((uint64_t{1} << count) - 1));
}

// Bits [from, to) in words of 32; what the last word has too many is zero.
inline void bits_to_words(const uint8_t* code, int64_t from, int64_t to, uint32_t* words) {
    for (; from < to; from += 32) *words++ = bits_at(code, from, std::min<int64_t>(32, to - from));
}

// And back into a code whose bits are zero there.
inline void words_to_bits(const uint32_t* words, int64_t from, int64_t to, uint8_t* code) {
    for (int64_t j = from; j < to; ++j)
        if ((words[(j - from) / 32] >> ((j - from) % 32)) & 1) code[j / 8] |= static_cast<uint8_t>(1 << (j % 8));
}

// Some bits from bit `from` on, as a code of their own.
inline void copy_bits(const uint8_t* code, int64_t from, int64_t count, uint8_t* to) {
    for (int64_t at = 0; at < count; at += 8)
        *to++ = static_cast<uint8_t>(bits_at(code, from + at, std::min<int64_t>(8, count - at)));
}

}  // namespace lethevec
