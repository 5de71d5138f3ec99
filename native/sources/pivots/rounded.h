// The centres of the source "pivots" in small whole numbers, and with them bounds on how far each is from a row. They
// only help to find the nearest one: which that is follows from exact distances alone.
//
// Numbers are taken from the mean of all centres, so that they are small where all vectors point about the same way.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "memory/growing.h"
#include "memory/wiped.h"

namespace lethevec {

class RoundedCentres {
public:
    explicit RoundedCentres(int64_t d)
        : d_(d),
          small_(groups(d) * MEANS * 4),
          shifts_(MEANS),
          steps_(MEANS),
          squares_(MEANS),
          norms_(MEANS),
          errors_(MEANS),
          middle_(d) {}

    static int64_t groups(int64_t d) { return (d + 3) / 4; }
    static int64_t panels_for(int64_t centres) { return (centres + MEANS - 1) / MEANS; }

    // So that `make` for n centres cannot fail. May throw, changing nothing that can be seen.
    void reserve(int64_t n);
    // From n centres, each in a row of d floats.
    void make(const float* rows, int64_t n);
    // The centres have changed: it has to be made again.
    void outdate() { ready_ = false; }
    bool ready() const { return ready_; }
    int64_t panels() const { return squares_.size(); }
    // What `compare` takes; infinite past the last centre.
    const float* squares() const { return squares_.at(0); }

    // Some rows, to be compared with the centres.
    class Rows {
    public:
        Rows(const RoundedCentres& centres, int64_t most);
        // The rows to compare; at most so many.
        void take(const float* z, int64_t n);
        // Lower bounds of their squared distances to the centres of some panels, less `base` of the row: (n, panels *
        // MEANS). `squares` are those of all centres, or others in their place.
        void compare(int64_t panel, int64_t panels, const float* squares, float* out) const;
        float base(int64_t i) const { return base_[static_cast<size_t>(i)]; }

    private:
        const RoundedCentres& centres_;
        int64_t n_ = 0;
        WipedVector<uint8_t> numbers_;
        WipedVector<float> base_, rest_;
        WipedVector<RoundedRow> rows_;
    };

    int64_t bytes() const;
    void raw_memory(std::vector<uint8_t>& all) const;

private:
    int64_t d_;
    bool ready_ = false;
    Growing<int8_t> small_;                            // (panels, groups, MEANS, 4)
    Growing<int32_t> shifts_;                          // what the shift of a row's numbers adds to each score
    Growing<float> steps_, squares_, norms_, errors_;  // (panels, MEANS)
    Growing<float> middle_;
};

}  // namespace lethevec
