// The first stage: the scores of all records by a few bits each, and the rows whose key reaches a threshold.
//
// Codes lie in blocks of 32 records, byte by byte: byte g of the block's record r is at codes[(block * bytes + g) * 32 + r].
// Half a byte is an index into a table of sixteen, so one byte shuffle looks up four bits of 16 (or 32, or 64) records.
// Sums of eight bits cannot overflow within a CHUNK (see ScanQuery); chunks are added up in sixteen.
#include "kernels.h"
#include "lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

// How many blocks are scored together, so that a table is loaded once for all of them.
constexpr int64_t TOGETHER = 4;

// The eight-bit sums of N blocks over the bytes [from, to) of their codes, in row order.
#if defined(LETHEVEC_ISA_AVX512)

// A register holds byte g of two blocks.
template <int N>
LETHEVEC_INLINE void sum_bytes_wide(const ScanQuery& q, const uint8_t* codes, int64_t from, int64_t to, uint8_t* sums) {
    const __m512i low = _mm512_set1_epi8(15);
    const int64_t stride = q.bytes * BLOCK;
    __m512i sum[N / 2];
    for (int i = 0; i < N / 2; ++i) sum[i] = _mm512_setzero_si512();
    for (int64_t g = from; g < to; ++g) {
        const __m512i first = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q.tables + g * 32)));
        const __m512i second =
            _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q.tables + g * 32 + 16)));
        for (int i = 0; i < N / 2; ++i) {
            const uint8_t* at = codes + 2 * i * stride + g * BLOCK;
            const __m512i byte = _mm512_inserti64x4(
                _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at))),
                _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + stride)), 1);
            sum[i] = _mm512_add_epi8(sum[i], _mm512_shuffle_epi8(first, _mm512_and_si512(byte, low)));
            sum[i] = _mm512_add_epi8(sum[i], _mm512_shuffle_epi8(second, _mm512_and_si512(_mm512_srli_epi16(byte, 4), low)));
        }
    }
    for (int i = 0; i < N / 2; ++i) _mm512_storeu_si512(sums + 2 * i * BLOCK, sum[i]);
}

#endif
#if defined(LETHEVEC_ISA_AVX512) || defined(LETHEVEC_ISA_AVX2)

template <int N>
LETHEVEC_INLINE void sum_bytes(const ScanQuery& q, const uint8_t* codes, int64_t from, int64_t to, uint8_t* sums) {
#if defined(LETHEVEC_ISA_AVX512)
    if (N > 1) return sum_bytes_wide<(N > 1 ? N : 2)>(q, codes, from, to, sums);
#endif
    const __m256i low = _mm256_set1_epi8(15);
    const int64_t stride = q.bytes * BLOCK;
    __m256i sum[N];
    for (int i = 0; i < N; ++i) sum[i] = _mm256_setzero_si256();
    for (int64_t g = from; g < to; ++g) {
        const __m256i first = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q.tables + g * 32)));
        const __m256i second =
            _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q.tables + g * 32 + 16)));
        for (int i = 0; i < N; ++i) {
            const __m256i byte = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i * stride + g * BLOCK));
            sum[i] = _mm256_add_epi8(sum[i], _mm256_shuffle_epi8(first, _mm256_and_si256(byte, low)));
            sum[i] = _mm256_add_epi8(sum[i], _mm256_shuffle_epi8(second, _mm256_and_si256(_mm256_srli_epi16(byte, 4), low)));
        }
    }
    for (int i = 0; i < N; ++i) _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + i * BLOCK), sum[i]);
}

#elif defined(LETHEVEC_ISA_NEON)

template <int N>
LETHEVEC_INLINE void sum_bytes(const ScanQuery& q, const uint8_t* codes, int64_t from, int64_t to, uint8_t* sums) {
    const uint8x16_t low = vdupq_n_u8(15);
    const int64_t stride = q.bytes * BLOCK;
    uint8x16_t sum[2 * N];
    for (int i = 0; i < 2 * N; ++i) sum[i] = vdupq_n_u8(0);
    for (int64_t g = from; g < to; ++g) {
        const uint8x16_t first = vld1q_u8(q.tables + g * 32), second = vld1q_u8(q.tables + g * 32 + 16);
        for (int i = 0; i < 2 * N; ++i) {
            const uint8x16_t byte = vld1q_u8(codes + (i / 2) * stride + g * BLOCK + (i % 2) * 16);
            sum[i] = vaddq_u8(sum[i], vqtbl1q_u8(first, vandq_u8(byte, low)));
            sum[i] = vaddq_u8(sum[i], vqtbl1q_u8(second, vshrq_n_u8(byte, 4)));
        }
    }
    for (int i = 0; i < 2 * N; ++i) vst1q_u8(sums + i * 16, sum[i]);
}

