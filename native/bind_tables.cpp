#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <vector>

#include "bind.h"
#include "index.h"
#include "probing.h"
#include "tables.h"

namespace lethevec {

namespace {

const Tables& tables_of(const Source* source) {
    const auto* tables = dynamic_cast<const Tables*>(source);
    expect(tables != nullptr, "index: its source is not tables");
    return *tables;
}

}  // namespace

void bind_tables(nb::module_& module) {
    nb::class_<SourceSettings>(module, "SourceSettings", "What a source of candidates is made from.");
    nb::class_<TableSettings, SourceSettings>(module, "TableSettings", "Hash tables, one for each rotation of a frame.")
        .def(
            "__init__",
            [](TableSettings* self, std::shared_ptr<Frame> frame, int64_t key_bits, int64_t probes, bool of_direction,
               int64_t bucket_rows) {
                expect(frame->m() <= Probing::MAX_TABLES, "frame: too many tables");
                expect(key_bits >= 1 && key_bits <= std::min(frame->d(), Tables::MAX_KEY_BITS), "key_bits: out of range");
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
            index.inspect([&](const Rows&, const Source* source) {
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
        "index"_a, "Bytes of the tables, buckets that there could be, that hold a record, and runs of rows that they take.");

    module.def(
        "table_contents",
        [](const Index& index, int64_t table, Array<int64_t, 1> ids, Array<uint32_t, 1> keys,
           Array<uint8_t, 2> signatures) {
            Unlocked released;
            index.inspect([&](const Rows& all, const Source* source) {
                const Tables& tables = tables_of(source);
                expect(table >= 0 && table < tables.tables(), "table: out of range");
                expect(rows(ids) == all.size() && rows(keys) == all.size(), "ids, keys: wrong shape");
                int64_t at = 0;
                const Buckets& buckets = tables.table(table);
                expect(rows(signatures) == all.size() && columns(signatures) == buckets.signature_bytes(),
                       "signatures: wrong shape");
                for (int64_t key = 0; key < buckets.keys(); ++key)
                    buckets.each(static_cast<uint32_t>(key), [&](uint32_t row, Buckets::Place place) {
                        uint32_t known = 0;
                        expect(at < all.size(), "the table holds more rows than the index");
                        expect(row < all.size() && tables.find(row, table, known), "a row lies where its place does not say");
                        expect(known == static_cast<uint32_t>(key), "a row lies in a bucket of another key");
                        ids.data()[at] = all.id(row);
                        keys.data()[at] = static_cast<uint32_t>(key);
                        buckets.read_signature(place, signatures.data() + buckets.signature_bytes() * at++);
                    });
                expect(at == all.size(), "the table holds fewer rows than the index");
            });
        },
        "index"_a, "table"_a, "ids"_a.noconvert(), "keys"_a.noconvert(), "signatures"_a.noconvert(),
        "Everything in a table, bucket by bucket. Throws where places and buckets disagree. For tests.");

    module.def(
        "probing",
        [](Array<const float, 2> values, double likely, Array<float, 1> scores, Array<uint32_t, 1> tables,
           Array<uint32_t, 1> keys) {
            expect(rows(values) >= 1 && rows(values) <= Probing::MAX_TABLES, "values: wrong number of tables");
            expect(columns(values) >= 1 && columns(values) <= Probing::MAX_BITS, "values: wrong number of bits");
            expect(rows(scores) == rows(tables) && rows(tables) == rows(keys), "scores, tables, keys: different lengths");
            Probing probing(values.data(), columns(values), rows(values), columns(values), likely);
            int64_t count = 0;
            for (Probe probe; count < rows(keys) && probing.next(probe); ++count) {
                scores.data()[count] = probe.score;
                tables.data()[count] = probe.table;
                keys.data()[count] = probe.key;
            }
            return count;
        },
        "values"_a.noconvert(), "likely"_a, "scores"_a.noconvert(), "tables"_a.noconvert(), "keys"_a.noconvert(),
        "The first buckets of a query's sequence, of which about `likely` are asked for; returns how many there were. For tests.");
}

}  // namespace lethevec
