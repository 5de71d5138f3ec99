// A graph from scratch, on all threads. What changes keep up to date must equal it.
#pragma once

#include <memory>

#include "sources/graph/data.h"

namespace lethevec {

// Of n rows, whose vectors are kept.
std::unique_ptr<GraphData> build_graph(const GraphSettings& settings, const Rows& rows, const uint32_t* which,
                                       int64_t n, int64_t threads, const Progress& progress);

// z of a row: the vector, or its direction under cosine. No zero in it is negative.
void write_z(const GraphSettings& settings, const float* x, float* z);
// The keyed hash of z.
uint64_t hash_of(const GraphSettings& settings, const float* z);

}  // namespace lethevec
