// The expansion of one record in the multiset hash of lethevec._forgetting: BLAKE2b-256 of its bytes is the key of a
// ChaCha20 keystream, whose first 2048 bytes are 1024 numbers of 16 bits. Records are added up lane by lane, modulo
// 2^16.
#pragma once

#include <cstdint>

namespace lethevec::digest {

constexpr int64_t LANES = 1024;

// The first byte of an encoded record: with its vector, or with its code.
constexpr uint8_t VECTOR_TAG = 'v', CODE_TAG = 'c';

// BLAKE2b with 32 bytes of output and the personalisation RECORD_PERSON, see the spec.
void record_key(const uint8_t* record, int64_t bytes, uint8_t key[32]);

// The same with the personalisation "lethevec-kept--1", and eight bytes of it: whether a kept code is the one that was
// written.
void kept_check(const uint8_t* kept, int64_t bytes, uint8_t check[8]);

// The sum of the expansions of some records, in the order in which the kernel makes the words.
class Sums {
public:
    void add(const uint8_t* record, int64_t bytes);
    void add_to(uint16_t* lanes) const;

private:
    alignas(64) uint16_t words_[LANES] = {};
};

}  // namespace lethevec::digest
