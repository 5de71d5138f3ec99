// One thread's searches, with the memory that it works in.
#pragma once

#include <cstdint>
#include <vector>

#include "hashing/encoder.h"
#include "kernels/dispatch.h"
#include "query/memory.h"
#include "query/work.h"
#include "rows/outlines.h"
#include "sources/source.h"

namespace lethevec {

class Search {
public:
    // What is searched. Vectors are kept where the rows' layout has them.
    struct Of {
        const Rows& rows;
        const Source& source;
        const Encoder& encoder;
        Metric metric;
        const Outlines* outlines;  // of the rows; null where none are kept
    };
    Search(const Of& of, const Allowed& allowed);

    // The k nearest records of each of n queries: ids (n, k), -1 where there are fewer, and distances, infinity there.
    void nearest(const float* x, int64_t n, int64_t k, double effort, int64_t* ids, float* distances);
    // All records within a radius, nearest first, by the best distance that is kept.
    void within(const float* x, float radius, HitList& hits);

    // How many queries are best given to `nearest` at once, or more.
    static int64_t together(const Of& of, const Allowed& allowed, int64_t k, double effort);

    const SearchWork& work() const { return work_; }

private:
    struct Memory {
        void leave();
        std::size_t longest() const;
        std::vector<Sought> sought = std::vector<Sought>(1);
        std::vector<float> factors, keys;  // of candidates
        std::vector<const uint32_t*> tails;
        std::vector<uint32_t> differ;
        HitList hits;
    };

    // The rows that may be found, one by one, without the source's help: those that may be among the k nearest, or
    // within the radius (k = 0).
    void look_directly(const float* x, int64_t k, float radius, Sought& sought);
    void outline(int64_t k, float radius, Sought& sought);
    // The stages, in their order.
    void prepare(const float* x, Sought& sought) const;
    void filter(Sought& sought);
    void estimate(Sought& sought);
    void rerank(Sought& sought);
    void collect(const Sought& sought, int64_t k);
    void answer(int64_t k, int64_t* ids, float* distances);

    void find_keys(Sought& sought, bool want_distances);
    void compare_tails(Sought& sought);
    void compare_codes(Sought& sought, bool want_distances);
    float distance_of(const PreparedQuery& query, float estimate, float norm) const;
    float true_distance(const float* q, uint32_t row, float* room) const;
    void ask_for(uint32_t row) const;

    const Of of_;
    const Rows& rows_;
    const bool keeps_vectors_;
    const Allowed& allowed_;
    const Kernels& kernels_;
    const Borrowed<Memory> memory_;
    SearchWork work_;
};

}  // namespace lethevec
