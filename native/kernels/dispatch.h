// Which instruction set is in use. Chosen once at import; tests switch it to compare them in one process.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace lethevec {

// From the narrowest to the widest, those this build has.
std::vector<std::string> built_isas();
// Those of them that this CPU and its operating system can run, in the same order.
std::vector<std::string> supported_isas();
// The features of the CPU that the choice looked at, e.g. {"popcnt", "avx2"}.
std::vector<std::string> cpu_features();
// Throws std::invalid_argument when the name is not among supported_isas().
void use_isa(const std::string& name);

const Kernels& active();

}  // namespace lethevec
