// How much a search of the source "pivots" looks at. Mirrors `pivot_plan` of the spec.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lethevec {

// See the spec for these.
constexpr double LEAST_CELLS = 8.0, CELLS_PER_ROOT = 5.0;
constexpr double FIRST_ROWS = 100.0, FIRST_ROWS_PER_K = 20.0, FIRST_ROWS_ONE_IN = 512.0;
constexpr double LIMIT_ROWS = 10.0, LIMIT_ROWS_PER_K = 5.0;
constexpr double FEW_ROWS = 10.0, FEW_ROWS_PER_K = 3.0;

struct PivotPlan {
    int64_t first;      // rows that the first cells have at the least, by which all are judged
    int64_t probed;     // cells to look into
    double per_first;   // and at least so many for each of the first cells
    int64_t reference;  // rows of the first cells whose codes are read in full
    int64_t few;        // up to so many rows nothing is judged
    double errors;      // how much more of an error is allowed for than at effort 1
};

inline PivotPlan pivot_plan(int64_t given, int64_t cells, int64_t records, int64_t allowed, int64_t k, double effort) {
    const auto eighth_root = [](double number) { return std::sqrt(std::sqrt(std::sqrt(number))); };
    const double fewer = static_cast<double>(records) / static_cast<double>(std::max<int64_t>(1, allowed));
    const double more = std::sqrt(fewer) * eighth_root(fewer);
    const double usual_cells = std::max(LEAST_CELLS, CELLS_PER_ROOT * std::sqrt(static_cast<double>(cells)));
    const double probes = given ? static_cast<double>(given) : usual_cells;
    const double wanted = static_cast<double>(k), growth = effort < 1.0 ? std::sqrt(effort) : effort;
    const auto whole = [](double number) { return static_cast<int64_t>(std::min(std::ceil(number), 1e15)); };
    PivotPlan plan;
    const auto may = static_cast<double>(allowed);
    const double first =
        std::ceil(FIRST_ROWS + FIRST_ROWS_PER_K * wanted + std::min(may / FIRST_ROWS_ONE_IN, std::sqrt(may)));
    plan.first = whole(first);
    plan.probed = std::max<int64_t>(1, whole(effort * probes * more));
    const double usual = first * static_cast<double>(cells) / static_cast<double>(std::max<int64_t>(1, allowed));
    plan.per_first = allowed < records ? effort * probes * more / std::max(1.0, usual) : 0.0;
    plan.reference = whole(LIMIT_ROWS + LIMIT_ROWS_PER_K * wanted);
    plan.few = whole(std::max(wanted, growth * (FEW_ROWS + FEW_ROWS_PER_K * wanted)));
    plan.errors = std::sqrt(std::sqrt(std::max(1.0, effort))) * eighth_root(fewer);
    return plan;
}

}  // namespace lethevec
