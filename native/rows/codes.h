// A record's code in its row: cut into the parts that the layout has, and put together again.
#pragma once

#include <cstdint>

#include "rows/rows.h"

namespace lethevec {

// `code` and `factor` are not looked at where the layout has no codes.
void write_code(Rows& rows, uint32_t row, const uint8_t* code, float factor);
// The code of layout().code_bytes() bytes.
void read_code(const Rows& rows, uint32_t row, uint8_t* code);
// The scale of the estimate; 0 where none is kept.
float read_factor(const Rows& rows, uint32_t row);

}  // namespace lethevec
