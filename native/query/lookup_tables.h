// What bits of a code are worth to a query, looked up four at a time: see ScanQuery.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace lethevec {

// One number for each pattern of four bits.
typedef uint8_t Sixteen __attribute__((vector_size(16)));

// Sixteen bytes for every four of the bits, two times for a byte: for each pattern the weights of the bits that agree
// with the signs of the values. Bits that a byte has too many are worth nothing.
inline void fill_lookup_tables(const float* values, const int32_t* weights, int64_t bits, uint8_t* tables) {
    constexpr uint8_t O = 0, I = 255;
    constexpr Sixteen WITH_BIT[4] = {{O, I, O, I, O, I, O, I, O, I, O, I, O, I, O, I},
                                     {O, O, I, I, O, O, I, I, O, O, I, I, O, O, I, I},
                                     {O, O, O, O, I, I, I, I, O, O, O, O, I, I, I, I},
                                     {O, O, O, O, O, O, O, O, I, I, I, I, I, I, I, I}};
    for (int64_t group = 0; group < 2 * ((bits + 7) / 8); ++group) {
        const int64_t first = group * 4, count = std::max<int64_t>(0, std::min<int64_t>(4, bits - first));
        Sixteen total{};
        for (int64_t b = 0; b < count; ++b) {
            const auto w = static_cast<uint8_t>(weights[first + b]);
            const Sixteen all = Sixteen{} + w, set = all & WITH_BIT[b];
            total += values[first + b] >= 0.0f ? set : all ^ set;
        }
        std::memcpy(tables + group * 16, &total, sizeof total);
    }
}

}  // namespace lethevec
