// A search in the graph. Mirrors `walk` of the spec's graph_search.py.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/dispatch.h"
#include "memory/wiped.h"
#include "search/memory.h"
#include "sources/graph/graph.h"
#include "sources/graph/plan.h"
#include "sources/graph/rules.h"

namespace lethevec {

namespace {

constexpr float FARTHEST = std::numeric_limits<float>::infinity();
// How near to ask for memory: into the second cache. The first has room for few lines that are on their way.
constexpr int NEAR = 2;

// What is known of the vertices that have ever been in the pool: the smallest estimate, or that they were looked at.
// Open addressing; emptied after each search.
class Known {
public:
    static constexpr float LOOKED_AT = -std::numeric_limits<float>::infinity();
    struct Entry {
        uint32_t vertex = NO_VERTEX;
        float estimate = 0.0f;
    };

    Known() : entries_(1024) {}
    // The entry of a vertex, which is a new one if its vertex is NO_VERTEX. Whoever fills that in calls `filled`.
    Entry& find(uint32_t v) {
        for (size_t at = v * 0x9E3779B1u;; ++at) {
            Entry& entry = entries_[at & (entries_.size() - 1)];
            if (entry.vertex == v || entry.vertex == NO_VERTEX) return entry;
        }
    }
    void filled() {
        if (++used_ * 2 > entries_.size()) grow();
    }
    void clear() {
        std::fill(entries_.begin(), entries_.end(), Entry{});
        used_ = 0;
    }
    size_t size() const { return entries_.size(); }

private:
    void grow() {
        std::vector<Entry> old(2 * entries_.size());
        old.swap(entries_);
        for (const Entry& entry : old)
            if (entry.vertex != NO_VERTEX) find(entry.vertex) = entry;
    }
    std::vector<Entry> entries_;
    size_t used_ = 0;
};

}  // namespace

class Graph::Query {
public:
    Query(const GraphData& graph, const Encoder& encoder) : g_(graph), encoder_(encoder), kernels_(active()) {}

    // The vertices that a search looks at, with their squared distances.
    void walk(const float* q, int64_t size) {
        prepare(q);
        Memory& m = *memory_.operator->();
        m.estimates.resize(static_cast<size_t>(size) + 1);
        m.vertices.resize(static_cast<size_t>(size) + 1);
        m.looked_at.clear();
        estimates_ = m.estimates.data();
        vertices_ = m.vertices.data();
        most_ = size;
        count_ = next_ = 0;
        begin(q);
        for (;;) {
            if (next_ == count_ && (count_ == most_ || !start_more())) return;
            if (next_ == count_) continue;
            const uint32_t x = vertices_[next_];
            vertices_[next_] |= DONE;
            m.known.find(x).estimate = Known::LOOKED_AT;
            advance();
            if (next_ < count_) ask_for(vertices_[next_]);
            look_at(q, x);
        }
    }
    const std::vector<Far>& looked_at() const { return memory_->looked_at; }
    // The rows of those that may be among the k nearest of the rows that may be found; returns how many of these there
    // were.
    int64_t gather(const Scope& scope, float slack, std::vector<uint32_t>& rows);
    int64_t blocks() const { return blocks_; }

private:
    static constexpr uint32_t DONE = 0x80000000;  // a flag of a vertex in the pool that was looked at

    // What a thread keeps for its next search.
    struct Memory {
        FirstWeights weights;
        WipedVector<float> values, scratch;
        Known known;
        std::vector<float> estimates;
        std::vector<uint32_t> vertices;
        std::vector<Far> looked_at, waiting;
        std::vector<std::pair<float, uint32_t>> found;
        std::vector<float> nearest;
        void leave() {
            weights.wipe();
            values.zero();
            scratch.zero();
            known.clear();
        }
        std::size_t longest() const { return std::max(vertices.capacity(), known.size()); }
    };

    void prepare(const float* q) {
        Memory& m = *memory_.operator->();
        m.values.resize_unfilled(static_cast<size_t>(g_.d));
        m.scratch.resize_unfilled(static_cast<size_t>(encoder_.frame->scratch()));
        kernels_.superbit(encoder_.frame->view(), q, 1, {m.values.data(), nullptr, g_.d}, m.scratch.data());
        m.weights.set(m.values.data(), g_.d, false);
        unit_ = static_cast<float>(m.weights.unit);
    }

