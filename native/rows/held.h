// What some rows hold, so that a change of them that fails can be taken back.
#pragma once

#include "memory/wiped.h"
#include "rows/rows.h"

namespace lethevec {

class HeldRows {
public:
    HeldRows(const Rows& rows, const uint32_t* which, int64_t n);
    void put_back(Rows& rows, const uint32_t* which);
    // The vectors, (n, dim); null where none are kept.
    const float* vectors() { return d_ ? x_.at(0) : nullptr; }

private:
    const int64_t n_, d_, bytes_;  // of a code
    Wiped<float> x_, norms_, factors_;
    Wiped<uint8_t> codes_;
};

}  // namespace lethevec
