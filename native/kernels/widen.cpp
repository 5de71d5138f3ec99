// Tables of 64 for the first stage, from those of sixteen; wide_scores.h says how they are used.
#include "kernels/kernels.h"
#include "kernels/lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

#if defined(LETHEVEC_ISA_AVX512)

// A byte's table of 64 is what its lower and its upper half give, for an upper half whose own two upper bits are zero.
// What those add to that, modulo 256, is in the table for the bits that are left.
void widen_tables(const uint8_t* tables, int64_t bytes, uint8_t* wide) {
    const __m512i quarter =
        _mm512_setr_epi32(0, 0, 0, 0, 0x01010101, 0x01010101, 0x01010101, 0x01010101, 0x02020202, 0x02020202,
                          0x02020202, 0x02020202, 0x03030303, 0x03030303, 0x03030303, 0x03030303);
    // Bits 0 and 1 of an index, 2 and 3, 4 and 5, each as the upper two of four.
    const __m512i place[3] = {_mm512_set1_epi32(0x0c080400), _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0),
                              _mm512_slli_epi32(quarter, 2)};
    for (int64_t from = 0; from < bytes; from += CHUNK_BYTES) {
        const int64_t to = from + CHUNK_BYTES < bytes ? from + CHUNK_BYTES : bytes;
        for (int64_t g = from; g < to; g += 3) {
            __m512i left = _mm512_setzero_si512();
            for (int64_t k = 0; k < 3 && g + k < to; ++k, wide += 64) {
                const auto* at = reinterpret_cast<const __m128i*>(tables + (g + k) * 32);
                const __m512i low = _mm512_broadcast_i32x4(_mm_loadu_si128(at));
                const __m512i high = _mm512_broadcast_i32x4(_mm_loadu_si128(at + 1));
                _mm512_storeu_si512(wide, _mm512_add_epi8(low, _mm512_shuffle_epi8(high, quarter)));
                const __m512i none = _mm512_shuffle_epi8(high, _mm512_setzero_si512());
                left = _mm512_add_epi8(left, _mm512_sub_epi8(_mm512_shuffle_epi8(high, place[k]), none));
            }
            _mm512_storeu_si512(wide, left);
            wide += 64;
        }
    }
}

#endif

}  // namespace lethevec::LETHEVEC_ISA_NS
