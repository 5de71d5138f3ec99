// The scores of blocks of 32 records by their first-stage codes.
//
// Codes lie in blocks of 32 records, byte by byte: byte g of the block's record r is at codes[(block * bytes + g) * 32
// + r]; or, where all codes are scanned, in pairs of blocks, with 64 in place of 32. Half a byte is an index into a
// table of sixteen, so one byte shuffle looks up four bits of 16 (or 32, or 64) records. Sums of eight bits cannot
// overflow within a CHUNK (see ScanQuery); chunks are added up in sixteen.
#pragma once

#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

// How many blocks are scored together, so that a table is loaded once for all of them.
constexpr int64_t TOGETHER = 4;

// The eight-bit sums of N blocks, wherever they lie, over the bytes [from, to) of their codes, in row order. Their
// bytes are STRIDE apart.
#if defined(LETHEVEC_ISA_AVX512)

// A register holds byte g of two blocks.
template <int N, int64_t STRIDE = BLOCK>
LETHEVEC_INLINE void sum_blocks_wide(const ScanQuery& q, const uint8_t* const* codes, int64_t from, int64_t to,
                                     uint8_t* sums) {
    const __m512i low = _mm512_set1_epi8(15);
    __m512i sum[N / 2];
    for (int i = 0; i < N / 2; ++i) sum[i] = _mm512_setzero_si512();
    for (int64_t g = from; g < to; ++g) {
        const __m512i first =
            _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q.tables + g * 32)));
        const __m512i second =
            _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q.tables + g * 32 + 16)));
        for (int i = 0; i < N / 2; ++i) {
            const __m512i byte = _mm512_inserti64x4(
                _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes[2 * i] + g * STRIDE))),
                _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes[2 * i + 1] + g * STRIDE)), 1);
            sum[i] = _mm512_add_epi8(sum[i], _mm512_shuffle_epi8(first, _mm512_and_si512(byte, low)));
            sum[i] =
                _mm512_add_epi8(sum[i], _mm512_shuffle_epi8(second, _mm512_and_si512(_mm512_srli_epi16(byte, 4), low)));
        }
    }
    for (int i = 0; i < N / 2; ++i) _mm512_storeu_si512(sums + 2 * i * BLOCK, sum[i]);
}

#endif
#if defined(LETHEVEC_ISA_AVX512) || defined(LETHEVEC_ISA_AVX2)

template <int N, int64_t STRIDE = BLOCK>
LETHEVEC_INLINE void sum_blocks(const ScanQuery& q, const uint8_t* const* codes, int64_t from, int64_t to,
                                uint8_t* sums, [[maybe_unused]] const uint8_t* ahead = nullptr) {
#if defined(LETHEVEC_ISA_AVX512)
    if (N > 1) return sum_blocks_wide<(N > 1 ? N : 2), STRIDE>(q, codes, from, to, sums);
#endif
    const __m256i low = _mm256_set1_epi8(15);
    __m256i sum[N];
    for (int i = 0; i < N; ++i) sum[i] = _mm256_setzero_si256();
    for (int64_t g = from; g < to; ++g) {
        const __m256i first =
            _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q.tables + g * 32)));
        const __m256i second =
            _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q.tables + g * 32 + 16)));
        if (ahead)
            for (int64_t line = 0; line < N * BLOCK; line += 64) __builtin_prefetch(ahead + g * N * BLOCK + line);
        for (int i = 0; i < N; ++i) {
            const __m256i byte = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes[i] + g * STRIDE));
            sum[i] = _mm256_add_epi8(sum[i], _mm256_shuffle_epi8(first, _mm256_and_si256(byte, low)));
            sum[i] =
                _mm256_add_epi8(sum[i], _mm256_shuffle_epi8(second, _mm256_and_si256(_mm256_srli_epi16(byte, 4), low)));
        }
    }
    for (int i = 0; i < N; ++i) _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + i * BLOCK), sum[i]);
}

#elif defined(LETHEVEC_ISA_NEON)

template <int N, int64_t STRIDE = BLOCK>
LETHEVEC_INLINE void sum_blocks(const ScanQuery& q, const uint8_t* const* codes, int64_t from, int64_t to,
                                uint8_t* sums) {
    const uint8x16_t low = vdupq_n_u8(15);
    uint8x16_t sum[2 * N];
    for (int i = 0; i < 2 * N; ++i) sum[i] = vdupq_n_u8(0);
    for (int64_t g = from; g < to; ++g) {
        const uint8x16_t first = vld1q_u8(q.tables + g * 32), second = vld1q_u8(q.tables + g * 32 + 16);
        for (int i = 0; i < 2 * N; ++i) {
            const uint8x16_t byte = vld1q_u8(codes[i / 2] + g * STRIDE + (i % 2) * 16);
            sum[i] = vaddq_u8(sum[i], vqtbl1q_u8(first, vandq_u8(byte, low)));
            sum[i] = vaddq_u8(sum[i], vqtbl1q_u8(second, vshrq_n_u8(byte, 4)));
        }
    }
    for (int i = 0; i < 2 * N; ++i) vst1q_u8(sums + i * 16, sum[i]);
}

#else

template <int N, int64_t STRIDE = BLOCK>
LETHEVEC_INLINE void sum_blocks(const ScanQuery& q, const uint8_t* const* codes, int64_t from, int64_t to,
                                uint8_t* sums) {
    for (int64_t r = 0; r < N * BLOCK; ++r) {
        const uint8_t* at = codes[r / BLOCK] + r % BLOCK;
        uint32_t total = 0;
        for (int64_t g = from; g < to; ++g)
            total += q.tables[g * 32 + (at[g * STRIDE] & 15)] + q.tables[g * 32 + 16 + (at[g * STRIDE] >> 4)];
        sums[r] = static_cast<uint8_t>(total);
    }
}

#endif

// The same for blocks that lie one after the other, in pairs. They are read faster than the hardware, which stops at
// every page, fetches them; so they are asked for early, as many bytes as are looked at.
template <int N>
LETHEVEC_INLINE void sum_bytes(const ScanQuery& q, const uint8_t* codes, int64_t from, int64_t to, uint8_t* sums) {
    const uint8_t* at[N];
    for (int i = 0; i < N; ++i) at[i] = codes + place_in_pairs(i, q.bytes);
#if defined(LETHEVEC_ISA_AVX2)
    constexpr int64_t AHEAD = 8192;
    sum_blocks<N, PAIR>(q, at, from, to, sums, N > 1 ? codes + AHEAD : nullptr);
#else
    sum_blocks<N, PAIR>(q, at, from, to, sums);
#endif
}

// Scores as numbers of 32 bits, a register of them.
#if defined(LETHEVEC_ISA_AVX512)
LETHEVEC_INLINE __m512i widen(const uint8_t* scores) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scores)));
}
LETHEVEC_INLINE __m512i widen(const uint16_t* scores) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scores)));
}
#elif defined(LETHEVEC_ISA_AVX2)
LETHEVEC_INLINE __m256i widen(const uint8_t* scores) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(scores)));
}
LETHEVEC_INLINE __m256i widen(const uint16_t* scores) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scores)));
}
#endif

}  // namespace lethevec::LETHEVEC_ISA_NS
