// The first stage of a search that scans: the first bits of every record, and which of them are worth another look.
//
// What it keeps is every record whose key reaches a threshold, ties included, so it does not depend on the order of rows. A
// sample of the records only suggests where to look for the threshold; the threshold itself is exact.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "arena.h"
#include "dispatch.h"
#include "query.h"
#include "rows.h"
#include "search_memory.h"
#include "search_plan.h"

namespace lethevec {

class FirstStage {
protected:
    static constexpr float LOWEST = -std::numeric_limits<float>::infinity();
    // How near to ask for memory: into the second cache. The first has room for few that are on their way, and the rest would wait.
    static constexpr int NEAR = 2;

    // `masks` has a word for every block of every chunk, with the bits of the rows that may be found, or is empty where all may be;
    // `eligible` counts them.
    FirstStage(const Rows& rows, const std::vector<uint32_t>& masks, int64_t eligible)
        : rows_(rows),
          kernels_(active()),
          masks_(masks),
          eligible_(eligible),
          run_chunks_(std::max<int64_t>(1, RUN_ROWS / rows_.chunk_rows())) {}

    // The rows with the `survivors` largest first-stage keys, ties included, and the key that the reference set reaches to.
    void find_survivors(const SearchPlan& plan) {
        reference_key_ = LOWEST;
        // More than will be found, as a rule.
        const auto room = static_cast<size_t>(2 * plan.survivors + 256);
        found_.reserve(room);
        scores_.reserve(room);
        if (query_.kind != KEY_SCORE) norms_.reserve(room);
        if (plan.survivors >= eligible_) {
            scan(LOWEST);
        } else {
            const std::vector<float> sampled = sample(plan.survivors);
            for (double slack = 1.0;; slack *= 4.0) {
                const float threshold = likely_threshold(sampled, plan.survivors, slack);
                scan(threshold);
                if (threshold == LOWEST || static_cast<int64_t>(found_.size()) >= plan.survivors) break;
            }
        }
        keys_of_found();
        if (plan.reference < static_cast<int64_t>(found_.size())) reference_key_ = largest_key(plan.reference);
        if (plan.survivors < static_cast<int64_t>(found_.size()))
            keep_found(plan.survivors == plan.reference ? reference_key_ : largest_key(plan.survivors));
    }

    // All rows that may be found whose key reaches the threshold.
    void scan(float threshold) {
        clear_found();
        make_room();
        int64_t chunks = 0;
        for (int64_t c = 0; c < rows_.chunks(); c += chunks) {
            // Chunks whose norms and codes lie side by side go together.
            chunks = std::min({run_chunks_, rows_.chunks() - c, rows_.chunks_together() - c % rows_.chunks_together()});
            const int64_t used = (chunks - 1) * rows_.chunk_rows() + rows_.used(c + chunks - 1);
            scan_rows(c, used, threshold);
        }
    }

    float key(size_t i) const { return query_.kind == KEY_SCORE ? static_cast<float>(scores_[i]) : keys_[i]; }

    const Rows& rows_;
    const Kernels& kernels_;
    const std::vector<uint32_t>& masks_;
    const int64_t eligible_;
    const BorrowedMemory memory_;
    PreparedQuery& query_ = memory_->query;
    float reference_key_ = LOWEST;
    std::vector<uint32_t>& found_ = memory_->found;
    std::vector<uint16_t>& scores_ = memory_->scores;
    std::vector<float>& norms_ = memory_->norms;

private:
    static constexpr int64_t SAMPLED = 12, MOST_SAMPLED = 128;  // rows, blocks
    static constexpr int64_t RUN_ROWS = 1 << 14;

    // For what one call of the kernel finds: only a search that scans needs it, and it is large.
    void make_room() {
        if (room_) return;
        const int64_t blocks = (rows_.size() + BLOCK - 1) / BLOCK;
        const auto most = static_cast<size_t>(std::min(run_chunks_ * rows_.chunk_rows(), blocks * BLOCK));
        room_.emplace(most * (sizeof *run_rows_ + sizeof *run_scores_ + sizeof *run_norms_) + 3 * Arena::LINE);
        run_rows_ = room_->take<uint32_t>(most);
        run_scores_ = room_->take<uint16_t>(most);
        run_norms_ = room_->take<float>(most);
    }

    // Appends to found_ and scores_ the rows of those in use from chunk c on whose first-stage key reaches the threshold.
    void scan_rows(int64_t c, int64_t used, float threshold) {
        if (!masks_.empty())
            return scan_blocks(c, 0, (used + BLOCK - 1) / BLOCK, masks_.data() + c * (rows_.chunk_rows() / BLOCK), threshold);
        // Only the last block can be part empty.
        const int64_t full = used / BLOCK;
        scan_blocks(c, 0, full, nullptr, threshold);
        const uint32_t last = (uint32_t{1} << used % BLOCK) - 1;
        if (last) scan_blocks(c, full, 1, &last, threshold);
    }

