// The pool of a walk through the source "graph": a sorted list that many estimates are put into and few stay in.
#include "kernels/lanes.h"
#include "kernels/walk.h"

namespace lethevec::LETHEVEC_ISA_NS {

uint32_t edge_estimates(const ScanQuery& query, const EdgeBlock& block, float base, float unit, float limit,
                        float* out);

namespace {

// So many are compared one after the other: where a search in halves leads nobody can foretell, and a wrong guess takes
// longer.
constexpr int64_t FEW = 64;

LETHEVEC_INLINE bool was_looked_at(const Walk& walk, uint32_t v) { return walk.looked_at[v / 64] >> (v % 64) & 1; }

// How many of the pool are nearer.
LETHEVEC_INLINE int64_t nearer_ones(const WalkPool& pool, float estimate) {
    int64_t from = 0, some = pool.count;
    while (some > FEW) {
        const int64_t half = some / 2;
        from += pool.estimates[from + half - 1] < estimate ? half : 0;
        some -= half;
    }
    const float* at = pool.estimates + from;
#if defined(LETHEVEC_ISA_AVX512)
    for (int64_t i = 0; i < some; i += 16) {
        const auto valid = static_cast<__mmask16>(some - i >= 16 ? 0xffff : (1u << (some - i)) - 1);
        from += __builtin_popcount(
            _mm512_mask_cmp_ps_mask(valid, _mm512_loadu_ps(at + i), _mm512_set1_ps(estimate), _CMP_LT_OQ));
    }
    return from;
#else
    int32_t count = 0;
    for (int32_t i = 0; i < static_cast<int32_t>(some); ++i) count += at[i] < estimate;
    return from + count;
#endif
}

#if defined(LETHEVEC_ISA_AVX512)

// Moves the entries from `from` to `to` by so many places, the last of them first.
LETHEVEC_INLINE void move(WalkPool& pool, int64_t from, int64_t to, int64_t by) {
    for (int64_t end = to; end > from;) {
        const int64_t begin = end - from > 16 ? end - 16 : from;
        const auto valid = static_cast<__mmask16>((1u << (end - begin)) - 1);
        _mm512_mask_storeu_ps(pool.estimates + begin + by, valid, _mm512_loadu_ps(pool.estimates + begin));
        _mm512_mask_storeu_epi32(pool.vertices + begin + by, valid, _mm512_loadu_si512(pool.vertices + begin));
        end = begin;
    }
}

// All at once: they are put in order, and each finds its place in the pool as it was.
LETHEVEC_INLINE uint32_t put(Walk& walk, const uint32_t* numbers, uint32_t mask) {
    WalkPool& pool = walk.pool;
    const auto low = static_cast<__mmask16>(mask), high = static_cast<__mmask16>(mask >> 16);
    const __m512 none = _mm512_set1_ps(__builtin_inff());
    const __m512 first = _mm512_mask_loadu_ps(none, low, walk.estimates);
    const __m512 second = _mm512_mask_loadu_ps(none, high, walk.estimates + 16);
    float estimates[BLOCK];
    uint32_t vertices[BLOCK];
    int64_t places[BLOCK + 1];
    int64_t n = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1, ++n) {
        const int slot = __builtin_ctz(rest);
        const float estimate = walk.estimates[slot];
        const __m512 all = _mm512_set1_ps(estimate);
        const int before = __builtin_popcount(_mm512_cmp_ps_mask(first, all, _CMP_LT_OQ)) +
                           __builtin_popcount(_mm512_cmp_ps_mask(second, all, _CMP_LT_OQ));
        const int equal = __builtin_popcount(_mm512_cmp_ps_mask(first, all, _CMP_EQ_OQ)) +
                          __builtin_popcount(_mm512_cmp_ps_mask(second, all, _CMP_EQ_OQ));
        const int64_t at = nearer_ones(pool, estimate);
        if (equal > 1 || (at < pool.count && pool.estimates[at] == estimate)) return mask;
        estimates[before] = estimate;
        vertices[before] = numbers[slot] & ~EDGE_FLAG;
        places[before] = at;
    }
    while (n > 0 && places[n - 1] + n - 1 >= pool.most) --n;
    if (n == 0) return 0;
    places[n] = pool.count;
    for (int64_t i = n - 1; i >= 0; --i) {
        int64_t to = places[i + 1];
        if (to + i + 1 > pool.most) to = pool.most - i - 1;  // the others drop out
        move(pool, places[i], to, i + 1);
        pool.estimates[places[i] + i] = estimates[i];
        pool.vertices[places[i] + i] = vertices[i];
    }
    pool.count = pool.count + n < pool.most ? pool.count + n : pool.most;
    pool.next = places[0] < pool.next ? places[0] : pool.next;
    return 0;
}

#else

LETHEVEC_INLINE uint32_t put(Walk& walk, const uint32_t* numbers, uint32_t mask) {
    WalkPool& pool = walk.pool;
    uint32_t left = 0;
    for (; mask; mask &= mask - 1) {
        const int slot = __builtin_ctz(mask);
        const float estimate = walk.estimates[slot];
        if (pool.count == pool.most && estimate > pool.estimates[pool.count - 1]) continue;
        const int64_t at = nearer_ones(pool, estimate);
        if (at < pool.count && pool.estimates[at] == estimate) {
            left |= mask & (~mask + 1);
            continue;
        }
        for (int64_t i = pool.count; i > at; --i) pool.estimates[i] = pool.estimates[i - 1];
        for (int64_t i = pool.count; i > at; --i) pool.vertices[i] = pool.vertices[i - 1];
        pool.estimates[at] = estimate;
        pool.vertices[at] = numbers[slot] & ~EDGE_FLAG;
        pool.count += pool.count < pool.most;
        pool.next = at < pool.next ? at : pool.next;
    }
    return left;
}

#endif

}  // namespace

uint32_t look_at_edges(Walk& walk, const uint8_t* block, float base) {
    const WalkPool& pool = walk.pool;
    const float limit = pool.count < pool.most ? 3.4028234663852886e38f : pool.estimates[pool.count - 1];
    const EdgeBlock edges = {block, reinterpret_cast<const float*>(block + walk.adds),
                             reinterpret_cast<const float*>(block + walk.scales)};
    const auto* numbers = reinterpret_cast<const uint32_t*>(block + walk.numbers);
    uint32_t mask = edge_estimates(walk.query, edges, base, walk.unit, limit, walk.estimates);
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const int slot = __builtin_ctz(rest);
        if (was_looked_at(walk, numbers[slot] & ~EDGE_FLAG)) mask &= ~(1u << slot);
    }
    return mask ? put(walk, numbers, mask) : 0;
}

}  // namespace lethevec::LETHEVEC_ISA_NS
