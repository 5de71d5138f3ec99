// A search, stage by stage: the first stage or a source of candidates, the remaining planes for the survivors, true distances
// for the few that are left. Mirrors `search` of the spec's ranking.py. Each stage keeps every record whose key reaches a
// threshold, ties included, so what it keeps does not depend on the order of rows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "first_stage.h"
#include "hamming_search.h"
#include "index.h"
#include "parallel.h"
#include "wipe.h"

namespace lethevec {

namespace {

constexpr float FARTHEST = std::numeric_limits<float>::infinity();
constexpr int64_t QUERIES_TOGETHER = 256;  // that share a pass over the codes under Hamming ranking

// And leaves none of them: the list stays with the thread, and one of the records may be forgotten meanwhile.
void write_hits(std::vector<Hit>& hits, int64_t k, int64_t* ids, float* distances) {
    const auto found = std::min<int64_t>(k, static_cast<int64_t>(hits.size()));
    std::partial_sort(hits.begin(), hits.begin() + found, hits.end());
    for (int64_t i = 0; i < k; ++i) {
        ids[i] = i < found ? hits[static_cast<size_t>(i)].second : -1;
        distances[i] = i < found ? hits[static_cast<size_t>(i)].first : FARTHEST;
    }
    wipe(hits.data(), hits.size() * sizeof(Hit));
    hits.clear();
}

}  // namespace

SearchPlan Index::plan(int64_t records, int64_t k, double effort) const {
    const double n = static_cast<double>(records), wanted = static_cast<double>(k);
    auto count = [&](double number) {
        return static_cast<int64_t>(std::ceil(std::min(std::max(number, std::min(wanted, n)), n)));
    };
    const bool staged = !settings_.hamming && source_ == nullptr && rows_.layout().tail_words > 0;
    if (!staged) {
        const int64_t all = count(effort * (0.006 * n + 10.0 * wanted + 100.0));
        return {all, all, all};
    }
    const double base = 0.008 * n + 16.0 * wanted + 256.0;
    const int64_t reference = count(0.5 * base);
    return {reference, std::max(reference, count(effort * base)), count(effort * (0.0008 * n + 5.0 * wanted + 20.0))};
}

// One thread's search of the rows, with its working memory.
class Searcher : FirstStage {
public:
    // `masks` may be empty where all rows may be found, unless a scan of Hamming codes or a search within a radius looks at it.
    Searcher(const Index& index, const std::vector<uint32_t>& masks, int64_t eligible)
        : FirstStage(index.rows_, masks, eligible), index_(index) {}

    void nearest(const float* x, int64_t k, double effort, int64_t* ids, float* distances) {
        const bool hamming = index_.settings_.hamming;
        if (index_.source_ && index_.source_->ranks())
            prepare_vector(query_, index_.settings_.metric, index_.encoder_->dim, x);
        else
            prepare(query_, *index_.encoder_, index_.settings_.metric, hamming, index_.first_bits(), x);
        if (index_.source_) {
            find_candidates(k, effort);
        } else {
            const SearchPlan plan = index_.plan(eligible_, k, effort);
            find_survivors(plan);
            work.scanned += eligible_;  // once: how often it took is a matter of where the rows lie
            if (rows_.layout().tail_words > 0 || !index_.settings_.keep_vectors) refine(plan);
        }
        if (index_.settings_.keep_vectors) rerank();
        collect(k);
        write_hits(hits_, k, ids, distances);
    }

    // Hamming ranking of several queries in one pass: codes are read from memory once.
    void nearest_by_hamming(const float* x, int64_t n, int64_t k, double effort, int64_t* ids, float* distances) {
        const bool keep = index_.settings_.keep_vectors;
        const int64_t want = keep ? index_.plan(eligible_, k, effort).survivors : std::min(k, eligible_);
        std::vector<PreparedQuery> queries(static_cast<size_t>(n));
        std::vector<Reservoir> reservoirs(static_cast<size_t>(n), Reservoir(want));
        const int64_t d = index_.encoder_->dim;
        for (int64_t i = 0; i < n; ++i)
            prepare(queries[static_cast<size_t>(i)], *index_.encoder_, index_.settings_.metric, true, 0, x + i * d);
        lethevec::nearest_by_hamming(rows_, masks_, queries, reservoirs);
        work.scanned += rows_.size() * n;
        for (size_t i = 0; i < queries.size(); ++i) {
            found_ = reservoirs[i].rows;
            if (keep) {
                std::swap(query_, queries[i]);  // so that either is wiped
                rerank();
            } else {
                estimated_.assign(reservoirs[i].bits.begin(), reservoirs[i].bits.end());
            }
            collect(k);
            write_hits(hits_, k, ids + static_cast<int64_t>(i) * k, distances + static_cast<int64_t>(i) * k);
        }
    }

