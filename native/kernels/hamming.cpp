// Hamming distances of blocks of codes to a few queries at a time.
//
// Codes lie interleaved, so that a register has the same word of as many codes: their counts need no adding up across
// it, and a word that was read serves all queries of the group.
#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

#if defined(LETHEVEC_ISA_AVX512)

constexpr int64_t WIDTH = 16;  // codes side by side in a register
using Counts = __m512i;

// Differing bits of TOGETHER registers of codes, with each of Q queries.
template <int Q, int TOGETHER>
LETHEVEC_INLINE void count(const uint32_t* queries, int64_t words, const uint32_t* codes, Counts (*out)[TOGETHER]) {
    Counts sums[Q][TOGETHER];
    for (int q = 0; q < Q; ++q)
        for (int t = 0; t < TOGETHER; ++t) sums[q][t] = _mm512_setzero_si512();
    for (int64_t w = 0; w < words; ++w)
        for (int t = 0; t < TOGETHER; ++t) {
            const __m512i code = _mm512_loadu_si512(codes + w * BLOCK + t * WIDTH);
            for (int q = 0; q < Q; ++q) {
                const __m512i other = _mm512_set1_epi32(static_cast<int>(queries[q * words + w]));
                sums[q][t] = _mm512_add_epi32(sums[q][t], _mm512_popcnt_epi32(_mm512_xor_si512(code, other)));
            }
        }
    for (int q = 0; q < Q; ++q)
        for (int t = 0; t < TOGETHER; ++t) out[q][t] = sums[q][t];
}

LETHEVEC_INLINE uint32_t at_most(Counts counts, uint32_t limit) {
    return _mm512_cmple_epu32_mask(counts, _mm512_set1_epi32(static_cast<int>(limit)));
}

LETHEVEC_INLINE void write(Counts counts, uint32_t* out) { _mm512_storeu_si512(out, counts); }

#elif defined(LETHEVEC_ISA_AVX2)

constexpr int64_t WIDTH = 8;
using Counts = __m256i;

// The bits of each half byte are looked up.
LETHEVEC_INLINE __m256i bits_of_bytes(__m256i x) {
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2,
                                           2, 3, 2, 3, 3, 4);
    const __m256i low = _mm256_set1_epi8(15);
    return _mm256_add_epi8(_mm256_shuffle_epi8(table, _mm256_and_si256(x, low)),
                           _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(x, 4), low)));
}

template <int Q, int TOGETHER>
LETHEVEC_INLINE void count(const uint32_t* queries, int64_t words, const uint32_t* codes, Counts (*out)[TOGETHER]) {
    constexpr int64_t RUN = 31;  // sums of bytes stay below 256 for as many words
    for (int q = 0; q < Q; ++q)
        for (int t = 0; t < TOGETHER; ++t) out[q][t] = _mm256_setzero_si256();
    for (int64_t from = 0; from < words; from += RUN) {
        const int64_t to = words - from < RUN ? words : from + RUN;
        __m256i bytes[Q][TOGETHER];
        for (int q = 0; q < Q; ++q)
            for (int t = 0; t < TOGETHER; ++t) bytes[q][t] = _mm256_setzero_si256();
        for (int64_t w = from; w < to; ++w)
            for (int t = 0; t < TOGETHER; ++t) {
                const __m256i code =
                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + w * BLOCK + t * WIDTH));
                for (int q = 0; q < Q; ++q) {
                    const __m256i other = _mm256_set1_epi32(static_cast<int>(queries[q * words + w]));
                    bytes[q][t] = _mm256_add_epi8(bytes[q][t], bits_of_bytes(_mm256_xor_si256(code, other)));
                }
            }
        for (int q = 0; q < Q; ++q)
            for (int t = 0; t < TOGETHER; ++t) {
                const __m256i pairs = _mm256_maddubs_epi16(bytes[q][t], _mm256_set1_epi8(1));
                out[q][t] = _mm256_add_epi32(out[q][t], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
            }
    }
}

LETHEVEC_INLINE uint32_t at_most(Counts counts, uint32_t limit) {
    // Without signs: what is its own minimum with the limit.
    const __m256i least = _mm256_min_epu32(counts, _mm256_set1_epi32(static_cast<int>(limit)));
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(counts, least))));
}

LETHEVEC_INLINE void write(Counts counts, uint32_t* out) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), counts);
}

#elif defined(LETHEVEC_ISA_NEON)

constexpr int64_t WIDTH = 4;
using Counts = uint32x4_t;

