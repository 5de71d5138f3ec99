// Logarithms that are the same on every machine.
#pragma once

#include <cmath>

namespace lethevec {

// The logarithm to base 2 where it is a whole number, and straight between these.
inline double doublings(double number) {
    int exponent = 0;
    const double part = std::frexp(number, &exponent);
    return static_cast<double>(exponent - 1) + (2.0 * part - 1.0);
}

}  // namespace lethevec
