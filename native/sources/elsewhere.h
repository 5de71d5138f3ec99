// Searches that may find only some rows: the effort that a source is asked with, and whether what may be found lies
// elsewhere than near the query. Mirrors `allowing` of the spec.
#pragma once

#include <cmath>
#include <cstdint>

namespace lethevec {

constexpr double ALLOWED_EFFORT = 4.0;

inline double allowed_effort(int64_t records, int64_t allowed, double effort) {
    return allowed < records ? ALLOWED_EFFORT * effort : effort;
}

constexpr double ALLOWED_NEARBY = 0.5;
constexpr double ALLOWED_NEARBY_ERRORS = 2.0;

// Of `records` so many are allowed; of those that a search met first, so many.
inline bool lies_elsewhere(int64_t records, int64_t allowed, int64_t met, int64_t met_allowed) {
    return static_cast<double>(met_allowed) * static_cast<double>(records) <
           ALLOWED_NEARBY * static_cast<double>(allowed) * static_cast<double>(met);
}

// The same for many that are met. Mirrors `fewer_than_chance` of the spec.
inline bool fewer_than_chance(int64_t records, int64_t allowed, int64_t met, int64_t met_allowed) {
    const double expected = static_cast<double>(met) * static_cast<double>(allowed) / static_cast<double>(records);
    return static_cast<double>(met_allowed) < expected - ALLOWED_NEARBY_ERRORS * std::sqrt(expected);
}

}  // namespace lethevec