template <int Q, int TOGETHER>
LETHEVEC_INLINE void count(const uint32_t* queries, int64_t words, const uint32_t* codes, Counts (*out)[TOGETHER]) {
    constexpr int64_t RUN = 31;
    for (int q = 0; q < Q; ++q)
        for (int t = 0; t < TOGETHER; ++t) out[q][t] = vdupq_n_u32(0);
    for (int64_t from = 0; from < words; from += RUN) {
        const int64_t to = words - from < RUN ? words : from + RUN;
        uint8x16_t bytes[Q][TOGETHER];
        for (int q = 0; q < Q; ++q)
            for (int t = 0; t < TOGETHER; ++t) bytes[q][t] = vdupq_n_u8(0);
        for (int64_t w = from; w < to; ++w)
            for (int t = 0; t < TOGETHER; ++t) {
                const uint32x4_t code = vld1q_u32(codes + w * BLOCK + t * WIDTH);
                for (int q = 0; q < Q; ++q) {
                    const uint32x4_t differ = veorq_u32(code, vdupq_n_u32(queries[q * words + w]));
                    bytes[q][t] = vaddq_u8(bytes[q][t], vcntq_u8(vreinterpretq_u8_u32(differ)));
                }
            }
        for (int q = 0; q < Q; ++q)
            for (int t = 0; t < TOGETHER; ++t) out[q][t] = vpadalq_u16(out[q][t], vpaddlq_u8(bytes[q][t]));
    }
}

LETHEVEC_INLINE uint32_t at_most(Counts counts, uint32_t limit) {
    const uint32x4_t weight = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcleq_u32(counts, vdupq_n_u32(limit)), weight));
}

LETHEVEC_INLINE void write(Counts counts, uint32_t* out) { vst1q_u32(out, counts); }

#else

constexpr int64_t WIDTH = 1;
using Counts = uint32_t;

template <int Q, int TOGETHER>
LETHEVEC_INLINE void count(const uint32_t* queries, int64_t words, const uint32_t* codes, Counts (*out)[TOGETHER]) {
    for (int q = 0; q < Q; ++q)
        for (int t = 0; t < TOGETHER; ++t) {
            const uint32_t *query = queries + q * words, *code = codes + t;
            int total = 0;
            int64_t w = 0;
            for (; w + 2 <= words; w += 2) {
                const uint32_t one = code[w * BLOCK] ^ query[w], next = code[(w + 1) * BLOCK] ^ query[w + 1];
                total += __builtin_popcountll(static_cast<uint64_t>(one) << 32 | next);
            }
            if (w < words) total += __builtin_popcountll(code[w * BLOCK] ^ query[w]);
            out[q][t] = static_cast<uint32_t>(total);
        }
}

LETHEVEC_INLINE uint32_t at_most(Counts counts, uint32_t limit) { return counts <= limit; }

LETHEVEC_INLINE void write(Counts counts, uint32_t* out) { *out = counts; }

#endif

template <int Q>
void scan_group(const HammingTask& task, HammingFound* found) {
    const int64_t words = task.words, blocks = task.blocks;
    const uint32_t *queries = task.queries, *codes = task.codes, *masks = task.masks, *limits = task.limits;
    // As many registers of codes at once as leave room for the sums.
    constexpr int TOGETHER = WIDTH == 16 ? 2 : Q == 1 ? 4 : Q == 2 ? 2 : 1;
    for (int64_t b = 0; b < blocks; ++b)
        for (int64_t at = 0; at < BLOCK; at += WIDTH * TOGETHER) {
            Counts counts[Q][TOGETHER];
            count<Q, TOGETHER>(queries, words, codes + b * words * BLOCK + at, counts);
            for (int q = 0; q < Q; ++q)
                for (int t = 0; t < TOGETHER; ++t) {
                    const int64_t first = at + t * WIDTH;
                    uint32_t close = at_most(counts[q][t], limits[q]);
                    if (__builtin_expect(close == 0, 1)) continue;
                    close &= masks[b] >> first;
                    uint32_t bits[WIDTH];
                    write(counts[q][t], bits);
                    for (; close; close &= close - 1) {
                        const int lane = __builtin_ctz(close);
                        found[q].rows[found[q].count] = static_cast<uint32_t>(b * BLOCK + first + lane);
                        found[q].bits[found[q].count++] = bits[lane];
                    }
                }
        }
}

}  // namespace

void hamming_scan(const HammingTask& task, HammingFound* found) {
    switch (task.n) {
        case 1: return scan_group<1>(task, found);
        case 2: return scan_group<2>(task, found);
        case 3: return scan_group<3>(task, found);
        case 4: return scan_group<4>(task, found);
    }
}

}  // namespace lethevec::LETHEVEC_ISA_NS
