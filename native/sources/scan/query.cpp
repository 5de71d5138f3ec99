#include "sources/scan/query.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace lethevec {

namespace {

// How near to ask for memory: into the second cache. The first has room for few lines that are on their way.
constexpr int NEAR = 2;
constexpr int64_t SAMPLED = 12;        // of the rows that are wanted, about so many are in the sample
constexpr int64_t MOST_SAMPLED = 128;  // blocks
constexpr int64_t RUN_ROWS = 1 << 14;
constexpr int64_t TILE_BYTES = 128 << 10;  // of codes, which stay in the cache for all queries of a batch

}  // namespace

Scan::Query::Query(const Scope& scope, Sought& sought)
    : scope_(scope),
      rows_(scope.rows),
      query_(sought.query),
      found_(sought.candidates),
      kernels_(active()),
      plan_(plan_scan(scope.k, scope.allowed.all() ? scope.effort : ALLOWED_SCAN_EFFORT * scope.effort)),
      run_chunks_(std::max<int64_t>(1, RUN_ROWS / rows_.chunk_rows())) {
    FirstWeights& first = memory_->first;
    first.set(query_.values.data(), rows_.layout().first_bits);
    const double align = first_alignment(query_, first);
    first.view.gain = static_cast<float>(align > 0.0 ? 2.0 * query_.norm * first.unit / align : 0.0);
}

SearchWork Scan::Query::find_nearest() {
    begin();
    scan(threshold_);
    return finish();
}

bool Scan::Query::keeps_scores(const Rows& rows, const PreparedQuery& query) {
    return query.kind == KEY_IP && rows.layout().dim > 0 && query.first_error != 0.0;
}

SearchWork Scan::Query::find_nearest(const Scope& scope, Sought* sought, int64_t n) {
    std::deque<Query> queries;
    for (int64_t i = 0; i < n; ++i) {
        Query& query = queries.emplace_back(scope, sought[i]);
        query.begin();
        query.begin_pass();
    }
    // They take turns in one place to write to.
    for (Query& query : queries) query.run_ = queries.front().run_;
    const int64_t chunk_bytes = scope.rows.chunk_rows() * scope.rows.layout().scan_bytes;
    const int64_t chunks = std::min(std::max<int64_t>(1, TILE_BYTES / chunk_bytes), queries.front().run_chunks_);
    each_run(scope.rows, chunks, [&](int64_t c, int64_t used) {
        for (Query& query : queries) query.scan_rows(c, used, query.threshold_);
    });
    SearchWork work;
    for (Query& query : queries) work += query.finish();
    return work;
}

void Scan::Query::begin() {
    const bool staged = rows_.layout().tail_words > 0, keeps_vectors = rows_.layout().dim > 0;
    const int64_t allowed = scope_.allowed.count(), shown = scope_.allowed.shown();
    if (!keeps_vectors || query_.first_error == 0.0) {
        const int64_t survivors = scan_survivors(shown, allowed, scope_.k, scope_.effort, staged);
        if (survivors >= allowed) return;
        way_ = Way::by_rank;
        return aim(survivors, survivors);
    }
    if (allowed <= plan_.reference) return;
    way_ = Way::by_errors;
    // Mostly the reference is among more rows than may go on, and then all that go on are, too.
    many_ = scan_survivors(shown, allowed, scope_.k, 1.0, staged);
    // Where an error is worth the more the longer a record is, rows go on in an order of their own. They are looked for
    // among all scores, which are kept for that.
    const bool raises = keeps_scores(rows_, query_);
    if (raises) make_room(true);
    aim(raises ? plan_.reference : std::min(allowed, std::max(many_ + 1, plan_.reference)), plan_.reference);
}

SearchWork Scan::Query::finish() {
    if (way_ != Way::all) find_best();
    if (way_ == Way::by_rank) keep(largest_key(want_));
    if (way_ == Way::by_errors) judge_by_errors();
    if (rows_.layout().dim == 0) write_partial();
    return work();
}

SearchWork Scan::Query::find_all() {
    scan(LOWEST);
    write_partial();
    return work();
}

// Each row counts once: how often it was scanned is a matter of where the rows lie. Of a norm a scan reads the class,
// where there are classes.
SearchWork Scan::Query::work() const {
    const Layout& layout = rows_.layout();
    const auto norm = static_cast<int64_t>(layout.norm_classes ? sizeof(uint8_t) : sizeof(float));
    const int64_t scanned = scope_.allowed.count(), bytes = layout.scan_bytes + (keyed() ? norm : 0);
    return {scanned, 0, 0, scanned * bytes};
}

