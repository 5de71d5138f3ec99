#include "query.h"

#include <algorithm>
#include <cmath>

#include "dispatch.h"
#include "lookup_tables.h"
#include "wiped.h"

namespace lethevec {

namespace {

constexpr int64_t CHUNK_BITS = CHUNK_BYTES * 8;
constexpr double PI = 3.14159265358979323846;

// Whole weights for the first-stage bits: the largest scale at which no chunk's weights add up to more than 255, nor all of
// them to more than sixteen bits hold. Returns it.
double first_weights(const float* values, int64_t bits, int32_t* weights) {
    const int64_t chunks = std::max<int64_t>(1, (bits + CHUNK_BITS - 1) / CHUNK_BITS);
    const auto most = static_cast<int32_t>(std::min<int64_t>(255, UINT16_MAX / chunks));
    double heaviest = 0.0;
    for (int64_t from = 0; from < bits; from += CHUNK_BITS) {
        double sum = 0.0;
        for (int64_t j = from; j < std::min(bits, from + CHUNK_BITS); ++j)
            sum = sum + std::fabs(static_cast<double>(values[j]));
        heaviest = std::max(heaviest, sum);
    }
    double scale = heaviest > 0.0 ? static_cast<double>(most) / heaviest : 0.0;
    for (;;) {
        bool fits = true;
        for (int64_t from = 0; from < bits; from += CHUNK_BITS)
            fits = active().whole_sizes(values + from, std::min(bits - from, CHUNK_BITS), scale, weights + from) <= most && fits;
        if (fits) return scale;
        scale = scale * 0.99;
    }
}

}  // namespace

void PreparedQuery::wipe() {
    const auto clear = [](auto& list) { lethevec::wipe(list.data(), list.size() * sizeof(list[0])); };
    clear(vector);
    clear(tables);
    clear(wide);
    clear(tail_weights);
    clear(tail_signs);
    clear(code);
    scan = {};
    norm = 0;
    tail_half = 0;
    first_unit = tail_unit = twice_norm = 0;
}

void prepare_vector(PreparedQuery& query, Metric metric, int64_t d, const float* x) {
    active().norms(x, d, 1, &query.norm);
    query.vector.assign(x, x + d);
    query.kind = metric == Metric::cosine ? KEY_SCORE : metric == Metric::ip ? KEY_IP : KEY_L2;
    if (metric != Metric::cosine) return;
    const double inverse = query.norm > 0.0 ? 1.0 / query.norm : 0.0;
    for (int64_t j = 0; j < d; ++j)
        query.vector[static_cast<size_t>(j)] = static_cast<float>(static_cast<double>(x[j]) * inverse);
}

void prepare(PreparedQuery& query, const Encoder& encoder, Metric metric, bool hamming, int64_t first, const float* x) {
    const int64_t d = encoder.dim, bits = encoder.bits;
    Wiped<float> scratch(encoder.scratch());
    prepare_vector(query, metric, d, x);
    if (hamming) {
        const int64_t words = (bits + 63) / 64;
        query.code.assign(static_cast<size_t>(words), 0);
        double norm = 0, alignment = 0;
        float factor = 0;
        encoder.encode(x, 1, reinterpret_cast<uint8_t*>(query.code.data()), &norm, &factor, &alignment, scratch.at(0));
        return;
    }

    Wiped<float> values(bits), direction(d);
    const double inverse = query.norm > 0.0 ? 1.0 / query.norm : 0.0;
    for (int64_t j = 0; j < d; ++j) *direction.at(j) = static_cast<float>(static_cast<double>(x[j]) * inverse);
    encoder.coordinates(direction.at(0), values.at(0), scratch.at(0));
    int32_t half = 0;
    const double scale = first_tables(values.at(0), first, query.tables, half);
    const int64_t bytes = (first + 7) / 8;
    // sqrt(2/(pi d)) is the mean size of a unit vector's coordinate: what <b, v> comes to, per bit, for a record itself.
    const double mean_alignment = static_cast<double>(first) * std::sqrt(2.0 / (PI * static_cast<double>(d)));
    const double weight = encoder.family == Family::progressive ? static_cast<double>(encoder.weights[0]) : 1.0;
    const double unit = scale > 0.0 ? 1.0 / scale : 0.0;
    query.scan = {query.tables.data(), bytes, half,
                  first ? static_cast<float>(2.0 * query.norm * unit / (weight * mean_alignment)) : 0.0f};
    add_wide_tables(query, query.scan);
    query.first_unit = static_cast<float>(unit);
    query.twice_norm = static_cast<float>(2.0 * query.norm);

    query.tail_unit = static_cast<float>(
        tail_weights(values.at(first), bits - first, query.tail_weights, query.tail_signs, query.tail_half));
}

void add_wide_tables(PreparedQuery& query, ScanQuery& scan) {
    if (!active().widen_tables || scan.bytes == 0) return;
    query.wide.resize(static_cast<size_t>(wide_tables(scan.bytes)));
    active().widen_tables(query.tables.data(), scan.bytes, query.wide.data());
    scan.wide = query.wide.data();
}

double first_tables(const float* values, int64_t bits, std::vector<uint8_t>& tables, int32_t& half) {
    Wiped<int32_t> whole(bits);
    const int32_t* weights = whole.at(0);
    const double scale = first_weights(values, bits, whole.at(0));
    const int64_t bytes = (bits + 7) / 8;
    tables.resize(static_cast<size_t>(bytes * 32));
    fill_lookup_tables(values, weights, bits, tables.data());
    half = 0;
    for (int64_t j = 0; j < bits; ++j) half += weights[j];
    return scale;
}

double tail_weights(const float* values, int64_t bits, std::vector<uint8_t>& weights, std::vector<uint32_t>& signs,
                    int32_t& half) {
    const int64_t words = (bits + 31) / 32;
    weights.assign(static_cast<size_t>(words * 32), 0);
    signs.assign(static_cast<size_t>(words), 0);
    half = 0;
    const auto largest = static_cast<double>(active().greatest_size(values, bits));
    if (largest == 0.0) return 0.0;
    const double scale = 127.0 / largest;
    Wiped<int32_t> whole(bits);
    half = active().whole_sizes(values, bits, scale, whole.at(0));
    for (int64_t j = 0; j < bits; ++j) weights[static_cast<size_t>(j)] = static_cast<uint8_t>(*whole.at(j));
    active().sign_words(values, bits, signs.data());
    return 1.0 / scale;
}

}  // namespace lethevec
