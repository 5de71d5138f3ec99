// The ChaCha20 keystream (RFC 8439, nonce 0, counters 0 to 31) of a key, added to 1024 sums of sixteen bits.
//
// Eight blocks are made side by side, one in each lane, and added up as they come: sums[(g * 16 + w) * 8 + b] holds the
// two halves of word w of block 8 g + b. Untangling that order once at the end is cheaper than for every record.
#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

typedef uint32_t u32x8 __attribute__((vector_size(32)));
typedef uint16_t u16x16 __attribute__((vector_size(32)));

LETHEVEC_INLINE void quarter(u32x8& a, u32x8& b, u32x8& c, u32x8& d) {
    a = a + b;
    d = d ^ a;
    d = (d << 16) | (d >> 16);
    c = c + d;
    b = b ^ c;
    b = (b << 12) | (b >> 20);
    a = a + b;
    d = d ^ a;
    d = (d << 8) | (d >> 24);
    c = c + d;
    b = b ^ c;
    b = (b << 7) | (b >> 25);
}

}  // namespace

void expand(const uint8_t* key, uint16_t* sums) {
    uint32_t words[8];
    __builtin_memcpy(words, key, 32);
    for (uint32_t group = 0; group < 4; ++group) {
        const u32x8 zero = {};
        u32x8 start[16] = {zero + 0x61707865u, zero + 0x3320646eu, zero + 0x79622d32u, zero + 0x6b206574u};
        for (int i = 0; i < 8; ++i) start[4 + i] = zero + words[i];
        start[12] = u32x8{0, 1, 2, 3, 4, 5, 6, 7} + group * 8;
        start[13] = start[14] = start[15] = zero;
        u32x8 x[16];
        for (int i = 0; i < 16; ++i) x[i] = start[i];
        for (int round = 0; round < 10; ++round) {
            quarter(x[0], x[4], x[8], x[12]);
            quarter(x[1], x[5], x[9], x[13]);
            quarter(x[2], x[6], x[10], x[14]);
            quarter(x[3], x[7], x[11], x[15]);
            quarter(x[0], x[5], x[10], x[15]);
            quarter(x[1], x[6], x[11], x[12]);
            quarter(x[2], x[7], x[8], x[13]);
            quarter(x[3], x[4], x[9], x[14]);
        }
        for (int i = 0; i < 16; ++i) {
            u16x16 sum;
            uint16_t* at = sums + (group * 16 + static_cast<uint32_t>(i)) * 16;
            __builtin_memcpy(&sum, at, sizeof sum);
            sum = sum + (u16x16)(x[i] + start[i]);
            __builtin_memcpy(at, &sum, sizeof sum);
        }
    }
}

}  // namespace lethevec::LETHEVEC_ISA_NS