// The reference, and then the rows that may lie within the distance that it gives.
void Scan::Query::judge_by_errors() {
    const bool raises = keeps_scores(rows_, query_);
    const float reference = largest_key(plan_.reference);
    const ScanLimits limits = judge(reference, plan_, many_);
    Memory& m = *memory_.operator->();
    if (raises) {
        scored_ = true;
        m.first.view.half -= limits.raised;
        scan(limits.first);
        m.first.view.half += limits.raised;
        find_keys();
    } else if (limits.first < threshold_) {
        scan(limits.first);
        find_keys();
    }
    keep(raises ? LOWEST : limits.first, reference);
    found_.rows.insert(found_.rows.begin(), m.judge_rows.begin(), m.judge_rows.end());
    m.scores.insert(m.scores.begin(), m.judge_scores.begin(), m.judge_scores.end());
    if (keyed()) found_.norms.insert(found_.norms.begin(), m.judge_norms.begin(), m.judge_norms.end());
    found_.reference = static_cast<int64_t>(m.judge_rows.size());
    found_.judged = true;
    found_.least = limits.second;
    write_partial(limits.lift);
}

// Whether more than so many rows reach a key.
bool Scan::Query::more_reach(float key, int64_t many) {
    // As many were found already, as a rule, or all that reach it.
    while (static_cast<int64_t>(found_.rows.size()) <= many) {
        if (threshold_ == LOWEST) return key == LOWEST;
        if (key >= threshold_) return false;
        find_more();
    }
    int64_t reach = 0;
    for (float own : memory_->keys) reach += own >= key;
    return reach > many;
}

// The rows with about the `want` largest keys are looked for, and the `least` largest for certain.
void Scan::Query::aim(int64_t want, int64_t least) {
    // More than will be found, as a rule.
    const auto room = static_cast<size_t>(2 * want + 256);
    found_.rows.reserve(room);
    memory_->scores.reserve(room);
    if (keyed()) found_.norms.reserve(room);
    sampled_ = sample(want);
    want_ = want;
    least_ = least;
    // Fewer than wanted are no harm where fewer will do.
    slack_ = want > least ? 0.25 : 1.0;
    threshold_ = likely_threshold();
}

// After the first pass: others follow where it has found too few.
void Scan::Query::find_best() {
    find_keys();
    slack_ *= 4.0;
    while (threshold_ != LOWEST && static_cast<int64_t>(found_.rows.size()) < least_) find_more();
}

// All rows down to a lower threshold than the last one.
void Scan::Query::find_more() {
    threshold_ = likely_threshold();
    scan(threshold_);
    find_keys();
    slack_ *= 4.0;
}

// What is asked of rows, by those that reach a key: these are noted, with true distances and keys by whole codes. Of
// others no more than so many are to go on.
ScanLimits Scan::Query::judge(float reference, const ScanPlan& plan, int64_t many) {
    Memory& m = *memory_.operator->();
    m.judge_rows.clear();
    m.judge_scores.clear();
    m.judge_norms.clear();
    m.judge_keys.clear();
    m.judge_tails.clear();
    for (size_t i = 0; i < found_.rows.size(); ++i) {
        if (m.keys[i] < reference) continue;
        const uint32_t row = found_.rows[i];
        m.judge_rows.push_back(row);
        m.judge_scores.push_back(m.scores[i]);
        m.judge_norms.push_back(keyed() ? found_.norms[i] : 0.0f);
        m.judge_keys.push_back(m.keys[i]);
        m.judge_tails.push_back(rows_.tail(row));
        __builtin_prefetch(m.judge_tails.back(), 0, NEAR);
        if (!keyed()) __builtin_prefetch(rows_.chunk_of(row).norms + rows_.place(row), 0, NEAR);
        rows_.ask_for_vector(row);
    }
    const size_t n = m.judge_rows.size();
    m.judge_differs.resize(n);
    m.judge_factors.resize(n);
    const TailView tail = {query_.tail.signs.data(), query_.tail.weights.data(), rows_.layout().tail_words};
    kernels_.disagreements(tail, m.judge_tails.data(), static_cast<int64_t>(n), m.judge_differs.data(),
                           m.judge_factors.data());
    const float* q = query_.vector.data();
    const int64_t d = rows_.layout().dim;
    const auto first_unit = static_cast<float>(m.first.unit), tail_unit = static_cast<float>(query_.tail.unit);
    m.judges.clear();
    found_.distances.resize(n);
    Wiped<float> room(rows_.room(1));
    for (size_t i = 0; i < n; ++i) {
        const float* x = rows_.vector(m.judge_rows[i], room.at(0));
        const float distance = query_.kind == KEY_SCORE ? 1.0f - kernels_.dot(q, x, d) / rows_.norm(m.judge_rows[i])
                               : query_.kind == KEY_IP  ? -kernels_.dot(q, x, d)
                                                        : std::sqrt(kernels_.squared_distance(q, x, d));
        const float by_first = static_cast<float>(2 * m.judge_scores[i] - m.first.view.half) * first_unit;
        const float rest =
            static_cast<float>(query_.tail.sum - 2 * static_cast<int32_t>(m.judge_differs[i])) * tail_unit;
        const float estimate = (by_first + rest) * m.judge_factors[i];
        found_.distances[i] = distance;
        m.judges.push_back({distance, m.judge_norms[i], m.judge_keys[i], query_.key(estimate, m.judge_norms[i])});
    }
    return scan_limits(query_, m.first, rows_.layout().first_bits, m.judges, scope_.k, plan,
                       [&](float key) { return more_reach(key, many); });
}

