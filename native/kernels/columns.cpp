// Columns of small numbers, one for each row: which rows have one that passes. Sixty-four rows are a word of bits.
//
// Words in which no row is left are not looked at; where few are left, only their numbers are.
#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

// Rows of a word that are looked at one by one. With wide registers all 64 take less time than it takes to guess wrong
// how many there are.
#if defined(LETHEVEC_ISA_AVX512) || defined(LETHEVEC_ISA_AVX2)
constexpr int FEW = 0;
#else
constexpr int FEW = 3;
#endif

// Bits of the rows whose number lies between low and low + span.
#if defined(LETHEVEC_ISA_AVX512)

LETHEVEC_INLINE uint64_t between(const uint8_t* codes, uint8_t low, uint8_t span) {
    const __m512i from = _mm512_set1_epi8(static_cast<char>(low)), most = _mm512_set1_epi8(static_cast<char>(span));
    return _mm512_cmple_epu8_mask(_mm512_sub_epi8(_mm512_loadu_si512(codes), from), most);
}
LETHEVEC_INLINE uint64_t between(const uint16_t* codes, uint16_t low, uint16_t span) {
    const __m512i from = _mm512_set1_epi16(static_cast<short>(low)), most = _mm512_set1_epi16(static_cast<short>(span));
    const uint64_t first = _mm512_cmple_epu16_mask(_mm512_sub_epi16(_mm512_loadu_si512(codes), from), most);
    const uint64_t second = _mm512_cmple_epu16_mask(_mm512_sub_epi16(_mm512_loadu_si512(codes + 32), from), most);
    return first | second << 32;
}
LETHEVEC_INLINE uint64_t between(const uint32_t* codes, uint32_t low, uint32_t span) {
    const __m512i from = _mm512_set1_epi32(static_cast<int>(low)), most = _mm512_set1_epi32(static_cast<int>(span));
    uint64_t bits = 0;
    for (int i = 0; i < 4; ++i) {
        const __m512i off = _mm512_sub_epi32(_mm512_loadu_si512(codes + 16 * i), from);
        bits |= static_cast<uint64_t>(_mm512_cmple_epu32_mask(off, most)) << (16 * i);
    }
    return bits;
}

#elif defined(LETHEVEC_ISA_AVX2)

LETHEVEC_INLINE __m256i at(const void* codes) { return _mm256_loadu_si256(static_cast<const __m256i*>(codes)); }

LETHEVEC_INLINE uint64_t between(const uint8_t* codes, uint8_t low, uint8_t span) {
    const __m256i from = _mm256_set1_epi8(static_cast<char>(low)), most = _mm256_set1_epi8(static_cast<char>(span));
    uint64_t bits = 0;
    for (int i = 0; i < 2; ++i) {
        const __m256i off = _mm256_sub_epi8(at(codes + 32 * i), from);
        const __m256i in = _mm256_cmpeq_epi8(_mm256_min_epu8(off, most), off);
        bits |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(in))) << (32 * i);
    }
    return bits;
}
LETHEVEC_INLINE uint64_t between(const uint16_t* codes, uint16_t low, uint16_t span) {
    const __m256i from = _mm256_set1_epi16(static_cast<short>(low)), most = _mm256_set1_epi16(static_cast<short>(span));
    uint64_t bits = 0;
    for (int i = 0; i < 2; ++i) {
        __m256i in[2];
        for (int j = 0; j < 2; ++j) {
            const __m256i off = _mm256_sub_epi16(at(codes + 32 * i + 16 * j), from);
            in[j] = _mm256_cmpeq_epi16(_mm256_min_epu16(off, most), off);
        }
        // Packing goes by halves of a register: its quarters are put in order.
        const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(in[0], in[1]), 0xD8);
        bits |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(bytes))) << (32 * i);
    }
    return bits;
}
LETHEVEC_INLINE uint64_t between(const uint32_t* codes, uint32_t low, uint32_t span) {
    const __m256i from = _mm256_set1_epi32(static_cast<int>(low)), most = _mm256_set1_epi32(static_cast<int>(span));
    uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) {
        const __m256i off = _mm256_sub_epi32(at(codes + 8 * i), from);
        const __m256i in = _mm256_cmpeq_epi32(_mm256_min_epu32(off, most), off);
        bits |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(in)))) << (8 * i);
    }
    return bits;
}

#else

// Sixty-four bytes, each 0 or 1, as bits.
LETHEVEC_INLINE uint64_t packed(const uint8_t* flags) {
    uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) {
        uint64_t eight = 0;
        for (int j = 0; j < 8; ++j) eight |= static_cast<uint64_t>(flags[8 * i + j]) << (8 * j);
        // Byte j goes to bit 56 + j: no two meet, so nothing carries.
        bits |= (eight * 0x0102040810204080ull) >> 56 << (8 * i);
    }
    return bits;
}

template <class T>
LETHEVEC_INLINE uint64_t between(const T* codes, T low, T span) {
    uint8_t flags[64];
    for (int j = 0; j < 64; ++j) flags[j] = static_cast<T>(codes[j] - low) <= span;
    return packed(flags);
}