    // The same for blocks from the block `first` of chunk c on.
    void scan_blocks(int64_t c, int64_t first, int64_t blocks, const uint32_t* masks, float threshold) {
        const Chunk& chunk = rows_.chunk(c);
        const int64_t row = first * BLOCK;
        const int64_t count =
            kernels_.scan(query_.scan, query_.kind, chunk.scan + place_in_pairs(first, rows_.layout().scan_bytes),
                          chunk.norms + row, chunk.classes + row, masks, blocks, threshold,
                          {run_rows_, run_scores_, run_norms_});
        const auto base = static_cast<uint32_t>(c * rows_.chunk_rows() + row);
        for (int64_t i = 0; i < count; ++i) run_rows_[i] += base;
        found_.insert(found_.end(), run_rows_, run_rows_ + count);
        scores_.insert(scores_.end(), run_scores_, run_scores_ + count);
        if (query_.kind != KEY_SCORE) norms_.insert(norms_.end(), run_norms_, run_norms_ + count);
    }

    void clear_found() {
        found_.clear();
        scores_.clear();
        norms_.clear();
    }

    // The first-stage keys of what was found. Where scores are the keys they are counted instead, and keys_ stays empty.
    void keys_of_found() {
        if (query_.kind == KEY_SCORE) {
            counts_.assign(static_cast<size_t>(query_.scan.half) + 1, 0);
            for (uint16_t score : scores_) ++counts_[score];
            return;
        }
        const size_t n = found_.size();
        keys_.resize(n);
        const uint16_t* scores = scores_.data();
        const float *norms = norms_.data(), gain = query_.scan.gain;
        const int32_t half = query_.scan.half;
        float* keys = keys_.data();
        if (query_.kind == KEY_IP)
            for (size_t i = 0; i < n; ++i) keys[i] = norms[i] * static_cast<float>(2 * scores[i] - half);
        else
            for (size_t i = 0; i < n; ++i)
                keys[i] = norms[i] * (static_cast<float>(2 * scores[i] - half) * gain - norms[i]);
    }

    float largest_key(int64_t rank) const {
        if (query_.kind != KEY_SCORE) return kernels_.largest(keys_.data(), static_cast<int64_t>(keys_.size()), rank);
        if (rank > static_cast<int64_t>(scores_.size())) return LOWEST;
        size_t score = counts_.size() - 1;
        for (int64_t left = rank; left > static_cast<int64_t>(counts_[score]); --score) left -= counts_[score];
        return static_cast<float>(score);
    }

    // The keys of the rows of a few pairs of blocks: as many as about SAMPLED of those wanted are likely to be among.
    std::vector<float> sample(int64_t want) const {
        const int64_t per_chunk = rows_.chunk_rows() / BLOCK, blocks = (rows_.size() + BLOCK - 1) / BLOCK;
        const int64_t some = std::min(MOST_SAMPLED, SAMPLED * eligible_ / want / BLOCK + 1);
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
                masks.push_back(!masks_.empty() ? masks_[static_cast<size_t>(b)]
                                : left < BLOCK  ? (uint32_t{1} << left) - 1
                                                : UINT32_MAX);
            }
        }
        const auto n = static_cast<int64_t>(codes.size());
        std::vector<float> keys(codes.size() * BLOCK);
        kernels_.block_keys(query_.scan, query_.kind, codes.data(), norms.data(), n, keys.data());
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
    float likely_threshold(const std::vector<float>& sampled, int64_t want, double slack) const {
        const double part = static_cast<double>(sampled.size()) / static_cast<double>(eligible_);
        const double expected = static_cast<double>(want) * part;
        const auto rank = static_cast<int64_t>(slack * (expected + 2.0 * std::sqrt(expected) + 2.0));
        return kernels_.largest(sampled.data(), static_cast<int64_t>(sampled.size()), rank);
    }

    // Drops what does not reach a threshold.
    void keep_found(float threshold) {
        // Written without a branch: which rows stay cannot be predicted.
        size_t kept = 0;
        for (size_t i = 0; i < found_.size(); ++i) {
            const bool stays = key(i) >= threshold;
            found_[kept] = found_[i];
            scores_[kept] = scores_[i];
            if (query_.kind != KEY_SCORE) {
                keys_[kept] = keys_[i];
                norms_[kept] = norms_[i];
            }
            kept += stays;
        }
        found_.resize(kept);
        scores_.resize(kept);
        if (query_.kind == KEY_SCORE) return;
        keys_.resize(kept);
        norms_.resize(kept);
    }

    const int64_t run_chunks_;  // chunks that one call of the kernel scans, and what it found
    std::optional<Arena> room_;
    uint32_t* run_rows_ = nullptr;
    uint16_t* run_scores_ = nullptr;
    float* run_norms_ = nullptr;
    std::vector<uint32_t>& counts_ = memory_->counts;
    std::vector<float>& keys_ = memory_->keys;
};

}  // namespace lethevec
