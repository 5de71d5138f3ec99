// How the numbers of a vector are kept: as they are, or in a smaller form. Mirrors kept_form.py of the spec.
//
// A vector takes its form before anything is computed from it: `round_to` gives the nearest one that the form can hold,
// and that one is encoded, filed, counted and given back. To keep it then loses nothing, so whoever reads it from its
// row has what was put there, to the last bit.
#pragma once

#include <cstdint>

namespace lethevec {

enum class VectorForm {
    none,     // no vectors
    float32,  // as they are
    float16,  // the nearest binary16 of each number
    int8,     // a float32, the scale, and then a whole number from -127 to 127 for each
};

// Bytes of a vector of d numbers.
int64_t form_bytes(VectorForm form, int64_t d);

// The n vectors of x (n, d), rounded, to `out`, which may be x. A number beyond a form's range becomes infinite.
void round_to(VectorForm form, const float* x, int64_t n, int64_t d, float* out);

// A vector that was rounded, and its bytes. Neither loses anything.
void pack(VectorForm form, const float* x, int64_t d, uint8_t* packed);
void unpack(VectorForm form, const uint8_t* packed, int64_t d, float* x);

}  // namespace lethevec
