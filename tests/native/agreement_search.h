// The kernels of the index: scan, disagreements, hamming, sums and keystream. Where a kernel's answer is whole numbers,
// the scalar kernel is held against the definition too.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "agreement.h"
#include "kernels/walk.h"

namespace agreement {

using namespace lethevec;
using Isas = std::vector<std::string>;

// A query for records of `bytes` bytes, and `blocks` blocks of records.
struct ScanProblem {
    int64_t bytes, blocks;
    std::vector<uint8_t> tables, codes, classes;
    std::vector<float> norms;
    std::vector<uint32_t> masks;
    std::vector<uint16_t> scores;  // by definition, a bit at a time
    ScanQuery query;

    ScanProblem(int64_t bytes_, int64_t blocks_, Random& random) : bytes(bytes_), blocks(blocks_) {
        std::vector<int32_t> weights(static_cast<size_t>(bytes * 8));
        std::vector<uint8_t> signs(static_cast<size_t>(bytes));
        random.fill(signs);
        // Every chunk's weights add up to 255, the most that they may.
        for (int64_t from = 0; from < bytes * 8; from += CHUNK_BYTES * 8) {
            const int64_t count = std::min(CHUNK_BYTES * 8, bytes * 8 - from);
            for (int k = 0; k < 255; ++k)
                ++weights[static_cast<size_t>(from + random.below(random.below(2) ? count : 8))];
        }
        tables.resize(static_cast<size_t>(bytes * 32));
        const auto part = [&](int64_t j, bool set) {
            return set == ((signs[static_cast<size_t>(j / 8)] >> (j % 8) & 1) != 0) ? weights[static_cast<size_t>(j)]
                                                                                    : 0;
        };
        for (int64_t group = 0; group < 2 * bytes; ++group)
            for (int pattern = 0; pattern < 16; ++pattern) {
                int32_t sum = 0;
                for (int b = 0; b < 4; ++b) sum += part(group * 4 + b, pattern >> b & 1);
                tables[static_cast<size_t>(group * 16 + pattern)] = static_cast<uint8_t>(sum);
            }
        int32_t half = 0;
        for (const int32_t w : weights) half += w;
        // Of the codes, some are the query's own and some its opposite: the highest and the lowest score there can be.
        codes.resize(static_cast<size_t>((blocks + 1) / 2 * bytes * PAIR));
        norms.resize(static_cast<size_t>(blocks * BLOCK));
        classes.resize(norms.size());
        scores.resize(norms.size());
        random.fill(codes);
        const int largest = random.below(2) ? 58 : 0;  // beyond what classes tell apart, or not
        for (int64_t row = 0; row < blocks * BLOCK; ++row) {
            const int64_t what = random.below(10);
            int32_t score = 0;
            for (int64_t g = 0; g < bytes; ++g) {
                uint8_t& byte = codes[static_cast<size_t>(((row / PAIR) * bytes + g) * PAIR + row % PAIR)];
                const uint8_t own = signs[static_cast<size_t>(g)];
                if (what < 2) byte = what ? own : static_cast<uint8_t>(~own);
                for (int b = 0; b < 8; ++b) score += part(g * 8 + b, byte >> b & 1);
            }
            scores[static_cast<size_t>(row)] = static_cast<uint16_t>(score);
            norms[static_cast<size_t>(row)] = std::fabs(random.below(3) ? random.number() : random.wild(largest));
            // Eight intervals to a doubling, from 2^-10 on.
            int exponent = 0;
            const float part = std::frexp(norms[static_cast<size_t>(row)], &exponent);  // in [1/2, 1)
            const double number =
                1.0 + 8.0 * (exponent - 1 + 10) + std::floor((2.0 * static_cast<double>(part) - 1.0) * 8.0);
            classes[static_cast<size_t>(row)] =
                static_cast<uint8_t>(part == 0.0f ? 0.0 : std::min(255.0, std::max(0.0, number)));
        }
        masks.resize(static_cast<size_t>(blocks));
        for (uint32_t& mask : masks) {
            const int64_t kind = random.below(4);
            mask = kind == 0 ? 0 : kind == 1 ? ~0u : static_cast<uint32_t>(random.word());
        }
        query = {tables.data(), bytes, half, std::fabs(random.number()) * 0.01f};
    }

