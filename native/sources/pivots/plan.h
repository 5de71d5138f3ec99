// How much a search of the source "pivots" looks at. Mirrors `pivot_plan` of the spec.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lethevec {

// See the spec for these.
constexpr double LEAST_CELLS = 8.0, LEAST_CELLS_PER_ROOT = 5.0, MOST_CELLS_PER_ROOT = 15.0;
constexpr double FIRST_ROWS = 100.0, FIRST_ROWS_PER_K = 20.0, FIRST_ROWS_ONE_IN = 512.0;
constexpr double LIMIT_ROWS = 10.0, LIMIT_ROWS_PER_K = 5.0;
constexpr double FEW_ROWS = 10.0, FEW_ROWS_PER_K = 3.0;

// Where only some rows may be found: how much larger errors are allowed for, and how many times more cells are looked
// into where the first ones show that what may be found lies elsewhere.
constexpr double ALLOWED_ERRORS = 1.4, ALLOWED_CELLS = 4.0;

struct PivotPlan {
    int64_t first;      // rows that the first cells have at the least, by which all are judged
    double least;       // cells to look into at effort 1 and without a filter: between so many
    double most;        // and so many,
    double growth;      // and otherwise so many times as many
    double usual;       // how many cells the first ones are without a filter; 0: there is none
    int64_t reference;  // rows of the first cells whose codes are read in full
    int64_t few;        // up to so many rows nothing is judged
    double errors;      // how much more of an error is allowed for than at effort 1

    // How many of so many cells to look into, where so many are `worth` it at effort 1, and so many came first;
    // `elsewhere` says that fewer than by chance may be found in these.
    int64_t probed(int64_t worth, int64_t first_cells, int64_t cells, bool elsewhere) const {
        double wanted = growth * std::min(std::max(least, static_cast<double>(worth)), most);
        const double times = elsewhere ? ALLOWED_CELLS : 1.0;
        if (usual > 0.0) wanted = std::max(wanted, times * (static_cast<double>(first_cells) * (wanted / usual)));
        return std::max(first_cells, static_cast<int64_t>(std::ceil(std::min(wanted, static_cast<double>(cells)))));
    }
};

inline PivotPlan pivot_plan(int64_t given, int64_t cells, int64_t records, int64_t allowed, int64_t k, double effort) {
    const auto eighth_root = [](double number) { return std::sqrt(std::sqrt(std::sqrt(number))); };
    const double fewer = static_cast<double>(records) / static_cast<double>(std::max<int64_t>(1, allowed));
    const double more = std::sqrt(fewer) * eighth_root(fewer), root = std::sqrt(static_cast<double>(cells));
    const double wanted = static_cast<double>(k), growth = effort < 1.0 ? std::sqrt(effort) : effort;
    const auto whole = [](double number) { return static_cast<int64_t>(std::min(std::ceil(number), 1e15)); };
    PivotPlan plan;
    const auto may = static_cast<double>(allowed);
    const double first =
        std::ceil(FIRST_ROWS + FIRST_ROWS_PER_K * wanted + std::min(may / FIRST_ROWS_ONE_IN, std::sqrt(may)));
    plan.first = whole(first);
    plan.least = given ? static_cast<double>(given) : std::max(LEAST_CELLS, LEAST_CELLS_PER_ROOT * root);
    plan.most = given ? static_cast<double>(given) : std::max(LEAST_CELLS, MOST_CELLS_PER_ROOT * root);
    plan.growth = effort * more;
    const double usual = first * static_cast<double>(cells) / static_cast<double>(std::max<int64_t>(1, allowed));
    plan.usual = allowed < records ? std::max(1.0, usual) : 0.0;
    plan.reference = whole(LIMIT_ROWS + LIMIT_ROWS_PER_K * wanted);
    plan.few = whole(std::max(wanted, growth * (FEW_ROWS + FEW_ROWS_PER_K * wanted)));
    plan.errors = std::sqrt(std::sqrt(std::max(1.0, effort))) * eighth_root(fewer);
    if (allowed < records) plan.errors *= ALLOWED_ERRORS;
    return plan;
}

}  // namespace lethevec
