// The later stages, one record at a time: the remaining planes of its code, its true distance, its Hamming distance.
#include "kernels/disagreement.h"
#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

// Tails are scattered, so those that come are asked for early. Only long ones lie across the end of a line.
constexpr int64_t TAILS_AHEAD = 32;
LETHEVEC_INLINE void ask_for(const uint32_t* tail, int64_t words) {
    __builtin_prefetch(tail);
    if (words >= 8) __builtin_prefetch(tail + words);
}

template <int64_t WORDS>
LETHEVEC_INLINE void disagreements_of(const TailView& view, const uint32_t* const* tails, int64_t n, uint32_t* out,
                                      float* factors) {
    const uint32_t* query = view.signs;
    const uint8_t* weights = view.weights;
    const int64_t words = view.words;
    int64_t i = 0;
    for (; i < n && i < TAILS_AHEAD; ++i) ask_for(tails[i], words);
    i = 0;
#if defined(LETHEVEC_ISA_AVX512)
    if (WORDS > 0) {
        // The words of a code are masks for its weights; the parts of four rows, in the quarters of 64 bits, are added
        // up together.
        const __m512i first = _mm512_loadu_si512(weights);
        const __m512i second = _mm512_maskz_loadu_epi8(WORDS > 3   ? ~0ull
                                                       : WORDS > 2 ? 0xffffffffull
                                                                   : 0ull,
                                                       weights + 64);
        const auto words_at = [](const uint32_t* at, int64_t count) {
            uint64_t two = 0;
            __builtin_memcpy(&two, at, static_cast<uint64_t>(4 * count));
            return two;
        };
        const __mmask64 own = words_at(query, 2), own_second = WORDS > 2 ? words_at(query + 2, WORDS - 2) : 0;
        for (; i + 4 <= n; i += 4) {
            __m512i total = _mm512_setzero_si512();
            for (int k = 0; k < 4; ++k) {
                if (i + k + TAILS_AHEAD < n) ask_for(tails[i + k + TAILS_AHEAD], words);
                const uint32_t* tail = tails[i + k];
                const __m512i zero = _mm512_setzero_si512();
                __m512i sum =
                    _mm512_sad_epu8(_mm512_maskz_mov_epi8(_kxor_mask64(words_at(tail + 1, 2), own), first), zero);
                if (WORDS > 2) {
                    const __mmask64 rest = _kxor_mask64(words_at(tail + 3, WORDS - 2), own_second);
                    sum = _mm512_add_epi64(sum, _mm512_sad_epu8(_mm512_maskz_mov_epi8(rest, second), zero));
                }
                total = _mm512_or_si512(total, _mm512_slli_epi64(sum, static_cast<unsigned>(16 * k)));
                __builtin_memcpy(factors + i + k, tail, sizeof(float));
            }
            const auto sums = static_cast<uint64_t>(_mm512_reduce_add_epi64(total));
            for (int k = 0; k < 4; ++k) out[i + k] = static_cast<uint32_t>(sums >> (16 * k) & 0xffff);
        }
    }
#endif
    for (; i < n; ++i) {
        if (i + TAILS_AHEAD < n) ask_for(tails[i + TAILS_AHEAD], words);
        out[i] = disagreement(tails[i] + 1, query, weights, WORDS > 0 ? WORDS : words);
        __builtin_memcpy(factors + i, tails[i], sizeof(float));
    }
}

}  // namespace

void disagreements(const TailView& query, const uint32_t* const* tails, int64_t n, uint32_t* out, float* factors) {
    // The sizes of the common dimensions with two planes, where weights can stay in registers.
    if (query.words == 2) return disagreements_of<2>(query, tails, n, out, factors);
    if (query.words == 3) return disagreements_of<3>(query, tails, n, out, factors);
    if (query.words == 4) return disagreements_of<4>(query, tails, n, out, factors);
    disagreements_of<0>(query, tails, n, out, factors);
}

