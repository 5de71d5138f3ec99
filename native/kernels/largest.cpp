// The rank-th largest of some numbers.
#include "kernels.h"
#include "lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

constexpr int64_t FEW = 8;
constexpr float INFINITE = __builtin_inff(), GREATEST = 3.402823466e38f;

LETHEVEC_INLINE int64_t reaching(const float* numbers, int64_t n, float threshold) {
    int32_t count = 0;
    for (int64_t i = 0; i < n; ++i) count += numbers[i] >= threshold;
    return count;
}

}  // namespace

// Bisection between a number that enough reach and one that too few do, until there are only a few between the two: counting is
// what lanes are good at, and no branch depends on a single number.
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
    const auto insert = [&](float number) {  // in descending order
        int64_t place = found++;
        for (; place > 0 && few[place - 1] < number; --place) few[place] = few[place - 1];
        few[place] = number;
    };
    int64_t i = 0;
    for (; i + LANES <= n && found < below - above; i += LANES) {
        const f32s some = load(numbers + i);
        for (uint32_t mask = nonnegative(some - splat(low)) & ~nonnegative(some - splat(high)); mask; mask &= mask - 1)
            insert(numbers[i + __builtin_ctz(mask)]);
    }
    for (; i < n && found < below - above; ++i)
        if (numbers[i] >= low && numbers[i] < high) insert(numbers[i]);
    return few[rank - above - 1];
}

}  // namespace lethevec::LETHEVEC_ISA_NS
