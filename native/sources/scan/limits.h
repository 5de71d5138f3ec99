// Which records a scan keeps: those whose estimates say that they may lie within a distance. Mirrors `scan_limits` of
// the spec, which says why.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "query/prepared.h"
#include "sources/scan/plan.h"

namespace lethevec {

struct ScanLimits {
    float first, second;  // keys to reach in either stage
    int32_t raised;       // what is added to agreements in the first stage, under ip
    float lift;           // and to estimates in the second
};

// What the first bits come to for a record that points where the query does.
inline double first_alignment(const PreparedQuery& query, const FirstWeights& weights) {
    return query.alignment != 0.0 ? query.alignment : static_cast<double>(weights.view.half) * weights.unit;
}

// A record of the reference.
struct Judge {
    float distance, norm;  // its true distance; |x|, where the metric needs it
    float first_key, key;  // by the first bits of its code, and by all of it
};

// Says whether too many records reach a key by their first bits.
using TooMany = std::function<bool(float)>;

// `judges` are put in another order. There are at least k.
ScanLimits scan_limits(const PreparedQuery& query, const FirstWeights& weights, int64_t first_bits,
                       std::vector<Judge>& judges, int64_t k, const ScanPlan& plan, const TooMany& too_many);

}  // namespace lethevec