namespace {

constexpr int SUMS = 16;  // partial sums, whatever the lanes

LETHEVEC_INLINE float pairwise(float* sum) {
    for (int h = SUMS / 2; h >= 1; h /= 2)
        for (int k = 0; k < h; ++k) sum[k] = sum[k] + sum[k + h];
    return sum[0];
}

#if defined(LETHEVEC_ISA_AVX512) || defined(LETHEVEC_ISA_AVX2)
// The same for eight sums that are left, without a detour through memory.
LETHEVEC_INLINE float pairwise(__m256 eight) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
#endif

template <class Term>
LETHEVEC_INLINE float lane_sum(int64_t d, Term term) {
    constexpr int PARTS = SUMS / LANES;
    f32s part[PARTS];
    for (int k = 0; k < PARTS; ++k) part[k] = splat(0.0f);
    int64_t j = 0;
    for (; j + SUMS <= d; j += SUMS)
        for (int k = 0; k < PARTS; ++k) part[k] = part[k] + term.lanes(j + k * LANES);
#if defined(LETHEVEC_ISA_AVX512)
    // Lanes past the end add zero, which changes no sum: none of them is a negative zero.
    if (j < d) part[0] = part[0] + term.some(j, static_cast<__mmask16>((1u << (d - j)) - 1u));
    const __m512 all = (__m512)part[0];
    return pairwise(_mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1)));
#else
#if defined(LETHEVEC_ISA_AVX2)
    if (j == d) return pairwise(_mm256_add_ps((__m256)part[0], (__m256)part[1]));
#endif
    alignas(64) float sum[SUMS];
    for (int k = 0; k < PARTS; ++k) store(sum + k * LANES, part[k]);
    for (int k = 0; j + k < d; ++k) sum[k] = sum[k] + term.one(j + k);
    return pairwise(sum);
#endif
}

#if defined(LETHEVEC_ISA_AVX512)
LETHEVEC_INLINE f32s load_some(const float* p, __mmask16 which) { return (f32s)_mm512_maskz_loadu_ps(which, p); }
#endif

struct Product {
    const float *a, *b;
    LETHEVEC_INLINE f32s lanes(int64_t j) const { return load(a + j) * load(b + j); }
    LETHEVEC_INLINE float one(int64_t j) const { return a[j] * b[j]; }
#if defined(LETHEVEC_ISA_AVX512)
    LETHEVEC_INLINE f32s some(int64_t j, __mmask16 which) const {
        return load_some(a + j, which) * load_some(b + j, which);
    }
#endif
};

struct SquaredDifference {
    const float *a, *b;
    LETHEVEC_INLINE f32s lanes(int64_t j) const {
        const f32s t = load(a + j) - load(b + j);
        return t * t;
    }
    LETHEVEC_INLINE float one(int64_t j) const {
        const float t = a[j] - b[j];
        return t * t;
    }
#if defined(LETHEVEC_ISA_AVX512)
    LETHEVEC_INLINE f32s some(int64_t j, __mmask16 which) const {
        const f32s t = load_some(a + j, which) - load_some(b + j, which);
        return t * t;
    }
#endif
};

}  // namespace

float dot(const float* a, const float* b, int64_t d) { return lane_sum(d, Product{a, b}); }

float squared_distance(const float* a, const float* b, int64_t d) { return lane_sum(d, SquaredDifference{a, b}); }

// Each as by itself. They do not wait for one another, so the processor adds up several at a time.
void squared_distances(const float* a, const float* const* others, int64_t n, int64_t d, float* out) {
    constexpr int64_t AHEAD = 6, LINE = 16;
    for (int64_t i = 0; i < n; ++i) {
        if (i + AHEAD < n)
            for (int64_t j = 0; j < d; j += LINE) __builtin_prefetch(others[i + AHEAD] + j);
        out[i] = lane_sum(d, SquaredDifference{a, others[i]});
    }
}