// The keys of the rows of a few pairs of blocks: as many as about SAMPLED of those wanted are likely to be among.
std::vector<float> Scan::Query::sample(int64_t want) const {
    const std::vector<uint32_t>& allowed = scope_.allowed.masks();
    const int64_t per_chunk = rows_.chunk_rows() / BLOCK, blocks = (rows_.size() + BLOCK - 1) / BLOCK;
    const int64_t some = std::min(MOST_SAMPLED, SAMPLED * scope_.allowed.count() / want / BLOCK + 1);
    const int64_t step = 2 * std::max<int64_t>(1, blocks / some);
    std::vector<const uint8_t*> codes;
    std::vector<const float*> norms;
    std::vector<uint32_t> masks;
    for (int64_t pair = 0; pair < blocks; pair += step) {
        const Chunk& own = rows_.chunk(pair / per_chunk);
        const uint8_t* at = own.scan + place_in_pairs(pair % per_chunk, rows_.layout().scan_bytes);
        for (int64_t g = 0; g < rows_.layout().scan_bytes; ++g) __builtin_prefetch(at + g * PAIR, 0, NEAR);
        for (int64_t b = pair; b < std::min(pair + 2, blocks); ++b) {
            const Chunk& chunk = rows_.chunk(b / per_chunk);
            codes.push_back(chunk.scan + place_in_pairs(b % per_chunk, rows_.layout().scan_bytes));
            norms.push_back(chunk.norms + b % per_chunk * BLOCK);
            const int64_t left = rows_.size() - b * BLOCK;
            masks.push_back(!allowed.empty() ? allowed[static_cast<size_t>(b)]
                            : left < BLOCK   ? (uint32_t{1} << left) - 1
                                             : UINT32_MAX);
        }
    }
    const auto n = static_cast<int64_t>(codes.size());
    std::vector<float> keys(codes.size() * BLOCK);
    kernels_.block_keys(memory_->first.view, query_.kind, codes.data(), norms.data(), n, keys.data());
    size_t kept = 0, from = 0;
    for (uint32_t mask : masks) {
        if (mask == UINT32_MAX && kept == from)
            kept += BLOCK;
        else
            for (; mask; mask &= mask - 1) keys[kept++] = keys[from + static_cast<size_t>(__builtin_ctz(mask))];
        from += BLOCK;
    }
    keys.resize(kept);
    return keys;
}

// A threshold that about as many rows as wanted will reach, by the sample.
float Scan::Query::likely_threshold() const {
    const double part = static_cast<double>(sampled_.size()) / static_cast<double>(scope_.allowed.count());
    const double expected = static_cast<double>(want_) * part, more = 2.0 * std::sqrt(expected) + 2.0;
    const double rank = slack_ < 1.0 ? expected + 0.5 * more : slack_ * (expected + more);
    return kernels_.largest(sampled_.data(), static_cast<int64_t>(sampled_.size()), static_cast<int64_t>(rank));
}

// All rows that may be found whose key reaches the threshold.
void Scan::Query::scan(float threshold) {
    begin_pass();
    each_run(rows_, run_chunks_, [&](int64_t c, int64_t used) { scan_rows(c, used, threshold); });
}

void Scan::Query::begin_pass() {
    found_.rows.clear();
    found_.norms.clear();
    memory_->scores.clear();
    make_room(false);
}

// Calls visit(c, rows in use) for chunks from c on, at most so many, whose norms and codes lie side by side.
template <class Visit>
void Scan::Query::each_run(const Rows& rows, int64_t most_chunks, Visit visit) {
    int64_t chunks = 0;
    for (int64_t c = 0; c < rows.chunks(); c += chunks) {
        chunks = std::min({most_chunks, rows.chunks() - c, rows.chunks_together() - c % rows.chunks_together()});
        visit(c, (chunks - 1) * rows.chunk_rows() + rows.used(c + chunks - 1));
    }
}

// Of those in use from chunk c on.
void Scan::Query::scan_rows(int64_t c, int64_t used, float threshold) {
    const std::vector<uint32_t>& masks = scope_.allowed.masks();
    if (!masks.empty())
        return scan_blocks(c, 0, (used + BLOCK - 1) / BLOCK, masks.data() + c * (rows_.chunk_rows() / BLOCK),
                           threshold);
    // Only the last block can be part empty.
    const int64_t full = used / BLOCK;
    scan_blocks(c, 0, full, nullptr, threshold);
    const uint32_t last = (uint32_t{1} << used % BLOCK) - 1;
    if (last) scan_blocks(c, full, 1, &last, threshold);
}