    void ask_for(uint32_t v) const {
        const uint8_t* at = g_.blocks.at(v);
        for (int64_t byte = 0; byte < g_.z_bytes + g_.edge_bytes; byte += 64) __builtin_prefetch(at + byte, 0, NEAR);
    }

    float look(const float* q, uint32_t x) {
        const float base = kernels_.squared_distance(q, g_.z(x), g_.d);
        memory_->looked_at.push_back({base, x});
        return base;
    }

    uint32_t estimate(const Edges& block, float base, float limit, float* estimates) {
        ++blocks_;
        return kernels_.edge_estimates(memory_->weights.view, {block.codes, block.adds, block.scales}, base, unit_,
                                       limit, estimates);
    }

    // The root, and the best of its list.
    void begin(const float* q) {
        const float base = look(q, g_.root);
        std::vector<Far>& waiting = memory_->waiting;
        waiting.clear();
        insert(base, g_.root);
        vertices_[0] |= DONE;
        next_ = 1;
        memory_->known.find(g_.root).estimate = Known::LOOKED_AT;
        each_block(g_, g_.root, [&](const Edges& block) {
            alignas(64) float estimates[BLOCK];
            uint32_t mask = estimate(block, base, std::numeric_limits<float>::max(), estimates);
            for (; mask; mask &= mask - 1) {
                const int slot = __builtin_ctz(mask);
                waiting.push_back({estimates[slot], block.numbers[slot] & ~Edges::MORE});
            }
        });
        started_ = 0;
    }

    // Where there is nothing left to look at: the next best of the root's list.
    bool start_more() {
        std::vector<Far>& waiting = memory_->waiting;
        if (started_ == waiting.size()) return false;
        const auto order = [this](const Far& a, const Far& b) {
            return a.distance < b.distance ||
                   (a.distance == b.distance && a.vertex != b.vertex && g_.lower(a.vertex, b.vertex));
        };
        const auto from = waiting.begin() + static_cast<std::ptrdiff_t>(started_);
        const auto to =
            waiting.begin() + static_cast<std::ptrdiff_t>(std::min(waiting.size(), started_ + size_t{GRAPH_STARTS}));
        std::partial_sort(from, to, waiting.end(), order);
        for (auto one = from; one != to; ++one) {
            ask_for(one->vertex);
            consider(one->distance, one->vertex);
        }
        started_ = static_cast<size_t>(to - waiting.begin());
        return true;
    }

    void look_at(const float* q, uint32_t x) {
        const float base = look(q, x);
        each_block(g_, x, [&](const Edges& block) {
            alignas(64) float estimates[BLOCK];
            const float limit = count_ < most_ ? std::numeric_limits<float>::max() : estimates_[count_ - 1];
            for (uint32_t mask = estimate(block, base, limit, estimates); mask; mask &= mask - 1) {
                const int slot = __builtin_ctz(mask);
                consider(estimates[slot], block.numbers[slot] & ~Edges::MORE);
            }
        });
    }

    void consider(float estimate, uint32_t v) {
        if (count_ == most_ && !before(estimate, v, count_ - 1)) return;
        Known::Entry& entry = memory_->known.find(v);
        if (entry.vertex == NO_VERTEX) {
            insert(estimate, v);
            return;
        }
        if (entry.estimate <= estimate) return;  // or it was looked at
        remove(entry.estimate, v);
        entry.estimate = estimate;
        place(estimate, v);
    }

    void insert(float estimate, uint32_t v) {
        memory_->known.find(v) = {v, estimate};
        memory_->known.filled();
        place(estimate, v);
    }

    // Whether it comes before the i-th of the pool.
    bool before(float estimate, uint32_t v, int64_t i) const {
        if (estimate != estimates_[i]) return estimate < estimates_[i];
        const uint32_t other = vertices_[i] & ~DONE;
        return v != other && g_.lower(v, other);
    }

    // How many of the pool come before it. Without branches that nobody can foretell: halves first, then all of a few.
    int64_t place_of(float estimate, uint32_t v) const {
        int64_t from = 0, some = count_;
        while (some > 64) {
            const int64_t half = some / 2;
            from += estimates_[from + half] <= estimate ? half : 0;
            some -= half;
        }
        int32_t nearer = 0;
        for (int64_t i = 0; i < some; ++i) nearer += estimates_[from + i] <= estimate;
        int64_t at = from + nearer;
        while (at > 0 && estimates_[at - 1] == estimate && before(estimate, v, at - 1)) --at;
        return at;
    }

