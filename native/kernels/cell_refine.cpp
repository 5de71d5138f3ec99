// The second stage of the source "pivots": estimated distances by all planes, for the rows that the first stage kept.
#include "disagreement.h"
#include "kernels.h"
#include "lanes.h"

namespace lethevec::LETHEVEC_ISA_NS {

namespace {

constexpr int64_t TOGETHER = 64;  // rows whose numbers are gathered, then worked out side by side

template <int64_t WORDS>
LETHEVEC_INLINE void refine_all(const CellTails& q, const uint32_t* const* tails, const CellFound& found, int64_t n,
                                float* distances) {
    alignas(64) float biases[TOGETHER], scales[TOGETHER], bases[TOGETHER], lifts[TOGETHER];
    alignas(64) int32_t differ[TOGETHER];
    for (int64_t from = 0; from < n; from += TOGETHER) {
        const int64_t some = n - from < TOGETHER ? n - from : TOGETHER;
        for (int64_t i = 0; i < some; ++i) {
            const uint32_t *tail = tails[from + i], group = found.groups[from + i];
            differ[i] = static_cast<int32_t>(disagreement(tail + 2, q.signs, q.weights, WORDS > 0 ? WORDS : q.words));
            __builtin_memcpy(biases + i, tail, sizeof(float));
            __builtin_memcpy(scales + i, tail + 1, sizeof(float));
            bases[i] = q.bases[group];
            lifts[i] = q.lifts[group];
        }
        for (int64_t i = 0; i < some; ++i) {
            const auto score = static_cast<int32_t>(found.scores[from + i]);
            const float first = static_cast<float>(2 * score - q.half) * q.first_unit;
            const float rest = static_cast<float>(q.whole - 2 * differ[i]) * q.tail_unit;
            distances[from + i] = bases[i] + (biases[i] - ((first + rest) + lifts[i]) * scales[i]);
        }
    }
}

}  // namespace

void refine_cells(const CellTails& query, const uint32_t* const* tails, const CellFound& found, int64_t n, float* distances) {
    // The sizes of four planes at the common dimensions, where the loop over words unrolls.
    if (query.words == 9) return refine_all<9>(query, tails, found, n, distances);
    if (query.words == 10) return refine_all<10>(query, tails, found, n, distances);
    if (query.words == 12) return refine_all<12>(query, tails, found, n, distances);
    refine_all<0>(query, tails, found, n, distances);
}

}  // namespace lethevec::LETHEVEC_ISA_NS