// Of blocks from the block `first` of chunk c on.
void Scan::Query::scan_blocks(int64_t c, int64_t first, int64_t blocks, const uint32_t* masks, float threshold) {
    const Chunk& chunk = rows_.chunk(c);
    const int64_t row = first * BLOCK, base = c * rows_.chunk_rows() + row;
    ScannedBlocks scanned = {chunk.scan + place_in_pairs(first, rows_.layout().scan_bytes), chunk.norms + row,
                             chunk.classes + row, masks, blocks};
    if (scores_) scanned.scores = scores_ + base * score_bytes();
    scanned.scored = scored_;
    const int64_t count = kernels_.scan(memory_->first.view, query_.kind, scanned, threshold, run_);
    for (int64_t i = 0; i < count; ++i) run_.rows[i] += static_cast<uint32_t>(base);
    found_.rows.insert(found_.rows.end(), run_.rows, run_.rows + count);
    memory_->scores.insert(memory_->scores.end(), run_.scores, run_.scores + count);
    if (keyed()) found_.norms.insert(found_.norms.end(), run_.norms, run_.norms + count);
}

// For what one call of the kernel finds, and, if asked, for the scores of all rows.
void Scan::Query::make_room(bool all_scores) {
    if (run_.rows) return;
    const int64_t pairs = (rows_.size() + PAIR - 1) / PAIR;
    const auto most = static_cast<size_t>(std::min(run_chunks_ * rows_.chunk_rows(), pairs * PAIR) + FOUND_MORE);
    const auto scores = static_cast<size_t>(all_scores ? pairs * PAIR * score_bytes() : 0);
    room_.emplace(most * (sizeof *run_.rows + sizeof *run_.scores + sizeof *run_.norms) + scores + 4 * Arena::LINE);
    run_ = {room_->take<uint32_t>(most), room_->take<uint16_t>(most), room_->take<float>(most)};
    if (all_scores) scores_ = room_->take<uint8_t>(scores);
}

// The keys of what was found.
void Scan::Query::find_keys() {
    const ScanQuery& view = memory_->first.view;
    const size_t n = memory_->scores.size();
    memory_->keys.resize(n);
    const uint16_t* from = memory_->scores.data();
    const float *norms = found_.norms.data(), gain = view.gain;
    const int32_t half = view.half;
    float* keys = memory_->keys.data();
    if (query_.kind == KEY_SCORE)
        for (size_t i = 0; i < n; ++i) keys[i] = static_cast<float>(from[i]);
    else if (query_.kind == KEY_IP)
        for (size_t i = 0; i < n; ++i) keys[i] = norms[i] * static_cast<float>(2 * from[i] - half);
    else
        for (size_t i = 0; i < n; ++i) keys[i] = norms[i] * (static_cast<float>(2 * from[i] - half) * gain - norms[i]);
}

float Scan::Query::largest_key(int64_t rank) const {
    const std::vector<float>& keys = memory_->keys;
    return kernels_.largest(keys.data(), static_cast<int64_t>(keys.size()), rank);
}

// Drops what does not reach a threshold, and, if given, what reaches the reference's.
void Scan::Query::keep(float threshold, std::optional<float> reference) {
    const bool by_norm = keyed(), all = !reference;
    const float below = reference.value_or(0.0f);
    const size_t n = found_.rows.size();
    const float* keys = memory_->keys.data();
    uint32_t* rows = found_.rows.data();
    uint16_t* scores = memory_->scores.data();
    float* norms = found_.norms.data();
    // Written without a branch: which rows stay cannot be predicted.
    size_t kept = 0;
    for (size_t i = 0; i < n; ++i) {
        rows[kept] = rows[i];
        scores[kept] = scores[i];
        if (by_norm) norms[kept] = norms[i];
        kept += (keys[i] >= threshold) & (all | !(keys[i] >= below));
    }
    found_.rows.resize(kept);
    memory_->scores.resize(kept);
    if (by_norm) found_.norms.resize(kept);
}

// What the scores say of the estimate.
void Scan::Query::write_partial(float lift) {
    const size_t n = memory_->scores.size();
    const uint16_t* scores = memory_->scores.data();
    const int32_t half = memory_->first.view.half;
    const auto unit = static_cast<float>(memory_->first.unit);
    found_.partial.resize(n);
    float* partial = found_.partial.data();
    for (size_t i = 0; i < n; ++i) partial[i] = static_cast<float>(2 * scores[i] - half) * unit + lift;
}

}  // namespace lethevec
