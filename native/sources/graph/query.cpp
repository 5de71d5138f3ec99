// A search in the graph. Mirrors `walk` of the spec's graph_search.py.
#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "kernels/dispatch.h"
#include "kernels/walk.h"
#include "memory/wiped.h"
#include "query/memory.h"
#include "sources/elsewhere.h"
#include "sources/graph/graph.h"
#include "sources/graph/plan.h"
#include "sources/graph/rules.h"

namespace lethevec {

namespace {

constexpr float FARTHEST = std::numeric_limits<float>::infinity();
// How near to ask for memory: into the second cache. The first has room for few lines that are on their way.
constexpr int NEAR = 2;
constexpr int64_t WALKS_TOGETHER = 4;
// A pool holds so many more than are asked for: who comes next may be one of these.
constexpr int64_t SPARE = 8;
static_assert(SPARE >= GRAPH_STARTS, "what `start_more` puts into a pool must not drop out of it");

// A function that only asks for memory has no effect, for a compiler, which then leaves out its calls. The empty
// instruction is an effect.
void ask_for(const uint8_t* at, int64_t bytes) {
    asm volatile("");
    for (int64_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(at + byte, 0, NEAR);
}

}  // namespace

class Graph::Query {
public:
    Query(const GraphData& graph, const Encoder& encoder) : g_(graph), encoder_(encoder), kernels_(active()) {}

    // A walk begins: it finds the vertices that a search looks at, with their squared distances. What is given stays
    // where it is until the walk has ended.
    void begin(const float* q, int64_t size, const Scope& scope) {
        memory_->clear_bits();
        prepare(q);
        std::vector<uint64_t>& bits = memory_->bits;
        if (bits.size() * 64 < static_cast<size_t>(g_.slots)) bits.resize(static_cast<size_t>(g_.slots) / 64 + 1);
        bits_ = bits.data();
        walk_.looked_at = bits_;
        q_ = q;
        size_ = size;
        scope_ = &scope;
        start(size + SPARE);
    }
    // One vertex further; false at the end. Which one comes after it is decided before its neighbours are known, so
    // that it is on its way while these are put into the pool, and while other walks take their steps.
    bool step() {
        skip_looked_at();
        const WalkPool& pool = walk_.pool;
        if (pool.next >= size_ && met_enough()) return false;
        const bool none = chosen_ == NO_VERTEX && pool.next == pool.count;
        if (dropped_out_ || (none && pool.count == pool.most)) {
            // The pool has to be larger, and it begins again. The first steps will be the same.
            memory_->clear_bits();
            start(4 * pool.most);
            return true;
        }
        if (none) return start_more();
        if (chosen_ == NO_VERTEX) ask_for(chosen_ = pool.vertices[pool.next]);
        const uint32_t x = chosen_;
        const float base = look(x);
        choose();
        ask_for_extras(x);
        each_block(g_, x, [&](const Edges& block) { look_at_edges(block, base); });
        return true;
    }
    const std::vector<Far>& looked_at() const { return memory_->looked_at; }
    // Whether far fewer rows may be found of the vertices that were looked at first than is usual.
    bool lies_elsewhere(const Scope& scope) const {
        if (scope.allowed.all()) return false;
        const int64_t records = scope.rows.size(), allowed = scope.allowed.count();
        const auto near = static_cast<size_t>(graph_near(records, allowed, scope.k));
        const std::vector<Far>& looked_at = memory_->looked_at;
        if (looked_at.size() < near) return false;
        int64_t met = 0, met_allowed = 0;
        for (size_t i = 0; i < near; ++i)
            each_row(looked_at[i].vertex, [&](uint32_t row) {
                ++met;
                met_allowed += scope.allowed.has(row);
            });
        return lethevec::lies_elsewhere(records, allowed, met, met_allowed);
    }
    // The rows of those that may be among the k nearest of the rows that may be found, and where `distances` is not
    // null, their squared distances; returns how many of these there were.
    int64_t gather(const Scope& scope, float slack, std::vector<uint32_t>& rows, std::vector<float>* distances);
    int64_t blocks() const { return blocks_; }

private:
    // A pool's memory.
    struct PoolRoom {
        std::vector<float> estimates;
        std::vector<uint32_t> vertices;
        WalkPool of(int64_t size) {
            const auto room = static_cast<size_t>(size + POOL_ROOM);
            if (estimates.size() < room) {
                estimates.resize(room);
                vertices.resize(room);
            }
            return {estimates.data(), vertices.data(), size, 0, 0};
        }
    };

