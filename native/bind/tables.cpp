#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <vector>

#include "bind/bind.h"
#include "bind/sources.h"
#include "sources/tables/probing.h"
#include "sources/tables/tables.h"

namespace lethevec {

void bind_tables(nb::module_& module) {
    nb::class_<TableSettings, SourceSettings>(module, "TableSettings", "Hash tables, one for each rotation of a frame.")
        .def(
            "__init__",
            [](TableSettings* self, std::shared_ptr<Frame> frame, int64_t key_bits, int64_t probes, bool of_direction,
               int64_t bucket_rows) {
                expect(frame->m() <= Probing::MAX_TABLES, "frame: too many tables");
                expect(key_bits >= 1 && key_bits <= std::min(frame->d(), Tables::MAX_KEY_BITS),
                       "key_bits: out of range");
                expect(probes >= 1, "probes: out of range");
                auto* made = new (self) TableSettings();
                made->frame = std::move(frame);
                made->key_bits = key_bits;
                made->probes = probes;
                made->of_direction = of_direction;
                made->bucket_rows = bucket_rows;
            },
            "frame"_a, "key_bits"_a, "probes"_a, "of_direction"_a, "bucket_rows"_a);

    module.def(
        "table_stats",
        [](const Index& index) {
            int64_t bytes = 0, keys = 0, used = 0, runs = 0;
            Unlocked released;
            index.inspect([&](const Rows&, const Source& source) {
                const Tables& tables = tables_of(source);
                bytes = tables.bytes();
                for (int64_t t = 0; t < tables.tables(); ++t) {
                    keys += tables.table(t).keys();
                    used += tables.table(t).used();
                    runs += tables.table(t).runs();
                }
            });
            return std::make_tuple(bytes, keys, used, runs);
        },
        "index"_a,
        "Bytes of the tables, buckets that there could be, that hold a record, and runs of rows that they take.");
}

}  // namespace lethevec
