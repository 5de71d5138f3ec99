#include "sources/graph/rules.h"

#include <algorithm>
#include <limits>

namespace lethevec {

void Rules::measure(const float* z, const uint32_t* some, int64_t n, RuleSpace& space, FarList& out) const {
    space.places.resize(static_cast<size_t>(n));
    space.distances.resize_unfilled(static_cast<size_t>(n));
    out.resize_unfilled(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) space.places[static_cast<size_t>(i)] = g_.z(some[i]);
    kernels_.squared_distances(z, space.places.data(), n, g_.d, space.distances.data());
    for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i)] = {space.distances[static_cast<size_t>(i)], some[i]};
}

void Rules::sort(FarList& some, int64_t most) const {
    const auto order = [this](const Far& a, const Far& b) { return nearer(a, b); };
    if (static_cast<int64_t>(some.size()) > most) {
        std::nth_element(some.begin(), some.begin() + most, some.end(), order);
        some.resize(static_cast<size_t>(most));
    }
    std::sort(some.begin(), some.end(), order);
}

bool Rules::find_pool(uint32_t x, RuleSpace& space, FarList& found) const {
    VertexList& some = space.vertices;
    some.clear();
    if (g_.pivots.size() == 0) {
        for (uint32_t v = 0; v < g_.slots; ++v)
            if (g_.vertex(v).used && v != x) some.push_back(v);
    } else {
        for (int64_t i = 0; i < g_.near_count(x); ++i)
            for (uint32_t v : g_.cell_of[g_.near.at(x)[i]]->members)
                if (v != x) some.push_back(v);
    }
    measure(g_.z(x), some.data(), static_cast<int64_t>(some.size()), space, found);
    const bool all = static_cast<int64_t>(found.size()) <= g_.pool_room;
    sort(found, g_.pool_room);
    return all;
}

int64_t Rules::prune(const Far* some, int64_t n, uint8_t* reached_by) const {
    const float* kept[DEGREE];
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) {
        reached_by[i] = GraphData::UNKNOWN;
        if (count == DEGREE) continue;
        const float* y = g_.z(some[i].vertex);
        int64_t f = 0;
        while (f < count && !(kernels_.squared_distance(kept[f], y, g_.d) < some[i].distance)) ++f;
        reached_by[i] = f < count ? static_cast<uint8_t>(f) : GraphData::KEPT;
        if (f == count) kept[count++] = y;
    }
    return count;
}

int64_t Rules::find_kept(uint32_t x, RuleSpace& space, uint32_t* kept, uint8_t* reached_by) const {
    const int64_t n = g_.pool_count(x);
    measure(g_.z(x), g_.pool.at(x), n, space, space.found);
    prune(space.found.data(), n, reached_by);
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i)
        if (reached_by[i] == GraphData::KEPT) kept[count++] = space.found[static_cast<size_t>(i)].vertex;
    return count;
}

int64_t Rules::find_edges(uint32_t x, RuleSpace& space, uint32_t* edges) const {
    VertexList& some = space.vertices;
    some.assign(g_.kept.at(x), g_.kept.at(x) + g_.vertex(x).kept);
    some.append(g_.sought_by[x].begin(), g_.sought_by[x].end());
    std::sort(some.begin(), some.end());
    some.resize(static_cast<size_t>(std::unique(some.begin(), some.end()) - some.begin()));
    const auto n = static_cast<int64_t>(some.size());
    measure(g_.z(x), some.data(), n, space, space.found);
    sort(space.found, n);
    if (n <= DEGREE) {  // all of them: what pruning leaves out fills the list
        for (int64_t i = 0; i < n; ++i) edges[i] = space.found[static_cast<size_t>(i)].vertex;
        return n;
    }
    std::vector<uint8_t>& reached_by = space.reached_by;
    reached_by.resize(static_cast<size_t>(n));
    int64_t left = DEGREE - prune(space.found.data(), n, reached_by.data()), count = 0;
    for (int64_t i = 0; i < n; ++i)
        if (reached_by[static_cast<size_t>(i)] == GraphData::KEPT || left-- > 0)
            edges[count++] = space.found[static_cast<size_t>(i)].vertex;
    return count;
}

