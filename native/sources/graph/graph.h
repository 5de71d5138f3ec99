// The candidate source "graph": a search graph whose every edge follows from a key and from the records, so that it
// forgets. Mirrors the spec's graph.py and graph_search.py.
#pragma once

#include <memory>

#include "sources/graph/data.h"
#include "sources/source.h"

namespace lethevec {

class Graph final : public Source {
public:
    explicit Graph(const GraphSettings& settings);

    // None: the blocks have codes of their own, and a search gives only rows that are worth their true distance.
    Layout layout(const Encoder&, Metric, bool) const override { return {}; }
    void add(const NewRows& added, int64_t threads, const Progress& progress) override;
    void leave(const Rows& rows, const uint32_t* which, int64_t n, int64_t threads, const Progress& progress) override;
    // Where the graph has to be built anyway: one that knows which rows there are, and nothing of them yet.
    std::unique_ptr<Source> copy_for(int64_t n) const override;
    void renumber(const Rows& rows, uint32_t last, uint32_t row) override;
    using Source::candidates;
    SearchWork candidates(const Scope& scope, Sought& sought) const override;
    int64_t queries_together(const Scope& scope) const override { return few_enough(32, scope.k); }
    SearchWork candidates(const Scope& scope, Sought* sought, int64_t n) const override;
    int64_t bytes() const override { return data_->bytes(); }
    void raw_memory(std::vector<uint8_t>& all) const override { data_->raw_memory(all); }

    // For tests and statistics.
    const GraphData& data() const { return *data_; }

private:
    class Query;  // see query.cpp
    SearchWork gather(Query& query, const Scope& scope, Sought& sought) const;
    static void everything_allowed(const Scope& scope, Sought& sought);
    // A change of so large a share of the rows takes longer than a build: one in so many. Those of fewer rows than
    // WORTH_A_COPY are made in place, whatever the share.
    static constexpr int64_t BUILD_SHARE = 24, WORTH_A_COPY = 64;
    void build(const Rows& rows, const std::vector<uint32_t>& which, int64_t threads, const Progress& progress);

    GraphSettings settings_;
    std::unique_ptr<GraphData> data_;
};

}  // namespace lethevec
