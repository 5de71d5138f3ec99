#include "sources/tables/probing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>

namespace lethevec {

namespace {

constexpr int TABLE_SHIFT = 24;
constexpr int SCORE_SHIFT = 32;
constexpr uint32_t FLIPS = (uint32_t{1} << TABLE_SHIFT) - 1;

// Buckets are put in order where so many are likely to be asked for: this part of them, and then so many times as many
// whenever they are not enough. But not if that would be far more than will be asked for, as where most scores are the
// same.
constexpr double WORTH_ORDER = 24.0, AT_FIRST = 0.75, MORE = 1.5, FAR_MORE = 4.0;

uint64_t pack(float score, uint32_t table, uint32_t flips) {
    uint32_t word = 0;
    std::memcpy(&word, &score, sizeof word);
    return static_cast<uint64_t>(word) << SCORE_SHIFT | static_cast<uint64_t>(table) << TABLE_SHIFT | flips;
}

float score_in(uint64_t node) {
    const auto word = static_cast<uint32_t>(node >> SCORE_SHIFT);
    float score = 0.0f;
    std::memcpy(&score, &word, sizeof score);
    return score;
}

}  // namespace

Probing::Probing(const float* values, int64_t stride, int64_t tables, int64_t bits, double likely)
    : bits_(bits),
      sizes_(static_cast<size_t>(tables * bits)),
      flip_(static_cast<size_t>(tables * bits)),
      home_(static_cast<size_t>(tables)) {
    WipedVector<uint64_t> order(static_cast<size_t>(bits));
    for (int64_t t = 0; t < tables; ++t) {
        uint32_t home = 0;
        for (int64_t i = 0; i < bits; ++i) {
            const float value = values[t * stride + i];
            home |= static_cast<uint32_t>(value >= 0.0f) << i;
            order[static_cast<size_t>(i)] = pack(std::fabs(value), 0, static_cast<uint32_t>(i));
        }
        std::sort(order.begin(), order.end());
        for (int64_t r = 0; r < bits; ++r) {
            const uint64_t entry = order[static_cast<size_t>(r)];
            const auto word = static_cast<uint32_t>(entry >> SCORE_SHIFT);
            std::memcpy(&sizes_[static_cast<size_t>(t * bits + r)], &word, sizeof word);
            flip_[static_cast<size_t>(t * bits + r)] = uint32_t{1} << (entry & FLIPS);
        }
        home_[static_cast<size_t>(t)] = home;
    }
    if (likely >= WORTH_ORDER) {
        wanted_ = AT_FIRST * likely;
        count_buckets();
        in_order_ = up_to_[level_of(wanted_)] <= FAR_MORE * likely;
    }
    if (in_order_) {
        fill_keys();
        return;
    }
    heap_.reserve(1024);
    for (int64_t t = 0; t < tables; ++t)
        heap_.push_back(pack(0.0f, static_cast<uint32_t>(t), 0));  // ascending, and so a heap
}

// About how many buckets have scores up to each level: sizes are rounded to whole levels, and sets of them are counted
// rank by rank. It says how far to look at once, and nothing depends on it but time.
void Probing::count_buckets() {
    float largest = 0.0f;
    for (size_t t = 0; t < home_.size(); ++t) {
        const float* sizes = sizes_.data() + t * static_cast<size_t>(bits_);
        largest = std::max(largest, std::accumulate(sizes, sizes + bits_, 0.0f));
    }
    level_ = largest / static_cast<float>(LEVELS);
    up_to_.assign(LEVELS, 0.0);
    for (size_t t = 0; t < home_.size(); ++t) {
        float counts[LEVELS] = {1.0f}, before[LEVELS];
        for (int64_t r = 0; r < bits_; ++r) {
            const float at = sizes_[t * static_cast<size_t>(bits_) + static_cast<size_t>(r)] / level_ + 0.5f;
            const int64_t by =
                at < static_cast<float>(LEVELS) ? static_cast<int64_t>(at) : 0;  // 0 too where it is no number
            std::copy_n(counts, LEVELS, before);
            for (int64_t i = by; i < LEVELS; ++i) counts[i] += before[i - by];
        }
        for (size_t i = 0; i < LEVELS; ++i) up_to_[i] += static_cast<double>(counts[i]);
    }
    for (size_t i = 1; i < LEVELS; ++i) up_to_[i] += up_to_[i - 1];
}

// The level up to which there are about so many buckets.
std::size_t Probing::level_of(double buckets) const {
    const auto at = static_cast<size_t>(std::lower_bound(up_to_.begin(), up_to_.end(), buckets) - up_to_.begin());
    return std::min<size_t>(at, LEVELS - 1);
}

void Probing::fill_keys() {
    half_ = (bits_ + 1) / 2;
    keys_.resize(2 * home_.size() << half_);
    for (size_t t = 0; t < home_.size(); ++t) {
        const uint32_t* flip = flip_.data() + t * static_cast<size_t>(bits_);
        uint32_t* keys = keys_.data() + (2 * t << half_);
        const auto fill = [](uint32_t first, const uint32_t* flips, int64_t ranks, uint32_t* to) {
            to[0] = first;
            for (int64_t r = 0; r < ranks; ++r)
                for (int64_t set = 0; set < int64_t{1} << r; ++set) to[(int64_t{1} << r) + set] = to[set] ^ flips[r];
        };
        fill(home_[t], flip, half_, keys);
        fill(0, flip + half_, bits_ - half_, keys + (size_t{1} << half_));
    }
}

// All buckets whose scores are within the bounds, into scores_ and sets_.
void Probing::list_buckets(float above, float most) {
    size_t first = 0;
    for (size_t t = 0; t < home_.size(); ++t) {
        const float* sizes = sizes_.data() + t * static_cast<size_t>(bits_);
        size_t count = first + 1;
        scores_.resize(std::max(scores_.size(), count));
        sets_.resize(scores_.size());
        scores_[first] = 0.0f;
        sets_[first] = static_cast<uint32_t>(t) << TABLE_SHIFT;
        // A set is one without its last rank and then that: the order in which scores are summed. Sums never fall, so
        // what is beyond the bound leads to nothing within it, and sizes rise, so a rank that adds nothing is followed
        // by none that does.
        for (int64_t r = 0; r < bits_; ++r) {
            const size_t before = count;
            if (scores_.size() < first + 2 * (before - first)) {
                scores_.resize(2 * (first + 2 * (before - first)));
                sets_.resize(scores_.size());
            }
            float* scores = scores_.data();
            uint32_t* sets = sets_.data();
            for (size_t i = first; i < before; ++i) {  // without a branch: which stay cannot be predicted
                const float score = scores[i] + sizes[r];
                scores[count] = score;
                sets[count] = sets[i] | uint32_t{1} << r;
                count += score <= most;
            }
            if (count == before) break;
        }
        size_t kept = first;
        if (above < 0.0f)
            kept = count;
        else
            for (size_t i = first; i < count; ++i) {
                scores_[kept] = scores_[i];
                sets_[kept] = sets_[i];
                kept += scores_[i] > above;
            }
        first = kept;
    }
    scores_.resize(first);
    sets_.resize(first);
}

// Puts the next buckets in order. False where there are none.
bool Probing::order_more() {
    constexpr float ALL = std::numeric_limits<float>::infinity();
    const float above = most_;
    do {
        if (most_ == ALL) return false;
        const size_t level = level_of(wanted_);
        most_ = level + 1 < LEVELS ? std::max(most_, static_cast<float>(level + 1) * level_) : ALL;
        wanted_ *= MORE;
        list_buckets(above, most_);
    } while (scores_.empty());
    // As many bins as buckets. Rounding is monotone, so a lower bin has lower scores, whatever the scale is; if it is
    // none that can be used, as where scores are all the same, or infinite, the bins are few and sorting does the work.
    const size_t count = scores_.size();
    const float lowest = std::max(above, 0.0f), largest = *std::max_element(scores_.begin(), scores_.end());
    float scale = static_cast<float>(count) / (largest - lowest);
    if (!std::isfinite(scale)) scale = 0.0f;
    const auto last = static_cast<int32_t>(count - 1);
    bins_.resize(count);
    for (size_t i = 0; i < count; ++i) {
        const float at = (scores_[i] - lowest) * scale;
        bins_[i] = at < static_cast<float>(last) ? static_cast<int32_t>(at) : last;
    }
    ends_.assign(count + 1, 0);
    for (const int32_t bin : bins_) ++ends_[static_cast<size_t>(bin) + 1];
    for (size_t bin = 1; bin < ends_.size(); ++bin) ends_[bin] += ends_[bin - 1];
    nodes_.resize(count);
    for (size_t i = 0; i < count; ++i)
        nodes_[ends_[static_cast<size_t>(bins_[i])]++] = pack(scores_[i], sets_[i] >> TABLE_SHIFT, sets_[i] & FLIPS);
    at_ = sorted_ = bin_ = 0;
    return true;
}

bool Probing::next_in_order(Probe& probe) {
    if (at_ == nodes_.size() && !order_more()) return false;
    if (at_ == sorted_) {
        while (ends_[bin_] == at_) ++bin_;
        sorted_ = ends_[bin_];
        Node *from = nodes_.data() + at_, *to = nodes_.data() + sorted_;
        if (to - from == 2)
            std::tie(from[0], from[1]) = std::minmax({from[0], from[1]});
        else if (to - from > 2)
            std::sort(from, to);
    }
    const Node node = nodes_[at_++];
    probe.table = static_cast<uint32_t>(node >> TABLE_SHIFT) & 0xFFu;
    probe.key = key_of(probe.table, static_cast<uint32_t>(node) & FLIPS);
    probe.score = score_in(node);
    return true;
}

Probing::Node Probing::child(uint32_t table, float prefix, uint32_t flips, int64_t last) const {
    const float size = sizes_[static_cast<size_t>(table * bits_ + last)];
    return pack(prefix + size, table, flips | uint32_t{1} << last);
}

bool Probing::next(Probe& probe) { return in_order_ ? next_in_order(probe) : next_of_heap(probe); }

bool Probing::next_of_heap(Probe& probe) {
    if (heap_.empty()) return false;
    const Node first = heap_[0];
    const auto table = static_cast<uint32_t>(first >> TABLE_SHIFT) & 0xFFu;
    const auto flips = static_cast<uint32_t>(first) & FLIPS;
    const float score = score_in(first);

    // The key, and the score of the set without its last rank, in the order of the ranks.
    const float* sizes = sizes_.data() + table * bits_;
    const uint32_t* flip = flip_.data() + table * bits_;
    uint32_t key = home_[table];
    float prefix = 0.0f, previous = 0.0f;
    for (uint32_t rest = flips; rest; rest &= rest - 1) {
        const int rank = __builtin_ctz(rest);
        key ^= flip[rank];
        previous = prefix;
        prefix = prefix + sizes[rank];
    }
    probe = {score, table, key};

    const int64_t after = flips ? 32 - __builtin_clz(flips) : 0;
    if (after == bits_) {
        std::pop_heap(heap_.begin(), heap_.end(), std::greater<Node>());
        heap_.pop_back();
        return true;
    }
    replace_first(child(table, score, flips, after));
    if (flips) push(child(table, previous, flips ^ uint32_t{1} << (after - 1), after));
    return true;
}

void Probing::replace_first(Node node) {
    const size_t size = heap_.size();
    size_t at = 0, below = 1;
    for (; below < size; below = 2 * at + 1) {
        // Which of the two is smaller cannot be predicted, so it is counted, not branched on.
        if (below + 1 < size) below += heap_[below + 1] < heap_[below];
        if (heap_[below] >= node) break;
        heap_[at] = heap_[below];
        at = below;
    }
    heap_[at] = node;
}

void Probing::push(Node node) {
    size_t at = heap_.size();
    heap_.push_back(node);
    while (at > 0 && heap_[(at - 1) / 2] > node) {
        heap_[at] = heap_[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap_[at] = node;
}

}  // namespace lethevec