    // Whether there are k records, or as many as there can be, among those that were looked at. With an allow-list it
    // does not matter: if there are not, all that are allowed will be looked at.
    bool met_enough() const {
        const int64_t wanted = std::min(scope_->k, scope_->allowed.count());
        const std::vector<Far>& looked_at = memory_->looked_at;
        if (!scope_->allowed.masks().empty() || static_cast<int64_t>(looked_at.size()) >= wanted) return true;
        int64_t met = 0;
        for (const Far& one : looked_at) each_row(one.vertex, [&](uint32_t) { ++met; });
        return met >= wanted;
    }

    template <class Visit>
    void each_row(uint32_t v, Visit visit) const {
        visit(g_.vertex(v).row);
        if (g_.copies.empty()) return;
        const auto copies = g_.copies.find(v);
        if (copies == g_.copies.end()) return;
        for (uint32_t copy : copies->second) visit(copy);
    }

    // What a thread keeps for its next search.
    struct Memory {
        FirstWeights weights;
        WipedVector<float> values, scratch;
        PoolRoom pool, starts;
        std::vector<uint64_t> bits;  // of the vertices that were looked at
        std::vector<Far> looked_at, waiting;
        std::vector<std::pair<float, uint32_t>> found;
        std::vector<float> nearest;
        void leave() {
            weights.wipe();
            values.zero();
            scratch.zero();
            clear_bits();
        }
        void clear_bits() {
            for (const Far& one : looked_at) bits[one.vertex / 64] = 0;
            looked_at.clear();
        }
        // The bits of many searches are worth more than they take: one for each vertex.
        std::size_t longest() const { return std::max(pool.vertices.capacity(), bits.capacity() / MANY_BITS); }
        static constexpr std::size_t MANY_BITS = 64;
    };

    void prepare(const float* q) {
        Memory& m = *memory_.operator->();
        m.values.resize_unfilled(static_cast<size_t>(g_.d));
        m.scratch.resize_unfilled(static_cast<size_t>(encoder_.frame->scratch()));
        kernels_.superbit(encoder_.frame->view(), q, 1, {m.values.data(), nullptr, g_.d}, m.scratch.data());
        m.weights.set(m.values.data(), g_.d, false);
        const Edges root(g_.blocks.at(g_.root) + g_.z_bytes, g_.code_bytes);
        const auto offset = [&root](const void* part) { return static_cast<const uint8_t*>(part) - root.codes; };
        walk_.adds = offset(root.adds);
        walk_.scales = offset(root.scales);
        walk_.numbers = offset(root.numbers);
        walk_.query = m.weights.view;
        walk_.unit = static_cast<float>(m.weights.unit);
    }

    void ask_for(uint32_t v) { lethevec::ask_for(g_.blocks.at(v), g_.z_bytes + g_.edge_bytes); }
    // Whose list is long: where the rest of it is cannot be known before its block is there.
    void ask_for_extras(uint32_t v) {
        if (*reinterpret_cast<const uint32_t*>(g_.blocks.at(v) + g_.z_bytes + walk_.numbers) & Edges::MORE)
            lethevec::ask_for(g_.extras.at(g_.first_extra[v]), g_.edge_bytes);
    }

    bool was_looked_at(uint32_t v) const { return bits_[v / 64] >> (v % 64) & 1; }
    void skip_looked_at() {
        while (walk_.pool.next < walk_.pool.count && was_looked_at(walk_.pool.vertices[walk_.pool.next]))
            ++walk_.pool.next;
    }
    // The best that is known. Where all that the pool holds was looked at, and others have dropped out of it, one of
    // those would be the best.
    void choose() {
        skip_looked_at();
        const WalkPool& pool = walk_.pool;
        const bool none = pool.next == pool.count;
        dropped_out_ = none && pool.count == pool.most;
        chosen_ = none ? NO_VERTEX : pool.vertices[pool.next];
        if (!none) ask_for(chosen_);
    }

    float look(uint32_t x) {
        const float base = kernels_.squared_distance(q_, g_.z(x), g_.d);
        memory_->looked_at.push_back({base, x});
        bits_[x / 64] |= uint64_t{1} << (x % 64);
        return base;
    }

