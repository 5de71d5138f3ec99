// A query against outlines: how near rows can be at most. What a row's vector gives is never nearer than that, rounding
// included.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/dispatch.h"
#include "memory/wiped.h"
#include "query/prepared.h"
#include "rows/outlines.h"

namespace lethevec {

class OutlinedQuery {
public:
    // `query` has d numbers: that which true distances are taken to.
    OutlinedQuery(const Outlines& outlines, Metric metric, const float* query, int64_t d);
    ~OutlinedQuery();
    OutlinedQuery(const OutlinedQuery&) = delete;
    OutlinedQuery& operator=(const OutlinedQuery&) = delete;

    // Lower bounds of the distances of n rows, under l2 of their squares.
    void bounds(const uint32_t* rows, int64_t n, float* out);

private:
    static constexpr int64_t TOGETHER = 4096;
    float bound(const OutlineNumbers& outline, int32_t product) const;

    const Outlines& outlines_;
    const Metric metric_;
    WipedVector<int8_t> lower_, upper_;
    float half_step_ = 0.0f, size_ = 0.0f, error_ = 0.0f, share_ = 0.0f;
    int32_t total_ = 0;
    std::vector<const uint8_t*> places_;
    std::vector<int32_t> products_;
};

}  // namespace lethevec
