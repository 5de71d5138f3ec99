// The scores of pairs of blocks of records, six bits at a time, for instructions that look up bytes in a whole register
// of 64.
//
// A byte permutation looks at six bits of an index and passes over the other two, so the codes are indices as they are.
// The two bits that are left of three bytes together make one more index: four look-ups for 24 bits, where tables of
// sixteen take six and have to cut every byte in two. Sums are the same whole numbers: see ScanQuery.
#pragma once

#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

#if defined(LETHEVEC_ISA_AVX512)

// How far ahead of what is looked at codes are asked for: the hardware stops at every page.
constexpr int64_t WIDE_AHEAD = 8192;

// In a register, and not read from memory again by everybody who needs it.
LETHEVEC_INLINE __m512i kept(const uint8_t* at) {
    __m512i x = _mm512_loadu_si512(at);
    __asm__("" : "+v"(x));
    return x;
}

// Adds to `sum` the eight-bit scores of PAIRS pairs of blocks over the bytes [from, to) of their codes, at most a chunk
// of them. What comes after them is asked for, unless it is somewhere else.
template <int PAIRS, bool AHEAD = true>
LETHEVEC_INLINE void sum_wide(const ScanQuery& q, const uint8_t* codes, int64_t from, int64_t to, __m512i* sum,
                              int64_t distance = WIDE_AHEAD) {
    // Shifts are of 16 bits: what comes in from the neighbour is masked, or lies where nobody looks.
    const __m512i two = _mm512_set1_epi8(3), four = _mm512_set1_epi8(15);
    const uint8_t* tables = q.wide + wide_tables(from);
    const uint8_t* ahead = codes + distance + PAIRS * PAIR * from;
    int64_t g = from;
    for (; g + 3 <= to; g += 3, tables += 4 * 64) {
        const __m512i first = kept(tables), second = kept(tables + 64), third = kept(tables + 128),
                      rest = kept(tables + 192);
        for (int i = 0; i < PAIRS; ++i, ahead += 192) {
            for (int64_t line = 0; AHEAD && line < 192; line += 64) __builtin_prefetch(ahead + line);
            const uint8_t* at = codes + (i * q.bytes + g) * PAIR;
            const __m512i a = kept(at), b = kept(at + PAIR), c = kept(at + 2 * PAIR);
            // Where the mask has ones the one, else the other.
            __m512i left = _mm512_ternarylogic_epi64(two, _mm512_srli_epi16(a, 6), _mm512_srli_epi16(b, 4), 0xca);
            left = _mm512_ternarylogic_epi64(four, left, _mm512_srli_epi16(c, 2), 0xca);
            const __m512i ab = _mm512_add_epi8(_mm512_permutexvar_epi8(a, first), _mm512_permutexvar_epi8(b, second));
            const __m512i cd = _mm512_add_epi8(_mm512_permutexvar_epi8(c, third), _mm512_permutexvar_epi8(left, rest));
            sum[i] = _mm512_add_epi8(sum[i], _mm512_add_epi8(ab, cd));
        }
    }
    if (g == to) return;
    const bool both = g + 2 == to;
    const __m512i first = _mm512_loadu_si512(tables), second = _mm512_loadu_si512(tables + 64);
    const __m512i rest = both ? _mm512_loadu_si512(tables + 128) : second;
    for (int i = 0; i < PAIRS; ++i, ahead += 128) {
        if (AHEAD) __builtin_prefetch(ahead);
        const uint8_t* at = codes + (i * q.bytes + g) * PAIR;
        const __m512i a = kept(at);
        __m512i left = _mm512_srli_epi16(a, 6);
        sum[i] = _mm512_add_epi8(sum[i], _mm512_permutexvar_epi8(a, first));
        if (both) {
            if (AHEAD) __builtin_prefetch(ahead + 64);
            const __m512i b = kept(at + PAIR);
            left = _mm512_ternarylogic_epi64(two, left, _mm512_srli_epi16(b, 4), 0xca);
            sum[i] = _mm512_add_epi8(sum[i], _mm512_permutexvar_epi8(b, second));
        }
        sum[i] = _mm512_add_epi8(sum[i], _mm512_permutexvar_epi8(left, rest));
    }
}

// The eight-bit scores of one pair of blocks over BYTES bytes of its codes, at most a chunk of them. One pair after the
// other is the order of memory, which the hardware fetches by itself, faster than it is told to; and with the number of
// bytes known there is nothing left of the loop. `table` gives the tables by their number.
template <int BYTES, class Table>
LETHEVEC_INLINE __m512i pair_scores(Table table, const uint8_t* at) {
    const __m512i two = _mm512_set1_epi8(3), four = _mm512_set1_epi8(15);
    __m512i sum = _mm512_setzero_si512();
    int t = 0;
    for (int g = 0; g + 3 <= BYTES; g += 3, t += 4) {
        const __m512i a = kept(at + g * PAIR), b = kept(at + (g + 1) * PAIR), c = kept(at + (g + 2) * PAIR);
        __m512i left = _mm512_ternarylogic_epi64(two, _mm512_srli_epi16(a, 6), _mm512_srli_epi16(b, 4), 0xca);
        left = _mm512_ternarylogic_epi64(four, left, _mm512_srli_epi16(c, 2), 0xca);
        const __m512i ab =
            _mm512_add_epi8(_mm512_permutexvar_epi8(a, table(t)), _mm512_permutexvar_epi8(b, table(t + 1)));
        const __m512i cd =
            _mm512_add_epi8(_mm512_permutexvar_epi8(c, table(t + 2)), _mm512_permutexvar_epi8(left, table(t + 3)));
        sum = _mm512_add_epi8(sum, _mm512_add_epi8(ab, cd));
    }
    if (BYTES % 3 == 0) return sum;
    const __m512i a = kept(at + BYTES / 3 * 3 * PAIR);
    __m512i left = _mm512_srli_epi16(a, 6);
    sum = _mm512_add_epi8(sum, _mm512_permutexvar_epi8(a, table(t++)));
    if (BYTES % 3 == 2) {
        const __m512i b = kept(at + (BYTES - 1) * PAIR);
        left = _mm512_ternarylogic_epi64(two, left, _mm512_srli_epi16(b, 4), 0xca);
        sum = _mm512_add_epi8(sum, _mm512_permutexvar_epi8(b, table(t++)));
    }
    return _mm512_add_epi8(sum, _mm512_permutexvar_epi8(left, table(t)));
}

// The same, with tables in memory, as operands.
template <int BYTES>
LETHEVEC_INLINE __m512i pair_scores(const uint8_t* tables, const uint8_t* at) {
    return pair_scores<BYTES>([&](int t) { return _mm512_loadu_si512(tables + 64 * t); }, at);
}

// Calls `use` with a number of bytes, at most a chunk, as a constant. It hardly ever changes.
template <int BYTES>
struct Bytes {
    static constexpr int count = BYTES;
};
template <int BYTES = 1, class Use>
LETHEVEC_INLINE int64_t with_bytes(int64_t bytes, Use use) {
    if constexpr (BYTES < CHUNK_BYTES)
        if (bytes != BYTES) return with_bytes<BYTES + 1>(bytes, use);
    return use(Bytes<BYTES>{});
}

#endif

}  // namespace lethevec::LETHEVEC_ISA_NS
