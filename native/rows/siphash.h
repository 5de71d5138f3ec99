// SipHash-2-4 of one 64-bit word: a keyed hash that nobody without the key can steer.
#pragma once

#include <cstdint>

namespace lethevec {

struct SipKey {
    uint64_t k0 = 0, k1 = 0;
};

inline uint64_t siphash(SipKey key, uint64_t word) {
    uint64_t a = key.k0 ^ 0x736f6d6570736575ull, b = key.k1 ^ 0x646f72616e646f6dull;
    uint64_t c = key.k0 ^ 0x6c7967656e657261ull, d = key.k1 ^ 0x7465646279746573ull;
    auto turn = [](uint64_t x, int by) { return (x << by) | (x >> (64 - by)); };
    auto round = [&] {
        a += b;
        c += d;
        b = turn(b, 13) ^ a;
        d = turn(d, 16) ^ c;
        a = turn(a, 32);
        c += b;
        a += d;
        b = turn(b, 17) ^ c;
        d = turn(d, 21) ^ a;
        c = turn(c, 32);
    };
    auto absorb = [&](uint64_t m) {
        d ^= m;
        round();
        round();
        a ^= m;
    };
    absorb(word);
    absorb(uint64_t{8} << 56);  // the length of the input, and no bytes left over
    c ^= 0xff;
    for (int i = 0; i < 4; ++i) round();
    return a ^ b ^ c ^ d;
}

}  // namespace lethevec
