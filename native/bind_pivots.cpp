#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <vector>

#include "bind.h"
#include "index.h"
#include "pivots.h"

namespace lethevec {

namespace {

const Pivots& pivots_of(const Source* source) {
    const auto* pivots = dynamic_cast<const Pivots*>(source);
    expect(pivots != nullptr, "index: its source is not pivots");
    return *pivots;
}

template <class T>
nb::ndarray<nb::numpy, T> to_array(std::vector<T>&& data, std::initializer_list<size_t> shape) {
    auto* kept = new std::vector<T>(std::move(data));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T>(kept->data(), shape, owner);
}

}  // namespace

void bind_pivots(nb::module_& module) {
    nb::class_<PivotSettings, SourceSettings>(module, "PivotSettings", "Cells around pivots that a keyed hash picks.")
        .def(
            "__init__",
            [](PivotSettings* self, std::shared_ptr<Encoder> encoder, const std::string& metric, uint64_t k0, uint64_t k1,
               int64_t cell_size, int64_t probes, bool refine) {
                expect(encoder->family == Family::progressive, "encoder: not progressive");
                expect(cell_size >= 2, "cell_size: out of range");
                expect(probes >= 0, "probes: out of range");
                auto* made = new (self) PivotSettings();
                made->encoder = std::move(encoder);
                made->metric = metric == "cosine" ? Metric::cosine : metric == "l2" ? Metric::l2 : Metric::ip;
                made->key = {k0, k1};
                made->cell_size = cell_size;
                made->probes = probes;
                made->refine = refine;
            },
            "encoder"_a, "metric"_a, "k0"_a, "k1"_a, "cell_size"_a, "probes"_a, "refine"_a);

    module.def(
        "siphash", [](uint64_t k0, uint64_t k1, int64_t id) { return siphash({k0, k1}, static_cast<uint64_t>(id)); }, "k0"_a,
        "k1"_a, "id"_a, "The keyed hash that says whether an id is a pivot's. For tests.");

    module.def(
        "pivot_stats",
        [](const Index& index) {
            int64_t bytes = 0, cells = 0, used = 0, largest = 0;
            Unlocked released;
            index.inspect([&](const Rows&, const Source* source) {
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
        "index"_a, "Bytes of the cells, how many pivots there are, cells that hold a record, and records of the largest.");

    module.def(
        "pivot_cells",
        [](const Index& index) {
            std::vector<int64_t> ids, counts, sums;
            std::vector<uint8_t> real;
            std::vector<float> centres, origins, steps, squares;
            std::vector<int8_t> means;
            int64_t d = 0;
            index.inspect([&](const Rows& rows, const Source* source) {
                const Pivots& pivots = pivots_of(source);
                d = rows.layout().dim;
                for (int64_t c = 0; c < pivots.cells(); ++c) {
                    ids.push_back(pivots.centres().id(c));
                    real.push_back(!pivots.is_void());
                    counts.push_back(pivots.contents().size(c));
                    centres.insert(centres.end(), pivots.centres().row(c), pivots.centres().row(c) + d);
                    origins.insert(origins.end(), pivots.origins().row(c), pivots.origins().row(c) + d);
                    sums.insert(sums.end(), pivots.means().sums(c), pivots.means().sums(c) + d);
                    for (int64_t j = 0; j < d; ++j) means.push_back(pivots.means().small(c, j));
                    steps.push_back(pivots.means().step(c));
                    squares.push_back(pivots.means().square(c));
                }
            });
            const size_t n = ids.size(), wide = static_cast<size_t>(d);
            return nb::make_tuple(to_array(std::move(ids), {n}), to_array(std::move(real), {n}), to_array(std::move(counts), {n}),
                                  to_array(std::move(centres), {n, wide}), to_array(std::move(origins), {n, wide}),
                                  to_array(std::move(sums), {n, wide}),
                                  to_array(std::move(means), {n, wide}), to_array(std::move(steps), {n}),
                                  to_array(std::move(squares), {n}));
        },
        "index"_a, "Everything that is kept of the cells. For tests.");

    module.def(
        "pivot_records",
        [](const Index& index, int64_t code_bytes) {
            std::vector<int64_t> ids, cells;
            std::vector<float> sizes, offsets, scales, biases;
            std::vector<uint8_t> codes;
            index.inspect([&](const Rows& rows, const Source* source) {
                const Pivots& pivots = pivots_of(source);
                codes.resize(static_cast<size_t>(rows.size() * code_bytes));
                for (int64_t c = 0; c < pivots.cells(); ++c)
                    for (uint32_t slot = 0; slot < pivots.contents().size(c); ++slot) {
                        uint32_t own_cell = 0, own_slot = 0;
                        const uint32_t row = pivots.contents().row(c, slot);
                        expect(row < rows.size() && pivots.find(row, own_cell, own_slot), "a cell holds a row that is not there");
                        expect(own_cell == c && own_slot == slot, "a row lies where its link does not say");
                        expect(static_cast<int64_t>(ids.size()) < rows.size(), "the cells hold more rows than the index");
                        CellNumbers numbers;
                        pivots.contents().read(c, slot, codes.data() + ids.size() * static_cast<size_t>(code_bytes), numbers);
                        ids.push_back(rows.id(row));
                        cells.push_back(c);
                        sizes.push_back(numbers.size);
                        offsets.push_back(numbers.offset);
                        scales.push_back(numbers.scale);
                        biases.push_back(numbers.bias);
                    }
                expect(static_cast<int64_t>(ids.size()) == rows.size(), "the cells hold fewer rows than the index");
            });
            const size_t n = ids.size();
            return nb::make_tuple(to_array(std::move(ids), {n}), to_array(std::move(cells), {n}), to_array(std::move(sizes), {n}),
                                  to_array(std::move(offsets), {n}), to_array(std::move(scales), {n}),
                                  to_array(std::move(biases), {n}),
                                  to_array(std::move(codes), {n, static_cast<size_t>(code_bytes)}));
        },
        "index"_a, "code_bytes"_a, "Everything that is kept of the records. Throws where links and cells disagree. For tests.");
}

}  // namespace lethevec
