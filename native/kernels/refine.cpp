// The later stages, one record at a time: the remaining planes of its code, its true distance, its Hamming distance.
#include "kernels.h"
#include "lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

uint32_t disagreement(const uint32_t* code, const uint32_t* query, const uint8_t* weights, int64_t words) {
#if defined(LETHEVEC_ISA_AVX512)
    __m256i total = _mm256_setzero_si256();
    for (int64_t i = 0; i < words; ++i) {
        const __m256i kept = _mm256_maskz_loadu_epi8(code[i] ^ query[i], weights + i * 32);
        total = _mm256_add_epi64(total, _mm256_sad_epu8(kept, _mm256_setzero_si256()));
    }
    alignas(32) uint64_t parts[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(parts), total);
    return static_cast<uint32_t>(parts[0] + parts[1] + parts[2] + parts[3]);
#elif defined(LETHEVEC_ISA_AVX2)
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3,
                                            3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
    __m256i total = _mm256_setzero_si256();
    for (int64_t i = 0; i < words; ++i) {
        const __m256i word = _mm256_set1_epi32(static_cast<int>(code[i] ^ query[i]));
        const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(word, spread), bit), bit);
        const __m256i kept = _mm256_and_si256(set, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + i * 32)));
        total = _mm256_add_epi64(total, _mm256_sad_epu8(kept, _mm256_setzero_si256()));
    }
    const __m128i pair = _mm_add_epi64(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
    return static_cast<uint32_t>(_mm_cvtsi128_si64(pair) + _mm_extract_epi64(pair, 1));
#elif defined(LETHEVEC_ISA_NEON)
    const uint8x16_t bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint32_t total = 0;
    for (int64_t i = 0; i < words; ++i) {
        const uint32_t word = code[i] ^ query[i];
        for (int half = 0; half < 2; ++half) {
            const uint8x8_t a = vdup_n_u8(static_cast<uint8_t>(word >> (half * 16)));
            const uint8x8_t b = vdup_n_u8(static_cast<uint8_t>(word >> (half * 16 + 8)));
            const uint8x16_t set = vtstq_u8(vcombine_u8(a, b), bit);
            total += vaddlvq_u8(vandq_u8(set, vld1q_u8(weights + i * 32 + half * 16)));
        }
    }
    return total;
#else
    uint32_t total = 0;
    for (int64_t i = 0; i < words; ++i) {
        uint32_t word = code[i] ^ query[i];
        while (word) {
            total += weights[i * 32 + __builtin_ctz(word)];
            word &= word - 1;
        }
    }
    return total;
#endif
}

namespace {

constexpr int SUMS = 16;  // partial sums, whatever the lanes

LETHEVEC_INLINE float pairwise(float* sum) {
    for (int h = SUMS / 2; h >= 1; h /= 2)
        for (int k = 0; k < h; ++k) sum[k] = sum[k] + sum[k + h];
    return sum[0];
}

template <class Term>
LETHEVEC_INLINE float lane_sum(int64_t d, Term term) {
    constexpr int PARTS = SUMS / LANES;
    f32s part[PARTS];
    for (int k = 0; k < PARTS; ++k) part[k] = splat(0.0f);
    int64_t j = 0;
    for (; j + SUMS <= d; j += SUMS)
        for (int k = 0; k < PARTS; ++k) part[k] = part[k] + term.lanes(j + k * LANES);
    alignas(64) float sum[SUMS];
    for (int k = 0; k < PARTS; ++k) store(sum + k * LANES, part[k]);
    for (int k = 0; j + k < d; ++k) sum[k] = sum[k] + term.one(j + k);
    return pairwise(sum);
}

struct Product {
    const float *a, *b;
    LETHEVEC_INLINE f32s lanes(int64_t j) const { return load(a + j) * load(b + j); }
    LETHEVEC_INLINE float one(int64_t j) const { return a[j] * b[j]; }
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
};

}  // namespace

float dot(const float* a, const float* b, int64_t d) { return lane_sum(d, Product{a, b}); }

float squared_distance(const float* a, const float* b, int64_t d) { return lane_sum(d, SquaredDifference{a, b}); }

void hamming(const uint64_t* query, const uint64_t* codes, int64_t words, int64_t n, uint32_t* out) {
    for (int64_t row = 0; row < n; ++row) {
        const uint64_t* code = codes + row * words;
#if defined(LETHEVEC_ISA_AVX512)
        __m512i total = _mm512_setzero_si512();
        for (int64_t i = 0; i < words; i += 8) {
            const __mmask8 in = words - i >= 8 ? 0xff : static_cast<__mmask8>((1u << (words - i)) - 1u);
            const __m512i x = _mm512_xor_si512(_mm512_maskz_loadu_epi64(in, code + i), _mm512_maskz_loadu_epi64(in, query + i));
            total = _mm512_add_epi64(total, _mm512_popcnt_epi64(x));
        }
        out[row] = static_cast<uint32_t>(_mm512_reduce_add_epi64(total));
#else
        uint64_t a = 0, b = 0, c = 0, d = 0;
        int64_t i = 0;
        for (; i + 4 <= words; i += 4) {
            a += static_cast<uint64_t>(__builtin_popcountll(code[i] ^ query[i]));
            b += static_cast<uint64_t>(__builtin_popcountll(code[i + 1] ^ query[i + 1]));
            c += static_cast<uint64_t>(__builtin_popcountll(code[i + 2] ^ query[i + 2]));
            d += static_cast<uint64_t>(__builtin_popcountll(code[i + 3] ^ query[i + 3]));
        }
        for (; i < words; ++i) a += static_cast<uint64_t>(__builtin_popcountll(code[i] ^ query[i]));
        out[row] = static_cast<uint32_t>(a + b + c + d);
#endif
    }
}

}  // namespace lethevec::LETHEVEC_ISA_NS
