#include "probing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <tuple>

namespace lethevec {

namespace {

constexpr int TABLE_SHIFT = 24;
constexpr int SCORE_SHIFT = 32;
constexpr uint32_t FLIPS = (uint32_t{1} << TABLE_SHIFT) - 1;

// All buckets are put in order where there are at most so many, and at most so many for each that is likely to be asked for.
constexpr int64_t MOST_IN_ORDER = 1 << 15;
constexpr double IN_ORDER_PER_LIKELY = 4.0;

uint64_t pack(float score, uint32_t table, uint32_t flips) {
    uint32_t word = 0;
    std::memcpy(&word, &score, sizeof word);
    return static_cast<uint64_t>(word) << SCORE_SHIFT | static_cast<uint64_t>(table) << TABLE_SHIFT | flips;
}

}  // namespace

Probing::Probing(const float* values, int64_t stride, int64_t tables, int64_t bits, double likely)
    : bits_(bits),
      sizes_(static_cast<size_t>(tables * bits)),
      flip_(static_cast<size_t>(tables * bits)),
      home_(static_cast<size_t>(tables)) {
    std::vector<uint64_t> order(static_cast<size_t>(bits));
    const bool in_order = tables << bits <= MOST_IN_ORDER && static_cast<double>(tables << bits) <= IN_ORDER_PER_LIKELY * likely;
    if (!in_order) heap_.reserve(1024);
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
        if (!in_order) heap_.push_back(pack(0.0f, static_cast<uint32_t>(t), 0));  // ascending, and so a heap
    }
    if (in_order) order_all(tables);
}

void Probing::order_all(int64_t tables) {
    const int64_t each = int64_t{1} << bits_, all = tables << bits_;
    std::vector<float> scores(static_cast<size_t>(all));
    float largest = 0.0f;
    for (int64_t t = 0; t < tables; ++t) {
        float* own = scores.data() + t * each;
        own[0] = 0.0f;
        // A set of flips is one without its last rank and then that: the order in which scores are summed.
        for (int64_t r = 0; r < bits_; ++r) {
            const float size = sizes_[static_cast<size_t>(t * bits_ + r)];
            for (int64_t flips = 0; flips < int64_t{1} << r; ++flips) own[(int64_t{1} << r) + flips] = own[flips] + size;
        }
        largest = std::max(largest, own[each - 1]);
    }
    // About as many bins as buckets. Rounding is monotone, so a lower bin has lower scores, whatever the scale is; if it is none
    // that can be used, as where scores are all zero, or infinite, the bins are few and sorting does the work.
    float scale = static_cast<float>(all) / largest;
    if (!std::isfinite(scale)) scale = 0.0f;
    const auto last = static_cast<int32_t>(all - 1);
    std::vector<int32_t> bins(scores.size());
    for (size_t i = 0; i < scores.size(); ++i) {
        const float at = scores[i] * scale;
        bins[i] = at < static_cast<float>(last) ? static_cast<int32_t>(at) : last;
    }
    ends_.assign(scores.size() + 1, 0);
    for (const int32_t bin : bins) ++ends_[static_cast<size_t>(bin) + 1];
    for (size_t bin = 1; bin < ends_.size(); ++bin) ends_[bin] += ends_[bin - 1];
    nodes_.resize(scores.size());
    for (size_t i = 0; i < scores.size(); ++i)
        nodes_[ends_[static_cast<size_t>(bins[i])]++] =
            pack(scores[i], static_cast<uint32_t>(i >> bits_), static_cast<uint32_t>(i) & static_cast<uint32_t>(each - 1));
}

bool Probing::next_in_order(Probe& probe) {
    if (at_ == nodes_.size()) return false;
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
    const auto word = static_cast<uint32_t>(node >> SCORE_SHIFT);
    probe.table = static_cast<uint32_t>(node >> TABLE_SHIFT) & 0xFFu;
    probe.key = key_of(probe.table, static_cast<uint32_t>(node) & FLIPS);
    std::memcpy(&probe.score, &word, sizeof word);
    return true;
}

uint32_t Probing::key_of(uint32_t table, uint32_t flips) const {
    const uint32_t* flip = flip_.data() + table * bits_;
    uint32_t key = home_[table];
    for (; flips; flips &= flips - 1) key ^= flip[__builtin_ctz(flips)];
    return key;
}

Probing::Node Probing::child(uint32_t table, float prefix, uint32_t flips, int64_t last) const {
    const float size = sizes_[static_cast<size_t>(table * bits_ + last)];
    return pack(prefix + size, table, flips | uint32_t{1} << last);
}

bool Probing::next(Probe& probe) {
    if (!nodes_.empty()) return next_in_order(probe);
    if (heap_.empty()) return false;
    const Node first = heap_.front();
    const auto word = static_cast<uint32_t>(first >> SCORE_SHIFT);
    const auto table = static_cast<uint32_t>(first >> TABLE_SHIFT) & 0xFFu;
    const auto flips = static_cast<uint32_t>(first) & FLIPS;
    float score = 0.0f;
    std::memcpy(&score, &word, sizeof score);

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
