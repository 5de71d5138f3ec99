#include "sources/graph/graph.h"

#include <algorithm>

#include "sources/graph/build.h"
#include "sources/graph/change.h"

namespace lethevec {

std::unique_ptr<Source> GraphSettings::make() const { return std::make_unique<Graph>(*this); }

Graph::Graph(const GraphSettings& settings) : settings_(settings), data_(std::make_unique<GraphData>(settings)) {}

void Graph::build(const Rows& rows, const std::vector<uint32_t>& which, int64_t threads, const Progress& progress) {
    data_ = build_graph(settings_, rows, which.data(), static_cast<int64_t>(which.size()), threads, progress);
}

std::unique_ptr<Source> Graph::copy_for(int64_t n) const {
    if (n < WORTH_A_COPY || n * BUILD_SHARE < data_->count) return nullptr;
    auto copy = std::make_unique<Graph>(settings_);
    Growing<uint32_t> filed(data_->vertex_of);
    copy->data_->vertex_of.swap(filed);
    return copy;
}

void Graph::add(const NewRows& added, int64_t threads, const Progress& progress) {
    if (added.n * BUILD_SHARE < data_->count && GraphChange(settings_, *data_, added.rows).join(added.which, added.n)) {
        if (progress) progress(added.n);
        return;
    }
    std::vector<uint32_t> all;
    for (int64_t row = 0; row < data_->vertex_of.size(); ++row)
        if (data_->vertex_of[row]) all.push_back(static_cast<uint32_t>(row));
    all.insert(all.end(), added.which, added.which + added.n);
    build(added.rows, all, threads, progress);
}

void Graph::leave(const Rows& rows, const uint32_t* which, int64_t n, int64_t threads, const Progress& progress) {
    if (n * BUILD_SHARE < data_->count && GraphChange(settings_, *data_, rows).leave(which, n)) return;
    std::vector<uint8_t> going(static_cast<size_t>(rows.size()));
    for (int64_t i = 0; i < n; ++i) going[which[i]] = 1;
    std::vector<uint32_t> all;
    for (int64_t row = 0; row < data_->vertex_of.size(); ++row)
        if (data_->vertex_of[row] && !going[static_cast<size_t>(row)]) all.push_back(static_cast<uint32_t>(row));
    build(rows, all, threads, progress);
}

// Rows have no gaps but those that a call is about to fill: there is a place for the row.
void Graph::renumber(const Rows&, uint32_t last, uint32_t row) {
    GraphData& g = *data_;
    if (last >= g.vertex_of.size() || !g.vertex_of[last]) return;
    const uint32_t v = g.vertex_of[last] - 1;
    if (g.vertex(v).row == last) {
        g.vertex(v).row = row;
    } else {
        VertexList& copies = g.copies.find(v)->second;
        *std::find(copies.begin(), copies.end(), last) = row;
    }
    g.vertex_of[row] = v + 1;
    g.vertex_of[last] = 0;
}

}  // namespace lethevec