    // Every eligible record's distance, by the best that is kept.
    void all_within(const float* x, float radius, std::vector<Hit>& hits) {
        const bool hamming = index_.settings_.hamming, keep = index_.settings_.keep_vectors;
        prepare(query_, *index_.encoder_, index_.settings_.metric, hamming && !keep, index_.first_bits(), x);
        found_.clear();
        each_allowed([&](uint32_t row) { found_.push_back(row); });
        if (keep) {
            rerank();
        } else if (hamming && !index_.source_) {
            std::vector<uint32_t> bits;
            found_.clear();
            if (radius >= 0.0f)
                within_hamming(rows_, masks_, query_, static_cast<uint32_t>(std::min(radius, 4e9f)), found_, bits);
            estimated_.assign(bits.begin(), bits.end());
        } else if (hamming) {
            compare_found();
        } else {
            if (index_.source_)
                take_unscored();
            else
                scan(LOWEST);
            estimate_found();
        }
        for (size_t i = 0; i < found_.size(); ++i)
            if (estimated_[i] <= radius) hits.emplace_back(estimated_[i], rows_.id(found_[i]));
        std::sort(hits.begin(), hits.end());
    }

    SearchWork work;

private:
    template <class Visit>
    void each_allowed(Visit visit) const {
        for (int64_t c = 0; c < rows_.chunks(); ++c)
            for (int64_t b = 0; b * BLOCK < rows_.used(c); ++b)
                for (uint32_t mask = masks_[static_cast<size_t>(c * (rows_.chunk_rows() / BLOCK) + b)]; mask; mask &= mask - 1)
                    visit(static_cast<uint32_t>(c * rows_.chunk_rows() + b * BLOCK + __builtin_ctz(mask)));
    }

    // What the source gives, and what their codes say of them. Where vectors are kept, a candidate goes on when its code
    // reaches the rank-th best of the reference set; see `pass_filter` in the spec's tables.py.
    void find_candidates(int64_t k, double effort) {
        found_.clear();
        ends_.clear();
        const SourceWork done =
            index_.source_->candidates(rows_, query_.vector.data(), k, effort, masks_, eligible_, found_, ends_);
        work.scanned += done.scanned;
        work.refined += done.refined;
        if (index_.source_->ranks()) return;
        const bool keep = index_.settings_.keep_vectors;
        // Estimates are for nothing when all candidates go on.
        const double wanted = static_cast<double>(k);
        const double rank = std::ceil(std::max(wanted, effort * (2.4 * wanted + 12.0)));
        constexpr double FAR_BEYOND = 4.0;  // see the spec's tables.py
        if (keep && (ends_.empty() || rank > FAR_BEYOND * static_cast<double>(ends_[0]))) return;
        take_unscored();
        if (index_.settings_.hamming)
            compare_found();
        else
            estimate_found();
        if (keep) pass_filter(ends_[0], std::min(static_cast<size_t>(rank), ends_[0]));
    }

    // What was found has no score of a first stage: there is none where a source gives candidates.
    void take_unscored() {
        scores_.assign(found_.size(), 0);
        norms_.clear();
        if (query_.kind != KEY_SCORE)
            for (uint32_t row : found_) norms_.push_back(rows_.norm(row));
    }

    // The differing bits of what was found.
    void compare_found() {
        constexpr size_t AHEAD = 12;
        const int64_t words = rows_.layout().hamming_words;
        refined_.resize(found_.size());
        estimated_.resize(found_.size());
        for (size_t i = 0; i < found_.size(); ++i) {
            if (i + AHEAD < found_.size()) __builtin_prefetch(rows_.hamming(found_[i + AHEAD]));
            uint32_t bits = 0;
            kernels_.hamming(query_.code.data(), rows_.hamming(found_[i]), words, 1, &bits);
            estimated_[i] = static_cast<float>(bits);
            refined_[i] = -estimated_[i];
        }
        work.refined += static_cast<int64_t>(found_.size());
    }

    void pass_filter(size_t reference, size_t rank) {
        const float threshold = kernels_.largest(refined_.data(), static_cast<int64_t>(reference), static_cast<int64_t>(rank));
        size_t kept = 0;
        for (size_t i = 0; i < found_.size(); ++i) {
            found_[kept] = found_[i];
            kept += refined_[i] >= threshold;
        }
        found_.resize(kept);
    }

