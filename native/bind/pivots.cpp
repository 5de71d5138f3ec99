#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <vector>

#include "bind/bind.h"
#include "bind/sources.h"
#include "sources/pivots/pivots.h"

namespace lethevec {

void bind_pivots(nb::module_& module) {
    nb::class_<PivotSettings, SourceSettings>(module, "PivotSettings", "Cells around pivots that a keyed hash picks.")
        .def(
            "__init__",
            [](PivotSettings* self, std::shared_ptr<Encoder> encoder, const std::string& metric, uint64_t k0,
               uint64_t k1, int64_t cell_size, int64_t probes, bool refine) {
                expect(encoder->family == Family::progressive, "encoder: not progressive");
                expect(cell_size == 0 || cell_size >= 2, "cell_size: out of range");
                expect(probes >= 0, "probes: out of range");
                auto* made = new (self) PivotSettings();
                made->encoder = std::move(encoder);
                made->metric = metric_of(metric);
                made->key = {k0, k1};
                made->cell_size = cell_size;
                made->probes = probes;
                made->refine = refine;
            },
            "encoder"_a, "metric"_a, "k0"_a, "k1"_a, "cell_size"_a, "probes"_a, "refine"_a);

    module.def(
        "pivots_in_step", &Pivots::go_in_step, "least"_a = Pivots::STEPS_FROM, "step"_a = Pivots::STEP,
        "For tests: from how many bytes of codes on queries of a batch go through the cells in step, and how many "
        "bytes of first planes they look at together.");

    module.def(
        "pivot_stats",
        [](const Index& index) {
            int64_t bytes = 0, cells = 0, used = 0, largest = 0;
            Unlocked released;
            index.inspect([&](const Rows&, const Source& source) {
                const Pivots& pivots = pivots_of(source);
                bytes = pivots.bytes();
                cells = pivots.is_void() ? 0 : pivots.cells();
                for (int64_t c = 0; c < pivots.cells(); ++c) {
                    used += pivots.contents().size(c) > 0;
                    largest = std::max(largest, pivots.contents().size(c));
                }
            });
            return std::make_tuple(bytes, cells, used, largest);
        },
        "index"_a,
        "Bytes of the cells, how many pivots there are, cells that hold a record, and records of the largest.");
}

}  // namespace lethevec