    void look_at_edges(const Edges& block, float base) {
        ++blocks_;
        put(block.numbers, kernels_.look_at_edges(walk_, block.codes, base));
    }

    void put(const uint32_t* numbers, uint32_t mask) {
        for (; mask; mask &= mask - 1) {
            const int slot = __builtin_ctz(mask);
            put_equal(walk_.estimates[slot], numbers[slot] & ~Edges::MORE);
        }
    }

    // Where there is another of the same estimate: ranks decide.
    void put_equal(float estimate, uint32_t v) {
        WalkPool& pool = walk_.pool;
        int64_t at = std::upper_bound(pool.estimates, pool.estimates + pool.count, estimate) - pool.estimates;
        while (at > 0 && pool.estimates[at - 1] == estimate && g_.lower(v, pool.vertices[at - 1])) --at;
        if (at == pool.most) return;
        std::copy_backward(pool.estimates + at, pool.estimates + pool.count, pool.estimates + pool.count + 1);
        std::copy_backward(pool.vertices + at, pool.vertices + pool.count, pool.vertices + pool.count + 1);
        pool.estimates[at] = estimate;
        pool.vertices[at] = v;
        pool.count = std::min(pool.count + 1, pool.most);
        pool.next = std::min(pool.next, at);
    }

    // The root, and the best of its list.
    void start(int64_t size) {
        blocks_ = 0;
        dropped_out_ = false;
        root_ = look(g_.root);
        walk_.pool = memory_->starts.of(GRAPH_STARTS);
        each_block(g_, g_.root, [&](const Edges& block) { look_at_edges(block, root_); });
        const WalkPool starts = walk_.pool;
        walk_.pool = memory_->pool.of(size);
        walk_.pool.count = std::min(starts.count, walk_.pool.most);
        std::copy_n(starts.estimates, walk_.pool.count, walk_.pool.estimates);
        std::copy_n(starts.vertices, walk_.pool.count, walk_.pool.vertices);
        started_ = GRAPH_STARTS;
        choose();
    }

    // Where there is nothing left to look at: the next best of the root's list, all of which is put in order.
    bool start_more() {
        std::vector<Far>& waiting = memory_->waiting;
        if (started_ == GRAPH_STARTS) {
            waiting.clear();
            each_block(g_, g_.root, [&](const Edges& block) {
                alignas(64) float estimates[BLOCK];
                uint32_t mask =
                    kernels_.edge_estimates(memory_->weights.view, {block.codes, block.adds, block.scales}, root_,
                                            walk_.unit, std::numeric_limits<float>::max(), estimates);
                for (; mask; mask &= mask - 1) {
                    const int slot = __builtin_ctz(mask);
                    waiting.push_back({estimates[slot], block.numbers[slot] & ~Edges::MORE});
                }
            });
            std::sort(waiting.begin(), waiting.end(), [this](const Far& a, const Far& b) {
                return a.distance < b.distance || (a.distance == b.distance && g_.lower(a.vertex, b.vertex));
            });
        }
        if (started_ >= waiting.size()) return false;
        const size_t to = std::min(waiting.size(), started_ + size_t{GRAPH_STARTS});
        for (; started_ < to; ++started_) {
            const Far& one = waiting[started_];
            if (!was_looked_at(one.vertex)) put_equal(one.distance, one.vertex);
        }
        return true;
    }

