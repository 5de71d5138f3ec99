#include "sources/graph/build.h"

#include <algorithm>
#include <cstring>

#include "hashing/direction.h"
#include "parallel.h"
#include "sources/graph/rules.h"

namespace lethevec {

void write_z(const GraphSettings& settings, const float* x, float* z) {
    const int64_t d = settings.encoder->dim;
    if (settings.metric == Metric::cosine)
        write_direction(x, d, z);
    else if (x != z)
        std::copy(x, x + d, z);
    for (int64_t j = 0; j < d; ++j) z[j] = z[j] + 0.0f;
}

uint64_t hash_of(const GraphSettings& settings, const float* z) {
    return siphash(settings.key, reinterpret_cast<const uint8_t*>(z), 4 * settings.encoder->dim);
}

namespace {

class Builder {
public:
    Builder(const GraphSettings& settings, const Rows& rows, int64_t threads, const Progress& progress)
        : settings_(settings),
          rows_(rows),
          threads_(threads),
          progress_(progress),
          made_(std::make_unique<GraphData>(settings)),
          g_(*made_),
          rules_(g_) {}

    std::unique_ptr<GraphData> build(const uint32_t* which, int64_t n) {
        make_vertices(which, n);
        find_cells();
        each_vertex([&](uint32_t x, RuleSpace& space) {
            FarList& pool = space.found;
            Vertex& own = g_.vertex(x);
            own.pool_all = rules_.find_pool(x, space, pool);
            own.pool = static_cast<uint16_t>(pool.size());
            own.pool_far = pool.empty() ? 0.0f : pool.back().distance;
            for (size_t i = 0; i < pool.size(); ++i) g_.pool.at(x)[i] = pool[i].vertex;
            own.kept = static_cast<uint16_t>(rules_.find_kept(x, space, g_.kept.at(x), g_.reached_by.at(x)));
        });
        for (uint32_t x = 0; x < g_.slots; ++x)
            for (int64_t i = 0; i < g_.vertex(x).kept; ++i) g_.sought_by[g_.kept.at(x)[i]].push_back(x);
        each_vertex([&](uint32_t x, RuleSpace& space) {
            g_.vertex(x).edges = static_cast<uint16_t>(rules_.find_edges(x, space, g_.edges.at(x)));
            g_.vertex(x).parent = rules_.find_parent(x);
        });
        for (uint32_t x = 0; x < g_.slots; ++x)
            if (g_.vertex(x).parent != NO_VERTEX) g_.children[g_.vertex(x).parent].push_back(x);
        write_lists();
        return std::move(made_);
    }

private:
    static constexpr int64_t STRIDE = 4096, GRAIN = 32;

    void tell(int64_t rows) const {
        if (progress_) progress_(rows);
    }

    // Equal vectors have equal hashes: rows are put in order by these, and compared where they are equal.
    void make_vertices(const uint32_t* which, int64_t n) {
        struct Hashed {
            uint64_t hash;
            uint32_t row;
        };
        WipedVector<Hashed> hashed(static_cast<size_t>(n));
        parallel_for(n, threads_, GRAIN, [&](int64_t begin, int64_t end) {
            Wiped<float> z(g_.d);
            for (int64_t i = begin; i < end; ++i) {
                write_z(settings_, rows_.vector(which[i], z.at(0)), z.at(0));
                hashed[static_cast<size_t>(i)] = {hash_of(settings_, z.at(0)), which[i]};
            }
        });
        std::sort(hashed.begin(), hashed.end(), [](const Hashed& a, const Hashed& b) {
            return a.hash < b.hash || (a.hash == b.hash && a.row < b.row);
        });
        uint32_t last = 0;
        for (const Hashed& one : hashed) last = std::max(last, one.row);
        g_.vertex_of.resize(static_cast<int64_t>(last) + 1);
        Wiped<float> z(g_.d);
        for (size_t from = 0, to = 0; from < hashed.size(); from = to) {
            const uint32_t first = static_cast<uint32_t>(g_.slots);
            for (to = from; to < hashed.size() && hashed[to].hash == hashed[from].hash; ++to) {
                const uint32_t row = hashed[to].row;
                write_z(settings_, rows_.vector(row, z.at(0)), z.at(0));
                uint32_t v = first;
                while (v < g_.slots && std::memcmp(g_.z(v), z.at(0), static_cast<size_t>(4 * g_.d)) != 0) ++v;
                if (v == g_.slots) {
                    v = g_.take_slot();
                    std::copy_n(z.at(0), g_.d, g_.z(v));
                    g_.vertex(v).hash = hashed[to].hash;
                    g_.vertex(v).row = row;
                    g_.vertex(v).pivot = hashed[to].hash < g_.limit;
                } else {
                    g_.copies[v].push_back(row);
                }
                g_.vertex_of[row] = v + 1;
            }
        }
        g_.entry_limit = g_.entry_limit_for(g_.count);
        for (uint32_t v = 0; v < g_.slots; ++v)
            if (g_.root == NO_VERTEX || g_.lower(v, g_.root)) g_.root = v;
    }

