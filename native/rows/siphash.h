// SipHash-2-4 of a 64-bit word or of bytes: a keyed hash that nobody without the key can steer.
#pragma once

#include <cstdint>
#include <cstring>

namespace lethevec {

struct SipKey {
    uint64_t k0 = 0, k1 = 0;
};

// Takes a message block by block.
class SipState {
public:
    explicit SipState(SipKey key)
        : a_(key.k0 ^ 0x736f6d6570736575ull),
          b_(key.k1 ^ 0x646f72616e646f6dull),
          c_(key.k0 ^ 0x6c7967656e657261ull),
          d_(key.k1 ^ 0x7465646279746573ull) {}
    void absorb(uint64_t block) {
        d_ ^= block;
        round();
        round();
        a_ ^= block;
    }
    uint64_t finish() {
        c_ ^= 0xff;
        for (int i = 0; i < 4; ++i) round();
        return a_ ^ b_ ^ c_ ^ d_;
    }

private:
    static uint64_t turn(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }
    void round() {
        a_ += b_;
        c_ += d_;
        b_ = turn(b_, 13) ^ a_;
        d_ = turn(d_, 16) ^ c_;
        a_ = turn(a_, 32);
        c_ += b_;
        a_ += d_;
        b_ = turn(b_, 17) ^ c_;
        d_ = turn(d_, 21) ^ a_;
        c_ = turn(c_, 32);
    }
    uint64_t a_, b_, c_, d_;
};

inline uint64_t siphash(SipKey key, uint64_t word) {
    SipState state(key);
    state.absorb(word);
    state.absorb(uint64_t{8} << 56);  // the length of the input, and no bytes left over
    return state.finish();
}

// Of bytes, on a machine whose numbers begin with their lowest byte.
inline uint64_t siphash(SipKey key, const uint8_t* data, int64_t bytes) {
    SipState state(key);
    uint64_t block = 0;
    int64_t at = 0;
    for (; at + 8 <= bytes; at += 8) {
        std::memcpy(&block, data + at, 8);
        state.absorb(block);
    }
    block = 0;
    std::memcpy(&block, data + at, static_cast<size_t>(bytes - at));
    state.absorb(block | static_cast<uint64_t>(bytes) << 56);
    return state.finish();
}

}  // namespace lethevec
