// Up to how many of some allowed rows are compared with a query one by one. Mirrors `direct_rows` of the spec.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lethevec {

constexpr double DIRECT_ROWS = 10.0, DIRECT_ROWS_PER_K = 3.0, DIRECT_ROWS_ONE_IN = 20.0;

inline int64_t direct_rows(int64_t records, int64_t k, double effort) {
    const double wanted = static_cast<double>(k), n = static_cast<double>(records);
    const double growth = effort < 1.0 ? std::sqrt(effort) : effort;
    const double some = growth * (DIRECT_ROWS + DIRECT_ROWS_PER_K * wanted + n / DIRECT_ROWS_ONE_IN);
    return static_cast<int64_t>(std::ceil(std::max(wanted, std::min(some, n))));
}

}  // namespace lethevec
