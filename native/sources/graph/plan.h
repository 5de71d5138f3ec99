// How much a search in the graph looks at. Mirrors `graph_pool` of the spec.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lethevec {

constexpr double GRAPH_POOL = 32.0, GRAPH_POOL_PER_K = 1.6;
constexpr int64_t DISTANCES_PER_VERTEX = 4;
constexpr int64_t GRAPH_STARTS = 8;

// The size of the pool for `allowed` of `records`; 0 where all rows that may be found get true distances instead.
inline int64_t graph_pool(int64_t records, int64_t allowed, int64_t k, double effort) {
    const double usual =
        std::max(static_cast<double>(k), effort * (GRAPH_POOL + GRAPH_POOL_PER_K * static_cast<double>(k)));
    const double wanted = usual * static_cast<double>(records) / static_cast<double>(std::max<int64_t>(1, allowed));
    const auto size = static_cast<int64_t>(std::ceil(std::min(wanted, static_cast<double>(records))));
    return allowed > DISTANCES_PER_VERTEX * size ? size : 0;
}

// By how many vertices a search tells whether what is allowed lies elsewhere. Mirrors `graph_near` of the spec.
inline int64_t graph_near(int64_t records, int64_t allowed, int64_t k) {
    const double usual = GRAPH_POOL + GRAPH_POOL_PER_K * static_cast<double>(k);
    const double wanted = usual * static_cast<double>(records) / static_cast<double>(std::max<int64_t>(1, allowed));
    return static_cast<int64_t>(std::ceil(std::min(wanted, static_cast<double>(records))));
}

}  // namespace lethevec