    // The key of a row, rounded after every operation whatever the compiler's habits.
    float key(KeyKind kind, int64_t row) const {
        const float norm = norms[static_cast<size_t>(row)];
        const auto estimate = static_cast<float>(2 * scores[static_cast<size_t>(row)] - query.half);
        if (kind == KEY_SCORE) return static_cast<float>(scores[static_cast<size_t>(row)]);
        if (kind == KEY_IP) return norm * estimate;
        const volatile float scaled = estimate * query.gain;
        const volatile float difference = scaled - norm;
        return norm * difference;
    }
};

// Thresholds that every row reaches, that none does, and those of a row, which it just reaches or just misses.
inline float threshold_for(const ScanProblem& problem, KeyKind kind, Random& random) {
    const float infinity = std::numeric_limits<float>::infinity();
    const float key = problem.key(kind, random.below(problem.blocks * BLOCK));
    switch (random.below(8)) {
        case 0: return -infinity;
        case 1: return infinity;
        case 2: return kind == KEY_SCORE ? static_cast<float>(problem.query.half + random.below(2)) : 0.0f;
        case 3: return std::nextafterf(key, infinity);
        case 4: return std::nextafterf(key, -infinity);
        default: return key;
    }
}

inline void check_scan(const Isas& isas, const ScanProblem& problem, KeyKind kind, float threshold) {
    const int64_t blocks = problem.blocks;
    const auto what = [&] {
        const std::string sizes = text("scan: bytes, blocks, kind", {problem.bytes, blocks, kind});
        return sizes + ", threshold " + std::to_string(threshold);
    };
    // With tables of 64 too, where they are made, and without them everywhere.
    // With masks, and with all rows.
    for (const bool wide : {false, true})
        for (const bool masked : {false, true})
            agree(isas, what, [&](const Kernels& kernels) {
                auto rows = room<uint32_t>(blocks * BLOCK + FOUND_MORE);
                auto scores = room<uint16_t>(blocks * BLOCK + FOUND_MORE);
                auto norms = room<float>(blocks * BLOCK + FOUND_MORE);
                ScanQuery query = problem.query;
                auto tables = room<uint8_t>(wide_tables(problem.bytes));
                if (wide && kernels.widen_tables) {
                    kernels.widen_tables(query.tables, query.bytes, tables.data());
                    query.wide = tables.data();
                }
                const ScannedBlocks scanned = {problem.codes.data(), problem.norms.data(), problem.classes.data(),
                                               masked ? problem.masks.data() : nullptr, blocks};
                const Found found = {rows.data(), scores.data(), norms.data()};
                const int64_t count = kernels.scan(query, kind, scanned, threshold, found);
                // Again by way of the scores of all rows, which are gone then.
                const int64_t width = problem.bytes > CHUNK_BYTES ? 2 : 1;
                auto kept = room<uint8_t>(blocks * BLOCK * width);
                ScannedBlocks twice = scanned;
                twice.scores = kept.data();
                kernels.scan(query, kind, twice, std::numeric_limits<float>::infinity(), found);
                twice.scored = true;
                const int64_t again = kernels.scan(query, kind, twice, threshold, found);
                expect(again == count, std::string(kernels.name) + " finds others by kept scores: " + what());
                for (int64_t row = 0; row < blocks * BLOCK; ++row)
                    if (!masked) expect(kept[static_cast<size_t>(row * width)] == 0, what() + ": scores are left");
                int64_t at = 0;
                bool right = true;
                for (int64_t row = 0; row < blocks * BLOCK; ++row) {
                    if (masked && !(problem.masks[static_cast<size_t>(row / BLOCK)] >> (row % BLOCK) & 1)) continue;
                    if (!(problem.key(kind, row) >= threshold)) continue;
                    const auto i = static_cast<size_t>(at++);
                    right =
                        right && at <= count && rows[i] == row && scores[i] == problem.scores[static_cast<size_t>(row)];
                }
                expect(right && at == count, std::string(kernels.name) + " is not by the definition: " + what());
                // What lies past the last is nobody's business.
                rows.resize(static_cast<size_t>(count));
                scores.resize(static_cast<size_t>(count));
                norms.resize(static_cast<size_t>(count));
                return Answer().add(rows).add(scores).add(norms);
            });
}

inline void check_scans(const Isas& isas, int64_t bytes, int64_t blocks, int thresholds) {
    Random random{static_cast<uint64_t>(bytes * 100 + blocks)};
    const ScanProblem problem(bytes, blocks, random);
    for (const KeyKind kind : {KEY_SCORE, KEY_IP, KEY_L2})
        for (int k = 0; k < thresholds; ++k) check_scan(isas, problem, kind, threshold_for(problem, kind, random));
}

// The keys of some blocks of a problem, in an order of their own.
inline void check_block_keys(const Isas& isas, int64_t bytes, int64_t blocks) {
    Random random{static_cast<uint64_t>(5000 + bytes * 100 + blocks)};
    const ScanProblem problem(bytes, 8, random);
    std::vector<int64_t> which;
    std::vector<const uint8_t*> codes;
    std::vector<const float*> norms;
    for (int64_t b = 0; b < blocks; ++b) {
        which.push_back(random.below(8));
        codes.push_back(problem.codes.data() + place_in_pairs(which.back(), bytes));
        norms.push_back(problem.norms.data() + which.back() * BLOCK);
    }
    for (const KeyKind kind : {KEY_SCORE, KEY_IP, KEY_L2}) {
        const auto what = [=] { return text("block_keys: bytes, blocks, kind", {bytes, blocks, kind}); };
        agree(isas, what, [&](const Kernels& kernels) {
            auto keys = room<float>(blocks * BLOCK);
            kernels.block_keys(problem.query, kind, codes.data(), norms.data(), blocks, keys.data());
            bool right = true;
            for (int64_t i = 0; i < blocks * BLOCK; ++i)
                right = right && keys[static_cast<size_t>(i)] ==
                                     problem.key(kind, which[static_cast<size_t>(i / BLOCK)] * BLOCK + i % BLOCK);
            expect(right, std::string(kernels.name) + " is not by the definition: " + what());
            return Answer().add(keys);
        });
    }
}

// Numbers of four sorts: of all sizes, close together, few different ones, and with infinities and the least there are.
inline void check_largest(const Isas& isas, int64_t n, int64_t sort) {
    Random random{static_cast<uint64_t>(6000 + 10 * n + sort)};
    const float infinity = std::numeric_limits<float>::infinity();
    const float odd[] = {infinity, -infinity, 3.4028235e38f, -3.4028235e38f, 1e-45f, -1e-45f, 0.0f, 2e-45f};
    std::vector<float> numbers(static_cast<size_t>(n));
    for (float& x : numbers)
        x = sort == 0   ? random.wild(58)
            : sort == 1 ? 1000.0f + random.number()
            : sort == 2 ? static_cast<float>(random.below(5))
                        : odd[random.below(8)];
    std::vector<float> sorted = numbers;
    std::sort(sorted.begin(), sorted.end(), std::greater<float>());
    for (int k = 0; k < 6; ++k) {
        const int64_t rank = k == 0   ? 0
                             : k == 1 ? n + 1
                             : k == 2 ? n
                             : k == 3 ? 1
                                      : 1 + random.below(std::max<int64_t>(1, n));
        const auto what = [=] { return text("largest: n, sort, rank", {n, sort, rank}); };
        agree(isas, what, [&](const Kernels& kernels) {
            const float got = kernels.largest(numbers.data(), n, rank);
            const float right = rank >= 1 && rank <= n ? sorted[static_cast<size_t>(rank - 1)] : -infinity;
            expect(got == right, std::string(kernels.name) + " is not by the definition: " + what());
            return Answer().add(std::vector<float>{got + 0.0f});
        });
    }
}

inline void check_disagreements(const Isas& isas, int64_t words, int64_t n) {
    Random random{static_cast<uint64_t>(7000 + words * 50 + n)};
    std::vector<uint32_t> query(static_cast<size_t>(words)), all(static_cast<size_t>(3 * n * (words + 1)));
    std::vector<uint8_t> weights(static_cast<size_t>(words * 32));
    random.fill(query);
    random.fill(all);
    random.fill(weights);
    // One that differs in every bit.
    if (n > 0)
        for (size_t i = 0; i < query.size(); ++i) all[1 + i] = ~query[i];
    std::vector<const uint32_t*> tails;
    for (int64_t i = 0; i < n; ++i) tails.push_back(all.data() + (i == 2 ? 0 : random.below(3 * n) * (words + 1)));
    const auto what = [=] { return text("disagreements: words, n", {words, n}); };
    agree(isas, what, [&](const Kernels& kernels) {
        auto out = room<uint32_t>(n);
        auto factors = room<float>(n);
        kernels.disagreements({query.data(), weights.data(), words}, tails.data(), n, out.data(), factors.data());
        for (int64_t i = 0; i < n; ++i) {
            uint32_t sum = 0;
            for (int64_t j = 0; j < words * 32; ++j)
                if ((tails[static_cast<size_t>(i)][1 + j / 32] ^ query[static_cast<size_t>(j / 32)]) >> (j % 32) & 1)
                    sum += weights[static_cast<size_t>(j)];
            expect(out[static_cast<size_t>(i)] == sum,
                   std::string(kernels.name) + " is not by the definition: " + what());
        }
        return Answer().add(out).add(factors);
    });
}

// Outlines whose numbers are the largest that there are, or any.
inline void check_outline_products(const Isas& isas, int64_t bytes, int64_t n) {
    Random random{static_cast<uint64_t>(7700 + bytes * 50 + n)};
    const int64_t padded = (bytes + 63) / 64 * 64;
    std::vector<uint8_t> all(static_cast<size_t>((n + 1) * bytes));
    random.fill(all);
    std::fill_n(all.begin(), bytes, uint8_t{255});
    std::vector<int8_t> lower(static_cast<size_t>(padded)), upper(lower.size());
    const bool most = random.below(2) != 0;
    for (int64_t j = 0; j < bytes; ++j)
        for (std::vector<int8_t>* half : {&lower, &upper})
            (*half)[static_cast<size_t>(j)] = static_cast<int8_t>(most ? -127 : random.below(255) - 127);
    std::vector<const uint8_t*> outlines;
    for (int64_t i = 0; i < n; ++i) outlines.push_back(all.data() + (i == 0 ? 0 : random.below(n + 1) * bytes));
    const auto what = [=] { return text("outline_products: bytes, n", {bytes, n}); };
    agree(isas, what, [&](const Kernels& kernels) {
        auto out = room<int32_t>(n);
        kernels.outline_products({lower.data(), upper.data(), bytes}, outlines.data(), n, out.data());
        for (int64_t i = 0; i < n; ++i) {
            int32_t sum = 0;
            for (int64_t j = 0; j < bytes; ++j) {
                const uint8_t both = outlines[static_cast<size_t>(i)][j];
                sum += (both & 15) * lower[static_cast<size_t>(j)] + (both >> 4) * upper[static_cast<size_t>(j)];
            }
            expect(out[static_cast<size_t>(i)] == sum,
                   std::string(kernels.name) + " is not by the definition: " + what());
        }
        return Answer().add(out);
    });
}

// Up to four queries against blocks, with masks and limits that let some rows through, or all, or none.
inline void check_hamming_scan(const Isas& isas, int64_t words, int64_t blocks, int64_t n) {
    Random random{static_cast<uint64_t>(9500 + words * 100 + blocks * 10 + n)};
    std::vector<uint32_t> queries(static_cast<size_t>(n * words)), codes(static_cast<size_t>(blocks * words * BLOCK));
    std::vector<uint32_t> masks(static_cast<size_t>(blocks)), limits(static_cast<size_t>(n));
    random.fill(queries);
    random.fill(codes);
    random.fill(masks);
    const auto word = [&](int64_t row, int64_t w) -> uint32_t& {
        return codes[static_cast<size_t>((row / BLOCK * words + w) * BLOCK + row % BLOCK)];
    };
    // One differs in every bit, one in none.
    for (int64_t w = 0; w < words; ++w) {
        word(1, w) = ~queries[static_cast<size_t>(w)];
        word(BLOCK - 1, w) = queries[static_cast<size_t>((n - 1) * words + w)];
    }
    masks[0] |= 2u | 1u << (BLOCK - 1);
    for (int64_t q = 0; q < n; ++q)
        limits[static_cast<size_t>(q)] = q == 1 ? UINT32_MAX : q == 2 ? 0 : static_cast<uint32_t>(words * 16);
    const auto what = [=] { return text("hamming_scan: words, blocks, queries", {words, blocks, n}); };
    agree(isas, what, [&](const Kernels& kernels) {
        Answer answer;
        std::vector<std::vector<uint32_t>> rows, bits;
        std::vector<HammingFound> found;
        for (int64_t q = 0; q < n; ++q) {
            rows.push_back(room<uint32_t>(blocks * BLOCK));
            bits.push_back(room<uint32_t>(blocks * BLOCK));
        }
        for (size_t q = 0; q < rows.size(); ++q) found.push_back({rows[q].data(), bits[q].data(), 0});
        kernels.hamming_scan({queries.data(), n, words, codes.data(), masks.data(), blocks, limits.data()},
                             found.data());
        for (int64_t q = 0; q < n; ++q) {
            const HammingFound& of = found[static_cast<size_t>(q)];
            int64_t at = 0;
            bool right = true;
            for (int64_t row = 0; row < blocks * BLOCK; ++row) {
                uint32_t differ = 0;
                for (int64_t w = 0; w < words; ++w)
                    for (uint32_t x = word(row, w) ^ queries[static_cast<size_t>(q * words + w)]; x; x &= x - 1)
                        ++differ;
                if (differ > limits[static_cast<size_t>(q)]) continue;
                if (!(masks[static_cast<size_t>(row / BLOCK)] >> (row % BLOCK) & 1)) continue;
                right = right && at < of.count && of.rows[at] == static_cast<uint32_t>(row) && of.bits[at] == differ;
                ++at;
            }
            expect(right && at == of.count, std::string(kernels.name) + " is not by the definition: " + what());
            rows[static_cast<size_t>(q)].resize(static_cast<size_t>(of.count));
            bits[static_cast<size_t>(q)].resize(static_cast<size_t>(of.count));
            answer.add(rows[static_cast<size_t>(q)]).add(bits[static_cast<size_t>(q)]);
        }
        return answer;
    });
}

inline void check_hamming(const Isas& isas, int64_t words, int64_t n) {
    Random random{static_cast<uint64_t>(9000 + words * 10 + n)};
    std::vector<uint64_t> query(static_cast<size_t>(words)), codes(static_cast<size_t>(words * n));
    random.fill(query);
    random.fill(codes);
    // The last differs in every bit, so that the counts are as large as they get.
    for (int64_t i = 0; i < words; ++i)
        codes[static_cast<size_t>((n - 1) * words + i)] = ~query[static_cast<size_t>(i)];
    const auto what = [=] { return text("hamming: words, n", {words, n}); };
    agree(isas, what, [&](const Kernels& kernels) {
        auto out = room<uint32_t>(n);
        kernels.hamming(query.data(), codes.data(), words, n, out.data());
        for (int64_t row = 0; row < n; ++row) {
            uint32_t bits = 0;
            const uint64_t* code = codes.data() + row * words;
            for (int64_t i = 0; i < words; ++i)
                for (uint64_t x = query[static_cast<size_t>(i)] ^ code[i]; x; x &= x - 1) ++bits;
            expect(out[static_cast<size_t>(row)] == bits,
                   std::string(kernels.name) + " is not by the definition: " + what());
        }
        return Answer().add(out);
    });
}

// Sums of floats: dot, squared_distance and norms.
inline void check_sums(const Isas& isas, int64_t d, bool wild) {
    Random random{static_cast<uint64_t>(11000 + 2 * d + wild)};
    const int64_t n = 1 + random.below(5);
    std::vector<float> a(static_cast<size_t>(d)), b(static_cast<size_t>(n * d));
    for (float& v : a) v = wild ? random.wild(58) : random.number();
    for (float& v : b) v = wild ? random.wild(58) : random.number();
    agree(
        isas, [=] { return text("dot, squared_distance, norms: d, wild", {d, wild}); },
        [&](const Kernels& kernels) {
            auto norms = room<double>(n);
            kernels.norms(b.data(), d, n, norms.data());
            std::vector<float> sums;
            std::vector<const float*> rows;
            for (int64_t row = 0; row < n; ++row) rows.push_back(b.data() + row * d);
            auto together = room<float>(n);
            kernels.squared_distances(a.data(), rows.data(), n, d, together.data());
            for (int64_t row = 0; row < n; ++row) {
                expect(together[static_cast<size_t>(row)] == kernels.squared_distance(a.data(), rows[row], d),
                       text(kernels.name, {d}) + ": a squared distance is another one by itself");
                sums.push_back(kernels.dot(a.data(), b.data() + row * d, d));
                sums.push_back(kernels.squared_distance(a.data(), b.data() + row * d, d));
                double square = 0.0;
                const float* x = b.data() + row * d;
                for (int64_t j = 0; j < d; ++j) square += static_cast<double>(x[j]) * static_cast<double>(x[j]);
                expect(std::fabs(norms[static_cast<size_t>(row)] - std::sqrt(square)) <= 1e-12 * std::sqrt(square),
                       text(kernels.name, {d}) + ": a norm is wrong");
            }
            return Answer().add(norms).add(sums);
        });
}

// The neighbours of a vertex: estimates by their definition, and squared distances as each by itself.
inline void check_edges(const Isas& isas, int64_t bytes) {
    Random random{static_cast<uint64_t>(12000 + bytes)};
    const ScanProblem problem(bytes, 1, random);
    std::vector<uint8_t> codes(static_cast<size_t>(bytes * BLOCK));
    random.fill(codes);
    std::vector<float> adds(BLOCK), scales(BLOCK);
    for (float& add : adds) add = random.below(5) == 0 ? std::numeric_limits<float>::infinity() : random.number();
    for (float& scale : scales) scale = random.number() * 0.01f;
    const float base = random.number(), unit = 0.013f, limit = random.number();
    agree(
        isas, [=] { return text("edge_estimates: bytes", {bytes}); },
        [&](const Kernels& kernels) {
            auto estimates = room<float>(BLOCK);
            const uint32_t found = kernels.edge_estimates(problem.query, {codes.data(), adds.data(), scales.data()},
                                                          base, unit, limit, estimates.data());
            bool right = true;
            for (int64_t r = 0; r < BLOCK; ++r) {
                int32_t score = 0;
                for (int64_t g = 0; g < bytes; ++g) {
                    const uint8_t byte = codes[static_cast<size_t>(g * BLOCK + r)];
                    score += problem.query.tables[g * 32 + (byte & 15)];
                    score += problem.query.tables[g * 32 + 16 + (byte >> 4)];
                }
                const auto at = static_cast<size_t>(r);
                const float along = static_cast<float>(2 * score - problem.query.half) * unit;
                right = right && estimates[at] == (base + adds[at]) - scales[at] * along &&
                        (found >> r & 1) == (estimates[at] <= limit);
            }
            expect(right, text(kernels.name, {bytes}) + ": edge_estimates is not by the definition");
            return Answer().add(estimates).add(std::vector<uint32_t>{found});
        });
}

// What is found in a block of neighbours and put into the pool of a walk: the best of both, in order. Where estimates
// are equal, the kernel leaves them to us, and some are equal here.
inline void check_walk(const Isas& isas, int64_t bytes, int64_t had, int64_t most) {
    Random random{static_cast<uint64_t>(14000 + bytes + 100 * had + most)};
    const ScanProblem problem(bytes, 1, random);
    constexpr uint32_t VERTICES = 500;
    std::vector<uint8_t> codes(static_cast<size_t>(bytes * BLOCK)), block;
    random.fill(codes);
    std::vector<float> adds(BLOCK), scales(BLOCK);
    std::vector<uint32_t> numbers(BLOCK);
    for (float& add : adds) add = random.below(5) == 0 ? std::numeric_limits<float>::infinity() : random.number();
    for (float& scale : scales) scale = random.below(4) == 0 ? 0.0f : random.number() * 0.01f;
    for (size_t i = 1; i < BLOCK; i += 7) adds[i] = adds[i - 1], scales[i] = scales[i - 1] = 0.0f;
    for (size_t i = 0; i < BLOCK; ++i) numbers[i] = static_cast<uint32_t>(i * 15 + random.below(15));
    numbers[0] |= EDGE_FLAG;
    const auto append = [&block](const auto& part) {
        const auto* from = reinterpret_cast<const uint8_t*>(part.data());
        block.insert(block.end(), from, from + part.size() * sizeof(part[0]));
    };
    append(codes);
    append(adds);
    append(scales);
    append(numbers);
    std::vector<uint64_t> looked_at(VERTICES / 64 + 1);
    for (uint32_t v = 0; v < VERTICES; v += 3) looked_at[v / 64] |= uint64_t{1} << (v % 64);
    const float base = random.number(), unit = 0.013f;
    std::vector<std::pair<float, uint32_t>> pool;
    for (int64_t i = 0; i < had; ++i) pool.emplace_back(random.number() + base, random.below(VERTICES));
    if (had > 0) pool[0].first = base + adds[1];  // which one of them has too, if there is any
    std::sort(pool.begin(), pool.end());
    agree(
        isas, [=] { return text("look_at_edges: bytes, had, most", {bytes, had, most}); },
        [&](const Kernels& kernels) {
            std::vector<float> estimates(static_cast<size_t>(most + POOL_ROOM));
            std::vector<uint32_t> vertices(static_cast<size_t>(most + POOL_ROOM));
            for (size_t i = 0; i < pool.size(); ++i) estimates[i] = pool[i].first, vertices[i] = pool[i].second;
            Walk walk{};
            walk.query = problem.query;
            walk.unit = unit;
            walk.adds = static_cast<int64_t>(codes.size());
            walk.scales = walk.adds + 4 * BLOCK;
            walk.numbers = walk.scales + 4 * BLOCK;
            walk.looked_at = looked_at.data();
            walk.pool = {estimates.data(), vertices.data(), most, had, had / 2};
            uint32_t left = kernels.look_at_edges(walk, block.data(), base);
            std::vector<float> made(BLOCK);
            kernels.edge_estimates(problem.query, {codes.data(), adds.data(), scales.data()}, base, unit,
                                   std::numeric_limits<float>::max(), made.data());
            auto wanted = pool;
            for (size_t i = 0; i < BLOCK; ++i) {
                const uint32_t v = numbers[i] & ~EDGE_FLAG;
                if (v % 3 != 0 && made[i] <= std::numeric_limits<float>::max()) wanted.emplace_back(made[i], v);
            }
            std::sort(wanted.begin(), wanted.end());
            wanted.resize(std::min(wanted.size(), static_cast<size_t>(most)));
            std::vector<std::pair<float, uint32_t>> found;
            for (int64_t i = 0; i < walk.pool.count; ++i) found.emplace_back(estimates[i], vertices[i]);
            const bool by_us = left != 0;
            for (; left; left &= left - 1) {
                const int slot = __builtin_ctz(left);
                found.emplace_back(walk.estimates[slot], numbers[slot] & ~EDGE_FLAG);
            }
            std::sort(found.begin(), found.end());
            found.resize(std::min(found.size(), static_cast<size_t>(most)));
            expect(found == wanted, text(kernels.name, {bytes, had, most}) + ": the pool of a walk is another one");
            for (int64_t i = 0; i < walk.pool.next && !by_us; ++i)
                expect(pool[static_cast<size_t>(i)] == found[static_cast<size_t>(i)],
                       text(kernels.name, {bytes, had, most}) + ": what is new is behind the next one");
            std::vector<float> far;
            for (const auto& one : found) far.push_back(one.first);
            return Answer().add(far);
        });
}

inline void check_expand(const Isas& isas) {
    Random random{13000};
    std::vector<std::vector<uint8_t>> keys(40, std::vector<uint8_t>(32));
    for (auto& key : keys) random.fill(key);
    agree(
        isas, [] { return std::string("expand"); },
        [&](const Kernels& kernels) {
            std::vector<uint16_t> once(1024 + 16), sums = room<uint16_t>(1024);
            // RFC 8439, A.1, test vectors 1 and 2: the first word of blocks 0 and 1 for a key of zeros.
            kernels.expand(std::vector<uint8_t>(32).data(), once.data());
            expect(once[0] == 0xb876 && once[1] == 0xade0 && once[2] == 0x079f && once[3] == 0xbee7,
                   std::string(kernels.name) + ": not the keystream of the RFC");
            for (const auto& key : keys) kernels.expand(key.data(), sums.data());
            return Answer().add(once).add(sums);
        });
}

// By their definition, too: for each pattern of four bits the weights of those that agree with the signs.
inline void check_lookup_tables(const Isas& isas, int64_t bits) {
    Random random{static_cast<uint64_t>(14000 + bits)};
    const int64_t size = (bits + 7) / 8 * 32;
    std::vector<float> values(static_cast<size_t>(bits));
    std::vector<int32_t> weights(static_cast<size_t>(bits));
    for (float& value : values) value = random.wild(10);
    for (int32_t& weight : weights) weight = static_cast<int32_t>(random.below(64));
    const auto what = [=] { return text("lookup_tables: bits", {bits}); };
    agree(isas, what, [&](const Kernels& kernels) {
        auto tables = room<uint8_t>(size);
        kernels.lookup_tables(values.data(), weights.data(), bits, tables.data());
        bool right = true;
        for (int64_t entry = 0; entry < size; ++entry) {
            int32_t sum = 0;
            for (int64_t bit = 0; bit < 4 && entry / 16 * 4 + bit < bits; ++bit) {
                const auto j = static_cast<size_t>(entry / 16 * 4 + bit);
                if ((entry >> bit & 1) == (values[j] >= 0.0f)) sum += weights[j];
            }
            right = right && tables[static_cast<size_t>(entry)] == static_cast<uint8_t>(sum);
        }
        expect(right, std::string(kernels.name) + " makes others: " + what());
        return Answer().add(tables);
    });
}

inline void check_search_kernels(const Isas& isas) {
    for (int64_t bytes = 1; bytes <= 40; ++bytes)
        for (int64_t blocks = 1; blocks <= 40; ++blocks) check_scans(isas, bytes, blocks, 2);
    // Blocks are gathered by tiles of 64.
    for (const int64_t bytes : {3, 13, 16, 33})
        for (const int64_t blocks : {63, 64, 65, 68, 129, 200}) check_scans(isas, bytes, blocks, 6);
    // Scores above 2^15, where a signed comparison would fail, and up to the 2^16 - 1 of 257 chunks.
    for (const int64_t bytes : {64, 2064, 4112}) check_scans(isas, bytes, 5, 8);
    for (const int64_t bytes : {1, 2, 3, 13, 16, 17, 40})
        for (int64_t blocks = 0; blocks <= 13; ++blocks) check_block_keys(isas, bytes, blocks);
    for (const int64_t n : {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 1000, 5000})
        for (int64_t sort = 0; sort < 4; ++sort) check_largest(isas, n, sort);
    for (int64_t words = 0; words <= 12; ++words)
        for (const int64_t n : {0, 1, 2, 3, 16, 17, 40}) check_disagreements(isas, words, n);
    for (const int64_t words : {24, 64, 255}) check_disagreements(isas, words, 5);
    for (const int64_t bytes : {16, 32, 48, 64, 80, 96, 112, 128, 144, 208, 2064})
        for (const int64_t n : {0, 1, 2, 25, 60}) check_outline_products(isas, bytes, n);
    for (int64_t words = 1; words <= 40; ++words)
        for (int64_t n = 1; n <= 9; ++n) check_hamming(isas, words, n);
    // Sums of bytes must be emptied before they overflow.
    for (const int64_t words : {123, 124, 125, 128, 129, 250, 1024})
        for (const int64_t n : {1, 4, 6}) check_hamming(isas, words, n);
    for (int64_t n = 1; n <= HAMMING_QUERIES; ++n) {
        for (int64_t words = 1; words <= 70; ++words) check_hamming_scan(isas, words, 1 + words % 3, n);
        for (const int64_t words : {93, 94, 250, 2048}) check_hamming_scan(isas, words, 2, n);
    }
    for (int64_t d = 1; d <= 300; d += d < 70 ? 1 : 13)
        for (const bool wild : {false, true}) check_sums(isas, d, wild);
    for (const int64_t d : {384, 784, 1536, 4096}) check_sums(isas, d, true);
    for (int64_t bytes = 1; bytes <= 70; ++bytes) check_edges(isas, bytes);
    for (const int64_t bytes : {192, 255, 2064}) check_edges(isas, bytes);
    for (const int64_t bytes : {1, 12, 48})
        for (const int64_t most : {1, 8, 20, 48, 200, 1000})
            for (const int64_t had : {int64_t{0}, most / 2, most}) check_walk(isas, bytes, had, most);
    for (int64_t bits = 1; bits <= 200; ++bits) check_lookup_tables(isas, bits);
    for (const int64_t bits : {384, 1000, 1536}) check_lookup_tables(isas, bits);
    check_expand(isas);
}

}  // namespace agreement
