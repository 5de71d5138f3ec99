// What the source "graph" holds: vertices with their lists, and a block for each that a search reads.
//
// A vertex has a number that depends on history and is never seen. What may be seen of it, and all that decides on its
// edges, is its vector z. Of two lists that are cached, `near` and `pool`, more is kept than the definition asks for:
// what is past that depends on history as well, and is never seen either.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "memory/growing.h"
#include "memory/wiped.h"
#include "query/prepared.h"
#include "rows/rows.h"
#include "rows/siphash.h"
#include "sources/graph/pieces.h"
#include "sources/graph/pivot_set.h"
#include "sources/source.h"

namespace lethevec {

constexpr int64_t DEGREE = BLOCK;  // edges that pruning and filling leave a vertex at most

constexpr int GRAPH_ENTRY_BITS = 9;  // 2^9 entries at most, about

struct GraphSettings final : SourceSettings {
    std::shared_ptr<const Encoder> encoder;  // its first rotation makes the codes
    Metric metric = Metric::cosine;
    SipKey key;
    int64_t cell_size = 0, cells = 0, pool = 0;

    std::unique_ptr<Source> make() const override;
};

using VertexList = WipedVector<uint32_t>;

struct Vertex {
    uint64_t hash;
    uint32_t row;                      // of its record, or of one of them
    uint32_t parent;                   // NO_VERTEX for the root
    float near_far, pool_far;          // the distances of the last in either cache
    uint16_t near, pool, kept, edges;  // how long these lists are
    bool used, pivot;
    bool near_all, pool_all;  // whether the caches hold all that there is
};
constexpr uint32_t NO_VERTEX = UINT32_MAX;

// A pivot's cell: who is in it, who has it in its near cache, and the number of the pivot.
struct Cell {
    VertexList members, watchers;
    uint32_t number = 0;
};

struct GraphData {
    explicit GraphData(const GraphSettings& settings);

    int64_t d;
    int64_t cells, pool_size;      // of the definition
    int64_t near_room, pool_room;  // of the caches
    int64_t code_bytes, z_bytes, edge_bytes;
    uint64_t limit;  // of the hash of a pivot

    int64_t slots = 0, count = 0;  // vertices that there is room for, and that there are
    std::vector<uint32_t> free;    // numbers that are not in use
    Pieces<Vertex> vertices;
    Pieces<uint32_t> near, pool, kept, edges;
    // Why each of a pool, as far as the definition goes, is kept or not: the number, in F(x), of one that is kept and
    // reaches it, or one of these. What a change leaves as it was need not be measured again.
    static constexpr uint8_t KEPT = 0xff, UNKNOWN = 0xfe;
    Pieces<uint8_t> reached_by;
    // z, and then what is laid out as `Edges` says.
    Pieces<uint8_t> blocks;
    std::vector<VertexList> sought_by;  // y of all F(y) that have it
    std::vector<VertexList> children;
    std::vector<std::unique_ptr<Cell>> cell_of;  // of pivots
    PivotSet pivots;
    uint32_t root = NO_VERTEX;
    uint64_t entry_limit = 0;                         // of the hash of an entry
    std::unordered_map<uint32_t, VertexList> copies;  // rows beside the first
    Growing<uint32_t> vertex_of;                      // by row, one more; 0 where there is none
    // Where a list does not fit a block: more of them, without z.
    Pieces<uint8_t> extras;
    std::vector<uint32_t> free_extras;
    std::unordered_map<uint32_t, std::vector<uint32_t>> more;
    std::vector<uint32_t> first_extra;  // of each vertex that has any: a search asks for it early

    // What a change works with, of every vertex; all zero between changes, but for the stamps, which nobody asks then.
    std::vector<uint8_t> marks, going;
    std::vector<uint32_t> stamps;
    uint32_t stamp = 0;

    Vertex& vertex(uint32_t v) const { return *vertices.at(v); }
    float* z(uint32_t v) const { return reinterpret_cast<float*>(blocks.at(v)); }
    uint32_t cell(uint32_t v) const { return *near.at(v); }
    int64_t near_count(uint32_t v) const { return vertex(v).near < cells ? vertex(v).near : cells; }
    int64_t pool_count(uint32_t v) const { return vertex(v).pool < pool_size ? vertex(v).pool : pool_size; }
    // By the hash, then by the numbers of z.
    bool lower(uint32_t a, uint32_t b) const;

    // For so many vertices.
    uint64_t entry_limit_for(int64_t n) const {
        int bits = 0;
        while (int64_t{1} << bits < n) ++bits;
        return bits <= GRAPH_ENTRY_BITS ? limit : std::min(limit, uint64_t{1} << (64 + GRAPH_ENTRY_BITS - bits));
    }

    // A number for a new vertex. May throw, changing nothing that can be seen.
    uint32_t take_slot();
    // Wipes all that there is of a vertex.
    void release_slot(uint32_t v) noexcept;

    int64_t bytes() const;
    void raw_memory(std::vector<uint8_t>& all) const;
};

// A block of neighbours: codes, two numbers of each, and who they are.
struct Edges {
    // MORE is a flag of the first number: there is another block. Only the first two of a list have it.
    static constexpr uint32_t EMPTY = 0x7fffffff, MORE = 0x80000000;
    Edges(uint8_t* at, int64_t code_bytes)
        : codes(at),
          adds(reinterpret_cast<float*>(at + (BLOCK * code_bytes + 63) / 64 * 64)),
          scales(adds + BLOCK),
          numbers(reinterpret_cast<uint32_t*>(scales + BLOCK)) {}
    static int64_t bytes(int64_t code_bytes) { return (BLOCK * code_bytes + 63) / 64 * 64 + 3 * 4 * BLOCK; }
    uint8_t* codes;
    float *adds, *scales;
    uint32_t* numbers;
};

}  // namespace lethevec
