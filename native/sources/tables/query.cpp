#include "sources/tables/query.h"

#include <algorithm>
#include <cmath>

#include "kernels/dispatch.h"
#include "memory/wiped.h"

namespace lethevec {

namespace {

// The sums of these weights, for any pattern of them.
void fill_differing(const int32_t* weights, int64_t count, uint16_t* sums) {
    sums[0] = 0;
    for (int64_t b = 0; b < count; ++b)
        for (int64_t pattern = 0; pattern < int64_t{1} << b; ++pattern)
            sums[pattern + (int64_t{1} << b)] = static_cast<uint16_t>(sums[pattern] + weights[b]);
}

// Whole weights: the largest scale, coming down by steps of a hundredth, at which no table's add up to more than they
// may.
void fill_weights(const float* values, int64_t d, int64_t tables, int64_t bits, int32_t* weights) {
    // One by one, in all tables together: sums wait for each other.
    Wiped<double> sums(tables);
    std::fill_n(sums.at(0), tables, 0.0);
    for (int64_t j = 0; j < bits; ++j)
        for (int64_t t = 0; t < tables; ++t)
            *sums.at(t) = *sums.at(t) + std::fabs(static_cast<double>(values[t * d + j]));
    const double heaviest = *std::max_element(sums.at(0), sums.at(0) + tables);
    double scale = heaviest > 0.0 ? static_cast<double>(TableQuery::TABLE_WEIGHT) / heaviest : 0.0;
    for (bool fits = false; !fits; scale = scale * SCALE_STEP) {
        fits = true;
        for (int64_t t = 0; t < tables; ++t)
            fits = active().whole_sizes(values + t * d, bits, scale, weights + t * bits) <= TableQuery::TABLE_WEIGHT &&
                   fits;
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
    lookups_.resize(static_cast<size_t>(tables * bytes * 32));
    Wiped<int32_t> weights(tables * bits);
    fill_weights(values, d, tables, bits, weights.at(0));
    for (int64_t t = 0; t < tables; ++t) {
        const float* own = values + t * d;
        const int32_t* whole = weights.at(t * bits);
        const auto table = static_cast<size_t>(t);
        for (int64_t j = 0; j < bits; ++j) bases_[table] += j < key_bits ? whole[j] : -whole[j];
        for (int64_t j = 0; j < key_bits; ++j) home_[table] |= static_cast<uint32_t>(own[j] >= 0.0f) << j;
        fill_differing(whole, half_, differing_.data() + (2 * t << half_));
        fill_differing(whole + half_, key_bits - half_, differing_.data() + ((2 * t + 1) << half_));
        uint8_t* lookup = lookups_.data() + t * bytes * 32;
        active().lookup_tables(own + key_bits, whole + key_bits, signature_bits, lookup);
        scans_[table] = {lookup, bytes, 0, 0.0f};
    }
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

}  // namespace lethevec