    // The second-stage keys of what was found, in refined_, and the distances they stand for, in estimated_.
    void estimate_found() {
        const size_t n = found_.size();
        const int64_t words = rows_.layout().tail_words;
        const bool want_distance = !index_.settings_.keep_vectors;
        tails_.resize(n);
        differ_.resize(n);
        factors_.resize(n);
        refined_.resize(n);
        if (want_distance) estimated_.resize(n);
        // Tails are scattered: many are asked for at once, so that they wait for each other and not for us.
        constexpr size_t TOGETHER = 4096;
        for (size_t from = 0; from < n; from += TOGETHER) {
            const size_t to = std::min(n, from + TOGETHER);
            for (size_t i = from; i < to; ++i) {
                tails_[i] = rows_.tail(found_[i]);
                __builtin_prefetch(tails_[i], 0, NEAR);
            }
            kernels_.disagreements(tails_.data() + from, static_cast<int64_t>(to - from), query_.tail_signs.data(),
                                   query_.tail_weights.data(), words, differ_.data() + from, factors_.data() + from);
        }
        const PreparedQuery& query = query_;
        const uint16_t* scores = scores_.data();
        const uint32_t* differ = differ_.data();
        float *factors = factors_.data(), *refined = refined_.data();
        for (size_t i = 0; i < n; ++i)  // in place of the factors, so that it is a plain loop
            factors[i] = query.estimate(scores[i], static_cast<int32_t>(differ[i]), factors[i]);
        if (query.kind == KEY_SCORE)
            std::copy_n(factors, n, refined);
        else
            for (size_t i = 0; i < n; ++i) refined[i] = query.key(factors[i], norms_[i]);
        if (want_distance)
            for (size_t i = 0; i < n; ++i)
                estimated_[i] = estimated_distance(factors[i], query.kind == KEY_SCORE ? 0.0f : norms_[i]);
        work.refined += static_cast<int64_t>(n);
    }

    float estimated_distance(float estimate, float norm) const {
        const auto q = static_cast<float>(query_.norm);
        if (index_.settings_.metric == Metric::cosine) return 1.0f - estimate;
        if (index_.settings_.metric == Metric::ip) return -(estimate * norm * q);
        const float squared = q * q + norm * (norm - estimate * query_.twice_norm);
        return std::sqrt(std::max(squared, 0.0f));
    }

    // Keeps what reaches the key of the `rank`-th record of the reference set. The set is the same for every effort, so more
    // effort only ever lowers this threshold: a record that was kept stays kept.
    void refine(const SearchPlan& plan) {
        estimate_found();
        if (!index_.settings_.keep_vectors) return;
        // Both loops without a branch: what stays cannot be predicted.
        const size_t n = found_.size();
        order_.resize(n + 1);
        size_t inside = 0, kept = 0;
        for (size_t i = 0; i < n; ++i) {
            order_[inside] = refined_[i];
            inside += key(i) >= reference_key_;
        }
        const float threshold = kernels_.largest(order_.data(), static_cast<int64_t>(inside), plan.rank);
        for (size_t i = 0; i < n; ++i) {
            found_[kept] = found_[i];
            kept += refined_[i] >= threshold;
        }
        found_.resize(kept);
    }

    // The true distances of what was found, in estimated_.
    void rerank() {
        const int64_t d = rows_.layout().dim;
        // As many as leave room for others in the cache that they come to.
        const size_t n = found_.size(), ahead = static_cast<size_t>(std::max<int64_t>(16, (1 << 17) / (4 * d)));
        estimated_.resize(n);
        for (size_t i = 0; i < std::min(ahead, n); ++i) ask_for(found_[i]);
        for (size_t i = 0; i < n; ++i) {
            if (i + ahead < n) ask_for(found_[i + ahead]);
            const uint32_t row = found_[i];
            const float* x = rows_.vector(row);
            float distance = 0.0f;
            switch (index_.settings_.metric) {
                case Metric::cosine: distance = 1.0f - kernels_.dot(query_.vector.data(), x, d) / rows_.norm(row); break;
                case Metric::ip: distance = -kernels_.dot(query_.vector.data(), x, d); break;
                case Metric::l2: distance = std::sqrt(kernels_.squared_distance(query_.vector.data(), x, d)); break;
            }
            estimated_[i] = distance;
        }
        work.reranked += static_cast<int64_t>(n);
    }