namespace {

#if defined(LETHEVEC_ISA_AVX2)

// The bits of each half byte are looked up; sums of bytes stay below 256 for 31 registers.
LETHEVEC_INLINE __m256i count_bits(__m256i x) {
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2,
                                           2, 3, 2, 3, 3, 4);
    const __m256i low = _mm256_set1_epi8(15);
    return _mm256_add_epi8(_mm256_shuffle_epi8(table, _mm256_and_si256(x, low)),
                           _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(x, 4), low)));
}

LETHEVEC_INLINE __m256i differing(const uint64_t* code, const uint64_t* query) {
    return count_bits(_mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(code)),
                                       _mm256_loadu_si256(reinterpret_cast<const __m256i*>(query))));
}

// Four sums of eight bytes each for one row.
LETHEVEC_INLINE __m256i row_sums(const uint64_t* code, const uint64_t* query, int64_t words) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i total = zero;
    int64_t i = 0;
    while (i + 4 <= words) {
        __m256i bytes = zero;
        for (const int64_t stop = i + 31 * 4 < words ? i + 31 * 4 : words; i + 4 <= stop; i += 4)
            bytes = _mm256_add_epi8(bytes, differing(code + i, query + i));
        total = _mm256_add_epi64(total, _mm256_sad_epu8(bytes, zero));
    }
    if (i < words) {
        uint64_t tail = 0;
        for (; i < words; ++i) tail += static_cast<uint64_t>(__builtin_popcountll(code[i] ^ query[i]));
        total = _mm256_add_epi64(total, _mm256_set_epi64x(0, 0, 0, static_cast<long long>(tail)));
    }
    return total;
}

#endif

LETHEVEC_INLINE uint32_t hamming_of(const uint64_t* query, const uint64_t* code, int64_t words) {
#if defined(LETHEVEC_ISA_AVX512)
    __m512i total = _mm512_setzero_si512();
    for (int64_t i = 0; i < words; i += 8) {
        const __mmask8 in = words - i >= 8 ? 0xff : static_cast<__mmask8>((1u << (words - i)) - 1u);
        const __m512i x =
            _mm512_xor_si512(_mm512_maskz_loadu_epi64(in, code + i), _mm512_maskz_loadu_epi64(in, query + i));
        total = _mm512_add_epi64(total, _mm512_popcnt_epi64(x));
    }
    return static_cast<uint32_t>(_mm512_reduce_add_epi64(total));
#else
    uint64_t total = 0;
    for (int64_t i = 0; i < words; ++i) total += static_cast<uint64_t>(__builtin_popcountll(code[i] ^ query[i]));
    return static_cast<uint32_t>(total);
#endif
}

}  // namespace

void hamming(const uint64_t* query, const uint64_t* codes, int64_t words, int64_t n, uint32_t* out) {
    int64_t row = 0;
#if defined(LETHEVEC_ISA_AVX2)
    // Four rows at a time, so that their sums can be added up side by side.
    if (words >= 4)
        for (; row + 4 <= n; row += 4) {
            const uint64_t* code = codes + row * words;
            const __m256i a = row_sums(code, query, words), b = row_sums(code + words, query, words);
            const __m256i c = row_sums(code + 2 * words, query, words), d = row_sums(code + 3 * words, query, words);
            const __m256i ab = _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
            const __m256i cd = _mm256_add_epi64(_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
            const __m256i sums =
                _mm256_add_epi64(_mm256_permute2x128_si256(ab, cd, 0x20), _mm256_permute2x128_si256(ab, cd, 0x31));
            const __m256i packed = _mm256_permutevar8x32_epi32(sums, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(out + row), _mm256_castsi256_si128(packed));
        }
#endif
    for (; row < n; ++row) out[row] = hamming_of(query, codes + row * words, words);
}

}  // namespace lethevec::LETHEVEC_ISA_NS
