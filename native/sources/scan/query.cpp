#include "sources/scan/query.h"

#include <algorithm>
#include <cmath>

namespace lethevec {

namespace {

// How near to ask for memory: into the second cache. The first has room for few lines that are on their way.
constexpr int NEAR = 2;
constexpr int64_t SAMPLED = 12;        // of the rows that are wanted, about so many are in the sample
constexpr int64_t MOST_SAMPLED = 128;  // blocks
constexpr int64_t RUN_ROWS = 1 << 14;
constexpr int64_t LIKELY_SURVIVORS = 128;  // about one row in so many passes the first stage; if more, it is repeated

}  // namespace

Scan::Query::Query(const Scope& scope, Sought& sought)
    : scope_(scope),
      rows_(scope.rows),
      query_(sought.query),
      found_(sought.candidates),
      kernels_(active()),
      run_chunks_(std::max<int64_t>(1, RUN_ROWS / rows_.chunk_rows())) {
    FirstWeights& first = memory_->first;
    first.set(query_.values.data(), rows_.layout().first_bits);
    const double align = first_alignment(query_, first);
    first.view.gain = static_cast<float>(align > 0.0 ? 2.0 * query_.norm * first.unit / align : 0.0);
}

SearchWork Scan::Query::find_nearest() {
    const bool staged = rows_.layout().tail_words > 0, keeps_vectors = rows_.layout().dim > 0;
    if (!keeps_vectors || query_.first_error == 0.0) {
        find_by_rank(scan_survivors(scope_.allowed.shown(), scope_.allowed.count(), scope_.k, scope_.effort, staged));
        if (!keeps_vectors) write_partial();
        return work();
    }
    const ScanPlan plan = plan_scan(scope_.k, scope_.effort);
    if (scope_.allowed.count() <= plan.reference)
        scan(LOWEST);
    else
        find_by_errors(plan);
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

// The rows with the `survivors` largest keys, ties included.
void Scan::Query::find_by_rank(int64_t survivors) {
    if (survivors >= scope_.allowed.count()) {
        scan(LOWEST);
        return;
    }
    find_best(survivors, survivors);
    const float least = largest_key(survivors);
    keep(least, least);
}

// The reference, and then the rows that may lie within the distance that it gives.
void Scan::Query::find_by_errors(const ScanPlan& plan) {
    const int64_t allowed = scope_.allowed.count();
    find_best(std::min(allowed, plan.reference + allowed / LIKELY_SURVIVORS), plan.reference);
    const float reference = largest_key(plan.reference);
    const ScanLimits limits = judge(reference, plan);
    if (limits.raised != 0) {
        find_raised(limits);
        keep(LOWEST, reference);
    } else {
        if (limits.first < threshold_) {  // which is no more than the reference's
            scan(limits.first);
            find_keys();
        }
        keep(limits.first, reference);
    }
    found_.judged = true;
    found_.least = limits.second;
    write_partial(limits.lift);
}

// The rows with about the `want` largest keys, and with the `least` largest for certain.
void Scan::Query::find_best(int64_t want, int64_t least) {
    // More than will be found, as a rule.
    const auto room = static_cast<size_t>(2 * want + 256);
    found_.rows.reserve(room);
    memory_->scores.reserve(room);
    if (keyed()) found_.norms.reserve(room);
    const std::vector<float> sampled = sample(want);
    for (double slack = 1.0;; slack *= 4.0) {
        threshold_ = likely_threshold(sampled, want, slack);
        scan(threshold_);
        if (threshold_ == LOWEST || static_cast<int64_t>(found_.rows.size()) >= least) break;
    }
    find_keys();
}

// What is asked of rows, by those that reach a key: these are noted, with true distances and keys by whole codes.
ScanLimits Scan::Query::judge(float reference, const ScanPlan& plan) {
    Memory& m = *memory_.operator->();
    m.judge_rows.clear();
    m.judge_scores.clear();
    m.judge_norms.clear();
    m.judge_keys.clear();
    m.judge_tails.clear();
    for (size_t i = 0; i < found_.rows.size(); ++i) {
        if ((keyed() ? m.keys[i] : static_cast<float>(m.scores[i])) < reference) continue;
        const uint32_t row = found_.rows[i];
        m.judge_rows.push_back(row);
        m.judge_scores.push_back(m.scores[i]);
        m.judge_norms.push_back(keyed() ? found_.norms[i] : 0.0f);
        m.judge_keys.push_back(keyed() ? m.keys[i] : static_cast<float>(m.scores[i]));
        m.judge_tails.push_back(rows_.tail(row));
        __builtin_prefetch(m.judge_tails.back(), 0, NEAR);
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
    for (size_t i = 0; i < n; ++i) {
        const float* x = rows_.vector(m.judge_rows[i]);
        const float distance = query_.kind == KEY_SCORE ? 1.0f - kernels_.dot(q, x, d) / rows_.norm(m.judge_rows[i])
                               : query_.kind == KEY_IP  ? -kernels_.dot(q, x, d)
                                                        : std::sqrt(kernels_.squared_distance(q, x, d));
        const float by_first = static_cast<float>(2 * m.judge_scores[i] - m.first.view.half) * first_unit;
        const float rest =
            static_cast<float>(query_.tail.sum - 2 * static_cast<int32_t>(m.judge_differs[i])) * tail_unit;
        const float estimate = (by_first + rest) * m.judge_factors[i];
        m.judges.push_back({distance, m.judge_norms[i], m.judge_keys[i], query_.key(estimate, m.judge_norms[i])});
    }
    return scan_limits(query_, m.first, rows_.layout().first_bits, m.judges, scope_.k, plan);
}

// Under ip an error is worth the more the longer the record is, so it is added to what the norm multiplies. Those of
// the reference are found whatever their estimates say.
void Scan::Query::find_raised(const ScanLimits& limits) {
    Memory& m = *memory_.operator->();
    const int32_t half = m.first.view.half, raised = half - limits.raised;
    m.first.view.half = raised;
    scan(limits.first);
    m.first.view.half = half;
    for (size_t i = 0; i < m.judge_rows.size(); ++i) {
        if (m.judge_norms[i] * static_cast<float>(2 * m.judge_scores[i] - raised) >= limits.first) continue;
        found_.rows.push_back(m.judge_rows[i]);
        found_.norms.push_back(m.judge_norms[i]);
        m.scores.push_back(m.judge_scores[i]);
    }
    find_keys();
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

// A threshold that about `want` rows will reach, by the sample.
float Scan::Query::likely_threshold(const std::vector<float>& sampled, int64_t want, double slack) const {
    const double part = static_cast<double>(sampled.size()) / static_cast<double>(scope_.allowed.count());
    const double expected = static_cast<double>(want) * part;
    const auto rank = static_cast<int64_t>(slack * (expected + 2.0 * std::sqrt(expected) + 2.0));
    return kernels_.largest(sampled.data(), static_cast<int64_t>(sampled.size()), rank);
}

// All rows that may be found whose key reaches the threshold.
void Scan::Query::scan(float threshold) {
    found_.rows.clear();
    found_.norms.clear();
    memory_->scores.clear();
    make_room();
    int64_t chunks = 0;
    for (int64_t c = 0; c < rows_.chunks(); c += chunks) {
        // Chunks whose norms and codes lie side by side go together.
        chunks = std::min({run_chunks_, rows_.chunks() - c, rows_.chunks_together() - c % rows_.chunks_together()});
        const int64_t used = (chunks - 1) * rows_.chunk_rows() + rows_.used(c + chunks - 1);
        scan_rows(c, used, threshold);
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
    const int64_t row = first * BLOCK;
    const ScannedBlocks scanned = {chunk.scan + place_in_pairs(first, rows_.layout().scan_bytes), chunk.norms + row,
                                   chunk.classes + row, masks, blocks};
    const int64_t count = kernels_.scan(memory_->first.view, query_.kind, scanned, threshold, run_);
    const auto base = static_cast<uint32_t>(c * rows_.chunk_rows() + row);
    for (int64_t i = 0; i < count; ++i) run_.rows[i] += base;
    found_.rows.insert(found_.rows.end(), run_.rows, run_.rows + count);
    memory_->scores.insert(memory_->scores.end(), run_.scores, run_.scores + count);
    if (keyed()) found_.norms.insert(found_.norms.end(), run_.norms, run_.norms + count);
}

// For what one call of the kernel finds.
void Scan::Query::make_room() {
    if (room_) return;
    const int64_t blocks = (rows_.size() + BLOCK - 1) / BLOCK;
    const auto most = static_cast<size_t>(std::min(run_chunks_ * rows_.chunk_rows(), blocks * BLOCK));
    room_.emplace(most * (sizeof *run_.rows + sizeof *run_.scores + sizeof *run_.norms) + 3 * Arena::LINE);
    run_ = {room_->take<uint32_t>(most), room_->take<uint16_t>(most), room_->take<float>(most)};
}

// The keys of what was found. Where scores are the keys they are counted instead.
void Scan::Query::find_keys() {
    const ScanQuery& view = memory_->first.view;
    const std::vector<uint16_t>& scores = memory_->scores;
    if (!keyed()) {
        memory_->counts.assign(static_cast<size_t>(view.half) + 1, 0);
        for (uint16_t score : scores) ++memory_->counts[score];
        return;
    }
    const size_t n = scores.size();
    memory_->keys.resize(n);
    const uint16_t* from = scores.data();
    const float *norms = found_.norms.data(), gain = view.gain;
    const int32_t half = view.half;
    float* keys = memory_->keys.data();
    if (query_.kind == KEY_IP)
        for (size_t i = 0; i < n; ++i) keys[i] = norms[i] * static_cast<float>(2 * from[i] - half);
    else
        for (size_t i = 0; i < n; ++i) keys[i] = norms[i] * (static_cast<float>(2 * from[i] - half) * gain - norms[i]);
}

float Scan::Query::largest_key(int64_t rank) const {
    const std::vector<float>& keys = memory_->keys;
    if (keyed()) return kernels_.largest(keys.data(), static_cast<int64_t>(keys.size()), rank);
    if (rank > static_cast<int64_t>(memory_->scores.size())) return LOWEST;
    const std::vector<uint32_t>& counts = memory_->counts;
    size_t score = counts.size() - 1;
    for (int64_t left = rank; left > static_cast<int64_t>(counts[score]); --score) left -= counts[score];
    return static_cast<float>(score);
}

// Drops what does not reach a threshold. What reaches the reference set's, which is no lower, comes first.
void Scan::Query::keep(float threshold, float reference) {
    const size_t n = found_.rows.size();
    if (reference == LOWEST) {
        found_.reference = static_cast<int64_t>(n);
        return;
    }
    const bool by_norm = keyed();
    memory_->later_rows.resize(n + 1);
    memory_->later_scores.resize(n + 1);
    if (by_norm) memory_->later_norms.resize(n + 1);
    const float* keys = memory_->keys.data();
    uint32_t *rows = found_.rows.data(), *later_rows = memory_->later_rows.data();
    uint16_t *scores = memory_->scores.data(), *later_scores = memory_->later_scores.data();
    float *norms = found_.norms.data(), *later_norms = memory_->later_norms.data();
    // Written without a branch: which rows stay, and where, cannot be predicted.
    size_t kept = 0, later = 0;
    for (size_t i = 0; i < n; ++i) {
        const float own = by_norm ? keys[i] : static_cast<float>(scores[i]);
        const bool first = own >= reference, stays = own >= threshold;
        rows[kept] = later_rows[later] = rows[i];
        scores[kept] = later_scores[later] = scores[i];
        if (by_norm) norms[kept] = later_norms[later] = norms[i];
        kept += first;
        later += stays && !first;
    }
    found_.reference = static_cast<int64_t>(kept);
    std::copy_n(later_rows, later, rows + kept);
    std::copy_n(later_scores, later, scores + kept);
    found_.rows.resize(kept + later);
    memory_->scores.resize(kept + later);
    if (!by_norm) return;
    std::copy_n(later_norms, later, norms + kept);
    found_.norms.resize(kept + later);
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
