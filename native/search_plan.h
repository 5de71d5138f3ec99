// How much a search that scans looks at.
#pragma once

#include <cstdint>

namespace lethevec {

// How much of the index a search looks at; see `plan` in the spec's ranking.py.
struct SearchPlan {
    int64_t reference;  // records by first-stage key among which the second stage finds its threshold
    int64_t survivors;  // records by first-stage key that go on
    int64_t rank;       // place in the reference set whose second-stage key is the threshold
};

}  // namespace lethevec
