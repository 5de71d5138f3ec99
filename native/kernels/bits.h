// Bits of a code, written in order: bit j of the code is bit j % 8, from the least significant, of byte j / 8.
#pragma once

#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

class BitWriter {
public:
    explicit BitWriter(uint8_t* out) : out_(out) {}

    LETHEVEC_INLINE void put(uint32_t bits, int count) {
        held_ |= static_cast<uint64_t>(bits) << fill_;
        fill_ += count;
        while (fill_ >= 8) {
            *out_++ = static_cast<uint8_t>(held_);
            held_ >>= 8;
            fill_ -= 8;
        }
    }

    // Whether each of the first n values of a padded row is >= 0.
    LETHEVEC_INLINE void put_signs(const float* values, int64_t n) {
        int64_t j = 0;
        for (; j + LANES <= n; j += LANES) put(nonnegative(load(values + j)), LANES);
        if (j < n) put(nonnegative(load(values + j)) & ((1u << (n - j)) - 1u), static_cast<int>(n - j));
    }

    LETHEVEC_INLINE void finish() {
        if (fill_ > 0) *out_++ = static_cast<uint8_t>(held_);
    }

private:
    uint8_t* out_;
    uint64_t held_ = 0;
    int fill_ = 0;
};

LETHEVEC_INLINE float bit_sign(const uint8_t* code, int64_t j) { return (code[j >> 3] >> (j & 7)) & 1 ? 1.0f : -1.0f; }

}  // namespace lethevec::LETHEVEC_ISA_NS