// Both lists are in their order, so the first that is lower is the nearest.
uint32_t Rules::find_parent(uint32_t x) const {
    if (x == g_.root) return NO_VERTEX;
    if (g_.vertex(x).hash < g_.entry_limit) return g_.root;
    Far best = {std::numeric_limits<float>::infinity(), NO_VERTEX};
    const auto look = [&](const uint32_t* some, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
            if (!g_.lower(some[i], x)) continue;
            const Far one = {distance(x, some[i]), some[i]};
            if (best.vertex == NO_VERTEX || nearer(one, best)) best = one;
            return;
        }
    };
    look(g_.pool.at(x), g_.pool_count(x));
    look(g_.near.at(x), g_.near_count(x));
    return best.vertex == NO_VERTEX ? g_.root : best.vertex;
}

// Pruning keeps the same of G(x) as of what G(x) was made from: whoever was left out was so because of one that is
// nearer and kept.
void Rules::find_list(uint32_t x, RuleSpace& space, VertexList& list) const {
    const uint32_t* edges = g_.edges.at(x);
    const int64_t n = g_.vertex(x).edges;
    const VertexList& children = g_.children[x];
    const auto in_order = [&list] {
        std::sort(list.begin(), list.end());
        list.resize(static_cast<size_t>(std::unique(list.begin(), list.end()) - list.begin()));
    };
    list.assign(edges, edges + n);
    list.append(children.begin(), children.end());
    in_order();
    if (static_cast<int64_t>(list.size()) <= DEGREE) return;
    measure(g_.z(x), edges, n, space, space.found);
    std::vector<uint8_t>& reached_by = space.reached_by;
    reached_by.resize(static_cast<size_t>(n));
    prune(space.found.data(), n, reached_by.data());
    const auto keeps = [&reached_by](int64_t i) { return reached_by[static_cast<size_t>(i)] == GraphData::KEPT; };
    list.assign(children.begin(), children.end());
    for (int64_t i = 0; i < n; ++i)
        if (keeps(i)) list.push_back(edges[i]);
    in_order();
    const auto firm = static_cast<int64_t>(list.size());
    for (int64_t i = 0; i < n && static_cast<int64_t>(list.size()) < DEGREE; ++i)
        if (!keeps(i) && !std::binary_search(list.begin(), list.begin() + firm, edges[i])) list.push_back(edges[i]);
    std::sort(list.begin(), list.end());
}

// --- Codes of edges

EdgeWriter::EdgeWriter(GraphData& graph, const Encoder& encoder)
    : g_(graph),
      encoder_(encoder),
      residual_(static_cast<size_t>(graph.d)),
      turned_(static_cast<size_t>(graph.d)),
      scratch_(static_cast<size_t>(encoder.frame->scratch())),
      code_(static_cast<size_t>(graph.code_bytes)) {}

void EdgeWriter::prepare(uint32_t x, int64_t n) {
    if (seen_.size() < static_cast<size_t>(n)) seen_.resize(static_cast<size_t>(n));
    const auto wanted = static_cast<size_t>(blocks_for(n) - 1);
    const auto found = g_.more.find(x);
    const size_t had = found == g_.more.end() ? 0 : found->second.size();
    if (wanted == had || wanted == 0) return;
    g_.more[x].reserve(wanted);
    promised_ += wanted;
    while (g_.free_extras.size() < promised_) {
        const int64_t extra = g_.extras.size();
        if (g_.free_extras.capacity() <= static_cast<size_t>(extra))
            g_.free_extras.reserve(2 * static_cast<size_t>(extra) + 1);
        g_.extras.resize(extra + 1);
        g_.free_extras.push_back(static_cast<uint32_t>(extra));
    }
}

void EdgeWriter::clear(const Edges& block, int64_t slot) const {
    for (int64_t byte = 0; byte < g_.code_bytes; ++byte) block.codes[byte * BLOCK + slot] = 0;
    block.adds[slot] = std::numeric_limits<float>::infinity();
    block.scales[slot] = 0.0f;
    block.numbers[slot] = Edges::EMPTY | (block.numbers[slot] & Edges::MORE);
}

