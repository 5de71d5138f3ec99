// The centres of the cells of the source "pivots", and which of them is nearest to a vector: exactly, ties by id.
//
// "Nearest" is by `squared_distance` of the spec. Matrix products with bounds on their rounding errors say which
// centres can be it, and only for those is the distance computed. So how products round, on whatever machine, changes
// nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/growing.h"
#include "sources/pivots/rounded.h"

namespace lethevec {

using CentreNumbers = std::vector<uint32_t>;

class Centres {
public:
    static constexpr uint32_t NONE = UINT32_MAX;

    explicit Centres(int64_t d) : d_(d), rounded_(d), rows_(d), ids_(1), squares_(1) {}

    int64_t size() const { return ids_.size(); }
    int64_t id(int64_t c) const { return ids_[c]; }
    const float* row(int64_t c) const { return rows_.at(c); }
    uint32_t find(int64_t id) const;

    // A new last centre. May throw, changing nothing.
    void append(int64_t id, const float* row);
    void replace(int64_t c, const float* row);
    // The last centre takes the number of c.
    void remove(int64_t c);

    // After changes, and before `nearest`. May throw, changing nothing that can be seen, unless there are no more
    // centres than when it was called last.
    void settle() {
        if (!rounded_.ready()) rounded_.make(rows_.at(0), size());
    }
    // The nearest centre of each of n vectors and its squared distance; those `without` are passed over, which are not
    // all.
    void nearest(const float* z, int64_t n, const CentreNumbers& without, uint32_t* centres, float* distances) const;
    // Whether one of these centres is nearer to z than centre `own` at `distance`, or as near with a smaller id. Both
    // change then.
    bool nearer(const float* z, const uint32_t* of, int64_t n, uint32_t& own, float& distance) const;

    int64_t bytes() const;
    void raw_memory(std::vector<uint8_t>& all) const;

    // A bound on the error of |z|^2 + |c|^2 - 2 <z, c>, as a share of |z|^2 + |c|^2, and of squared_distance itself.
    static float error(int64_t d) { return static_cast<float>(d + 32) * 2.4e-7f; }
    static constexpr float TINY = 1e-36f;  // what is lost where numbers underflow
    float square(int64_t c) const { return squares_[c]; }

private:
    // Whether centre c is nearer to z than the one that was found, or as near with a smaller id. Both change then.
    void compare(const float* z, uint32_t c, uint32_t& found, float& distance) const;

    int64_t d_;
    RoundedCentres rounded_;
    Growing<float> rows_;
    Growing<int64_t> ids_;
    Growing<float> squares_;
};

}  // namespace lethevec
