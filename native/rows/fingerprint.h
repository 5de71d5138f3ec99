// A number that says which records some rows hold, in which order: to tell whether something that was derived from them
// once belongs to them still. It is not the digest, which has no order and takes longer.
#pragma once

#include <cstdint>

#include "rows/rows.h"

namespace lethevec {

// Of ids and vectors of these rows; vectors are kept.
uint64_t fingerprint(const Rows& rows, const uint32_t* which, int64_t n, int64_t threads);

}  // namespace lethevec
