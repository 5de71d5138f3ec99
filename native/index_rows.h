// What some rows of an index hold, so that a change of them that fails can be taken back.
#pragma once

#include "index.h"
#include "wiped.h"

namespace lethevec {

struct Index::Held {
    Held(const Index& index, const uint32_t* rows, int64_t n);
    void put_back(Index& index, const uint32_t* rows);

    const int64_t n, d, bytes;  // of a code
    Wiped<float> x, norms, factors;
    Wiped<uint8_t> codes;
};

}  // namespace lethevec
