// BLAKE2b (RFC 7693). The ChaCha20 part is a kernel: kernels/expand.cpp.
#include "digest.h"

#include <cstring>

#include "kernels/dispatch.h"
#include "memory/wipe.h"

namespace lethevec::digest {

namespace {

constexpr char RECORD_PERSON[] = "lethevec-record1", KEPT_PERSON[] = "lethevec-kept--1";

constexpr uint64_t IV[8] = {0x6a09e667f3bcc908ull, 0xbb67ae8584caa73bull, 0x3c6ef372fe94f82bull, 0xa54ff53a5f1d36f1ull,
                            0x510e527fade682d1ull, 0x9b05688c2b3e6c1full, 0x1f83d9abfb41bd6bull, 0x5be0cd19137e2179ull};

constexpr uint8_t SIGMA[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

uint64_t rotate(uint64_t x, int n) { return (x >> n) | (x << (64 - n)); }

void mix(uint64_t* v, int a, int b, int c, int d, uint64_t x, uint64_t y) {
    v[a] = v[a] + v[b] + x;
    v[d] = rotate(v[d] ^ v[a], 32);
    v[c] = v[c] + v[d];
    v[b] = rotate(v[b] ^ v[c], 24);
    v[a] = v[a] + v[b] + y;
    v[d] = rotate(v[d] ^ v[a], 16);
    v[c] = v[c] + v[d];
    v[b] = rotate(v[b] ^ v[c], 63);
}

void compress(uint64_t h[8], const uint8_t block[128], uint64_t so_far, bool last) {
    uint64_t m[16], v[16];
    std::memcpy(m, block, 128);
    for (int i = 0; i < 8; ++i) {
        v[i] = h[i];
        v[i + 8] = IV[i];
    }
    v[12] ^= so_far;
    if (last) v[14] = ~v[14];
    for (int round = 0; round < 12; ++round) {
        const uint8_t* s = SIGMA[round % 10];
        mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
        mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
        mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
        mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
        mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
        mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
        mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
        mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; ++i) h[i] ^= v[i] ^ v[i + 8];
    // The block is a piece of a record.
    wipe(m, sizeof m);
}

void blake2b(const char* personalisation, const uint8_t* record, int64_t bytes, uint8_t* out, size_t wanted) {
    uint64_t h[8], person[2];
    std::memcpy(h, IV, sizeof h);
    std::memcpy(person, personalisation, 16);
    h[0] ^= 0x01010000ull ^ 32ull;  // 32 bytes out, no key, one node
    h[6] ^= person[0];
    h[7] ^= person[1];
    int64_t at = 0;
    for (; bytes - at > 128; at += 128) compress(h, record + at, static_cast<uint64_t>(at + 128), false);
    uint8_t last[128] = {};
    if (bytes > at) std::memcpy(last, record + at, static_cast<size_t>(bytes - at));
    compress(h, last, static_cast<uint64_t>(bytes), true);
    wipe(last, sizeof last);
    std::memcpy(out, h, wanted);
}

}  // namespace

void record_key(const uint8_t* record, int64_t bytes, uint8_t key[32]) {
    blake2b(RECORD_PERSON, record, bytes, key, 32);
}

void kept_check(const uint8_t* kept, int64_t bytes, uint8_t check[8]) { blake2b(KEPT_PERSON, kept, bytes, check, 8); }

void Sums::add(const uint8_t* record, int64_t bytes) {
    uint8_t key[32];
    record_key(record, bytes, key);
    active().expand(key, words_);
}

void Sums::add_to(uint16_t* lanes) const {
    // Group of eight blocks, word of a block, block, half of the word: where `expand` left each lane.
    for (int64_t group = 0; group < 4; ++group)
        for (int64_t word = 0; word < 16; ++word)
            for (int64_t block = 0; block < 8; ++block)
                for (int64_t half = 0; half < 2; ++half) {
                    uint16_t& lane = lanes[(group * 8 + block) * 32 + word * 2 + half];
                    lane = static_cast<uint16_t>(lane + words_[((group * 16 + word) * 8 + block) * 2 + half]);
                }
}

}  // namespace lethevec::digest