    void place(float estimate, uint32_t v) {
        const int64_t at = place_of(estimate, v);
        const auto moved = static_cast<size_t>(count_ - at);
        std::memmove(estimates_ + at + 1, estimates_ + at, moved * sizeof(float));
        std::memmove(vertices_ + at + 1, vertices_ + at, moved * sizeof(uint32_t));
        estimates_[at] = estimate;
        vertices_[at] = v;
        count_ = std::min(count_ + 1, most_);
        next_ = std::min(next_, at);
        if (at == next_) ask_for(v);
    }

    // It may have been dropped from the end.
    void remove(float estimate, uint32_t v) {
        int64_t at = place_of(estimate, v) - 1;  // its own place counts
        while (at >= 0 && estimates_[at] == estimate && vertices_[at] != v) --at;
        if (at < 0 || vertices_[at] != v) return;
        const auto moved = static_cast<size_t>(count_ - at - 1);
        std::memmove(estimates_ + at, estimates_ + at + 1, moved * sizeof(float));
        std::memmove(vertices_ + at, vertices_ + at + 1, moved * sizeof(uint32_t));
        --count_;
        advance();
    }

    void advance() {
        while (next_ < count_ && (vertices_[next_] & DONE)) ++next_;
    }

    const GraphData& g_;
    const Encoder& encoder_;
    const Kernels& kernels_;
    const Borrowed<Memory> memory_;
    // The pool, by (estimate, rank), and the first of it that was not looked at.
    float* estimates_ = nullptr;
    uint32_t* vertices_ = nullptr;
    int64_t most_ = 0, count_ = 0, next_ = 0, blocks_ = 0;
    size_t started_ = 0;  // of those that are waiting
    float unit_ = 0.0f;
};

int64_t Graph::Query::gather(const Scope& scope, float slack, std::vector<uint32_t>& rows) {
    const bool all = scope.allowed.masks().empty();
    auto& found = memory_->found;
    found.clear();
    for (const Far& one : memory_->looked_at) {
        const uint32_t row = g_.vertex(one.vertex).row;
        if (all || scope.allowed.has(row)) found.emplace_back(one.distance, row);
        if (g_.copies.empty()) continue;
        const auto copies = g_.copies.find(one.vertex);
        if (copies == g_.copies.end()) continue;
        for (uint32_t copy : copies->second)
            if (all || scope.allowed.has(copy)) found.emplace_back(one.distance, copy);
    }
    float limit = FARTHEST;
    if (static_cast<int64_t>(found.size()) > scope.k && scope.k > 0) {
        auto& nearest = memory_->nearest;
        nearest.clear();
        for (const auto& one : found) nearest.push_back(one.first);
        std::nth_element(nearest.begin(), nearest.begin() + scope.k - 1, nearest.end());
        limit = nearest[static_cast<size_t>(scope.k - 1)];
        limit = limit * 1.000001f + slack;
    }
    for (const auto& one : found)
        if (one.first <= limit) rows.push_back(one.second);
    return static_cast<int64_t>(found.size());
}

SearchWork Graph::candidates(const Scope& scope, Sought& sought) const {
    std::vector<uint32_t>& rows = sought.candidates.rows;
    const int64_t records = scope.rows.size(), allowed = scope.allowed.count();
    const int64_t size = graph_pool(records, allowed, scope.k, scope.effort);
    SearchWork work;
    if (size > 0) {
        Query query(*data_, *settings_.encoder);
        query.walk(sought.query.vector.data(), size);
        // 1 - cos is computed in another way than |q - z|^2: twice as much, but for rounding.
        const float slack = settings_.metric == Metric::cosine ? static_cast<float>(data_->d + 32) * 8 * 2.4e-7f : 0.0f;
        const int64_t found = query.gather(scope, slack, rows);
        work.scanned = query.blocks() * BLOCK;
        work.bytes_read = static_cast<int64_t>(query.looked_at().size()) * (data_->z_bytes + data_->edge_bytes);
        if (found >= std::min(scope.k, allowed)) return work;
        rows.clear();
    }
    scope.allowed.each([&](uint32_t row) { rows.push_back(row); });
    return work;
}

}  // namespace lethevec
