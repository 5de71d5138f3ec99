// The rules of the graph, each for one vertex: what the spec's graph.py says. They read the graph and change nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/dispatch.h"
#include "sources/graph/data.h"

namespace lethevec {

// A vertex, and how far it is from another.
struct Far {
    float distance;
    uint32_t vertex;
};
using FarList = WipedVector<Far>;

// What the rules work in; each thread has its own.
struct RuleSpace {
    std::vector<const float*> places;
    WipedVector<float> distances;
    VertexList vertices;
    FarList found;
    std::vector<uint8_t> reached_by;
};

class Rules {
public:
    explicit Rules(const GraphData& graph) : g_(graph), kernels_(active()) {}

    float distance(uint32_t a, uint32_t b) const { return kernels_.squared_distance(g_.z(a), g_.z(b), g_.d); }
    bool nearer(const Far& a, const Far& b) const {
        return a.distance < b.distance || (a.distance == b.distance && g_.lower(a.vertex, b.vertex));
    }
    // Some vertices with their distances to z, in their order.
    void measure(const float* z, const uint32_t* some, int64_t n, RuleSpace& space, FarList& out) const;
    // The nearest `most` of them, nearest first.
    void sort(FarList& some, int64_t most) const;

    // N(z) and more, nearest first: as many as the cache has room for of the pivots that are not marked.
    template <class Visit>
    void find_near(const float* z, int64_t n, const uint8_t* marked, RuleSpace& space, Visit visit) const {
        g_.pivots.nearest(z, n, g_.near_room, marked, [&](int64_t i, const std::vector<uint32_t>& some) {
            FarList& found = space.found;
            measure(z + i * g_.d, some.data(), static_cast<int64_t>(some.size()), space, found);
            sort(found, g_.near_room);
            visit(i, found);
        });
    }
    // P(x) and more, nearest first: as many as the cache has room for. Returns whether these are all.
    bool find_pool(uint32_t x, RuleSpace& space, FarList& found) const;
    // Of n vertices, nearest first: KEPT for those that pruning keeps, for others which of the kept ones reaches it,
    // and UNKNOWN where that need not be asked. Returns how many it keeps.
    int64_t prune(const Far* some, int64_t n, uint8_t* reached_by) const;
    // F(x): at most DEGREE, and why. Returns how many.
    int64_t find_kept(uint32_t x, RuleSpace& space, uint32_t* kept, uint8_t* reached_by) const;
    // G(x).
    int64_t find_edges(uint32_t x, RuleSpace& space, uint32_t* edges) const;
    uint32_t find_parent(uint32_t x) const;
    // The list of x, ascending by number.
    void find_list(uint32_t x, RuleSpace& space, VertexList& list) const;

private:
    const GraphData& g_;
    const Kernels& kernels_;
};

// Makes the codes of edges. What it needs is asked for when it is made, so that writing cannot fail.
class EdgeWriter {
public:
    EdgeWriter(GraphData& graph, const Encoder& encoder);
    // Blocks that a list of n takes.
    static int64_t blocks_for(int64_t n) { return n <= BLOCK ? 1 : (n + BLOCK - 1) / BLOCK; }
    // Asks for what `write` will need for a list of n.
    void prepare(uint32_t x, int64_t n);
    // The list of x, ascending by number. What is in its blocks already stays where it is, unless there have to be more
    // or fewer of them.
    void write(uint32_t x, const uint32_t* list, int64_t n) noexcept;
    void release(uint32_t x) noexcept;

private:
    void clear(const Edges& block, int64_t slot) const;
    void put(const Edges& block, int64_t slot, uint32_t x, uint32_t y);

    GraphData& g_;
    const Encoder& encoder_;
    WipedVector<float> residual_, turned_, scratch_;
    WipedVector<uint8_t> code_;
    std::vector<uint8_t> seen_;
    size_t promised_ = 0;  // blocks that `write` may take
    bool turned_is_set_ = false;
};

// The blocks of a vertex, the first one first.
template <class Visit>
void each_block(const GraphData& g, uint32_t x, Visit visit) {
    const Edges first(g.blocks.at(x) + g.z_bytes, g.code_bytes);
    visit(first);
    if (!(first.numbers[0] & Edges::MORE)) return;
    const Edges second(g.extras.at(g.first_extra[x]), g.code_bytes);
    visit(second);
    if (!(second.numbers[0] & Edges::MORE)) return;
    const std::vector<uint32_t>& all = g.more.find(x)->second;
    for (size_t i = 1; i < all.size(); ++i) visit(Edges(g.extras.at(all[i]), g.code_bytes));
}

}  // namespace lethevec
