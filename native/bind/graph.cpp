#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <vector>

#include "bind/bind.h"
#include "bind/sources.h"
#include "sources/graph/graph.h"

namespace lethevec {

void bind_graph(nb::module_& module) {
    nb::class_<GraphSettings, SourceSettings>(module, "GraphSettings",
                                              "A search graph whose edges follow from the records.")
        .def(
            "__init__",
            [](GraphSettings* self, std::shared_ptr<Encoder> encoder, const std::string& metric, uint64_t k0,
               uint64_t k1, int64_t cell_size, int64_t cells, int64_t pool) {
                expect(encoder->family == Family::progressive, "encoder: not progressive");
                expect(metric != "ip", "metric: out of range");
                expect(cell_size >= 2, "cell_size: out of range");
                expect(cells >= 1 && cells <= 1024, "cells: out of range");
                expect(pool >= 1 && pool <= 4096, "pool: out of range");
                auto* made = new (self) GraphSettings();
                made->encoder = std::move(encoder);
                made->metric = metric_of(metric);
                made->key = {k0, k1};
                made->cell_size = cell_size;
                made->cells = cells;
                made->pool = pool;
            },
            "encoder"_a, "metric"_a, "k0"_a, "k1"_a, "cell_size"_a, "cells"_a, "pool"_a);

    module.def(
        "graph_stats",
        [](const Index& index) {
            int64_t bytes = 0, vertices = 0, edges = 0, longest = 0;
            Unlocked released;
            index.inspect([&](const Rows&, const Source& source) {
                const GraphData& graph = graph_of(source).data();
                bytes = graph.bytes();
                vertices = graph.count;
                for (uint32_t v = 0; v < graph.slots; ++v) {
                    if (!graph.vertex(v).used) continue;
                    edges += graph.vertex(v).edges;
                    longest = std::max(longest, static_cast<int64_t>(graph.children[v].size()));
                }
            });
            return std::make_tuple(bytes, vertices, edges, longest);
        },
        "index"_a,
        "Bytes of the graph, how many vertices it has, how many edges these were left, and the most children of one.");
}

}  // namespace lethevec
