#include "sources/graph/data.h"

#include <algorithm>
#include <limits>

#include "memory/wipe.h"

namespace lethevec {

namespace {

// As many more as make it rare that a list has to be made from scratch because too many of it have gone.
int64_t room_beyond(int64_t n) { return n + n / 2 + 1; }

}  // namespace

GraphData::GraphData(const GraphSettings& settings)
    : d(settings.encoder->dim),
      cells(settings.cells),
      pool_size(settings.pool),
      near_room(room_beyond(settings.cells)),
      pool_room(room_beyond(settings.pool)),
      code_bytes((d + 7) / 8),
      z_bytes((4 * d + 63) / 64 * 64),
      edge_bytes(Edges::bytes(code_bytes)),
      limit(UINT64_MAX / static_cast<uint64_t>(settings.cell_size) +
            (UINT64_MAX % static_cast<uint64_t>(settings.cell_size) + 1) / static_cast<uint64_t>(settings.cell_size)),
      vertices(1),
      near(near_room),
      pool(pool_room),
      kept(DEGREE),
      edges(DEGREE),
      reached_by(settings.pool),
      blocks(z_bytes + edge_bytes),
      pivots(d),
      vertex_of(1),
      extras(edge_bytes) {}

bool GraphData::lower(uint32_t a, uint32_t b) const {
    const uint64_t own = vertex(a).hash, other = vertex(b).hash;
    if (own != other) return own < other;
    return a != b && std::lexicographical_compare(z(a), z(a) + d, z(b), z(b) + d);
}

uint32_t GraphData::take_slot() {
    if (free.empty()) {
        const int64_t wanted = slots + 1;
        if (free.capacity() < static_cast<size_t>(wanted)) free.reserve(static_cast<size_t>(2 * wanted));
        const auto lists = static_cast<size_t>(wanted);
        if (sought_by.size() < lists) sought_by.resize(lists);
        if (children.size() < lists) children.resize(lists);
        if (cell_of.size() < lists) cell_of.resize(lists);
        if (marks.size() < lists) marks.resize(lists);
        if (going.size() < lists) going.resize(lists);
        if (stamps.size() < lists) stamps.resize(lists);
        if (first_extra.size() < lists) first_extra.resize(lists);
        vertices.resize(wanted);
        near.resize(wanted);
        pool.resize(wanted);
        kept.resize(wanted);
        edges.resize(wanted);
        reached_by.resize(wanted);
        blocks.resize(wanted);
        free.push_back(static_cast<uint32_t>(slots));
        slots = wanted;
    }
    const uint32_t v = free.back();
    free.pop_back();
    vertex(v) = Vertex{};
    vertex(v).used = true;
    vertex(v).parent = NO_VERTEX;
    const Edges own(blocks.at(v) + z_bytes, code_bytes);
    std::fill_n(own.adds, BLOCK, std::numeric_limits<float>::infinity());
    std::fill_n(own.numbers, BLOCK, Edges::EMPTY);
    ++count;
    return v;
}

void GraphData::release_slot(uint32_t v) noexcept {
    vertices.clear(v);
    near.clear(v);
    pool.clear(v);
    kept.clear(v);
    edges.clear(v);
    reached_by.clear(v);
    blocks.clear(v);
    sought_by[v] = VertexList();
    children[v] = VertexList();
    cell_of[v].reset();
    first_extra[v] = 0;
    free.push_back(v);  // there is room for all
    --count;
}

// What follows from the vertices and their lists, not from how they came about.
int64_t GraphData::bytes() const {
    int64_t total = vertices.bytes_of(count) + near.bytes_of(count) + pool.bytes_of(count) + kept.bytes_of(count) +
                    edges.bytes_of(count) + reached_by.bytes_of(count) + blocks.bytes_of(count) + pivots.bytes();
    total += count * static_cast<int64_t>(2 * sizeof(VertexList) + sizeof(std::unique_ptr<Cell>) + sizeof(uint32_t));
    for (uint32_t v = 0; v < slots; ++v) {
        if (!vertex(v).used) continue;
        const int64_t seekers = static_cast<int64_t>(sought_by[v].size() + children[v].size());
        total += 4 * seekers + 4 * (1 + near_count(v));
    }
    for (const auto& [v, blocks_of_it] : more) total += extras.bytes_of(static_cast<int64_t>(blocks_of_it.size()));
    return total;
}

void GraphData::raw_memory(std::vector<uint8_t>& all) const {
    vertices.raw_memory(all);
    near.raw_memory(all);
    pool.raw_memory(all);
    kept.raw_memory(all);
    edges.raw_memory(all);
    reached_by.raw_memory(all);
    blocks.raw_memory(all);
    extras.raw_memory(all);
    pivots.raw_memory(all);
    vertex_of.raw_memory(all);
    for (const auto* lists : {&sought_by, &children})
        for (const VertexList& list : *lists) list.raw_memory(all);
    for (const auto& cell : cell_of) {
        if (!cell) continue;
        cell->members.raw_memory(all);
        cell->watchers.raw_memory(all);
    }
    for (const auto& of_one : copies) of_one.second.raw_memory(all);
}

}  // namespace lethevec
