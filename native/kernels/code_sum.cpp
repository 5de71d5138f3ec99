// sum_j b_j values_j over d bits of a code that begin at bit `from`, in double precision, over eight lanes and then
// pairwise: the spec's lane_sum.
#include "kernels/directions.h"
#include "kernels/kernels.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

// Eight values, turned round where the bit is 0.
#if defined(LETHEVEC_ISA_SCALAR)
LETHEVEC_INLINE f64x8 turned(const float* values, uint32_t bits) {
    float signed_values[8];
    for (int k = 0; k < 8; ++k) signed_values[k] = (bits >> k) & 1 ? values[k] : -values[k];
    return eight(signed_values);
}
#else
typedef uint32_t u32x4 __attribute__((vector_size(16)));
LETHEVEC_INLINE f64x4 turned_four(const float* values, uint32_t bits) {
    const u32x4 all = u32x4{} + bits, clear = (u32x4)((all & u32x4{1, 2, 4, 8}) == 0) & (u32x4{} + 0x80000000u);
    const f32x4 v = reinterpret_cast<const f32x4_unaligned*>(values)->v;
    return __builtin_convertvector((f32x4)((u32x4)v ^ clear), f64x4);
}
LETHEVEC_INLINE f64x8 turned(const float* values, uint32_t bits) {
    return {turned_four(values, bits), turned_four(values + 4, bits >> 4)};
}
#endif

}  // namespace

double code_sum(const uint8_t* code, int64_t from, const float* values, int64_t d) {
    const uint8_t* at = code + from / 8;
    const int shift = static_cast<int>(from % 8);
    f64x8 sum = eight_zeros();
    int64_t j = 0;
    if (shift == 0)
        for (; j + 8 <= d; j += 8) sum = sum + turned(values + j, at[j / 8]);
    else
        for (; j + 8 <= d; j += 8)
            sum = sum + turned(values + j, (at[j / 8] | static_cast<uint32_t>(at[j / 8 + 1]) << 8) >> shift);
    if (j == d) return pairwise(sum);
    // The last byte, or two, as far as there are bits.
    float rest[8] = {};
    uint32_t bits = static_cast<uint32_t>(at[j / 8]) >> shift;
    if (shift + d - j > 8) bits |= static_cast<uint32_t>(at[j / 8 + 1]) << (8 - shift);
    for (int64_t k = 0; j + k < d; ++k) rest[k] = values[j + k];
    return pairwise(sum + turned(rest, bits));
}

}  // namespace lethevec::LETHEVEC_ISA_NS
