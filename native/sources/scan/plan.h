// How much a search that scans looks at. Mirrors the spec's scan.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sources/doublings.h"

namespace lethevec {

// So many records: a part of all, so many for each of the k neighbours, and a number.
struct ScanShare {
    double of_records, per_k, number;
    constexpr double count(double records, double k) const { return of_records * records + per_k * k + number; }
};

// See the spec for these.
constexpr double SCAN_ROWS = 10.0, SCAN_ROWS_PER_K = 5.0;
constexpr double ONE_STAGE_SHARE = 0.006, ONE_STAGE_PER_K = 10.0, ONE_STAGE = 100.0;
constexpr double SURVIVORS_SHARE = 0.008, SURVIVORS_PER_K = 16.0, SURVIVORS = 256.0;
constexpr double SCAN_MISSED = 0.04;       // of the k nearest, in a stage, at effort 1
constexpr double SCAN_MISSED_MOST = 0.24;  // the same, where too many records would go on otherwise
constexpr double SURE_EFFORT = 64.0;       // from which on each doubling allows for more errors, whatever is missed

constexpr ScanShare SCAN_ALONE = {ONE_STAGE_SHARE, ONE_STAGE_PER_K, ONE_STAGE};  // where the first bits are all bits
constexpr ScanShare SCAN_FIRST = {SURVIVORS_SHARE, SURVIVORS_PER_K, SURVIVORS};  // where there are more

constexpr double ALLOWED_SCAN_EFFORT = 4.0;  // where only some records may be found

struct ScanPlan {
    int64_t reference;  // the records by first-stage key that all are judged by
    double missed;      // the share of the k nearest that a stage may lose
    double most;        // and where many records go on
    double further;     // errors that are allowed for beyond that
};

inline ScanPlan plan_scan(int64_t k, double effort) {
    const double rows = std::ceil(SCAN_ROWS + SCAN_ROWS_PER_K * static_cast<double>(k));
    const double beyond = std::max(0.0, doublings(effort) - doublings(SURE_EFFORT));
    return {static_cast<int64_t>(rows), SCAN_MISSED / effort, SCAN_MISSED_MOST / effort, 0.25 * beyond};
}

// How many go on where errors are not judged. `staged` says that there are bits after the first stage's; only `allowed`
// of the records may be found.
inline int64_t scan_survivors(int64_t records, int64_t allowed, int64_t k, double effort, bool staged) {
    const double most = static_cast<double>(allowed), wanted = static_cast<double>(k);
    const double number = effort * (staged ? SCAN_FIRST : SCAN_ALONE).count(static_cast<double>(records), wanted);
    return static_cast<int64_t>(std::ceil(std::min(std::max(number, std::min(wanted, most)), most)));
}

}  // namespace lethevec
