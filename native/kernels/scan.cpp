// The first stage: the scores of all records by a few bits each, and the rows whose key reaches a threshold.
#include "block_scores.h"
#include "kernels.h"
#include "lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

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
