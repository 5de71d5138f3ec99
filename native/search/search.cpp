// A search, stage by stage. Mirrors `search` of the spec's ranking.py. Each stage keeps every record whose key reaches
// a threshold, ties included, so what it keeps does not depend on the order of rows.
#include "search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "memory/wiped.h"
#include "search/direct.h"
#include "search/outlined.h"
#include "sources/elsewhere.h"

namespace lethevec {

namespace {

constexpr float FARTHEST = std::numeric_limits<float>::infinity();
// How near to ask for memory: into the second cache. The first has room for few lines that are on their way.
constexpr int NEAR = 2;
constexpr double MOST_EFFORT = 1e18;  // that sources can count with
// From so many rows on, and so many for each of the k, outlines are worth their time.
constexpr int64_t OUTLINED = 200, OUTLINED_PER_K = 10;

Scope scope_of(const Rows& rows, const Allowed& allowed, int64_t k, double effort) {
    return {rows, allowed, k, std::min(allowed_effort(allowed.shown(), allowed.count(), effort), MOST_EFFORT)};
}

}  // namespace

Search::Search(const Of& of, const Allowed& allowed)
    : of_(of), rows_(of.rows), keeps_vectors_(rows_.layout().dim > 0), allowed_(allowed), kernels_(active()) {}

void Search::Memory::leave() {
    sought.resize(1);
    sought[0].query.wipe();
    hits.clear();
}

// All lists are about as long as one of these two.
std::size_t Search::Memory::longest() const { return std::max(sought[0].candidates.rows.capacity(), hits.capacity()); }

void Search::nearest(const float* x, int64_t n, int64_t k, double effort, int64_t* ids, float* distances) {
    const Scope scope = scope_of(rows_, allowed_, k, effort);
    // With no limit to the effort no source is asked: the answer is that of brute force.
    const bool everything = std::isinf(effort);
    if (everything || (!allowed_.all() && allowed_.count() <= direct_rows(allowed_.shown(), k, effort))) {
        Sought& sought = memory_->sought[0];
        for (int64_t i = 0; i < n; ++i) {
            look_directly(x + i * of_.encoder.dim, k, FARTHEST, sought);
            collect(sought, k);
            answer(k, ids + i * k, distances + i * k);
        }
        return;
    }
    const int64_t together = of_.source.queries_together(scope);
    for (int64_t from = 0; from < n; from += together) {
        const int64_t some = std::min(together, n - from);
        std::vector<Sought>& all = memory_->sought;
        if (static_cast<int64_t>(all.size()) < some) all.resize(static_cast<size_t>(some));
        for (int64_t i = 0; i < some; ++i) prepare(x + (from + i) * of_.encoder.dim, all[static_cast<size_t>(i)]);
        work_ += of_.source.candidates(scope, all.data(), some);
        for (int64_t i = 0; i < some; ++i) {
            Sought& sought = all[static_cast<size_t>(i)];
            if (keeps_vectors_) {
                filter(sought);
                if (!sought.candidates.measured) rerank(sought);
            } else {
                estimate(sought);
            }
            collect(sought, k);
            answer(k, ids + (from + i) * k, distances + (from + i) * k);
        }
    }
}

int64_t Search::together(const Of& of, const Allowed& allowed, int64_t k, double effort) {
    return of.source.queries_together(scope_of(of.rows, allowed, k, effort));
}

void Search::within(const float* x, float radius, HitList& hits) {
    Sought& sought = memory_->sought[0];
    Candidates& found = sought.candidates;
    if (keeps_vectors_) {
        look_directly(x, 0, radius, sought);
    } else {
        prepare(x, sought);
        work_ += of_.source.everything({rows_, allowed_, 0, 1.0}, radius, sought);
        estimate(sought);
    }
    for (size_t i = 0; i < found.rows.size(); ++i)
        if (found.distances[i] <= radius) hits.emplace_back(found.distances[i], rows_.id(found.rows[i]));
    std::sort(hits.begin(), hits.end());
}

void Search::look_directly(const float* x, int64_t k, float radius, Sought& sought) {
    if (!keeps_vectors_) {
        prepare(x, sought);
        work_ += of_.source.everything({rows_, allowed_, 0, 1.0}, FARTHEST, sought);
        return estimate(sought);
    }
    prepare_vector(sought.query, of_.metric, of_.encoder.dim, x);
    sought.candidates.clear();
    allowed_.list(sought.candidates.rows);
    if (of_.outlines && allowed_.count() > OUTLINED + OUTLINED_PER_K * k) outline(k, radius, sought);
    rerank(sought);
}

// Leaves out rows of which outlines say that they cannot belong to the answer. They count as compared all the same:
// whether outlines are kept is nobody's to see.
void Search::outline(int64_t k, float radius, Sought& sought) {
    std::vector<uint32_t>& found = sought.candidates.rows;
    const auto n = static_cast<int64_t>(found.size());
    const float* q = sought.query.vector.data();
    const bool squared = of_.metric == Metric::l2;
    OutlinedQuery query(*of_.outlines, of_.metric, q, rows_.layout().dim);
    std::vector<float>& near = memory_->keys;
    near.resize(found.size());
    query.bounds(found.data(), n, near.data());
    for (float& one : near) one = -one;
    float limit = squared ? std::max(radius, 0.0f) * std::max(radius, 0.0f) * 1.0001f : radius;
    if (k > 0) {
        // Those that may be nearest set a limit: the k-th of their true distances.
        const float threshold = kernels_.largest(near.data(), n, k);
        std::vector<float>& measured = memory_->factors;
        std::vector<uint32_t>& judges = memory_->differ;
        judges.clear();
        for (size_t i = 0; i < found.size(); ++i)
            if (near[i] >= threshold) judges.push_back(found[i]);
        for (uint32_t row : judges) ask_for(row);
        measured.clear();
        for (uint32_t row : judges) {
            const float distance = true_distance(q, row, nullptr);
            measured.push_back(-(squared ? distance * distance * 1.0001f : distance));
        }
        limit = -kernels_.largest(measured.data(), static_cast<int64_t>(measured.size()), k);
    }
    size_t kept = 0;
    for (size_t i = 0; i < found.size(); ++i) {
        found[kept] = found[i];
        kept += !(-near[i] > limit);
    }
    const int64_t left = n - static_cast<int64_t>(kept);
    found.resize(kept);
    work_ += {0, 0, left, left * rows_.layout().vector_bytes()};
}

void Search::prepare(const float* x, Sought& sought) const {
    lethevec::prepare(sought.query, of_.encoder, of_.metric, rows_.layout(), x);
    sought.candidates.clear();
}

// By their codes, those that are worth their true distance; see `Candidates`.
void Search::filter(Sought& sought) {
    Candidates& found = sought.candidates;
    if (found.rank == 0 && !found.judged) return;
    find_keys(sought, false);
    const std::vector<float>& keys = memory_->keys;
    const float threshold = found.judged ? found.least : kernels_.largest(keys.data(), found.reference, found.rank);
    size_t kept = found.known();
    for (size_t i = kept; i < found.rows.size(); ++i) {  // without a branch: what stays cannot be predicted
        found.rows[kept] = found.rows[i];
        kept += keys[i] >= threshold;
    }
    found.rows.resize(kept);
}

// The distances of candidates by their codes, where those are all there is.
void Search::estimate(Sought& sought) {
    if (sought.candidates.distances.empty()) find_keys(sought, true);
}

// Their true distances, where they are not known.
void Search::rerank(Sought& sought) {
    const float* q = sought.query.vector.data();
    const std::vector<uint32_t>& found = sought.candidates.rows;
    // As many vectors on their way as leave room for others in the cache that they come to.
    const size_t n = found.size(), from = sought.candidates.known(),
                 ahead = static_cast<size_t>(std::max<int64_t>(16, (1 << 17) / rows_.layout().vector_bytes()));
    sought.candidates.distances.resize(n);
    float* distances = sought.candidates.distances.data();
    Wiped<float> room(rows_.room(1));
    for (size_t i = from; i < std::min(from + ahead, n); ++i) ask_for(found[i]);
    for (size_t i = from; i < n; ++i) {
        if (i + ahead < n) ask_for(found[i + ahead]);
        distances[i] = true_distance(q, found[i], room.at(0));
    }
    work_ += {0, 0, static_cast<int64_t>(n), static_cast<int64_t>(n) * rows_.layout().vector_bytes()};
}

float Search::true_distance(const float* q, uint32_t row, float* room) const {
    const int64_t d = rows_.layout().dim;
    const float* x = rows_.vector(row, room);
    switch (of_.metric) {
        case Metric::cosine: return 1.0f - kernels_.dot(q, x, d) / rows_.norm(row);
        case Metric::ip: return -kernels_.dot(q, x, d);
        case Metric::l2: break;
    }
    return std::sqrt(kernels_.squared_distance(q, x, d));
}

// Those of the candidates that may be among the k nearest, ties included. Ids lie elsewhere in memory: only these are
// looked up.
void Search::collect(const Sought& sought, int64_t k) {
    const std::vector<uint32_t>& found = sought.candidates.rows;
    const std::vector<float>& distances = sought.candidates.distances;
    const auto n = static_cast<int64_t>(found.size());
    const float limit = k < n ? kernels_.largest(distances.data(), n, n - k + 1) : FARTHEST;
    memory_->hits.clear();
    for (size_t i = 0; i < found.size(); ++i)
        if (!(distances[i] > limit)) memory_->hits.emplace_back(distances[i], rows_.id(found[i]));
}

// And leaves none of them: the list stays with the thread, and one of the records may be forgotten meanwhile.
void Search::answer(int64_t k, int64_t* ids, float* distances) {
    HitList& hits = memory_->hits;
    const auto found = std::min<int64_t>(k, static_cast<int64_t>(hits.size()));
    std::partial_sort(hits.begin(), hits.begin() + found, hits.end());
    for (int64_t i = 0; i < k; ++i) {
        ids[i] = i < found ? hits[static_cast<size_t>(i)].id : -1;
        distances[i] = i < found ? hits[static_cast<size_t>(i)].distance : FARTHEST;
    }
    hits.clear();
}

// The keys of candidates by their whole codes, larger is nearer, and the distances that these stand for. Those whose
// true distances are known are left out.
void Search::find_keys(Sought& sought, bool want_distances) {
    const auto n = static_cast<int64_t>(sought.candidates.rows.size());
    work_ += {0, n, 0, n * rows_.layout().rest_bytes()};
    if (rows_.layout().hamming_words) return compare_codes(sought, want_distances);
    compare_tails(sought);
    Candidates& found = sought.candidates;
    const PreparedQuery& query = sought.query;
    const float* estimates = memory_->factors.data();
    const float* norms = found.norms.data();
    memory_->keys.resize(static_cast<size_t>(n));
    float* keys = memory_->keys.data();
    const auto known = static_cast<int64_t>(found.known());
    if (query.kind == KEY_SCORE)
        std::copy(estimates + known, estimates + n, keys + known);
    else
        for (int64_t i = known; i < n; ++i) keys[i] = query.key(estimates[i], norms[i]);
    if (!want_distances) return;
    found.distances.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
        found.distances[static_cast<size_t>(i)] =
            distance_of(query, estimates[i], query.kind == KEY_SCORE ? 0.0f : norms[i]);
}

// The estimates of <q/|q|, x/|x|>, in place of the factors.
void Search::compare_tails(Sought& sought) {
    Candidates& found = sought.candidates;
    const PreparedQuery& query = sought.query;
    const size_t n = found.rows.size();
    memory_->tails.resize(n);
    memory_->differ.resize(n);
    memory_->factors.resize(n);
    // A source that has not looked at first bits has no norms either.
    if (query.kind != KEY_SCORE && found.norms.empty())
        for (uint32_t row : found.rows) found.norms.push_back(rows_.norm(row));
    found.partial.resize(n, 0.0f);
    // Tails are scattered: many are asked for at once, so that they wait for each other and not for us.
    constexpr size_t TOGETHER = 4096;
    const TailView tail = {query.tail.signs.data(), query.tail.weights.data(), rows_.layout().tail_words};
    const uint32_t** tails = memory_->tails.data();
    const size_t known = found.known();
    for (size_t from = known; from < n; from += TOGETHER) {
        const size_t to = std::min(n, from + TOGETHER);
        for (size_t i = from; i < to; ++i) {
            tails[i] = rows_.tail(found.rows[i]);
            __builtin_prefetch(tails[i], 0, NEAR);
        }
        kernels_.disagreements(tail, tails + from, static_cast<int64_t>(to - from), memory_->differ.data() + from,
                               memory_->factors.data() + from);
    }
    const float* partial = found.partial.data();
    const uint32_t* differ = memory_->differ.data();
    const int32_t sum = query.tail.sum;
    const auto unit = static_cast<float>(query.tail.unit);
    float* factors = memory_->factors.data();
    for (size_t i = known; i < n; ++i) {
        const float rest = static_cast<float>(sum - 2 * static_cast<int32_t>(differ[i])) * unit;
        factors[i] = (partial[i] + rest) * factors[i];
    }
}

// The differing bits of whole codes.
void Search::compare_codes(Sought& sought, bool want_distances) {
    constexpr size_t AHEAD = 12;
    const std::vector<uint32_t>& found = sought.candidates.rows;
    const int64_t words = rows_.layout().hamming_words;
    memory_->keys.resize(found.size());
    for (size_t i = 0; i < found.size(); ++i) {
        if (i + AHEAD < found.size()) __builtin_prefetch(rows_.hamming(found[i + AHEAD]));
        uint32_t bits = 0;
        kernels_.hamming(sought.query.code.data(), rows_.hamming(found[i]), words, 1, &bits);
        memory_->keys[i] = -static_cast<float>(bits);
    }
    if (!want_distances) return;
    sought.candidates.distances.clear();
    for (float key : memory_->keys) sought.candidates.distances.push_back(-key);
}

float Search::distance_of(const PreparedQuery& query, float estimate, float norm) const {
    const auto q = static_cast<float>(query.norm);
    if (of_.metric == Metric::cosine) return 1.0f - estimate;
    if (of_.metric == Metric::ip) return -(estimate * norm * q);
    const float squared = q * q + norm * (norm - estimate * static_cast<float>(2.0 * query.norm));
    return std::sqrt(std::max(squared, 0.0f));
}

// Vectors are scattered over more memory than any cache holds.
void Search::ask_for(uint32_t row) const {
    rows_.ask_for_vector(row);
    if (of_.metric == Metric::cosine) __builtin_prefetch(rows_.chunk_of(row).norms + rows_.place(row), 0, NEAR);
}

}  // namespace lethevec