    const GraphData& g_;
    const Encoder& encoder_;
    const Kernels& kernels_;
    const Borrowed<Memory> memory_;
    Walk walk_{};
    const float* q_ = nullptr;
    int64_t size_ = 0;  // of the pool that is asked for; there may have to be a larger one
    const Scope* scope_ = nullptr;
    uint64_t* bits_ = nullptr;
    int64_t blocks_ = 0;
    size_t started_ = 0;           // of the root's list
    uint32_t chosen_ = NO_VERTEX;  // who comes next, where that is decided
    bool dropped_out_ = false;     // who it would be is not known
    float root_ = 0.0f;            // its squared distance
};

int64_t Graph::Query::gather(const Scope& scope, float slack, std::vector<uint32_t>& rows,
                             std::vector<float>* distances) {
    const bool all = scope.allowed.masks().empty();
    const std::vector<Far>& looked_at = memory_->looked_at;
    auto& nearest = memory_->nearest;
    auto& found = memory_->found;
    const auto limit_of_nearest = [&] {
        if (static_cast<int64_t>(nearest.size()) <= scope.k || scope.k <= 0) return FARTHEST;
        std::nth_element(nearest.begin(), nearest.begin() + scope.k - 1, nearest.end());
        return nearest[static_cast<size_t>(scope.k - 1)] * 1.000001f + slack;
    };
    nearest.clear();
    found.clear();
    // Without an allow-list each vertex has a row, or several. So only those that are near enough with one row each are
    // asked which these are: what a vertex is lies elsewhere in memory.
    float limit = FARTHEST;
    int64_t count = 0;
    if (all) {
        for (const Far& one : looked_at) nearest.push_back(one.distance);
        count = static_cast<int64_t>(nearest.size());
        limit = limit_of_nearest();
        nearest.clear();
        for (const Far& one : looked_at)
            if (one.distance <= limit) __builtin_prefetch(&g_.vertex(one.vertex));
    }
    for (const Far& one : looked_at) {
        if (!(one.distance <= limit)) continue;
        each_row(one.vertex, [&](uint32_t row) {
            if (!all && !scope.allowed.has(row)) return;
            found.emplace_back(one.distance, row);
            nearest.push_back(one.distance);
        });
    }
    limit = limit_of_nearest();
    for (const auto& [distance, row] : found) {
        if (!(distance <= limit)) continue;
        rows.push_back(row);
        if (distances) distances->push_back(distance);
    }
    return std::max(count, static_cast<int64_t>(found.size()));
}

SearchWork Graph::candidates(const Scope& scope, Sought& sought) const { return candidates(scope, &sought, 1); }

// A step is a wait for memory, mostly. So several walks take theirs in turn, and wait together.
SearchWork Graph::candidates(const Scope& scope, Sought* sought, int64_t n) const {
    const int64_t size = graph_pool(scope.rows.size(), scope.allowed.count(), scope.k, scope.effort);
    SearchWork work;
    if (size == 0) {
        for (int64_t i = 0; i < n; ++i) everything_allowed(scope, sought[i]);
        return work;
    }
    struct Turn {
        Turn(const GraphData& graph, const Encoder& encoder) : query(graph, encoder) {}
        Query query;
        Sought* of = nullptr;
    };
    std::deque<Turn> turns;
    int64_t begun = 0;
    const auto begin = [&](Turn& turn) {
        turn.of = begun < n ? sought + begun++ : nullptr;
        if (turn.of) turn.query.begin(turn.of->query.vector.data(), size, scope);
        return turn.of != nullptr;
    };
    for (int64_t i = 0; i < std::min(n, WALKS_TOGETHER); ++i) begin(turns.emplace_back(*data_, *settings_.encoder));
    for (auto walking = static_cast<int64_t>(turns.size()); walking > 0;)
        for (Turn& turn : turns) {
            if (!turn.of || turn.query.step()) continue;
            work += gather(turn.query, scope, *turn.of);
            if (!begin(turn)) --walking;
        }
    return work;
}

// What a walk has found.
SearchWork Graph::gather(Query& query, const Scope& scope, Sought& sought) const {
    std::vector<uint32_t>& rows = sought.candidates.rows;
    std::vector<float>& distances = sought.candidates.distances;
    // 1 - cos is computed in another way than |q - z|^2: twice as much, but for rounding. Under l2 nothing is left to
    // be computed but the root.
    const bool cosine = settings_.metric == Metric::cosine;
    const float slack = cosine ? static_cast<float>(data_->d + 32) * 8 * 2.4e-7f : 0.0f;
    const int64_t found = query.gather(scope, slack, rows, cosine ? nullptr : &distances);
    SearchWork work;
    work.scanned = query.blocks() * BLOCK;
    work.bytes_read = static_cast<int64_t>(query.looked_at().size()) * (data_->z_bytes + data_->edge_bytes);
    if (found >= std::min(scope.k, scope.allowed.count()) && !query.lies_elsewhere(scope)) {
        for (float& distance : distances) distance = std::sqrt(distance);
        sought.candidates.measured = !cosine;
        return work;
    }
    rows.clear();
    distances.clear();
    everything_allowed(scope, sought);
    return work;
}

void Graph::everything_allowed(const Scope& scope, Sought& sought) { scope.allowed.list(sought.candidates.rows); }

}  // namespace lethevec
