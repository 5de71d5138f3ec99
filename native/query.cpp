#include "query.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dispatch.h"

namespace lethevec {

namespace {

constexpr int64_t CHUNK_BITS = CHUNK_BYTES * 8;
constexpr double PI = 3.14159265358979323846;

// Whole weights for the first-stage bits: the largest scale at which no chunk's weights add up to more than 255. Returns it.
double first_weights(const std::vector<float>& values, int64_t bits, std::vector<int32_t>& weights) {
    double heaviest = 0.0;
    for (int64_t from = 0; from < bits; from += CHUNK_BITS) {
        double sum = 0.0;
        for (int64_t j = from; j < std::min(bits, from + CHUNK_BITS); ++j)
            sum = sum + std::fabs(static_cast<double>(values[static_cast<size_t>(j)]));
        heaviest = std::max(heaviest, sum);
    }
    double scale = heaviest > 0.0 ? 255.0 / heaviest : 0.0;
    for (;;) {
        bool fits = true;
        for (int64_t from = 0; from < bits; from += CHUNK_BITS) {
            int32_t sum = 0;
            for (int64_t j = from; j < std::min(bits, from + CHUNK_BITS); ++j) {
                const double v = std::fabs(static_cast<double>(values[static_cast<size_t>(j)]));
                weights[static_cast<size_t>(j)] = static_cast<int32_t>(v * scale + 0.5);
                sum += weights[static_cast<size_t>(j)];
            }
            fits = fits && sum <= 255;
        }
        if (fits) return scale;
        scale = scale * 0.99;
    }
}

}  // namespace

void prepare(PreparedQuery& query, const Encoder& encoder, Metric metric, bool hamming, int64_t first, const float* x) {
    const Kernels& kernels = active();
    const int64_t d = encoder.dim, bits = encoder.bits;
    AlignedVector<float> scratch(static_cast<size_t>(encoder.scratch()));
    kernels.norms(x, d, 1, &query.norm);
    const double inverse = query.norm > 0.0 ? 1.0 / query.norm : 0.0;
    std::vector<float> direction(static_cast<size_t>(d));
    for (int64_t j = 0; j < d; ++j)
        direction[static_cast<size_t>(j)] = static_cast<float>(static_cast<double>(x[j]) * inverse);
    query.vector = metric == Metric::cosine ? direction : std::vector<float>(x, x + d);
    query.kind = metric == Metric::cosine ? KEY_SCORE : metric == Metric::ip ? KEY_IP : KEY_L2;
    if (hamming) {
        const int64_t words = (bits + 63) / 64;
        query.code.assign(static_cast<size_t>(words), 0);
        double norm = 0, alignment = 0;
        float factor = 0;
        encoder.encode(x, 1, reinterpret_cast<uint8_t*>(query.code.data()), &norm, &factor, &alignment, scratch.data());
        return;
    }

    std::vector<float> values(static_cast<size_t>(bits));
    encoder.coordinates(direction.data(), values.data(), scratch.data());
    std::vector<int32_t> weights(static_cast<size_t>(first));
    const double scale = first_weights(values, first, weights);
    const int64_t bytes = (first + 7) / 8;
    query.tables.assign(static_cast<size_t>(bytes * 32), 0);
    int32_t half = 0;
    for (int64_t group = 0; group < 2 * bytes; ++group)
        for (int64_t pattern = 0; pattern < 16; ++pattern) {
            int32_t sum = 0;
            for (int64_t b = 0; b < 4 && group * 4 + b < first; ++b) {
                const auto j = static_cast<size_t>(group * 4 + b);
                const bool set = (pattern >> b) & 1;
                if (set == (values[j] >= 0.0f)) sum += weights[j];
            }
            query.tables[static_cast<size_t>(group * 16 + pattern)] = static_cast<uint8_t>(sum);
        }
    for (int32_t w : weights) half += w;
    // sqrt(2/(pi d)) is the mean size of a unit vector's coordinate: what <b, v> comes to, per bit, for a record itself.
    const double mean_alignment = static_cast<double>(first) * std::sqrt(2.0 / (PI * static_cast<double>(d)));
    const double weight = encoder.family == Family::progressive ? static_cast<double>(encoder.weights[0]) : 1.0;
    const double unit = scale > 0.0 ? 1.0 / scale : 0.0;
    query.scan = {query.tables.data(), bytes, half,
                  first ? static_cast<float>(2.0 * query.norm * unit / (weight * mean_alignment)) : 0.0f};
    query.first_unit = static_cast<float>(unit);
    query.twice_norm = static_cast<float>(2.0 * query.norm);

    const int64_t tail = bits - first, tail_words = (tail + 31) / 32;
    query.tail_weights.assign(static_cast<size_t>(tail_words * 32), 0);
    query.tail_signs.assign(static_cast<size_t>(tail_words), 0);
    query.tail_half = 0;
    query.tail_unit = 0.0f;
    double largest = 0.0;
    for (int64_t j = 0; j < tail; ++j)
        largest = std::max(largest, std::fabs(static_cast<double>(values[static_cast<size_t>(first + j)])));
    if (largest == 0.0) return;
    const double tail_scale = 127.0 / largest;
    for (int64_t j = 0; j < tail; ++j) {
        const float v = values[static_cast<size_t>(first + j)];
        const auto w = static_cast<int32_t>(std::fabs(static_cast<double>(v)) * tail_scale + 0.5);
        query.tail_weights[static_cast<size_t>(j)] = static_cast<uint8_t>(w);
        query.tail_half += w;
        if (v >= 0.0f) query.tail_signs[static_cast<size_t>(j / 32)] |= uint32_t{1} << (j % 32);
    }
    query.tail_unit = static_cast<float>(1.0 / tail_scale);
}

}  // namespace lethevec
