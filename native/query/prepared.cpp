#include "query/prepared.h"

#include <algorithm>
#include <cmath>

#include "hashing/direction.h"
#include "kernels/dispatch.h"
#include "memory/wiped.h"

namespace lethevec {

namespace {

constexpr int64_t CHUNK_BITS = CHUNK_BYTES * 8;
constexpr double PI = 3.14159265358979323846;

// Of the square of a vector, what so many planes of a progressive code leave.
double lost_share(int64_t planes) {
    double left = 1.0;
    for (int64_t i = 0; i < planes; ++i) left = left * (1.0 - 2.0 / PI);
    return left;
}

// The largest sum of sizes of N chunks. They are summed side by side: an addition is done long after the next could
// have begun.
template <int64_t N>
double heaviest_chunk(const float* values) {
    double sums[N] = {};
    for (int64_t j = 0; j < CHUNK_BITS; ++j)
        for (int64_t c = 0; c < N; ++c) sums[c] = sums[c] + std::fabs(static_cast<double>(values[j + c * CHUNK_BITS]));
    return *std::max_element(sums, sums + N);
}

// Whole weights for the first bits: the largest scale, coming down by steps of a hundredth, at which no chunk's weights
// add up to more than a byte holds, nor all of them to more than sixteen bits hold. Returns it.
double first_weights(const float* values, int64_t bits, int32_t* weights) {
    const int64_t chunks = std::max<int64_t>(1, (bits + CHUNK_BITS - 1) / CHUNK_BITS);
    const auto most = static_cast<int32_t>(std::min<int64_t>(CHUNK_WEIGHT, FIRST_WEIGHT / chunks));
    double heaviest = 0.0;
    int64_t from = 0;
    for (; from + 3 * CHUNK_BITS <= bits; from += 3 * CHUNK_BITS)
        heaviest = std::max(heaviest, heaviest_chunk<3>(values + from));
    for (; from + CHUNK_BITS <= bits; from += CHUNK_BITS)
        heaviest = std::max(heaviest, heaviest_chunk<1>(values + from));
    double rest = 0.0;
    for (; from < bits; ++from) rest = rest + std::fabs(static_cast<double>(values[from]));
    heaviest = std::max(heaviest, rest);
    double scale = heaviest > 0.0 ? static_cast<double>(most) / heaviest : 0.0;
    for (;;) {
        bool fits = true;
        for (int64_t from = 0; from < bits; from += CHUNK_BITS)
            fits =
                active().whole_sizes(values + from, std::min(bits - from, CHUNK_BITS), scale, weights + from) <= most &&
                fits;
        if (fits) return scale;
        scale = scale * SCALE_STEP;
    }
}

}  // namespace

void FirstWeights::wipe() {
    tables.clear();
    wide.clear();
    view = {};
    unit = 0.0;
}

void FirstWeights::set(const float* values, int64_t bits, bool want_wide) {
    Wiped<int32_t> whole(bits);
    const int32_t* weights = whole.at(0);
    const double scale = first_weights(values, bits, whole.at(0));
    unit = scale > 0.0 ? 1.0 / scale : 0.0;
    const int64_t bytes = (bits + 7) / 8;
    tables.resize_unfilled(static_cast<size_t>(bytes * 32));
    active().lookup_tables(values, weights, bits, tables.data());
    int32_t half = 0;
    for (int64_t j = 0; j < bits; ++j) half += weights[j];
    view = {tables.data(), bytes, half, 0.0f};
    if (!want_wide || !active().widen_tables || bytes == 0) return;
    wide.resize_unfilled(static_cast<size_t>(wide_tables(bytes)));
    active().widen_tables(tables.data(), bytes, wide.data());
    view.wide = wide.data();
}

void TailWeights::wipe() {
    weights.clear();
    signs.clear();
    sum = 0;
    unit = 0.0;
}

void TailWeights::set(const float* values, int64_t bits) {
    const int64_t words = (bits + 31) / 32;
    weights.assign(static_cast<size_t>(words * 32), 0);
    signs.assign(static_cast<size_t>(words), 0);
    sum = 0;
    unit = 0.0;
    const auto largest = static_cast<double>(active().greatest_size(values, bits));
    if (largest == 0.0) return;
    const double scale = TAIL_WEIGHT / largest;
    Wiped<int32_t> whole(bits);
    sum = active().whole_sizes(values, bits, scale, whole.at(0));
    for (int64_t j = 0; j < bits; ++j) weights[static_cast<size_t>(j)] = static_cast<uint8_t>(*whole.at(j));
    active().sign_words(values, bits, signs.data());
    unit = 1.0 / scale;
}

void PreparedQuery::wipe() {
    vector.clear();
    values.clear();
    code.clear();
    tail.wipe();
    norm = alignment = first_error = code_error = 0.0;
}

void prepare_vector(PreparedQuery& query, Metric metric, int64_t d, const float* x) {
    active().norms(x, d, 1, &query.norm);
    query.kind = metric == Metric::cosine ? KEY_SCORE : metric == Metric::ip ? KEY_IP : KEY_L2;
    query.vector.assign(x, x + d);
    if (metric == Metric::cosine) write_direction(x, d, query.norm, query.vector.data());
}

void prepare(PreparedQuery& query, const Encoder& encoder, Metric metric, const Layout& layout, const float* x) {
    const int64_t d = encoder.dim, bits = encoder.bits, first = layout.first_bits;
    prepare_vector(query, metric, d, x);
    if (!layout.has_codes()) return;
    Wiped<float> scratch(encoder.scratch());
    if (!layout.has_factor) {
        query.code.assign(static_cast<size_t>((bits + 63) / 64), 0);
        double norm = 0, alignment = 0;
        float factor = 0;
        encoder.encode(x, 1, reinterpret_cast<uint8_t*>(query.code.data()), &norm, &factor, &alignment, scratch.at(0));
        return;
    }
    Wiped<float> direction(d);
    write_direction(x, d, query.norm, direction.at(0));
    query.values.resize_unfilled(static_cast<size_t>(bits));
    encoder.coordinates(direction.at(0), query.values.data(), scratch.at(0));
    query.tail.set(query.values.data() + first, bits - first);
    query.first_error = query.code_error = 0.0;
    if (encoder.family == Family::progressive && first > 0) {
        const double lost = lost_share(first / d), all = lost_share(bits / d);
        query.alignment = first > d ? 1.0 - lost : 0.0;
        query.first_error = std::sqrt(lost / ((1.0 - lost) * static_cast<double>(d)));
        query.code_error = std::sqrt(all / ((1.0 - all) * static_cast<double>(d)));
        return;
    }
    // sqrt(2/(pi d)) is the mean size of a unit vector's coordinate: what <b, v> comes to, per bit, for a record
    // itself.
    query.alignment = static_cast<double>(first) * std::sqrt(2.0 / (PI * static_cast<double>(d)));
}

}  // namespace lethevec
