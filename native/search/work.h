// What a search did.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/wiped.h"

namespace lethevec {

// Answers of a search within a radius.
using DistantIds = std::vector<std::pair<float, int64_t>, WipingAllocator<std::pair<float, int64_t>>>;

struct SearchWork {
    int64_t scanned = 0;     // records whose first bits were looked at
    int64_t refined = 0;     // whose rest of the code was
    int64_t reranked = 0;    // whose vector was
    int64_t bytes_read = 0;  // of records, for all of that

    SearchWork& operator+=(const SearchWork& other) {
        scanned += other.scanned;
        refined += other.refined;
        reranked += other.reranked;
        bytes_read += other.bytes_read;
        return *this;
    }
};

}  // namespace lethevec
