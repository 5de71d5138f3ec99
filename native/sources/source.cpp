#include "sources/source.h"

#include <cstring>

#include "memory/wiped.h"
#include "parallel.h"
#include "rows/codes.h"

namespace lethevec {

const float* NewRows::vectors(int64_t i, int64_t count, int64_t threads, float* room) const {
    const int64_t d = encoder_.dim;
    if (x_) return x_ + i * d;
    if (rows.layout().dim) {
        parallel_for(count, threads, 1024, [&](int64_t begin, int64_t end) {
            for (int64_t j = begin; j < end; ++j)
                unpack(rows.layout().form, rows.packed(which[i + j]), d, room + j * d);
        });
        return room;
    }
    const int64_t bytes = rows.layout().code_bytes();
    Wiped<uint8_t> codes(count * bytes);
    for (int64_t j = 0; j < count; ++j) read_code(rows, which[i + j], codes.at(j * bytes));
    encoder_.decode(codes.at(0), count, threads, room);
    return room;
}

SearchWork Source::everything(const Scope& scope, float, Sought& sought) const {
    scope.allowed.list(sought.candidates.rows);
    return {};
}

}  // namespace lethevec
