// A walk through the graph, as the kernels see it.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace lethevec {

// Vertices by their estimates, nearest first: `count` of them, at most `most`. All before `next` were looked at. There
// is room for POOL_ROOM more behind the last.
struct WalkPool {
    float* estimates;
    uint32_t* vertices;
    int64_t most, count, next;
};
constexpr int64_t POOL_ROOM = 32;

constexpr uint32_t EDGE_FLAG = 0x80000000;  // of a neighbour's number; it has nothing to do with who that is

struct Walk {
    ScanQuery query;
    float unit;                     // see edge_estimates
    int64_t adds, scales, numbers;  // where these lie in a block, in bytes; its codes come first
    const uint64_t* looked_at;      // a bit for each vertex
    WalkPool pool;
    alignas(64) float estimates[BLOCK];  // of the last block
};

}  // namespace lethevec
