// What a search did.
#pragma once

#include <cstdint>

#include "memory/wiped.h"

namespace lethevec {

// A record that was found. Answers are ordered by distance, then by id.
struct Hit {
    float distance;
    int64_t id;

    friend bool operator<(const Hit& a, const Hit& b) {
        return a.distance != b.distance ? a.distance < b.distance : a.id < b.id;
    }
};
using HitList = WipedVector<Hit>;

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
