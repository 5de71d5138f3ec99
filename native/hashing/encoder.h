// A family as the index uses it: codes with what the estimate needs of a record, and a query in the frame's
// coordinates.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "hashing/hashing.h"

namespace lethevec {

enum class Family { simhash, superbit, usr, progressive };

struct Encoder {
    Family family;
    int64_t dim;
    int64_t bits;
    std::shared_ptr<const Frame> frame;            // all but simhash
    std::shared_ptr<const Projection> projection;  // simhash
    std::vector<float> weights;                    // progressive: of its planes
    float entry_gain = 1.0f;                       // usr
    int64_t steps = 0;                             // usr
    int64_t sweeps = 0;                            // progressive
    bool of_direction = false;                     // usr under cosine: its gain is for vectors of norm 1

    int64_t code_bytes() const { return (bits + 7) / 8; }
    // Bits that the first stage of a scan looks at: as many planes of a progressive code as have FIRST_STAGE_BITS, and
    // one at the least; all bits of the others. Where codes are all there is, one plane: weights of more would be
    // coarse.
    static constexpr int64_t FIRST_STAGE_BITS = 128;
    int64_t first_bits(bool codes_alone) const {
        if (family != Family::progressive) return bits;
        return codes_alone ? dim : dim * std::min(bits / dim, std::max<int64_t>(1, FIRST_STAGE_BITS / dim));
    }
    int64_t scratch() const;
    // `x` must not be zero under of_direction. Codes (n, code_bytes), |x|, and the factor that turns <rotated query, b>
    // into an estimate of <query, x/|x|>.
    void encode(const float* x, int64_t n, uint8_t* codes, double* norms, float* factors, double* alignment,
                float* scratch) const;
    // The coordinates of a query whose inner product with a record's signs (weighted, for progressive) is the estimate.
    void coordinates(const float* x, float* values, float* scratch) const;
    // The vectors that codes stand for, up to a positive factor. Not for simhash, nor for superbit with a block that is
    // cut.
    void decode(const uint8_t* codes, int64_t n, int64_t threads, float* x) const;

private:
    void encode_usr(const float* x, int64_t n, const double* norms, Output out, float* scratch) const;
};

}  // namespace lethevec
