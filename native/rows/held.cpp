#include "rows/held.h"

#include <cstring>

#include "rows/codes.h"

namespace lethevec {

HeldRows::HeldRows(const Rows& rows, const uint32_t* which, int64_t n)
    : d_(rows.layout().dim),
      bytes_(rows.layout().code_bytes()),
      x_(n * d_),
      norms_(n),
      factors_(n),
      codes_(n * bytes_) {
    for (int64_t i = 0; i < n; ++i) {
        if (d_) unpack(rows.layout().form, rows.packed(which[i]), d_, x_.at(i * d_));
        if (bytes_) read_code(rows, which[i], codes_.at(i * bytes_));
        *norms_.at(i) = rows.norm(which[i]);
        *factors_.at(i) = read_factor(rows, which[i]);
    }
}

void HeldRows::put_back(Rows& rows, const uint32_t* which, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) {
        if (d_) rows.set_vector(which[i], x_.at(i * d_));
        rows.set_norm(which[i], *norms_.at(i));
        write_code(rows, which[i], codes_.at(i * bytes_), *factors_.at(i));
    }
}

}  // namespace lethevec
