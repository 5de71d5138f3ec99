#include "table_query.h"

#include <algorithm>
#include <cmath>

#include "dispatch.h"
#include "wipe.h"

namespace lethevec {

namespace {

// The part of a score that four bits give, for each of their patterns. Weights of bits that are not there are 0.
void fill_lookup(const uint8_t* weights, const float* values, int64_t count, uint8_t* lookup) {
    uint8_t none = 0;  // pattern 0 agrees with what is negative
    for (int64_t b = 0; b < count; ++b) none = static_cast<uint8_t>(none + (values[b] >= 0.0f ? 0 : weights[b]));
    lookup[0] = none;
    for (int64_t b = 0; b < 4; ++b) {
        const int32_t w = b < count ? weights[b] : 0;
        const auto gained = static_cast<uint8_t>(b < count && values[b] >= 0.0f ? w : -w);
        for (int64_t pattern = 0; pattern < int64_t{1} << b; ++pattern)
            lookup[pattern + (int64_t{1} << b)] = static_cast<uint8_t>(lookup[pattern] + gained);
    }
}

// The sums of these weights, for any pattern of them.
void fill_differing(const uint8_t* weights, int64_t count, uint16_t* sums) {
    sums[0] = 0;
    for (int64_t b = 0; b < count; ++b)
        for (int64_t pattern = 0; pattern < int64_t{1} << b; ++pattern)
            sums[pattern + (int64_t{1} << b)] = static_cast<uint16_t>(sums[pattern] + weights[b]);
}

// The largest scale, coming down by steps of a hundredth, at which no table's weights add up to more than they may.
double scale_of(const float* values, int64_t d, int64_t tables, int64_t bits) {
    double heaviest = 0.0;
    for (int64_t t = 0; t < tables; ++t) {
        double sum = 0.0;
        for (int64_t j = 0; j < bits; ++j) sum = sum + std::fabs(static_cast<double>(values[t * d + j]));
        heaviest = std::max(heaviest, sum);
    }
    double scale = heaviest > 0.0 ? static_cast<double>(TableQuery::MOST) / heaviest : 0.0;
    for (;; scale = scale * 0.99) {
        int32_t most = 0;
        for (int64_t t = 0; t < tables; ++t) {
            int32_t sum = 0;
            for (int64_t j = 0; j < bits; ++j)
                sum += static_cast<int32_t>(std::fabs(static_cast<double>(values[t * d + j])) * scale + 0.5);
            most = std::max(most, sum);
        }
        if (most <= TableQuery::MOST) return scale;
    }
}

}  // namespace

TableQuery::TableQuery(const float* values, int64_t d, int64_t tables, int64_t key_bits, int64_t signature_bits)
    : half_((key_bits + 1) / 2),
      differing_(static_cast<size_t>(2 * tables) << half_),
      home_(static_cast<size_t>(tables)),
      bases_(static_cast<size_t>(tables)),
      scans_(static_cast<size_t>(tables)) {
    const int64_t bits = key_bits + signature_bits, bytes = (signature_bits + 7) / 8;
    lookups_.assign(static_cast<size_t>(tables * bytes * 32), 0);
    std::vector<uint8_t> weights(static_cast<size_t>(bits));
    const double scale = scale_of(values, d, tables, bits);
    for (int64_t t = 0; t < tables; ++t) {
        const float* own = values + t * d;
        const auto table = static_cast<size_t>(t);
        for (int64_t j = 0; j < bits; ++j) {
            const auto w = static_cast<uint8_t>(std::fabs(static_cast<double>(own[j])) * scale + 0.5);
            weights[static_cast<size_t>(j)] = w;
            bases_[table] += j < key_bits ? w : -w;
            if (j < key_bits) home_[table] |= static_cast<uint32_t>(own[j] >= 0.0f) << j;
        }
        fill_differing(weights.data(), half_, differing_.data() + (2 * t << half_));
        fill_differing(weights.data() + half_, key_bits - half_, differing_.data() + ((2 * t + 1) << half_));
        uint8_t* lookup = lookups_.data() + t * bytes * 32;
        for (int64_t j = 0; j < signature_bits; j += 4)
            fill_lookup(weights.data() + key_bits + j, own + key_bits + j, std::min<int64_t>(4, signature_bits - j),
                        lookup + 4 * j);
        scans_[table] = {lookup, bytes, 0, 0.0f};
    }
    wipe(weights.data(), weights.size());
    const auto widen = active().widen_tables;
    if (!widen || bytes == 0) return;
    const int64_t each = wide_tables(bytes);
    wide_.resize(static_cast<size_t>(tables * each));
    for (int64_t t = 0; t < tables; ++t) {
        uint8_t* own = wide_.data() + t * each;
        widen(lookups_.data() + t * bytes * 32, bytes, own);
        scans_[static_cast<size_t>(t)].wide = own;
    }
}

TableQuery::~TableQuery() {
    wipe(differing_.data(), differing_.size() * sizeof(uint16_t));
    wipe(home_.data(), home_.size() * sizeof(uint32_t));
    wipe(lookups_.data(), lookups_.size());
    wipe(wide_.data(), wide_.size());
}

}  // namespace lethevec