#else

template <int N>
LETHEVEC_INLINE void sum_bytes(const ScanQuery& q, const uint8_t* codes, int64_t from, int64_t to, uint8_t* sums) {
    for (int64_t r = 0; r < N * BLOCK; ++r) {
        const uint8_t* at = codes + (r / BLOCK) * q.bytes * BLOCK + r % BLOCK;
        uint32_t total = 0;
        for (int64_t g = from; g < to; ++g)
            total += q.tables[g * 32 + (at[g * BLOCK] & 15)] + q.tables[g * 32 + 16 + (at[g * BLOCK] >> 4)];
        sums[r] = static_cast<uint8_t>(total);
    }
}

#endif

// Which of 32 eight-bit scores are >= threshold.
LETHEVEC_INLINE uint32_t reach_byte(const uint8_t* scores, uint8_t threshold) {
#if defined(LETHEVEC_ISA_AVX512) || defined(LETHEVEC_ISA_AVX2)
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scores));
    const __m256i reached = _mm256_cmpeq_epi8(_mm256_max_epu8(a, _mm256_set1_epi8(static_cast<char>(threshold))), a);
    return static_cast<uint32_t>(_mm256_movemask_epi8(reached));
#else
    uint32_t mask = 0;
    for (int r = 0; r < BLOCK; ++r) mask |= static_cast<uint32_t>(scores[r] >= threshold) << r;
    return mask;
#endif
}

// Which rows of a block have a score >= threshold.
LETHEVEC_INLINE uint32_t reach_score(const uint16_t* scores, uint16_t threshold) {
#if defined(LETHEVEC_ISA_AVX512)
    return _mm512_cmpge_epu16_mask(_mm512_loadu_si512(scores), _mm512_set1_epi16(static_cast<short>(threshold)));
#elif defined(LETHEVEC_ISA_AVX2)
    const __m256i t = _mm256_set1_epi16(static_cast<short>(threshold));
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scores));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scores + 16));
    const __m256i ge_a = _mm256_cmpeq_epi16(_mm256_max_epu16(a, t), a), ge_b = _mm256_cmpeq_epi16(_mm256_max_epu16(b, t), b);
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(ge_a, ge_b), 0xd8);
    return static_cast<uint32_t>(_mm256_movemask_epi8(bytes));
#else
    uint32_t mask = 0;
    for (int r = 0; r < BLOCK; ++r) mask |= static_cast<uint32_t>(scores[r] >= threshold) << r;
    return mask;
#endif
}

LETHEVEC_INLINE float key_of(KeyKind kind, float estimate, float norm, float gain) {
    return kind == KEY_IP ? norm * estimate : norm * (estimate * gain - norm);
}

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

// Which rows of a block have a key >= threshold, for the kinds that need the norm.
template <class Score>
LETHEVEC_INLINE uint32_t reach_key(const ScanQuery& q, KeyKind kind, const Score* scores, const float* norms,
                                   float threshold) {
    uint32_t mask = 0;
#if defined(LETHEVEC_ISA_AVX512)
    for (int r = 0; r < BLOCK; r += 16) {
        const __m512i wide = widen(scores + r);
        const __m512i twice = _mm512_sub_epi32(_mm512_add_epi32(wide, wide), _mm512_set1_epi32(q.half));
        const f32s estimate = (f32s)_mm512_cvtepi32_ps(twice), norm = load(norms + r);
        const f32s key = kind == KEY_IP ? norm * estimate : norm * (estimate * splat(q.gain) - norm);
        mask |= static_cast<uint32_t>(_mm512_cmp_ps_mask((__m512)key, _mm512_set1_ps(threshold), _CMP_GE_OQ)) << r;
    }
#elif defined(LETHEVEC_ISA_AVX2)
    for (int r = 0; r < BLOCK; r += 8) {
        const __m256i wide = widen(scores + r);
        const __m256i twice = _mm256_sub_epi32(_mm256_add_epi32(wide, wide), _mm256_set1_epi32(q.half));
        const f32s estimate = (f32s)_mm256_cvtepi32_ps(twice), norm = load(norms + r);
        const f32s key = kind == KEY_IP ? norm * estimate : norm * (estimate * splat(q.gain) - norm);
        const __m256 reached = _mm256_cmp_ps((__m256)key, _mm256_set1_ps(threshold), _CMP_GE_OQ);
        mask |= static_cast<uint32_t>(_mm256_movemask_ps(reached)) << r;
    }
#else
    for (int r = 0; r < BLOCK; ++r) {
        const float estimate = static_cast<float>(2 * static_cast<int32_t>(scores[r]) - q.half);
        mask |= static_cast<uint32_t>(key_of(kind, estimate, norms[r], q.gain) >= threshold) << r;
    }
#endif
    return mask;
}

