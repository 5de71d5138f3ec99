// How much a search of the source "pivots" looks at, and the buckets that its estimates are counted in: a rank-th smallest is
// then a count and not a sort. Mirrors `pivot_plan`, `bucket` and `thresholds` of the spec.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/kernels.h"

namespace lethevec {

struct Plan {
    int64_t first;      // cells whose rows share one threshold
    int64_t probed;     // cells to look into
    int64_t reference;  // ranks of the first stage
    int64_t survivors;
    int64_t rank;       // and of the second
};

inline Plan plan_for(int64_t given, int64_t cells, int64_t records, int64_t allowed, int64_t k, double effort) {
    const double share = static_cast<double>(records) / static_cast<double>(std::max<int64_t>(1, allowed));
    const double probes = given ? static_cast<double>(given) : std::max(8.0, 5.0 * std::sqrt(static_cast<double>(cells)));
    const double wanted = static_cast<double>(k), first_rank = 700.0 + 42.0 * wanted;
    const double growth = effort < 1.0 ? std::sqrt(effort) : effort;
    auto whole = [](double number) { return static_cast<int64_t>(std::min(std::ceil(number), 1e15)); };
    Plan plan;
    plan.first = std::max<int64_t>(1, whole(probes * share / 8.0));
    plan.probed = std::max(plan.first, whole(effort * probes * share));
    plan.reference = whole(std::max(wanted, first_rank / 2.0));
    plan.survivors = std::max(plan.reference, whole(growth * first_rank));
    plan.rank = whole(std::max(wanted, growth * (10.0 + 3.0 * wanted)));
    return plan;
}

// Estimated distances in equal intervals.
struct Scale {
    float low, inverse;
    int32_t buckets;

    static Scale over(float low, float size, float per_size, int32_t buckets) {
        const float inverse = size > 0.0f ? per_size / size : 0.0f;
        return {low, std::isfinite(inverse) ? inverse : 0.0f, buckets};
    }
    int32_t bucket(float estimate) const {
        float at = (estimate - low) * inverse;
        at = at > 0.0f ? at : 0.0f;
        const float last = static_cast<float>(buckets - 1);
        return static_cast<int32_t>(at < last ? at : last);
    }
    CellLimit limit(int32_t most, float base) const {
        return {base, base - above(most, base), low, inverse, static_cast<float>(buckets - 1), most};
    }
    // Everything in buckets up to `last` is below this, whatever rounding does.
    float above(int32_t last, float base) const {
        if (last == buckets - 1 || inverse == 0.0f) return std::numeric_limits<float>::infinity();
        const float edge = static_cast<float>(last + 1) / inverse;
        return low + edge + 1e-5f * (std::fabs(low) + edge + std::fabs(base));
    }
};

// The bucket that the rank-th smallest lies in, among those counted so far; the last one while there are not as many. It
// only ever falls, so what lies above it need not be counted any more.
class Rank {
public:
    Rank(int64_t rank, int32_t buckets) : rank_(rank), value_(buckets - 1) {}
    int32_t value() const { return value_; }
    void count(int32_t bucket) {
        within_ += bucket <= value_;
        top_ = bucket > top_ ? bucket : top_;
    }
    void fall(const uint32_t* counts) {
        if (within_ < rank_) return;
        if (value_ > top_) value_ = top_;  // what lies between is empty
        while (value_ > 0 && within_ - counts[value_] >= rank_) within_ -= counts[value_--];
    }

private:
    int64_t rank_, within_ = 0;
    int32_t value_, top_ = 0;
};

}  // namespace lethevec
