#include "rows/codes.h"

#include <algorithm>
#include <cstring>

#include "hashing/code_bits.h"

namespace lethevec {

void write_code(Rows& rows, uint32_t row, const uint8_t* code, float factor) {
    const Layout& layout = rows.layout();
    if (layout.hamming_words) std::memcpy(rows.hamming(row), code, static_cast<size_t>(layout.code_bytes()));
    for (int64_t w = 0; w < layout.block_words; ++w)
        *rows.block_word(row, w) = bits_at(code, 32 * w, std::min<int64_t>(32, layout.bits - 32 * w));
    if (layout.scan_bytes) {
        uint8_t* byte = rows.scan_byte(row, 0);
        for (int64_t g = 0; g + 1 < layout.scan_bytes; ++g) byte[g * PAIR] = code[g];
        const int64_t last = 8 * (layout.scan_bytes - 1);
        byte[last / 8 * PAIR] = static_cast<uint8_t>(bits_at(code, last, layout.first_bits - last));
    }
    if (!layout.has_factor) return;
    uint32_t* tail = rows.tail(row);
    std::memcpy(tail, &factor, sizeof factor);
    bits_to_words(code, layout.first_bits, layout.bits, tail + 1);
}

void read_code(const Rows& rows, uint32_t row, uint8_t* code) {
    const Layout& layout = rows.layout();
    const int64_t bytes = layout.code_bytes();
    if (layout.hamming_words) {
        std::memcpy(code, rows.hamming(row), static_cast<size_t>(bytes));
        return;
    }
    for (int64_t w = 0; w < layout.block_words; ++w)
        std::memcpy(code + 4 * w, rows.block_word(row, w), static_cast<size_t>(std::min<int64_t>(4, bytes - 4 * w)));
    if (!layout.has_factor) return;
    std::memset(code, 0, static_cast<size_t>(bytes));
    for (int64_t g = 0; g < layout.scan_bytes; ++g) code[g] = *rows.scan_byte(row, g);
    words_to_bits(rows.tail(row) + 1, layout.first_bits, layout.bits, code);
}

float read_factor(const Rows& rows, uint32_t row) {
    float factor = 0.0f;
    if (rows.layout().has_factor) std::memcpy(&factor, rows.tail(row), sizeof factor);
    return factor;
}

}  // namespace lethevec