#endif

template <class T>
LETHEVEC_INLINE void keep(const T* codes, int64_t words, T low, T high, uint64_t* mask) {
    const T span = static_cast<T>(high - low);
    for (int64_t w = 0; w < words; ++w) {
        const uint64_t open = mask[w];
        if (open == 0) continue;
        if (__builtin_popcountll(open) > FEW) {
            mask[w] = open & between(codes + 64 * w, low, span);
            continue;
        }
        for (uint64_t left = open; left; left &= left - 1) {
            const T off = static_cast<T>(codes[64 * w + __builtin_ctzll(left)] - low);
            if (off > span) mask[w] ^= left & (~left + 1);
        }
    }
}

}  // namespace

void keep_between8(const uint8_t* codes, int64_t words, uint32_t low, uint32_t high, uint64_t* mask) {
    keep<uint8_t>(codes, words, static_cast<uint8_t>(low), static_cast<uint8_t>(high), mask);
}

void keep_between16(const uint16_t* codes, int64_t words, uint32_t low, uint32_t high, uint64_t* mask) {
    keep<uint16_t>(codes, words, static_cast<uint16_t>(low), static_cast<uint16_t>(high), mask);
}

void keep_between32(const uint32_t* codes, int64_t words, uint32_t low, uint32_t high, uint64_t* mask,
                    uint64_t* edges) {
    const uint32_t span = high - low;
    for (int64_t w = 0; w < words; ++w) {
        uint64_t open = mask[w];
        const uint32_t* from = codes + 64 * w;
        if (open != 0 && __builtin_popcountll(open) > FEW) {
            open &= between(from, low, span);
        } else {
            for (uint64_t left = open; left; left &= left - 1)
                if (from[__builtin_ctzll(left)] - low > span) open ^= left & (~left + 1);
        }
        mask[w] = open;
        if (!edges) continue;
        uint64_t edge = 0;
        if (__builtin_popcountll(open) > FEW) {
            edge = span > 1 ? open & ~between(from, low + 1, span - 2) : open;
        } else {
            for (uint64_t left = open; left; left &= left - 1) {
                const uint32_t code = from[__builtin_ctzll(left)];
                if (code == low || code == high) edge |= left & (~left + 1);
            }
        }
        edges[w] = edge;
    }
}

void keep_chosen8(const uint8_t* codes, int64_t words, const uint8_t* chosen, uint64_t* mask) {
#if defined(LETHEVEC_ISA_AVX512)
    const __m512i t0 = _mm512_loadu_si512(chosen), t1 = _mm512_loadu_si512(chosen + 64);
    const __m512i t2 = _mm512_loadu_si512(chosen + 128), t3 = _mm512_loadu_si512(chosen + 192);
    for (int64_t w = 0; w < words; ++w) {
        if (!mask[w]) continue;
        const __m512i code = _mm512_loadu_si512(codes + 64 * w);
        const __m512i below = _mm512_permutex2var_epi8(t0, code, t1), above = _mm512_permutex2var_epi8(t2, code, t3);
        const __m512i in = _mm512_mask_blend_epi8(_mm512_movepi8_mask(code), below, above);
        mask[w] &= _mm512_test_epi8_mask(in, in);
    }
#elif defined(LETHEVEC_ISA_AVX2)
    // By the lower half of a byte a set of upper halves is found, in two parts of eight.
    uint8_t sets[2][16] = {};
    for (int code = 0; code < 256; ++code)
        if (chosen[code]) sets[code / 128][code % 16] |= static_cast<uint8_t>(1u << (code / 16 % 8));
    const __m256i below = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(sets[0])));
    const __m256i above = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(sets[1])));
    const __m256i bits = _mm256_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16,
                                          32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128);
    const __m256i half = _mm256_set1_epi8(15);
    for (int64_t w = 0; w < words; ++w) {
        if (!mask[w]) continue;
        uint64_t out = 0;
        for (int i = 0; i < 2; ++i) {
            const __m256i code = at(codes + 64 * w + 32 * i), lower = _mm256_and_si256(code, half);
            const __m256i upper = _mm256_and_si256(_mm256_srli_epi16(code, 4), half);
            const __m256i set =
                _mm256_blendv_epi8(_mm256_shuffle_epi8(below, lower), _mm256_shuffle_epi8(above, lower), code);
            const __m256i bit = _mm256_and_si256(set, _mm256_shuffle_epi8(bits, upper));
            const __m256i none = _mm256_cmpeq_epi8(bit, _mm256_setzero_si256());
            out |= static_cast<uint64_t>(~static_cast<uint32_t>(_mm256_movemask_epi8(none))) << (32 * i);
        }
        mask[w] &= out;
    }
#else
    for (int64_t w = 0; w < words; ++w) {
        if (!mask[w]) continue;
        uint8_t flags[64];
        for (int j = 0; j < 64; ++j) flags[j] = chosen[codes[64 * w + j]];
        mask[w] &= packed(flags);
    }
#endif
}

}  // namespace lethevec::LETHEVEC_ISA_NS
