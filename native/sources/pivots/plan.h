// How much a search of the source "pivots" looks at. Mirrors `pivot_plan` of the spec.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lethevec {

struct Plan {
    int64_t first;      // rows that the first cells have at the least, by which all are judged
    int64_t probed;     // cells to look into
    double per_first;   // and at least so many for each of the first cells
    int64_t reference;  // rows of the first cells whose codes are read in full
    int64_t few;        // up to so many rows nothing is judged
    double errors;      // how much more of an error is allowed for than at effort 1
};

inline Plan plan_for(int64_t given, int64_t cells, int64_t records, int64_t allowed, int64_t k, double effort) {
    const auto eighth_root = [](double number) { return std::sqrt(std::sqrt(std::sqrt(number))); };
    const double fewer = static_cast<double>(records) / static_cast<double>(std::max<int64_t>(1, allowed));
    const double more = std::sqrt(fewer) * eighth_root(fewer);
    const double probes =
        given ? static_cast<double>(given) : std::max(8.0, 5.0 * std::sqrt(static_cast<double>(cells)));
    const double wanted = static_cast<double>(k), growth = effort < 1.0 ? std::sqrt(effort) : effort;
    const auto whole = [](double number) { return static_cast<int64_t>(std::min(std::ceil(number), 1e15)); };
    Plan plan;
    const auto may = static_cast<double>(allowed);
    const double first = std::ceil(100.0 + 20.0 * wanted + std::min(may / 512.0, std::sqrt(may)));
    plan.first = whole(first);
    plan.probed = std::max<int64_t>(1, whole(effort * probes * more));
    const double usual = first * static_cast<double>(cells) / static_cast<double>(std::max<int64_t>(1, allowed));
    plan.per_first = allowed < records ? effort * probes * more / std::max(1.0, usual) : 0.0;
    plan.reference = whole(10.0 + 5.0 * wanted);
    plan.few = whole(std::max(wanted, growth * (10.0 + 3.0 * wanted)));
    plan.errors = std::sqrt(std::sqrt(std::max(1.0, effort))) * eighth_root(fewer);
    return plan;
}

}  // namespace lethevec
