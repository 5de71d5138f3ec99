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