void EdgeWriter::put(const Edges& block, int64_t slot, uint32_t x, uint32_t y) {
    const Kernels& kernels = active();
    const FrameView frame = encoder_.frame->view();
    if (!turned_is_set_) {
        kernels.superbit(frame, g_.z(x), 1, {turned_.data(), nullptr, g_.d}, scratch_.data());
        turned_is_set_ = true;
    }
    for (int64_t j = 0; j < g_.d; ++j) residual_[static_cast<size_t>(j)] = g_.z(y)[j] - g_.z(x)[j];
    double along = 0.0, size = 0.0;
    kernels.superbit(frame, residual_.data(), 1, {nullptr, code_.data(), g_.d, &along}, scratch_.data());
    kernels.norms(residual_.data(), g_.d, 1, &size);
    const double square = size * size, scale = along > 0.0 ? 2.0 * square / along : 0.0;
    const double own = kernels.code_sum(code_.data(), 0, turned_.data(), g_.d);
    for (int64_t byte = 0; byte < g_.code_bytes; ++byte)
        block.codes[byte * BLOCK + slot] = code_[static_cast<size_t>(byte)];
    block.adds[slot] = static_cast<float>(square + scale * own);
    block.scales[slot] = static_cast<float>(scale);
    block.numbers[slot] = y | (block.numbers[slot] & Edges::MORE);
}

void EdgeWriter::release(uint32_t x) noexcept {
    const auto found = g_.more.find(x);
    if (found == g_.more.end()) return;
    for (uint32_t extra : found->second) {
        g_.extras.clear(extra);
        g_.free_extras.push_back(extra);  // there is room for all
    }
    g_.more.erase(found);
}

void EdgeWriter::write(uint32_t x, const uint32_t* list, int64_t n) noexcept {
    const auto wanted = static_cast<size_t>(blocks_for(n) - 1);
    const Edges first(g_.blocks.at(x) + g_.z_bytes, g_.code_bytes);
    auto found = g_.more.find(x);
    const size_t had = first.numbers[0] & Edges::MORE ? found->second.size() : 0;
    turned_is_set_ = false;
    std::fill_n(seen_.begin(), n, uint8_t{0});
    if (had == wanted) {
        each_block(g_, x, [&](const Edges& block) {
            for (int64_t slot = 0; slot < BLOCK; ++slot) {
                const uint32_t y = block.numbers[slot] & ~Edges::MORE;
                if (y == Edges::EMPTY) continue;
                const uint32_t* at = std::lower_bound(list, list + n, y);
                if (at != list + n && *at == y)
                    seen_[static_cast<size_t>(at - list)] = 1;
                else
                    clear(block, slot);
            }
        });
    } else {
        for (int64_t slot = 0; slot < BLOCK; ++slot) clear(first, slot);
        first.numbers[0] = Edges::EMPTY;
        if (found != g_.more.end()) {
            for (uint32_t extra : found->second) {
                g_.extras.clear(extra);
                g_.free_extras.push_back(extra);
            }
            found->second.clear();
        }
        for (size_t i = 0; i < wanted; ++i) {
            const uint32_t extra = g_.free_extras.back();
            g_.free_extras.pop_back();
            found->second.push_back(extra);
            if (i == 0) g_.first_extra[x] = extra;
            const Edges block(g_.extras.at(extra), g_.code_bytes);
            for (int64_t slot = 0; slot < BLOCK; ++slot) clear(block, slot);
            for (int64_t slot = 0; slot < BLOCK; ++slot) block.numbers[slot] = Edges::EMPTY;
            if (i == 0 && wanted > 1) block.numbers[0] |= Edges::MORE;
        }
        if (wanted)
            first.numbers[0] = Edges::EMPTY | Edges::MORE;
        else if (found != g_.more.end())
            g_.more.erase(found);
        if (!wanted) g_.first_extra[x] = 0;
    }
    int64_t next = 0;
    each_block(g_, x, [&](const Edges& block) {
        for (int64_t slot = 0; slot < BLOCK; ++slot) {
            if ((block.numbers[slot] & ~Edges::MORE) != Edges::EMPTY) continue;
            while (next < n && seen_[static_cast<size_t>(next)]) ++next;
            if (next == n) return;
            put(block, slot, x, list[next++]);
        }
    });
    residual_.zero();
    turned_.zero();
    scratch_.zero();
    code_.zero();
}

}  // namespace lethevec
