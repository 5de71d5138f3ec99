// What some rows hold, so that a change of them that fails can be taken back.
#pragma once

#include "memory/wiped.h"
#include "rows/rows.h"

namespace lethevec {

class HeldRows {
public:
    HeldRows(const Rows& rows, const uint32_t* which, int64_t n);
    // `count` of them from the `first` on; `which` are all of them.
    void put_back(Rows& rows, const uint32_t* which, int64_t first, int64_t count);
    // Their vectors from the i-th on; null where none are kept.
    const float* vectors(int64_t i) { return d_ ? x_.at(i * d_) : nullptr; }

private:
    const int64_t d_, bytes_;  // of a code
    Wiped<float> x_, norms_, factors_;
    Wiped<uint8_t> codes_;
};

}  // namespace lethevec
