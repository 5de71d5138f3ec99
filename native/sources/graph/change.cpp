#include "sources/graph/change.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "memory/wiped.h"
#include "sources/graph/build.h"

namespace lethevec {

namespace {

// Lists are scattered over more memory than any cache holds: so many further on in a list of vertices, what will be
// read is asked for.
constexpr size_t AHEAD = 6;

template <class T>
void ask_for(const T* from, int64_t n) {
    for (int64_t i = 0; i < n; i += static_cast<int64_t>(64 / sizeof(T))) __builtin_prefetch(from + i);
}

// Whether it is one of a short list. All of it is looked at, so that many are compared at once.
bool has(const uint32_t* some, int64_t n, uint32_t v) {
    uint32_t found = 0;
    for (int64_t i = 0; i < n; ++i) found |= static_cast<uint32_t>(some[i] == v);
    return found != 0;
}

}  // namespace

GraphChange::GraphChange(const GraphSettings& settings, GraphData& graph, const Rows& rows)
    : settings_(settings),
      g_(graph),
      rows_(rows),
      rules_(graph),
      writer_(graph, *settings.encoder),
      marks_(graph.marks),
      going_(graph.going),
      stamps_(graph.stamps),
      old_root_(graph.root),
      old_entry_limit_(graph.entry_limit) {}

GraphChange::~GraphChange() {
    for (const auto* listed : {&gone_, &fresh_, &near_, &pool_, &edges_, &parents_, &lists_, &losing_})
        for (uint32_t v : *listed) marks_[v] = going_[v] = 0;
}

uint32_t GraphChange::new_stamp() {
    if (++g_.stamp == 0) {
        std::fill(stamps_.begin(), stamps_.end(), 0);
        g_.stamp = 1;
    }
    return g_.stamp;
}

// --- The journal

VertexList& GraphChange::list(In in, uint32_t v) {
    switch (in) {
        case In::sought_by: return g_.sought_by[v];
        case In::children: return g_.children[v];
        case In::members: return g_.cell_of[v]->members;
        default: return g_.cell_of[v]->watchers;
    }
}

void GraphChange::put(In in, uint32_t v, uint32_t other) {
    VertexList& changed = list(in, v);
    if (changed.size() == changed.capacity()) changed.reserve(changed.size() + changed.size() / 2 + 4);
    journal_.push_back({What::put, in, v, other, {}, {}});
    changed.push_back(other);
}

void GraphChange::take(In in, uint32_t v, uint32_t other) {
    VertexList& changed = list(in, v);
    journal_.push_back({What::taken, in, v, other, {}, {}});
    *std::find(changed.begin(), changed.end(), other) = changed.back();
    changed.pop_back();
}

GraphChange::Saved GraphChange::remember(What what, uint32_t v) {
    const Vertex& own = g_.vertex(v);
    Saved saved;
    switch (what) {
        case What::near: saved = saved_.save(g_.near.at(v), own.near); break;
        case What::pool: saved = saved_.save(g_.pool.at(v), own.pool); break;
        case What::kept: saved = saved_.save(g_.kept.at(v), own.kept); break;
        case What::edges: saved = saved_.save(g_.edges.at(v), own.edges); break;
        default: break;
    }
    journal_.push_back({what, In::sought_by, v, 0, own, saved});
    return saved;
}

// Needs no memory: a list that had room for something has it still. A list that is shorter again leaves nothing behind.
void GraphChange::undo() noexcept {
    const auto put_back = [](const Saved& list, uint32_t* at, int64_t room) {
        std::fill(std::copy(list.begin(), list.end(), at), at + room, 0);
    };
    for (size_t i = journal_.size(); i > 0; --i) {
        const Entry& entry = journal_[i - 1];
        const uint32_t v = entry.vertex;
        switch (entry.what) {
            case What::near: put_back(entry.list, g_.near.at(v), g_.near_room); break;
            case What::pool:
                put_back(entry.list, g_.pool.at(v), g_.pool_room);
                g_.reached_by.clear(v);
                if (entry.list.n) *g_.reached_by.at(v) = GraphData::UNKNOWN;
                break;
            case What::kept: put_back(entry.list, g_.kept.at(v), DEGREE); break;
            case What::edges: put_back(entry.list, g_.edges.at(v), DEGREE); break;
            case What::put: {
                VertexList& changed = list(entry.in, v);
                *std::find(changed.begin(), changed.end(), entry.other) = changed.back();
                changed.pop_back();
                continue;
            }
            case What::taken: list(entry.in, v).push_back(entry.other); continue;
            case What::slot:
                if (v != NO_VERTEX) g_.release_slot(v);
                continue;
            case What::pivot:
                if (v != NO_VERTEX) g_.pivots.remove(g_.pivots.size() - 1);
                continue;
            case What::vertex: break;
        }
        g_.vertex(v) = entry.before;
    }
    g_.root = old_root_;
    g_.entry_limit = old_entry_limit_;
}

void GraphChange::mark(uint32_t v, Mark flag, std::vector<uint32_t>& listed) {
    if (is(v, flag) || going_[v]) return;
    listed.push_back(v);
    marks_[v] = static_cast<uint8_t>(marks_[v] | flag);
}

// --- Rows that come and go

uint32_t GraphChange::equal_vertex(const float* z, uint64_t hash, uint32_t pivot) const {
    for (uint32_t v : g_.cell_of[pivot]->members)
        if (g_.vertex(v).hash == hash && std::memcmp(g_.z(v), z, static_cast<size_t>(4 * g_.d)) == 0) return v;
    return NO_VERTEX;
}

uint32_t GraphChange::new_vertex(const float* z, const Hashed& hashed) {
    fresh_.reserve(fresh_.size() + 1);
    journal_.push_back({What::slot, In::sought_by, NO_VERTEX, 0, {}, {}});
    const uint32_t v = g_.take_slot();
    journal_.back().vertex = v;
    std::copy_n(z, g_.d, g_.z(v));
    g_.vertex(v).hash = hashed.hash;
    g_.vertex(v).row = hashed.row;
    fresh_.push_back(v);
    if (hashed.hash < g_.limit) {
        g_.cell_of[v] = std::make_unique<Cell>();
        g_.cell_of[v]->number = static_cast<uint32_t>(g_.pivots.size());
        journal_.push_back({What::pivot, In::sought_by, NO_VERTEX, 0, {}, {}});
        g_.pivots.append(v, z);
        journal_.back().vertex = v;
        g_.vertex(v).pivot = true;
    }
    return v;
}

bool GraphChange::join(const uint32_t* which, int64_t n) {
    const int64_t pivots = g_.pivots.size();
    if (pivots == 0) return false;
    // Equal vectors have equal hashes, so they lie next to each other.
    WipedVector<Hashed> hashed(static_cast<size_t>(n));
    Wiped<float> z(g_.d);
    uint32_t last = 0;
    for (int64_t i = 0; i < n; ++i) {
        write_z(settings_, rows_.vector(which[i], z.at(0)), z.at(0));
        hashed[static_cast<size_t>(i)] = {hash_of(settings_, z.at(0)), which[i]};
        last = std::max(last, which[i]);
    }
    std::sort(hashed.begin(), hashed.end(),
              [](const Hashed& a, const Hashed& b) { return a.hash < b.hash || (a.hash == b.hash && a.row < b.row); });
    std::vector<std::pair<uint32_t, uint32_t>> hung;  // a row, and the vertex that it is a copy of
    hung.reserve(static_cast<size_t>(n));
    if (g_.vertex_of.size() <= last) g_.vertex_of.resize(static_cast<int64_t>(last) + 1);
    try {
        // Whose copies they are is asked before there are new pivots.
        std::vector<uint32_t> cells(static_cast<size_t>(n));
        std::vector<FarList> near(static_cast<size_t>(n));
        for (size_t i = 0; i < hashed.size(); ++i) {
            write_z(settings_, rows_.vector(hashed[i].row, z.at(0)), z.at(0));
            rules_.find_near(z.at(0), 1, nullptr, space_, [&](int64_t, const FarList& found) {
                cells[i] = equal_vertex(z.at(0), hashed[i].hash, found[0].vertex);
                if (cells[i] == NO_VERTEX) near[i] = found;
            });
        }
        for (size_t i = 0; i < hashed.size(); ++i) {
            uint32_t v = cells[i];
            write_z(settings_, rows_.vector(hashed[i].row, z.at(0)), z.at(0));
            for (size_t j = fresh_.size(); v == NO_VERTEX && j > 0; --j) {
                const uint32_t one = fresh_[j - 1];
                if (g_.vertex(one).hash != hashed[i].hash) break;
                if (std::memcmp(g_.z(one), z.at(0), static_cast<size_t>(4 * g_.d)) == 0) v = one;
            }
            if (v == NO_VERTEX) {
                new_vertex(z.at(0), hashed[i]);
                fresh_near_.push_back(std::move(near[i]));
            } else {
                hung.emplace_back(hashed[i].row, v);
                VertexList& copies = g_.copies[v];
                copies.reserve(copies.size() + hung.size());
            }
        }
        if (!fresh_.empty()) change();
    } catch (...) {
        undo();
        throw;
    }
    for (uint32_t v : fresh_) g_.vertex_of[g_.vertex(v).row] = v + 1;
    for (const auto& [row, v] : hung) {
        g_.copies.find(v)->second.push_back(row);
        g_.vertex_of[row] = v + 1;
    }
    return true;
}

bool GraphChange::leave(const uint32_t* which, int64_t n) {
    std::vector<std::pair<uint32_t, uint32_t>> going;  // vertices, and rows of theirs
    going.reserve(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
        if (which[i] < g_.vertex_of.size() && g_.vertex_of[which[i]])
            going.emplace_back(g_.vertex_of[which[i]] - 1, which[i]);
    std::sort(going.begin(), going.end());
    int64_t pivots = 0;
    for (size_t from = 0, to = 0; from < going.size(); from = to) {
        const uint32_t v = going[from].first;
        while (to < going.size() && going[to].first == v) ++to;
        const auto copies = g_.copies.find(v);
        if (to - from < 1 + (copies == g_.copies.end() ? 0 : copies->second.size())) continue;
        gone_.push_back(v);
        pivots += g_.vertex(v).pivot;
    }
    if (!gone_.empty()) {
        if (pivots == g_.pivots.size()) return false;
        try {
            change();
        } catch (...) {
            undo();
            throw;
        }
    }
    for (const auto& [v, row] : going) {
        g_.vertex_of[row] = 0;
        const auto copies = g_.copies.find(v);
        if (copies == g_.copies.end()) continue;
        if (!g_.vertex(v).used) {
            g_.copies.erase(copies);
            continue;
        }
        VertexList& rest = copies->second;
        if (g_.vertex(v).row == row) {
            g_.vertex(v).row = rest.back();
        } else {
            *std::find(rest.begin(), rest.end(), row) = rest.back();
        }
        rest.pop_back();
        if (rest.empty()) g_.copies.erase(copies);
    }
    return true;
}

// --- The stages

void GraphChange::change() {
    for (uint32_t v : gone_) going_[v] = 1;
    for (uint32_t v : fresh_) marks_[v] = FRESH;
    lose_pivots();
    gain_pivots();
    change_cells();
    find_pools();
    find_kept();
    find_root();
    find_parents();
    find_edges();
    prepare_lists();
    finish();
}

// Near caches

void GraphChange::set_near(uint32_t x, const VertexList& near, float far, bool all) {
    Vertex& own = g_.vertex(x);
    const Saved old = remember(What::near, x);
    if (!is(x, NEAR)) {
        old_near_.emplace(x, Saved{old.from, g_.near_count(x)});
        mark(x, NEAR, near_);
    }
    std::copy(near.begin(), near.end(), g_.near.at(x));
    for (auto i = static_cast<int64_t>(near.size()); i < old.n; ++i) g_.near.at(x)[i] = 0;
    own.near = static_cast<uint16_t>(near.size());
    own.near_far = far;
    own.near_all = all;
    const uint32_t now = new_stamp();
    for (uint32_t p : near) stamps_[p] = now;
    for (uint32_t p : old)
        if (stamps_[p] != now && !going_[p]) take(In::watchers, p, x);
    const uint32_t then = new_stamp();
    for (uint32_t p : old) stamps_[p] = then;
    for (uint32_t p : near)
        if (stamps_[p] != then) put(In::watchers, p, x);
}

void GraphChange::lose_pivots() {
    int64_t left = g_.pivots.size();
    for (uint32_t v : gone_) left -= g_.vertex(v).pivot;
    for (uint32_t v : gone_) {
        if (!g_.vertex(v).pivot) continue;
        for (uint32_t x : g_.cell_of[v]->watchers) mark(x, LOSES, losing_);
    }
    VertexList near;
    for (uint32_t x : losing_) {
        const Vertex& own = g_.vertex(x);
        near.clear();
        for (int64_t i = 0; i < own.near; ++i)
            if (!going_[g_.near.at(x)[i]]) near.push_back(g_.near.at(x)[i]);
        if (own.near_all || static_cast<int64_t>(near.size()) >= std::min(g_.cells, left)) {
            const bool all = own.near_all || static_cast<int64_t>(near.size()) == left;
            set_near(x, near, rules_.distance(x, near.back()), all);
            continue;
        }
        rules_.find_near(g_.z(x), 1, going_.data(), space_, [&](int64_t, const FarList& found) {
            near.clear();
            for (const Far& one : found) near.push_back(one.vertex);
            set_near(x, near, found.back().distance, static_cast<int64_t>(near.size()) == left);
        });
    }
}

void GraphChange::gain_pivots() {
    for (uint32_t p : fresh_)
        if (g_.vertex(p).pivot) gain_pivot(p);
    // Of the pivots that there were before, the nearest are known.
    VertexList near;
    for (size_t i = 0; i < fresh_.size(); ++i) {
        const uint32_t x = fresh_[i];
        FarList& found = fresh_near_[i];
        for (uint32_t p : fresh_)
            if (g_.vertex(p).pivot) found.push_back({rules_.distance(x, p), p});
        rules_.sort(found, g_.near_room);
        near.clear();
        for (const Far& one : found) near.push_back(one.vertex);
        set_near(x, near, found.back().distance, static_cast<int64_t>(near.size()) == g_.pivots.size());
    }
}

// Whoever it is nearer to than the last of the near cache.
void GraphChange::gain_pivot(uint32_t pivot) {
    constexpr int64_t SOME = 1024;
    VertexList some, near;
    FarList far, own_near;
    for (uint32_t from = 0; from < g_.slots; from += SOME) {
        some.clear();
        for (uint32_t x = from; x < std::min<int64_t>(from + SOME, g_.slots); ++x)
            if (g_.vertex(x).used && !is(x, FRESH)) some.push_back(x);
        rules_.measure(g_.z(pivot), some.data(), static_cast<int64_t>(some.size()), space_, far);
        for (size_t i = 0; i < some.size(); ++i) {
            const uint32_t x = some[i];
            const Vertex& own = g_.vertex(x);
            const Far one = {far[i].distance, pivot};
            const Far last = {own.near_far, g_.near.at(x)[own.near - 1]};
            const bool full = own.near == g_.near_room;
            if (!rules_.nearer(one, last) && !(own.near_all && !full)) {
                if (own.near_all) {  // there is one more than the cache has room for
                    remember(What::vertex, x);
                    g_.vertex(x).near_all = false;
                }
                continue;
            }
            rules_.measure(g_.z(x), g_.near.at(x), own.near, space_, own_near);
            own_near.push_back(one);
            rules_.sort(own_near, g_.near_room);
            near.clear();
            for (const Far& each : own_near) near.push_back(each.vertex);
            set_near(x, near, own_near.back().distance, own.near_all && !full);
        }
    }
}

// Cells

void GraphChange::change_cells() {
    for (uint32_t v : gone_) {
        const uint32_t own = g_.cell(v);
        if (!going_[own]) take(In::members, own, v);
        for (int64_t i = 0; i < g_.vertex(v).near; ++i)
            if (!going_[g_.near.at(v)[i]]) take(In::watchers, g_.near.at(v)[i], v);
    }
    const auto look_in = [&](uint32_t cell, bool left) {
        const VertexList& watchers = g_.cell_of[cell]->watchers;
        for (size_t i = 0; i < watchers.size(); ++i) {
            if (i + AHEAD < watchers.size()) {
                ask_for(g_.near.at(watchers[i + AHEAD]), g_.cells);
                __builtin_prefetch(&g_.vertex(watchers[i + AHEAD]));
            }
            const uint32_t x = watchers[i];
            const uint32_t* near = g_.near.at(x);
            if (is(x, POOL) && (!left || is(x, OTHER_CELLS))) continue;
            if (!has(near, g_.near_count(x), cell)) continue;
            mark(x, POOL, pool_);
            if (left) marks_[x] = static_cast<uint8_t>(marks_[x] | OTHER_CELLS);
        }
    };
    std::vector<uint32_t> left;
    for (uint32_t x : near_) {
        const Saved old = old_near_.find(x)->second;
        const uint32_t* near = g_.near.at(x);
        const uint32_t cell = near[0];
        if (old.n == 0 || old.from[0] != cell) {
            if (old.n > 0 && !going_[old.from[0]]) {
                take(In::members, old.from[0], x);
                left.push_back(old.from[0]);
            }
            put(In::members, cell, x);
            joined_[cell].push_back(x);
            if (old.n > 0) moved_.push_back(x);
        }
        // Others to look into, in whatever order.
        const uint32_t now = new_stamp();
        for (uint32_t p : old) stamps_[p] = now;
        bool same = old.n == g_.near_count(x);
        for (int64_t i = 0; i < g_.near_count(x); ++i) same = same && stamps_[near[i]] == now;
        mark(x, PARENT, parents_);
        if (same) continue;
        mark(x, POOL, pool_);
        marks_[x] = static_cast<uint8_t>(marks_[x] | OTHER_CELLS);
    }
    std::sort(left.begin(), left.end());
    left.resize(static_cast<size_t>(std::unique(left.begin(), left.end()) - left.begin()));
    for (uint32_t cell : left) look_in(cell, true);
    for (const auto& [cell, who] : joined_) look_in(cell, false);
    for (uint32_t v : gone_)
        if (!going_[g_.cell(v)]) look_in(g_.cell(v), false);
}

// Pools

void GraphChange::set_pool(uint32_t x, const VertexList& pool, float far, bool all) {
    Vertex& own = g_.vertex(x);
    const Saved before = remember(What::pool, x);
    const int64_t count = std::min<int64_t>(static_cast<int64_t>(pool.size()), g_.pool_size);
    const int64_t count_before = g_.pool_count(x);
    if (is(x, FRESH) || count != count_before || !std::equal(pool.begin(), pool.begin() + count, before.begin())) {
        changed_pools_.emplace_back(x, Saved{before.from, count_before});
        mark(x, PARENT, parents_);
    }
    std::copy(pool.begin(), pool.end(), g_.pool.at(x));
    for (int64_t i = static_cast<int64_t>(pool.size()); i < own.pool; ++i) g_.pool.at(x)[i] = 0;
    own.pool = static_cast<uint16_t>(pool.size());
    own.pool_far = far;
    own.pool_all = all;
}

void GraphChange::find_pools() {
    const uint32_t moved = new_stamp();
    for (uint32_t y : moved_) stamps_[y] = moved;
    std::vector<uint32_t> changed;
    for (size_t i = 0; i < pool_.size(); ++i) {
        if (i + AHEAD < pool_.size()) ask_for_pool(pool_[i + AHEAD]);
        if (!is(pool_[i], FRESH) && !pool_stays(pool_[i], moved)) changed.push_back(pool_[i]);
    }
    for (size_t i = 0; i < changed.size(); ++i) {
        if (i + AHEAD < changed.size()) ask_for(g_.pool.at(changed[i + AHEAD]), g_.pool_room);
        update_pool(changed[i]);
    }
    FarList found;
    VertexList pool;
    for (uint32_t x : fresh_) {
        const bool all = rules_.find_pool(x, space_, found);
        pool.clear();
        for (const Far& one : found) pool.push_back(one.vertex);
        set_pool(x, pool, found.empty() ? 0.0f : found.back().distance, all);
    }
}

// What the next function reads.
void GraphChange::ask_for_pool(uint32_t x) const {
    __builtin_prefetch(&g_.vertex(x));
    ask_for(g_.near.at(x), g_.cells);
    if (joined_.empty())
        ask_for(g_.pool.at(x), g_.pool_room);
    else
        ask_for(g_.z(x), g_.d);
}

// The common case, fast: it looks into the same cells, what has gone was not in its pool, and what is new is too far.
bool GraphChange::pool_stays(uint32_t x, uint32_t moved) const {
    if (is(x, OTHER_CELLS) && is(x, NEAR)) return false;
    const Vertex& own = g_.vertex(x);
    const uint32_t* pool = g_.pool.at(x);
    if (is(x, OTHER_CELLS)) {  // who has moved may be in no such cell any more
        uint32_t found = 0;
        for (int64_t i = 0; i < own.pool; ++i) found |= static_cast<uint32_t>(stamps_[pool[i]] == moved);
        if (found) return false;
    }
    if (gone_.size() == 1) {
        if (has(pool, own.pool, gone_[0])) return false;
    } else if (!gone_.empty()) {
        for (int64_t i = 0; i < own.pool; ++i)
            if (going_[pool[i]]) return false;
    }
    if (joined_.empty()) return true;
    if (own.pool_all || own.pool == 0) return false;
    const uint32_t* near = g_.near.at(x);
    for (const auto& [cell, who] : joined_) {
        if (!has(near, g_.near_count(x), cell)) continue;
        for (uint32_t y : who)
            if (rules_.nearer({rules_.distance(x, y), y}, {own.pool_far, pool[own.pool - 1]})) return false;
    }
    return true;
}

void GraphChange::update_pool(uint32_t x) {
    const Vertex own = g_.vertex(x);
    const bool others = is(x, OTHER_CELLS);
    const int64_t cells = g_.near_count(x);
    const uint32_t* near = g_.near.at(x);
    // What is still in a cell that is near.
    VertexList& pool = scratch_;
    pool.clear();
    pool.reserve(static_cast<size_t>(g_.pool_room) + 1);
    const auto old_near = others && is(x, NEAR) ? old_near_.find(x) : old_near_.end();
    const uint32_t now = new_stamp();
    if (others) {  // who is in no such cell: those in a cell that is not near any more, and those that have left one
        for (int64_t i = 0; i < cells; ++i) stamps_[near[i]] = now;
        outside_.clear();
        if (old_near != old_near_.end())
            for (uint32_t p : old_near->second)
                if (stamps_[p] != now && !going_[p])
                    outside_.insert(outside_.end(), g_.cell_of[p]->members.begin(), g_.cell_of[p]->members.end());
        for (uint32_t y : moved_)
            if (stamps_[g_.cell(y)] != now) outside_.push_back(y);
    }
    const uint32_t out = new_stamp();
    if (others)
        for (uint32_t y : outside_) stamps_[y] = out;
    for (int64_t i = 0; i < own.pool; ++i) {
        const uint32_t y = g_.pool.at(x)[i];
        if (!going_[y] && (!others || stamps_[y] != out)) pool.push_back(y);
    }
    const uint32_t inside = new_stamp();
    if (others)
        for (uint32_t y : pool) stamps_[y] = inside;
    bool changed = static_cast<int64_t>(pool.size()) != own.pool, all = own.pool_all;
    float far = own.pool_far;
    if (changed && !pool.empty() && pool.back() != g_.pool.at(x)[own.pool - 1]) far = rules_.distance(x, pool.back());
    // Who is new there.
    VertexList& some = space_.vertices;
    some.clear();
    const auto add = [&](uint32_t y) {
        if (y != x && (!others || stamps_[y] != inside)) some.push_back(y);
    };
    const auto is_near = [&](uint32_t cell) { return has(near, cells, cell); };
    const auto was_near = [&](uint32_t cell) { return has(old_near->second.from, old_near->second.n, cell); };
    const bool same_cells = old_near == old_near_.end();
    if (!same_cells)
        for (int64_t i = 0; i < cells; ++i)
            if (!was_near(near[i]))
                for (uint32_t y : g_.cell_of[near[i]]->members) add(y);
    for (const auto& [cell, who] : joined_)
        if (is_near(cell) && (same_cells || was_near(cell)))
            for (uint32_t y : who) add(y);
    if (!some.empty()) {
        FarList& found = space_.found;
        rules_.measure(g_.z(x), some.data(), static_cast<int64_t>(some.size()), space_, found);
        if (!all) {  // whoever is beyond the last may be further than one that is not known
            const auto beyond = [&](const Far& one) { return pool.empty() || !rules_.nearer(one, {far, pool.back()}); };
            found.resize(static_cast<size_t>(std::remove_if(found.begin(), found.end(), beyond) - found.begin()));
        }
        rules_.sort(found, static_cast<int64_t>(found.size()));
        if (!found.empty()) {
            changed = true;
            const bool last_is_new = pool.empty() || rules_.nearer({far, pool.back()}, found.back());
            merge(x, pool, found);
            if (last_is_new) far = found.back().distance;
            if (static_cast<int64_t>(pool.size()) > g_.pool_room) {
                pool.resize(static_cast<size_t>(g_.pool_room));
                all = false;
                far = rules_.distance(x, pool.back());
            }
        }
    }
    if (static_cast<int64_t>(pool.size()) < g_.pool_size && !all) {
        FarList found;
        all = rules_.find_pool(x, space_, found);
        pool.clear();
        for (const Far& one : found) pool.push_back(one.vertex);
        far = found.empty() ? 0.0f : found.back().distance;
        changed = true;
    }
    if (changed || all != own.pool_all) set_pool(x, pool, far, all);
}

// Others, nearest first, take their places in a pool.
void GraphChange::merge(uint32_t x, VertexList& pool, const FarList& some) {
    auto hi = static_cast<int64_t>(pool.size());
    pool.resize_unfilled(pool.size() + some.size());
    for (auto i = static_cast<int64_t>(some.size()) - 1; i >= 0; --i) {
        const Far& one = some[static_cast<size_t>(i)];
        const uint32_t* at = std::lower_bound(pool.begin(), pool.begin() + hi, one, [&](uint32_t a, const Far& b) {
            return rules_.nearer({rules_.distance(x, a), a}, b);
        });
        const int64_t place = at - pool.begin();
        std::copy_backward(pool.begin() + place, pool.begin() + hi, pool.begin() + hi + i + 1);
        pool[static_cast<size_t>(place + i)] = one.vertex;
        hi = place;
    }
}

// What is kept

// Pruning again, with what it gave before. Both pools are in the same order. What was left out stays out as long as the
// one that reached it is kept, and what was kept stays unless one that is newly kept reaches it. So there is nothing to
// compute but for what is new, and for what nobody reaches any more. Returns false where it has to be made from
// scratch.
bool GraphChange::keep_quickly(uint32_t x, const Saved& before, VertexList& kept) {
    constexpr uint8_t KEPT = GraphData::KEPT, NONE = GraphData::UNKNOWN;
    const Vertex& own = g_.vertex(x);
    uint8_t* reached_by = g_.reached_by.at(x);
    if (own.kept == DEGREE || is(x, FRESH) || *reached_by == NONE) return false;
    const uint32_t* pool = g_.pool.at(x);
    const int64_t count = g_.pool_count(x);
    int64_t old = 0;
    while (old < std::min(before.n, count) && before.from[old] == pool[old]) ++old;  // as it was
    const int64_t first = old;
    auto was = std::count(reached_by, reached_by + first, KEPT);
    kept.assign(g_.kept.at(x), g_.kept.at(x) + was);
    uint8_t now[DEGREE];  // the numbers of those that were kept, in what is kept now
    for (int64_t i = 0; i < was; ++i) now[i] = static_cast<uint8_t>(i);
    const uint32_t known = new_stamp();
    for (int64_t i = first; i < before.n; ++i) stamps_[before.from[i]] = known;
    std::vector<uint8_t>& found = reached_by_;
    found.resize(static_cast<size_t>(count));
    std::vector<size_t>& added = added_;
    added.clear();
    const auto reaches = [&](size_t f, uint32_t y, float distance) { return rules_.distance(kept[f], y) < distance; };
    for (int64_t i = first; i < count; ++i) {
        const uint32_t y = pool[i];
        uint8_t& own_reached_by = found[static_cast<size_t>(i)];
        const bool was_in = stamps_[y] == known;
        uint8_t before_by = NONE;
        if (was_in) {
            for (; before.from[old] != y; ++old)  // these are not in the pool any more
                if (reached_by[old] == KEPT) now[was++] = NONE;
            before_by = reached_by[old++];
        }
        if (before_by == KEPT) {
            size_t f = kept.size();
            if (!added.empty()) {
                const float distance = rules_.distance(x, y);
                for (size_t one : added)
                    if (reaches(one, y, distance)) {
                        f = one;
                        break;
                    }
            }
            own_reached_by = f < kept.size() ? static_cast<uint8_t>(f) : KEPT;
            now[was++] = f < kept.size() ? NONE : static_cast<uint8_t>(f);
            if (own_reached_by == KEPT) kept.push_back(y);
        } else if (was_in && now[before_by] != NONE) {
            own_reached_by = now[before_by];
        } else {
            const float distance = rules_.distance(x, y);
            size_t f = 0;
            while (f < kept.size() && !reaches(f, y, distance)) ++f;
            own_reached_by = f < kept.size() ? static_cast<uint8_t>(f) : KEPT;
            if (own_reached_by == KEPT) {
                added.push_back(kept.size());
                kept.push_back(y);
            }
        }
        if (static_cast<int64_t>(kept.size()) == DEGREE) return false;
    }
    std::copy(found.begin() + first, found.end(), reached_by + first);
    return true;
}

void GraphChange::set_kept(uint32_t x, const VertexList& kept) {
    Vertex& own = g_.vertex(x);
    if (own.kept == kept.size() && std::equal(kept.begin(), kept.end(), g_.kept.at(x))) return;
    const Saved old = remember(What::kept, x);
    std::copy(kept.begin(), kept.end(), g_.kept.at(x));
    for (auto i = static_cast<int64_t>(kept.size()); i < old.n; ++i) g_.kept.at(x)[i] = 0;
    own.kept = static_cast<uint16_t>(kept.size());
    mark(x, EDGES, edges_);
    for (uint32_t y : old) {
        if (going_[y] || has(kept.data(), static_cast<int64_t>(kept.size()), y)) continue;
        take(In::sought_by, y, x);
        mark(y, EDGES, edges_);
    }
    for (uint32_t y : kept) {
        if (has(old.from, old.n, y)) continue;
        put(In::sought_by, y, x);
        mark(y, EDGES, edges_);
    }
}

void GraphChange::find_kept() {
    for (uint32_t v : gone_)
        for (int64_t i = 0; i < g_.vertex(v).kept; ++i) {
            const uint32_t y = g_.kept.at(v)[i];
            if (going_[y]) continue;
            take(In::sought_by, y, v);
            mark(y, EDGES, edges_);
        }
    VertexList kept;
    for (const auto& [x, before] : changed_pools_) {
        if (!keep_quickly(x, before, kept)) {
            uint32_t found[DEGREE];
            const int64_t count = rules_.find_kept(x, space_, found, g_.reached_by.at(x));
            kept.assign(found, found + count);
        }
        for (int64_t i = g_.pool_count(x); i < before.n; ++i) g_.reached_by.at(x)[i] = 0;
        set_kept(x, kept);
    }
    for (uint32_t x : fresh_) mark(x, EDGES, edges_);
}

// Parents

void GraphChange::find_root() {
    if (going_[g_.root]) {
        g_.root = NO_VERTEX;  // a pivot, as long as there are any
        for (int64_t i = 0; i < g_.pivots.size(); ++i) {
            const uint32_t p = g_.pivots.vertex(i);
            if (!going_[p] && (g_.root == NO_VERTEX || g_.lower(p, g_.root))) g_.root = p;
        }
    }
    for (uint32_t x : fresh_)
        if (g_.lower(x, g_.root)) g_.root = x;
    for (uint32_t x : fresh_) mark(x, PARENT, parents_);
    // Who is an entry changes with the number of vertices, when that passes a power of two.
    g_.entry_limit = g_.entry_limit_for(g_.count - static_cast<int64_t>(gone_.size()));
    if (g_.entry_limit != old_entry_limit_) {
        const auto [less, more] = std::minmax(g_.entry_limit, old_entry_limit_);
        for (int64_t i = 0; i < g_.pivots.size(); ++i) {
            const uint32_t p = g_.pivots.vertex(i);
            if (g_.vertex(p).hash >= less && g_.vertex(p).hash < more) mark(p, PARENT, parents_);
        }
    }
    if (g_.root == old_root_) return;
    for (uint32_t x : g_.children[old_root_]) mark(x, PARENT, parents_);
    mark(old_root_, PARENT, parents_);
    mark(g_.root, PARENT, parents_);
}

void GraphChange::find_parents() {
    for (uint32_t v : gone_) {
        const uint32_t parent = g_.vertex(v).parent;
        if (parent == NO_VERTEX || going_[parent]) continue;
        take(In::children, parent, v);
        mark(parent, LIST, lists_);
    }
    for (uint32_t x : parents_) {
        const uint32_t parent = rules_.find_parent(x), before = g_.vertex(x).parent;
        if (parent == before) continue;
        remember(What::vertex, x);
        g_.vertex(x).parent = parent;
        if (before != NO_VERTEX && !going_[before]) {
            take(In::children, before, x);
            mark(before, LIST, lists_);
        }
        if (parent == NO_VERTEX) continue;
        put(In::children, parent, x);
        mark(parent, LIST, lists_);
    }
}

// Edges and lists

// Where there are so few that pruning leaves nothing out, and were: who is new finds its place among those that stay.
// Returns false where they have to be made from scratch.
bool GraphChange::edges_quickly(uint32_t x, VertexList& edges) {
    constexpr size_t MANY = 4;
    const Vertex& own = g_.vertex(x);
    if (own.edges == DEGREE || is(x, FRESH)) return false;
    VertexList& some = space_.vertices;
    some.clear();
    const uint32_t wanted = new_stamp();
    const auto want = [&](uint32_t y) {
        if (stamps_[y] == wanted) return;
        stamps_[y] = wanted;
        some.push_back(y);
    };
    for (int64_t i = 0; i < own.kept; ++i) want(g_.kept.at(x)[i]);
    for (uint32_t y : g_.sought_by[x]) want(y);
    if (static_cast<int64_t>(some.size()) > DEGREE) return false;
    edges.clear();
    for (int64_t i = 0; i < own.edges; ++i)
        if (stamps_[g_.edges.at(x)[i]] == wanted) edges.push_back(g_.edges.at(x)[i]);
    if (some.size() > edges.size() + MANY) return false;
    const uint32_t there = new_stamp();
    for (uint32_t y : edges) stamps_[y] = there;
    some.resize(static_cast<size_t>(
        std::remove_if(some.begin(), some.end(), [&](uint32_t y) { return stamps_[y] == there; }) - some.begin()));
    rules_.measure(g_.z(x), some.data(), static_cast<int64_t>(some.size()), space_, space_.found);
    rules_.sort(space_.found, static_cast<int64_t>(some.size()));
    merge(x, edges, space_.found);
    return true;
}

void GraphChange::find_edges() {
    VertexList found;
    for (uint32_t x : edges_) {
        if (!edges_quickly(x, found)) {
            uint32_t made[DEGREE];
            const int64_t some = rules_.find_edges(x, space_, made);
            found.assign(made, made + some);
        }
        const auto count = static_cast<int64_t>(found.size());
        Vertex& own = g_.vertex(x);
        if (count == own.edges && std::equal(found.begin(), found.end(), g_.edges.at(x))) continue;
        remember(What::edges, x);
        std::copy(found.begin(), found.end(), g_.edges.at(x));
        for (int64_t i = count; i < own.edges; ++i) g_.edges.at(x)[i] = 0;
        own.edges = static_cast<uint16_t>(count);
        mark(x, LIST, lists_);
    }
    for (uint32_t x : fresh_) mark(x, LIST, lists_);
}

void GraphChange::prepare_lists() {
    new_lists_.reserve(lists_.size());
    for (uint32_t x : lists_) {
        rules_.find_list(x, space_, scratch_);
        const auto n = static_cast<int64_t>(scratch_.size());
        writer_.prepare(x, n);
        new_lists_.push_back(saved_.save(scratch_.data(), n));
    }
}

void GraphChange::finish() noexcept {
    for (size_t i = 0; i < lists_.size(); ++i) writer_.write(lists_[i], new_lists_[i].from, new_lists_[i].n);
    for (uint32_t v : gone_) {
        if (g_.vertex(v).pivot) {
            const uint32_t number = g_.cell_of[v]->number, moved = g_.pivots.remove(number);
            if (moved != v) g_.cell_of[moved]->number = number;
        }
        writer_.release(v);
        g_.release_slot(v);
    }
}

}  // namespace lethevec
