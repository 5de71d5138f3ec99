#include "sources/graph/change.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "memory/wiped.h"
#include "sources/graph/build.h"

namespace lethevec {

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

void GraphChange::remember(What what, uint32_t v) {
    const Vertex& own = g_.vertex(v);
    Entry entry = {what, In::sought_by, v, 0, own, {}};
    switch (what) {
        case What::near: entry.list.assign(g_.near.at(v), g_.near.at(v) + own.near); break;
        case What::pool: entry.list.assign(g_.pool.at(v), g_.pool.at(v) + own.pool); break;
        case What::kept: entry.list.assign(g_.kept.at(v), g_.kept.at(v) + own.kept); break;
        case What::edges: entry.list.assign(g_.edges.at(v), g_.edges.at(v) + own.edges); break;
        default: break;
    }
    journal_.push_back(std::move(entry));
}

// Needs no memory: a list that had room for something has it still.
void GraphChange::undo() noexcept {
    for (size_t i = journal_.size(); i > 0; --i) {
        const Entry& entry = journal_[i - 1];
        const uint32_t v = entry.vertex;
        switch (entry.what) {
            case What::near: std::copy(entry.list.begin(), entry.list.end(), g_.near.at(v)); break;
            case What::pool: std::copy(entry.list.begin(), entry.list.end(), g_.pool.at(v)); break;
            case What::kept: std::copy(entry.list.begin(), entry.list.end(), g_.kept.at(v)); break;
            case What::edges: std::copy(entry.list.begin(), entry.list.end(), g_.edges.at(v)); break;
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
    const uint32_t* before = g_.near.at(x);
    if (!is(x, NEAR)) {
        old_near_.emplace(x, VertexList(before, before + g_.near_count(x)));
        mark(x, NEAR, near_);
    }
    const VertexList old(before, before + own.near);
    remember(What::near, x);
    std::copy(near.begin(), near.end(), g_.near.at(x));
    for (size_t i = near.size(); i < old.size(); ++i) g_.near.at(x)[i] = 0;
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
        for (uint32_t x : g_.cell_of[cell]->watchers) {
            const uint32_t* near = g_.near.at(x);
            if (std::find(near, near + g_.near_count(x), cell) == near + g_.near_count(x)) continue;
            mark(x, POOL, pool_);
            if (left) marks_[x] = static_cast<uint8_t>(marks_[x] | OTHER_CELLS);
        }
    };
    std::vector<uint32_t> left;
    for (uint32_t x : near_) {
        const VertexList& old = old_near_.find(x)->second;
        const uint32_t* near = g_.near.at(x);
        const uint32_t cell = near[0];
        if (old.empty() || old[0] != cell) {
            if (!old.empty() && !going_[old[0]]) {
                take(In::members, old[0], x);
                left.push_back(old[0]);
            }
            put(In::members, cell, x);
            joined_[cell].push_back(x);
            if (!old.empty()) moved_.push_back(x);
        }
        // Others to look into, in whatever order.
        const uint32_t now = new_stamp();
        for (uint32_t p : old) stamps_[p] = now;
        bool same = static_cast<int64_t>(old.size()) == g_.near_count(x);
        for (int64_t i = 0; i < g_.near_count(x); ++i) same = same && stamps_[near[i]] == now;
        mark(x, PARENT, parents_);
        if (same) continue;
        mark(x, POOL, pool_);
        marks_[x] = static_cast<uint8_t>(marks_[x] | OTHER_CELLS);
    }
    for (uint32_t cell : left) look_in(cell, true);
    for (const auto& [cell, who] : joined_) look_in(cell, false);
    for (uint32_t v : gone_)
        if (!going_[g_.cell(v)]) look_in(g_.cell(v), false);
}

// Pools

void GraphChange::set_pool(uint32_t x, const VertexList& pool, float far, bool all) {
    Vertex& own = g_.vertex(x);
    const uint32_t* before = g_.pool.at(x);
    const int64_t count = std::min<int64_t>(static_cast<int64_t>(pool.size()), g_.pool_size);
    if (is(x, FRESH) || count != g_.pool_count(x) || !std::equal(pool.begin(), pool.begin() + count, before)) {
        changed_pools_.emplace_back(x, VertexList(before, before + g_.pool_count(x)));
        mark(x, PARENT, parents_);
    }
    remember(What::pool, x);
    std::copy(pool.begin(), pool.end(), g_.pool.at(x));
    for (int64_t i = static_cast<int64_t>(pool.size()); i < own.pool; ++i) g_.pool.at(x)[i] = 0;
    own.pool = static_cast<uint16_t>(pool.size());
    own.pool_far = far;
    own.pool_all = all;
}

void GraphChange::find_pools() {
    for (uint32_t x : pool_)
        if (!is(x, FRESH)) update_pool(x);
    FarList found;
    VertexList pool;
    for (uint32_t x : fresh_) {
        const bool all = rules_.find_pool(x, space_, found);
        pool.clear();
        for (const Far& one : found) pool.push_back(one.vertex);
        set_pool(x, pool, found.empty() ? 0.0f : found.back().distance, all);
    }
}

// The common case, fast: it looks into the same cells, what has gone was not in its pool, and what is new is too far.
bool GraphChange::pool_stays(uint32_t x) const {
    if (is(x, OTHER_CELLS)) return false;
    const Vertex& own = g_.vertex(x);
    const uint32_t* pool = g_.pool.at(x);
    if (gone_.size() == 1) {
        if (std::find(pool, pool + own.pool, gone_[0]) != pool + own.pool) return false;
    } else if (!gone_.empty()) {
        for (int64_t i = 0; i < own.pool; ++i)
            if (going_[pool[i]]) return false;
    }
    if (joined_.empty()) return true;
    if (own.pool_all || own.pool == 0) return false;
    const uint32_t* near = g_.near.at(x);
    for (const auto& [cell, who] : joined_) {
        if (std::find(near, near + g_.near_count(x), cell) == near + g_.near_count(x)) continue;
        for (uint32_t y : who)
            if (rules_.nearer({rules_.distance(x, y), y}, {own.pool_far, pool[own.pool - 1]})) return false;
    }
    return true;
}

void GraphChange::update_pool(uint32_t x) {
    if (pool_stays(x)) return;
    const Vertex own = g_.vertex(x);
    const bool others = is(x, OTHER_CELLS);
    const int64_t cells = g_.near_count(x);
    const uint32_t* near = g_.near.at(x);
    // What is still in a cell that is near.
    VertexList& pool = scratch_;
    pool.clear();
    pool.reserve(static_cast<size_t>(g_.pool_room) + 1);
    const auto old_near = others ? old_near_.find(x) : old_near_.end();
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
    const auto add = [&](uint32_t y) {
        if (y == x || (others && stamps_[y] == inside)) return;
        const Far one = {rules_.distance(x, y), y};
        const bool full = static_cast<int64_t>(pool.size()) == g_.pool_room;
        const bool before_last = !pool.empty() && rules_.nearer(one, {far, pool.back()});
        if (!before_last && (full || !all)) {
            all = false;
            return;
        }
        changed = true;
        const auto* at = std::lower_bound(pool.begin(), pool.end(), one, [&](uint32_t a, const Far& b) {
            return rules_.nearer({rules_.distance(x, a), a}, b);
        });
        const auto place = static_cast<size_t>(at - pool.begin());
        pool.push_back(y);
        std::rotate(pool.begin() + place, pool.end() - 1, pool.end());
        if (!before_last) far = one.distance;
        if (!full) return;
        pool.pop_back();
        all = false;
        far = rules_.distance(x, pool.back());
    };
    for (int64_t i = 0; i < cells; ++i) {
        const uint32_t cell = near[i];
        if (old_near != old_near_.end()) {
            const VertexList& old = old_near->second;
            if (std::find(old.begin(), old.end(), cell) == old.end()) {
                for (uint32_t y : g_.cell_of[cell]->members) add(y);
                continue;
            }
        }
        const auto joined = joined_.find(cell);
        if (joined == joined_.end()) continue;
        for (uint32_t y : joined->second) add(y);
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

// What is kept

// Pruning again, with what it gave before. Both pools are in the same order. What was left out stays out unless one
// that reached it is not kept any more, and what was kept stays unless one that is newly kept reaches it. So there is
// nothing to compute but for what is new, and for what comes after a difference. Returns false where it has to be made
// from scratch.
bool GraphChange::keep_quickly(uint32_t x, const VertexList& before, VertexList& kept) {
    const Vertex& own = g_.vertex(x);
    if (own.kept == DEGREE || is(x, FRESH)) return false;
    const uint32_t left_out = new_stamp(), was_kept = new_stamp();
    if (was_kept < left_out) return false;
    for (uint32_t y : before) stamps_[y] = left_out;
    for (int64_t i = 0; i < own.kept; ++i) stamps_[g_.kept.at(x)[i]] = was_kept;
    std::vector<uint32_t>&dropped = dropped_, &added = added_;
    dropped.clear();
    added.clear();
    kept.clear();
    const auto reached = [&](const auto& by, uint32_t y, float distance) {
        for (uint32_t f : by)
            if (rules_.distance(f, y) < distance) return true;
        return false;
    };
    size_t old = 0;
    const uint32_t* pool = g_.pool.at(x);
    for (int64_t i = 0, count = g_.pool_count(x); i < count; ++i) {
        const uint32_t y = pool[i], known = stamps_[y];
        if (known == left_out || known == was_kept)  // those between are not in the pool any more
            for (; before[old++] != y;)
                if (stamps_[before[old - 1]] == was_kept) dropped.push_back(before[old - 1]);
        if (known == was_kept) {
            if (!added.empty() && reached(added, y, rules_.distance(x, y)))
                dropped.push_back(y);
            else
                kept.push_back(y);
        } else {
            if (known == left_out && dropped.empty()) continue;
            const float distance = rules_.distance(x, y);
            if (known == left_out && !reached(dropped, y, distance)) continue;
            if (reached(kept, y, distance)) continue;
            kept.push_back(y);
            added.push_back(y);
        }
        if (static_cast<int64_t>(kept.size()) == DEGREE) return false;
    }
    return true;
}

void GraphChange::set_kept(uint32_t x, const VertexList& kept) {
    Vertex& own = g_.vertex(x);
    const VertexList old(g_.kept.at(x), g_.kept.at(x) + own.kept);
    if (old.size() == kept.size() && std::equal(old.begin(), old.end(), kept.begin())) return;
    remember(What::kept, x);
    std::copy(kept.begin(), kept.end(), g_.kept.at(x));
    for (size_t i = kept.size(); i < old.size(); ++i) g_.kept.at(x)[i] = 0;
    own.kept = static_cast<uint16_t>(kept.size());
    mark(x, EDGES, edges_);
    const auto in = [](const VertexList& some, uint32_t y) {
        return std::find(some.begin(), some.end(), y) != some.end();
    };
    for (uint32_t y : old) {
        if (going_[y] || in(kept, y)) continue;
        take(In::sought_by, y, x);
        mark(y, EDGES, edges_);
    }
    for (uint32_t y : kept) {
        if (in(old, y)) continue;
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
            const int64_t count = rules_.find_kept(x, space_, found);
            kept.assign(found, found + count);
        }
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

void GraphChange::find_edges() {
    uint32_t found[DEGREE];
    for (uint32_t x : edges_) {
        const int64_t count = rules_.find_edges(x, space_, found);
        Vertex& own = g_.vertex(x);
        if (count == own.edges && std::equal(found, found + count, g_.edges.at(x))) continue;
        remember(What::edges, x);
        std::copy(found, found + count, g_.edges.at(x));
        for (int64_t i = count; i < own.edges; ++i) g_.edges.at(x)[i] = 0;
        own.edges = static_cast<uint16_t>(count);
        mark(x, LIST, lists_);
    }
    for (uint32_t x : fresh_) mark(x, LIST, lists_);
}

void GraphChange::prepare_lists() {
    new_lists_.reserve(lists_.size());
    for (uint32_t x : lists_) {
        VertexList all;
        rules_.find_list(x, space_, all);
        writer_.prepare(x, static_cast<int64_t>(all.size()));
        new_lists_.push_back(std::move(all));
    }
}

void GraphChange::finish() noexcept {
    for (size_t i = 0; i < lists_.size(); ++i) writer_.write(lists_[i], new_lists_[i]);
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
