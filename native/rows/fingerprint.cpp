#include "rows/fingerprint.h"

#include <atomic>

#include "parallel.h"
#include "rows/siphash.h"

namespace lethevec {

uint64_t fingerprint(const Rows& rows, const uint32_t* which, int64_t n, int64_t threads) {
    std::atomic<uint64_t> total{0};
    const int64_t bytes = rows.layout().vector_bytes();
    parallel_for(n, threads, 1024, [&](int64_t begin, int64_t end) {
        uint64_t sum = 0;
        for (int64_t i = begin; i < end; ++i) {
            const SipKey key = {static_cast<uint64_t>(i), static_cast<uint64_t>(rows.id(which[i]))};
            sum += siphash(key, rows.packed(which[i]), bytes);
        }
        total += sum;
    });
    return total + static_cast<uint64_t>(n);
}

}  // namespace lethevec