    // Those of what was found that may be among the k nearest, ties included, into hits_. Ids lie elsewhere in memory: only these
    // are looked up.
    void collect(int64_t k) {
        const auto n = static_cast<int64_t>(found_.size());
        const float limit = k < n ? kernels_.largest(estimated_.data(), n, n - k + 1) : FARTHEST;
        hits_.clear();
        for (size_t i = 0; i < found_.size(); ++i)
            if (!(estimated_[i] > limit)) hits_.emplace_back(estimated_[i], rows_.id(found_[i]));
    }

    // Vectors are scattered over more memory than any cache holds.
    void ask_for(uint32_t row) const {
        const auto* at = reinterpret_cast<const char*>(rows_.vector(row));
        for (int64_t byte = 0; byte < 4 * rows_.layout().dim; byte += 64) __builtin_prefetch(at + byte, 0, NEAR);
        if (query_.kind == KEY_SCORE) __builtin_prefetch(rows_.chunk_of(row).norms + rows_.place(row), 0, NEAR);
    }

    const Index& index_;
    std::vector<size_t>& ends_ = memory_->ends;
    std::vector<float>&factors_ = memory_->factors, &refined_ = memory_->refined, &estimated_ = memory_->estimated,
                      &order_ = memory_->order;
    std::vector<const uint32_t*>& tails_ = memory_->tails;
    std::vector<uint32_t>& differ_ = memory_->differ;
    std::vector<Hit>& hits_ = memory_->hits;
};

namespace {

// The rows that a search may find: all in use, or those of the allowed ids.
int64_t fill_masks(const Rows& rows, const int64_t* allowed, int64_t allowed_n, std::vector<uint32_t>& masks) {
    const int64_t per_chunk = rows.chunk_rows() / BLOCK;
    const auto blocks = static_cast<size_t>(rows.chunks() * per_chunk);
    if (allowed == nullptr) {
        // Rows have no gaps: all blocks but the last few are full.
        const int64_t full = rows.size() / BLOCK, left = rows.size() % BLOCK;
        masks.reserve(blocks);
        masks.assign(static_cast<size_t>(full), UINT32_MAX);
        if (left) masks.push_back((uint32_t{1} << left) - 1);
        masks.resize(blocks, 0);
        return rows.size();
    }
    masks.assign(blocks, 0);
    int64_t eligible = 0;
    for (int64_t i = 0; i < allowed_n; ++i) {
        const uint32_t row = rows.find(allowed[i]);
        if (row == Rows::NONE) continue;
        uint32_t& mask = masks[row / BLOCK];
        const uint32_t bit = uint32_t{1} << (row % BLOCK);
        eligible += (mask & bit) == 0;
        mask |= bit;
    }
    return eligible;
}

}  // namespace

SearchWork Index::search(const float* queries, int64_t n, int64_t k, double effort, const int64_t* allowed,
                         int64_t allowed_n, int64_t threads, int64_t* ids, float* distances) const {
    std::shared_lock<FairLock> reading(lock_);
    std::vector<uint32_t> masks;
    // Masks that let everything pass are made only for those who look at them.
    const bool all = allowed == nullptr && (source_ || !settings_.hamming);
    const int64_t eligible = all ? rows_.size() : fill_masks(rows_, allowed, allowed_n, masks);
    std::mutex adding;
    SearchWork total;
    parallel_for(n, threads, 1, [&](int64_t begin, int64_t end) {
        Searcher searcher(*this, masks, eligible);
        const bool by_hamming = settings_.hamming && !source_;
        const int64_t d = encoder_->dim, together = by_hamming ? QUERIES_TOGETHER : 1;
        for (int64_t i = begin; i < end; i += together) {
            if (by_hamming)
                searcher.nearest_by_hamming(queries + i * d, std::min(together, end - i), k, effort, ids + i * k,
                                            distances + i * k);
            else
                searcher.nearest(queries + i * d, k, effort, ids + i * k, distances + i * k);
        }
        std::lock_guard<std::mutex> turn(adding);
        total.scanned += searcher.work.scanned;
        total.refined += searcher.work.refined;
        total.reranked += searcher.work.reranked;
    });
    const auto& bytes = settings_.bytes_of_stages;
    total.bytes_read = total.scanned * bytes[0] + total.refined * bytes[1] + total.reranked * bytes[2];
    return total;
}

void Index::search_radius(const float* query, float radius, const int64_t* allowed, int64_t allowed_n,
                          std::vector<std::pair<float, int64_t>>& hits) const {
    std::shared_lock<FairLock> reading(lock_);
    std::vector<uint32_t> masks;
    const int64_t eligible = fill_masks(rows_, allowed, allowed_n, masks);
    Searcher(*this, masks, eligible).all_within(query, radius, hits);
}

}  // namespace lethevec
