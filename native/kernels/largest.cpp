// The rank-th largest of some numbers.
#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

constexpr int64_t FEW = 8;
constexpr float INFINITE = __builtin_inff(), GREATEST = 3.402823466e38f;

LETHEVEC_INLINE int64_t reaching(const float* numbers, int64_t n, float threshold) {
    int32_t count = 0;
    int64_t i = 0;
#if defined(LETHEVEC_ISA_AVX512)
    // Four sums, so that none waits for the one before.
    const __m512 least = _mm512_set1_ps(threshold);
    const __m512i one = _mm512_set1_epi32(1);
    __m512i sum[4] = {};
    for (; i + 64 <= n; i += 64)
        for (int k = 0; k < 4; ++k)
            sum[k] = _mm512_mask_add_epi32(
                sum[k], _mm512_cmp_ps_mask(_mm512_loadu_ps(numbers + i + 16 * k), least, _CMP_GE_OQ), sum[k], one);
    count =
        _mm512_reduce_add_epi32(_mm512_add_epi32(_mm512_add_epi32(sum[0], sum[1]), _mm512_add_epi32(sum[2], sum[3])));
#endif
    for (; i < n; ++i) count += numbers[i] >= threshold;
    return count;
}

constexpr int64_t STEP = 16;

// Which of STEP numbers lie from `low` up to `high`, which is not among them.
LETHEVEC_INLINE uint32_t between(const float* numbers, float low, float high) {
#if defined(LETHEVEC_ISA_AVX512)
    const __m512 all = _mm512_loadu_ps(numbers);
    return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(all, _mm512_set1_ps(low), _CMP_GE_OQ), all, _mm512_set1_ps(high),
                                   _CMP_LT_OQ);
#elif defined(LETHEVEC_ISA_AVX2)
    const __m256 least = _mm256_set1_ps(low), most = _mm256_set1_ps(high);
    uint32_t mask = 0;
    for (int i = 0; i < STEP; i += 8) {
        const __m256 all = _mm256_loadu_ps(numbers + i);
        const __m256 inside =
            _mm256_and_ps(_mm256_cmp_ps(all, least, _CMP_GE_OQ), _mm256_cmp_ps(all, most, _CMP_LT_OQ));
        mask |= static_cast<uint32_t>(_mm256_movemask_ps(inside)) << i;
    }
    return mask;
#else
    int32_t any = 0;
    for (int i = 0; i < STEP; ++i) any += (numbers[i] >= low) & (numbers[i] < high);
    if (any == 0) return 0;
    uint32_t mask = 0;
    for (int i = 0; i < STEP; ++i) mask |= static_cast<uint32_t>((numbers[i] >= low) & (numbers[i] < high)) << i;
    return mask;
#endif
}

}  // namespace

// Bisection between a number that enough reach and one that too few do, until there are only a few between the two:
// counting is what lanes are good at, and no branch depends on a single number.
float largest(const float* numbers, int64_t n, int64_t rank) {
    if (rank < 1 || rank > n) return -INFINITE;
    f32s lows = splat(numbers[0]), highs = lows;
    int64_t at = 0;
    for (; at + LANES <= n; at += LANES) {
        lows = minimum(load(numbers + at), lows);
        highs = maximum(load(numbers + at), highs);
    }
    float ends[2][LANES];
    store(ends[0], lows);
    store(ends[1], highs);
    float low = ends[0][0], high = ends[1][0];
    for (int i = 1; i < LANES; ++i) {
        low = ends[0][i] < low ? ends[0][i] : low;
        high = ends[1][i] > high ? ends[1][i] : high;
    }
    for (; at < n; ++at) {
        low = numbers[at] < low ? numbers[at] : low;
        high = numbers[at] > high ? numbers[at] : high;
    }
    // Always: `below` numbers reach `low`, which are enough; `above` reach `high`, which are too few.
    int64_t below = n, above = reaching(numbers, n, high);
    if (above >= rank) return high;
    if (high == INFINITE) {
        high = GREATEST;
        above = reaching(numbers, n, high);
        if (above >= rank) return high;
    }
    if (low == -INFINITE) {
        low = -GREATEST;
        below = reaching(numbers, n, low);
        if (below < rank) return -INFINITE;
    }
    while (below - above > FEW) {
        const auto middle = static_cast<float>(0.5 * (static_cast<double>(low) + static_cast<double>(high)));
        if (!(middle > low && middle < high)) return low;  // nothing lies between the two: they are all equal
        const int64_t count = reaching(numbers, n, middle);
        (count >= rank ? low : high) = middle;
        (count >= rank ? below : above) = count;
    }
    float few[FEW] = {};
    int64_t found = 0;
    const auto keep = [&](float number) {
        int64_t place = found++;  // in descending order
        for (; place > 0 && few[place - 1] < number; --place) few[place] = few[place - 1];
        few[place] = number;
    };
    int64_t i = 0;
    for (; i + STEP <= n && found < below - above; i += STEP)
        for (uint32_t mask = between(numbers + i, low, high); mask; mask &= mask - 1)
            keep(numbers[i + __builtin_ctz(mask)]);
    for (; i < n && found < below - above; ++i)
        if (numbers[i] >= low && numbers[i] < high) keep(numbers[i]);
    return few[rank - above - 1];
}

}  // namespace lethevec::LETHEVEC_ISA_NS