    void find_cells() {
        for (uint32_t v = 0; v < g_.slots; ++v) {
            order_.push_back(v);
            if (!g_.vertex(v).pivot) continue;
            g_.cell_of[v] = std::make_unique<Cell>();
            g_.cell_of[v]->number = static_cast<uint32_t>(g_.pivots.size());
            g_.pivots.append(v, g_.z(v));
        }
        if (g_.pivots.size() == 0) return;
        parallel_for(g_.slots, threads_, 256, [&](int64_t begin, int64_t end) {
            RuleSpace space;
            constexpr int64_t SOME = 48;
            Wiped<float> z(SOME * g_.d);
            for (int64_t from = begin; from < end; from += SOME) {
                const int64_t some = std::min(SOME, end - from);
                for (int64_t i = 0; i < some; ++i)
                    std::copy_n(g_.z(static_cast<uint32_t>(from + i)), g_.d, z.at(i * g_.d));
                rules_.find_near(z.at(0), some, nullptr, space, [&](int64_t i, const FarList& found) {
                    const auto x = static_cast<uint32_t>(from + i);
                    Vertex& own = g_.vertex(x);
                    own.near = static_cast<uint16_t>(found.size());
                    own.near_far = found.back().distance;
                    own.near_all = static_cast<int64_t>(found.size()) == g_.pivots.size();
                    for (size_t j = 0; j < found.size(); ++j) g_.near.at(x)[j] = found[j].vertex;
                });
            }
        });
        for (uint32_t x = 0; x < g_.slots; ++x) {
            g_.cell_of[g_.cell(x)]->members.push_back(x);
            for (int64_t i = 0; i < g_.vertex(x).near; ++i) g_.cell_of[g_.near.at(x)[i]]->watchers.push_back(x);
        }
        // Neighbours in memory are worked on together: they have most of their pools in common.
        order_.clear();
        for (int64_t p = 0; p < g_.pivots.size(); ++p) {
            const VertexList& members = g_.cell_of[g_.pivots.vertex(p)]->members;
            order_.insert(order_.end(), members.begin(), members.end());
        }
    }

    template <class Work>
    void each_vertex(Work work) {
        for (int64_t from = 0; from < g_.slots; from += STRIDE) {
            const int64_t some = std::min(STRIDE, g_.slots - from);
            parallel_for(some, threads_, GRAIN, [&](int64_t begin, int64_t end) {
                RuleSpace space;
                for (int64_t i = begin; i < end; ++i) work(order_[static_cast<size_t>(from + i)], space);
            });
            tell(0);
        }
    }

    void write_lists() {
        EdgeWriter long_lists(g_, *settings_.encoder);
        RuleSpace all_space;
        VertexList list;
        for (uint32_t x = 0; x < g_.slots; ++x) {
            if (g_.vertex(x).edges + static_cast<int64_t>(g_.children[x].size()) <= BLOCK) continue;
            rules_.find_list(x, all_space, list);
            long_lists.prepare(x, static_cast<int64_t>(list.size()));
            if (static_cast<int64_t>(list.size()) > BLOCK)
                long_lists.write(x, list.data(), static_cast<int64_t>(list.size()));
        }
        for (int64_t from = 0; from < g_.slots; from += STRIDE) {
            const int64_t some = std::min(STRIDE, g_.slots - from);
            parallel_for(some, threads_, GRAIN, [&](int64_t begin, int64_t end) {
                EdgeWriter writer(g_, *settings_.encoder);
                RuleSpace space;
                VertexList own;
                for (int64_t i = begin; i < end; ++i) {
                    const auto x = static_cast<uint32_t>(from + i);
                    rules_.find_list(x, space, own);
                    if (static_cast<int64_t>(own.size()) > BLOCK) continue;
                    writer.prepare(x, static_cast<int64_t>(own.size()));
                    writer.write(x, own.data(), static_cast<int64_t>(own.size()));
                }
            });
            tell(some);
        }
    }

    const GraphSettings& settings_;
    const Rows& rows_;
    const int64_t threads_;
    const Progress& progress_;
    std::unique_ptr<GraphData> made_;
    GraphData& g_;
    const Rules rules_;
    std::vector<uint32_t> order_;
};

}  // namespace

std::unique_ptr<GraphData> build_graph(const GraphSettings& settings, const Rows& rows, const uint32_t* which,
                                       int64_t n, int64_t threads, const Progress& progress) {
    return Builder(settings, rows, threads, progress).build(which, n);
}

}  // namespace lethevec
