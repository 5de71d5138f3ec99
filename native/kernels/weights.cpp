// A query's coordinates in whole numbers: their sizes, rounded, and their signs.
#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

float greatest_size(const float* values, int64_t n) {
    const auto size = [](f32s v) { return maximum(v, -v); };
    f32s tops = splat(0.0f);
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) tops = maximum(size(load(values + j)), tops);
    float all[LANES], top = 0.0f;
    store(all, tops);
    for (const float own : all) top = own > top ? own : top;
    for (; j < n; ++j) {
        const float own = values[j] < 0.0f ? -values[j] : values[j];
        top = own > top ? own : top;
    }
    return top;
}

int32_t whole_sizes(const float* values, int64_t n, double scale, int32_t* out) {
    int32_t sum = 0;
    for (int64_t j = 0; j < n; ++j) {
        out[j] = static_cast<int32_t>(__builtin_fabs(static_cast<double>(values[j])) * scale + 0.5);
        sum += out[j];
    }
    return sum;
}

#if defined(LETHEVEC_ISA_AVX512)

// The tables of sixteen bits at a time. A pattern's entry is the weights of the bits with negative values, and for each
// bit that is set its weight, or less that where its value is negative: the same sum, modulo 256.
void lookup_tables(const float* values, const int32_t* weights, int64_t bits, uint8_t* tables) {
    const __m512i groups = _mm512_inserti32x4(
        _mm512_inserti32x4(_mm512_inserti32x4(_mm512_setzero_si512(), _mm_set1_epi8(4), 1), _mm_set1_epi8(8), 2),
        _mm_set1_epi8(12), 3);
    constexpr uint64_t WITH_BIT[4] = {0xaaaaaaaaaaaaaaaa, 0xcccccccccccccccc, 0xf0f0f0f0f0f0f0f0, 0xff00ff00ff00ff00};
    const int64_t bytes = (bits + 7) / 8 * 32;
    for (int64_t j = 0; j < bits; j += 16) {
        const auto valid = static_cast<__mmask16>(bits - j >= 16 ? 0xffff : (1u << (bits - j)) - 1);
        const __m512i own = _mm512_maskz_loadu_epi32(valid, weights + j);
        const __mmask16 below = static_cast<__mmask16>(
            ~_mm512_cmp_ps_mask(_mm512_maskz_loadu_ps(valid, values + j), _mm512_setzero_ps(), _CMP_GE_OQ));
        const __m512i given = _mm512_mask_sub_epi32(own, below, _mm512_setzero_si512(), own);
        const __m512i steps = _mm512_broadcast_i32x4(_mm512_cvtepi32_epi8(given));
        const __m512i lows = _mm512_broadcast_i32x4(_mm512_cvtepi32_epi8(_mm512_maskz_mov_epi32(below, own)));
        __m512i total = _mm512_setzero_si512();
        for (int b = 0; b < 4; ++b) {
            const __m512i which = _mm512_add_epi8(groups, _mm512_set1_epi8(static_cast<char>(b)));
            total = _mm512_add_epi8(total, _mm512_shuffle_epi8(lows, which));
            total = _mm512_add_epi8(total, _mm512_maskz_shuffle_epi8(WITH_BIT[b], steps, which));
        }
        const int64_t left = bytes - j * 4;
        _mm512_mask_storeu_epi8(tables + j * 4, left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1, total);
    }
}

#else

namespace {

// One number for each pattern of four bits.
typedef uint8_t Sixteen __attribute__((vector_size(16)));

}  // namespace

void lookup_tables(const float* values, const int32_t* weights, int64_t bits, uint8_t* tables) {
    constexpr uint8_t O = 0, I = 255;
    constexpr Sixteen WITH_BIT[4] = {{O, I, O, I, O, I, O, I, O, I, O, I, O, I, O, I},
                                     {O, O, I, I, O, O, I, I, O, O, I, I, O, O, I, I},
                                     {O, O, O, O, I, I, I, I, O, O, O, O, I, I, I, I},
                                     {O, O, O, O, O, O, O, O, I, I, I, I, I, I, I, I}};
    for (int64_t group = 0; group < 2 * ((bits + 7) / 8); ++group) {
        const int64_t first = group * 4, count = bits - first < 4 ? bits - first : 4;
        Sixteen total{};
        for (int64_t b = 0; b < count; ++b) {
            const auto w = static_cast<uint8_t>(weights[first + b]);
            const Sixteen all = Sixteen{} + w, set = all & WITH_BIT[b];
            total += values[first + b] >= 0.0f ? set : all ^ set;
        }
        __builtin_memcpy(tables + group * 16, &total, sizeof total);
    }
}

#endif

void sign_words(const float* values, int64_t n, uint32_t* words) {
    for (int64_t from = 0; from < n; from += 32) {
        uint32_t word = 0;
        int64_t j = 0;
        for (; j + LANES <= 32 && from + j + LANES <= n; j += LANES) word |= nonnegative(load(values + from + j)) << j;
        for (; j < 32 && from + j < n; ++j) word |= static_cast<uint32_t>(values[from + j] >= 0.0f) << j;
        words[from / 32] = word;
    }
}

}  // namespace lethevec::LETHEVEC_ISA_NS
