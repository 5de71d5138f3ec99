// How much a search that scans looks at. Mirrors `plan` of the spec's ranking.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lethevec {

// So many records: a part of all, so many for each of the k neighbours, and a number.
struct ScanShare {
    double of_records, per_hit, at_least;
    constexpr double count(double records, double k) const { return of_records * records + per_hit * k + at_least; }
};
constexpr ScanShare SCAN_ALONE = {0.006, 10.0, 100.0};  // that go on at effort 1, where the first bits are all bits
constexpr ScanShare SCAN_FIRST = {0.008, 16.0, 256.0};  // the same, where there are more
constexpr ScanShare SCAN_SECOND = {0.0008, 5.0, 20.0};  // whose whole code is near enough then
constexpr double SCAN_REFERENCE = 0.5;                  // of those that go on: the reference set

struct ScanPlan {
    int64_t reference;  // records by first-stage key among which the second stage finds its threshold
    int64_t survivors;  // records by first-stage key that go on
    int64_t rank;       // place in the reference set whose second-stage key is the threshold
};

// `staged` says that there are bits after the first stage's; only `allowed` of the records may be found.
inline ScanPlan plan_scan(int64_t records, int64_t allowed, int64_t k, double effort, bool staged) {
    const double n = static_cast<double>(records), most = static_cast<double>(allowed), wanted = static_cast<double>(k);
    const auto count = [&](double number) {
        return static_cast<int64_t>(std::ceil(std::min(std::max(number, std::min(wanted, most)), most)));
    };
    if (!staged) {
        const int64_t all = count(effort * SCAN_ALONE.count(n, wanted));
        return {all, all, all};
    }
    const double base = SCAN_FIRST.count(n, wanted);
    const int64_t reference = count(SCAN_REFERENCE * base);
    return {reference, std::max(reference, count(effort * base)), count(effort * SCAN_SECOND.count(n, wanted))};
}

}  // namespace lethevec