struct Task {
    const ScanQuery& query;
    KeyKind kind;
    float threshold;
    uint32_t whole;  // the smallest score that reaches the threshold, for KEY_SCORE
};

template <class Score>
LETHEVEC_INLINE int64_t take(uint32_t mask, int64_t first, Found found, int64_t count, const Score* scores,
                             const float* norms) {
    while (mask) {
        const int r = __builtin_ctz(mask);
        mask &= mask - 1;
        found.rows[count] = static_cast<uint32_t>(first + r);
        found.scores[count] = scores[r];
        if (norms) found.norms[count] = norms[r];
        ++count;
    }
    return count;
}

template <class Score>
LETHEVEC_INLINE uint32_t reach(const Task& task, const Score* scores, const float* norms);
template <>
LETHEVEC_INLINE uint32_t reach(const Task& task, const uint8_t* scores, const float* norms) {
    return task.kind == KEY_SCORE ? reach_byte(scores, static_cast<uint8_t>(task.whole))
                                  : reach_key(task.query, task.kind, scores, norms, task.threshold);
}
template <>
LETHEVEC_INLINE uint32_t reach(const Task& task, const uint16_t* scores, const float* norms) {
    return task.kind == KEY_SCORE ? reach_score(scores, static_cast<uint16_t>(task.whole))
                                  : reach_key(task.query, task.kind, scores, norms, task.threshold);
}

template <int N, class Score>
LETHEVEC_INLINE int64_t take_group(const Task& task, const Score* scores, const float* norms, const uint32_t* masks,
                                   int64_t block, Found found, int64_t count) {
    for (int i = 0; i < N; ++i) {
        const float* own = task.kind == KEY_SCORE ? nullptr : norms + i * BLOCK;
        const uint32_t mask = masks[i] & reach(task, scores + i * BLOCK, own);
        count = take(mask, (block + i) * BLOCK, found, count, scores + i * BLOCK, own);
    }
    return count;
}

template <int N>
LETHEVEC_INLINE int64_t scan_group(const Task& task, const uint8_t* codes, const float* norms, const uint32_t* masks,
                                   int64_t block, Found found, int64_t count) {
    const ScanQuery& q = task.query;
    alignas(64) uint8_t sums[N * BLOCK];
    // Where one chunk is all, its sums are the scores and stay narrow.
    if (q.bytes <= CHUNK_BYTES) {
        sum_bytes<N>(q, codes, 0, q.bytes, sums);
        return take_group<N>(task, sums, norms, masks, block, found, count);
    }
    alignas(64) uint16_t scores[N * BLOCK] = {};
    for (int64_t from = 0; from < q.bytes; from += CHUNK_BYTES) {
        sum_bytes<N>(q, codes, from, from + CHUNK_BYTES < q.bytes ? from + CHUNK_BYTES : q.bytes, sums);
        for (int r = 0; r < N * BLOCK; ++r) scores[r] = static_cast<uint16_t>(scores[r] + sums[r]);
    }
    return take_group<N>(task, scores, norms, masks, block, found, count);
}

}  // namespace

int64_t scan(const ScanQuery& query, KeyKind kind, const uint8_t* codes, const float* norms, const uint32_t* masks,
             int64_t blocks, float threshold, Found found) {
    Task task{query, kind, threshold, 0};
    if (kind == KEY_SCORE && threshold > 0.0f) {
        // Scores are whole: reaching the threshold is reaching the next whole number.
        if (threshold > static_cast<float>(query.half)) return 0;
        task.whole = static_cast<uint32_t>(threshold);
        if (static_cast<float>(task.whole) < threshold) ++task.whole;
    }
    const int64_t stride = query.bytes * BLOCK;
    int64_t count = 0, b = 0;
    for (; b + TOGETHER <= blocks; b += TOGETHER) {
        if ((masks[b] | masks[b + 1] | masks[b + 2] | masks[b + 3]) == 0) continue;
        count = scan_group<TOGETHER>(task, codes + b * stride, norms + b * BLOCK, masks + b, b, found, count);
    }
    for (; b < blocks; ++b) count = scan_group<1>(task, codes + b * stride, norms + b * BLOCK, masks + b, b, found, count);
    return count;
}

}  // namespace lethevec::LETHEVEC_ISA_NS
