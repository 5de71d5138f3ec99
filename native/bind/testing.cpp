// What only tests ask for: looks into memory, structures and registers, and parts of the core by themselves.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "bind/bind.h"
#include "bind/sources.h"
#include "kernels/dispatch.h"
#include "rows/outlines.h"
#include "search/outlined.h"
#include "sources/graph/graph.h"
#include "sources/graph/plan.h"
#include "sources/graph/rules.h"
#include "sources/pivots/pivots.h"
#include "sources/scan/plan.h"
#include "sources/tables/probing.h"
#include "sources/tables/tables.h"

namespace lethevec {

namespace {

template <class T>
nb::ndarray<nb::numpy, T> to_array(std::vector<T>&& data, std::initializer_list<size_t> shape) {
    auto* kept = new std::vector<T>(std::move(data));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T>(kept->data(), shape, owner);
}

// What a graph keeps twice must agree, and nothing may be known of what is not there.
void check_graph(const GraphData& g, int64_t rows) {
    const auto has = [](const VertexList& list, uint32_t v) { return std::count(list.begin(), list.end(), v) == 1; };
    std::vector<int64_t> seekers(static_cast<size_t>(g.slots)), watchers = seekers, members = seekers, born = seekers;
    int64_t used = 0, held = 0;
    for (uint32_t v = 0; v < g.slots; ++v) {
        const Vertex& own = g.vertex(v);
        if (!own.used) {
            expect(g.sought_by[v].empty() && g.children[v].empty() && !g.cell_of[v], "something is left of a vertex");
            continue;
        }
        ++used;
        const auto copies = g.copies.find(v);
        held += 1 + (copies == g.copies.end() ? 0 : static_cast<int64_t>(copies->second.size()));
        expect(own.row < rows && g.vertex_of[own.row] == v + 1, "a row does not know its vertex");
        expect(own.pivot == (g.cell_of[v] != nullptr), "a cell without a pivot, or a pivot without a cell");
        if (own.pivot) expect(g.pivots.vertex(g.cell_of[v]->number) == v, "a pivot has the number of another");
        for (int64_t i = 0; i < own.kept; ++i) {
            expect(has(g.sought_by[g.kept.at(v)[i]], v), "a vertex does not know who keeps it");
            ++seekers[g.kept.at(v)[i]];
        }
        for (int64_t i = 0; i < own.near; ++i) {
            expect(g.vertex(g.near.at(v)[i]).used, "a pivot that is gone is near");
            expect(has(g.cell_of[g.near.at(v)[i]]->watchers, v), "a cell does not know who it is near to");
            ++watchers[g.near.at(v)[i]];
        }
        for (int64_t i = 0; i < own.pool; ++i) expect(g.vertex(g.pool.at(v)[i]).used, "a pool holds what is gone");
        if (own.near) {
            expect(has(g.cell_of[g.cell(v)]->members, v), "a vertex is not in its cell");
            ++members[g.cell(v)];
        }
        if (own.parent != NO_VERTEX) {
            expect(has(g.children[own.parent], v), "a parent does not know its child");
            ++born[own.parent];
        }
        expect((own.parent == NO_VERTEX) == (v == g.root), "the root has a parent, or another has none");
    }
    for (uint32_t v = 0; v < g.slots; ++v) {
        if (!g.vertex(v).used) continue;
        expect(seekers[v] == static_cast<int64_t>(g.sought_by[v].size()), "somebody keeps a vertex no longer");
        expect(born[v] == static_cast<int64_t>(g.children[v].size()), "a child has another parent");
        if (!g.cell_of[v]) continue;
        expect(watchers[v] == static_cast<int64_t>(g.cell_of[v]->watchers.size()),
               "a cell is near to somebody no longer");
        expect(members[v] == static_cast<int64_t>(g.cell_of[v]->members.size()), "a cell has one too many");
    }
    expect(used == g.count && held == rows, "the graph holds other rows than the index");
}

constexpr size_t LOOKED_AT = 128 * 1024;
constexpr uint8_t PAINT = 0xA5;

__attribute__((noinline)) void paint_stack() {
    uint8_t below[LOOKED_AT];
    std::memset(below, PAINT, sizeof below);
    __asm__ __volatile__("" : : "r"(below) : "memory");
}

// How far down the paint is gone.
__attribute__((noinline)) size_t unpainted_stack() {
    uint8_t below[LOOKED_AT];
    __asm__ __volatile__("" : : "r"(below) : "memory");
    return LOOKED_AT - static_cast<size_t>(
                           std::find_if(below, below + LOOKED_AT, [](uint8_t byte) { return byte != PAINT; }) - below);
}

template <class Call>
size_t stack_of(Call call) {
    paint_stack();
    call();
    return unpainted_stack();
}

}  // namespace

void bind_testing(nb::module_& module) {
    nb::module_ testing = module.def_submodule("testing", "For tests alone.");
    testing.def(
        "registers",
        [] {
            uint8_t held[REGISTER_BYTES];
            const size_t bytes = read_registers(held);
            return nb::bytes(reinterpret_cast<const char*>(held), bytes);
        },
        "What the wide registers of the CPU hold.");

    testing.def(
        "outline",
        [](const std::vector<float>& x) {
            Outlines outlines(static_cast<int64_t>(x.size()));
            outlines.append(1);
            outlines.set(0, x.data());
            return nb::bytes(reinterpret_cast<const char*>(outlines.at(0)), static_cast<size_t>(outlines.stride()));
        },
        "x"_a, "The outline of a vector, as it is kept beside its row.");

    testing.def(
        "outline_bounds",
        [](const std::string& metric, const std::vector<float>& query, const std::vector<float>& x) {
            const auto d = static_cast<int64_t>(query.size()), n = static_cast<int64_t>(x.size()) / d;
            Outlines outlines(d);
            outlines.append(n);
            std::vector<uint32_t> rows;
            for (int64_t row = 0; row < n; ++row) {
                outlines.set(static_cast<uint32_t>(row), x.data() + row * d);
                rows.push_back(static_cast<uint32_t>(row));
            }
            std::vector<float> out(rows.size());
            const Metric how = metric == "ip" ? Metric::ip : metric == "l2" ? Metric::l2 : Metric::cosine;
            OutlinedQuery(outlines, how, query.data(), d).bounds(rows.data(), n, out.data());
            return out;
        },
        "metric"_a, "query"_a, "x"_a, "How near vectors can be at most, by their outlines; under l2, squared.");

    testing.def(
        "stack_of_forget",
        [](Index& index, int64_t id) {
            return std::make_pair(stack_of([&] { index.forget(&id, 1, true); }), index.stack_of_forget());
        },
        "index"_a, "id"_a, "How many bytes of the stack it takes, and how many are cleared for it.");
    testing.def(
        "stack_of_others",
        [](Index& index, Array<const float, 1> x, int64_t id) {
            int64_t ids[3];
            float distances[3];
            std::vector<std::pair<size_t, size_t>> taken;
            taken.emplace_back(stack_of([&] { index.add(x.data(), &id, 1, 1); }), STACK);
            taken.emplace_back(stack_of([&] { index.update(x.data(), &id, 1, 1); }), DEEP_STACK);
            taken.emplace_back(stack_of([&] { index.search({x.data(), 1, 3}, {ids, distances}); }), STACK);
            HitList hits;
            taken.emplace_back(stack_of([&] { index.search_radius(x.data(), 1.0f, {}, hits); }), STACK);
            return taken;
        },
        "index"_a, "x"_a.noconvert(), "id"_a, "The same of add, update, search and search_radius.");

    testing.def(
        "raw_memory",
        [](const Index& index) {
            std::vector<uint8_t> all;
            {
                Unlocked released;
                all = index.raw_memory();
            }
            return nb::bytes(reinterpret_cast<const char*>(all.data()), all.size());
        },
        "index"_a, "A copy of every byte that records live in, in use or not.");

    testing.def(
        "scan_plan",
        [](int64_t k, double effort) {
            const ScanPlan plan = plan_scan(k, effort);
            return std::make_tuple(plan.reference, plan.missed, plan.most, plan.further);
        },
        "k"_a, "effort"_a, "How much a search that scans looks at, where errors are known.");
    testing.def("scan_survivors", &scan_survivors, "records"_a, "allowed"_a, "k"_a, "effort"_a, "staged"_a,
                "How many go on where they are not.");

    testing.def(
        "activate",
        [](Array<const float, 1> x, Array<float, 1> out) {
            expect(x.shape(0) == out.shape(0), "out: wrong shape");
            active().activate(x.data(), rows(x), out.data());
        },
        "x"_a.noconvert(), "out"_a.noconvert());

    testing.def(
        "table_contents",
        [](const Index& index, int64_t table, Array<int64_t, 1> ids, Array<uint32_t, 1> keys,
           Array<uint8_t, 2> signatures) {
            Unlocked released;
            index.inspect([&](const Rows& all, const Source& source) {
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
                        expect(row < all.size() && tables.find(row, table, known),
                               "a row lies where its place does not say");
                        expect(known == static_cast<uint32_t>(key), "a row lies in a bucket of another key");
                        ids.data()[at] = all.id(row);
                        keys.data()[at] = static_cast<uint32_t>(key);
                        buckets.read_signature(place, signatures.data() + buckets.signature_bytes() * at++);
                    });
                expect(at == all.size(), "the table holds fewer rows than the index");
            });
        },
        "index"_a, "table"_a, "ids"_a.noconvert(), "keys"_a.noconvert(), "signatures"_a.noconvert(),
        "Everything in a table, bucket by bucket. Throws where places and buckets disagree.");

    testing.def(
        "probing",
        [](Array<const float, 2> values, double likely, Array<float, 1> scores, Array<uint32_t, 1> tables,
           Array<uint32_t, 1> keys) {
            expect(rows(values) >= 1 && rows(values) <= Probing::MAX_TABLES, "values: wrong number of tables");
            expect(columns(values) >= 1 && columns(values) <= Probing::MAX_BITS, "values: wrong number of bits");
            expect(rows(scores) == rows(tables) && rows(tables) == rows(keys),
                   "scores, tables, keys: different lengths");
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
        "The first buckets of a query's sequence, of which about `likely` are asked for; returns how many there were. "
        "");

    testing.def(
        "siphash", [](uint64_t k0, uint64_t k1, int64_t id) { return siphash({k0, k1}, static_cast<uint64_t>(id)); },
        "k0"_a, "k1"_a, "id"_a, "The keyed hash that says whether an id is a pivot's.");

    testing.def(
        "pivot_cells",
        [](const Index& index) {
            std::vector<int64_t> ids, counts, sums, square_sums;
            std::vector<uint8_t> real;
            std::vector<float> centres, origins, steps, penalties;
            std::vector<int8_t> means;
            int64_t d = 0;
            index.inspect([&](const Rows& rows, const Source& source) {
                const Pivots& pivots = pivots_of(source);
                d = rows.layout().dim;
                for (int64_t c = 0; c < pivots.cells(); ++c) {
                    ids.push_back(pivots.centres().id(c));
                    real.push_back(!pivots.is_void());
                    counts.push_back(pivots.contents().size(c));
                    centres.insert(centres.end(), pivots.centres().row(c), pivots.centres().row(c) + d);
                    origins.insert(origins.end(), pivots.origins().row(c), pivots.origins().row(c) + d);
                    sums.insert(sums.end(), pivots.means().sums(c), pivots.means().sums(c) + d);
                    square_sums.push_back(pivots.means().square_sum(c));
                    for (int64_t j = 0; j < d; ++j) means.push_back(pivots.means().small(c, j));
                    steps.push_back(pivots.means().step(c));
                    penalties.push_back(pivots.means().penalty(c));
                }
            });
            const size_t n = ids.size(), wide = static_cast<size_t>(d);
            return nb::make_tuple(to_array(std::move(ids), {n}), to_array(std::move(real), {n}),
                                  to_array(std::move(counts), {n}), to_array(std::move(centres), {n, wide}),
                                  to_array(std::move(origins), {n, wide}), to_array(std::move(sums), {n, wide}),
                                  to_array(std::move(square_sums), {n}), to_array(std::move(means), {n, wide}),
                                  to_array(std::move(steps), {n}), to_array(std::move(penalties), {n}));
        },
        "index"_a, "Everything that is kept of the cells.");

    testing.def(
        "pivot_records",
        [](const Index& index, int64_t code_bytes) {
            std::vector<int64_t> ids, cells;
            std::vector<float> sizes, offsets, scales, biases;
            std::vector<uint8_t> codes;
            index.inspect([&](const Rows& rows, const Source& source) {
                const Pivots& pivots = pivots_of(source);
                codes.resize(static_cast<size_t>(rows.size() * code_bytes));
                for (int64_t c = 0; c < pivots.cells(); ++c)
                    for (uint32_t slot = 0; slot < pivots.contents().size(c); ++slot) {
                        uint32_t own_cell = 0, own_slot = 0;
                        const uint32_t row = pivots.contents().row(c, slot);
                        expect(row < rows.size() && pivots.find(row, own_cell, own_slot),
                               "a cell holds a row that is not there");
                        expect(own_cell == c && own_slot == slot, "a row lies where its link does not say");
                        expect(static_cast<int64_t>(ids.size()) < rows.size(),
                               "the cells hold more rows than the index");
                        CellNumbers numbers;
                        pivots.contents().read(c, slot, codes.data() + ids.size() * static_cast<size_t>(code_bytes),
                                               numbers);
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
            return nb::make_tuple(to_array(std::move(ids), {n}), to_array(std::move(cells), {n}),
                                  to_array(std::move(sizes), {n}), to_array(std::move(offsets), {n}),
                                  to_array(std::move(scales), {n}), to_array(std::move(biases), {n}),
                                  to_array(std::move(codes), {n, static_cast<size_t>(code_bytes)}));
        },
        "index"_a, "code_bytes"_a, "Everything that is kept of the records. Throws where links and cells disagree.");

    testing.def("vector_hash", [](uint64_t k0, uint64_t k1, Array<const float, 1> z) {
        return siphash({k0, k1}, reinterpret_cast<const uint8_t*>(z.data()), 4 * rows(z));
    });
    testing.def("graph_pool", &graph_pool, "records"_a, "allowed"_a, "k"_a, "effort"_a);

    testing.def(
        "graph_vertices",
        [](const Index& index) {
            nb::list all;
            index.inspect([&](const Rows& rows, const Source& source) {
                const GraphData& g = graph_of(source).data();
                check_graph(g, rows.size());
                const auto hashes = [&](const uint32_t* some, int64_t n) {
                    nb::list list;
                    for (int64_t i = 0; i < n; ++i) list.append(g.vertex(some[i]).hash);
                    return list;
                };
                for (uint32_t v = 0; v < g.slots; ++v) {
                    const Vertex& own = g.vertex(v);
                    if (!own.used) continue;
                    nb::list ids, edges;
                    ids.append(rows.id(own.row));
                    const auto copies = g.copies.find(v);
                    if (copies != g.copies.end())
                        for (uint32_t row : copies->second) ids.append(rows.id(row));
                    each_block(g, v, [&](const Edges& block) {
                        for (int64_t slot = 0; slot < BLOCK; ++slot) {
                            const uint32_t y = block.numbers[slot] & ~Edges::MORE;
                            if (y == Edges::EMPTY) continue;
                            std::vector<char> code;
                            for (int64_t byte = 0; byte < g.code_bytes; ++byte)
                                code.push_back(static_cast<char>(block.codes[byte * BLOCK + slot]));
                            edges.append(nb::make_tuple(g.vertex(y).hash, nb::bytes(code.data(), code.size()),
                                                        block.adds[slot], block.scales[slot]));
                        }
                    });
                    nb::object parent = nb::none();
                    if (own.parent != NO_VERTEX) parent = nb::cast(g.vertex(own.parent).hash);
                    all.append(nb::make_tuple(own.hash, ids, hashes(g.near.at(v), g.near_count(v)),
                                              hashes(g.pool.at(v), g.pool_count(v)), hashes(g.kept.at(v), own.kept),
                                              hashes(g.edges.at(v), own.edges), parent, edges));
                }
            });
            return all;
        },
        "index"_a,
        "Of each vertex its hash, ids, near pivots, pool, kept, edges, parent, and list with codes and numbers. Throws "
        "where the parts of the graph disagree.");
}

}  // namespace lethevec
