// The kernels of the sources of candidates: pivots (which cells, which rows of a cell) and tables (which rows of a
// bucket).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "agreement.h"
#include "agreement_search.h"

namespace agreement {

// Blocks of a problem scattered over memory.
struct Scattered {
    std::vector<uint8_t> memory;
    std::vector<const uint8_t*> blocks;

    Scattered(const ScanProblem& problem, Random& random) {
        const int64_t stride = problem.bytes * BLOCK;
        memory.resize(static_cast<size_t>(stride * problem.blocks));
        std::vector<int64_t> places;
        for (int64_t i = 0; i < problem.blocks; ++i) places.insert(places.begin() + random.below(i + 1), i);
        for (int64_t b = 0; b < problem.blocks; ++b) {
            uint8_t* to = memory.data() + places[static_cast<size_t>(b)] * stride;
            const uint8_t* from = problem.codes.data() + place_in_pairs(b, problem.bytes);
            for (int64_t g = 0; g < problem.bytes; ++g) std::copy_n(from + g * PAIR, BLOCK, to + g * BLOCK);
            blocks.push_back(to);
        }
    }
};

// A problem's pairs of blocks in runs that lie scattered over memory, with room for numbers after the codes of each
// pair.
struct ScatteredRuns {
    int64_t stride, run_pairs;
    std::vector<uint8_t> memory;
    std::vector<uint8_t*> runs;

    ScatteredRuns(const ScanProblem& problem, int64_t run_pairs_, Random& random)
        : stride((problem.bytes + 4) * PAIR), run_pairs(run_pairs_) {
        const int64_t pairs = (problem.blocks + 1) / 2, pieces = (pairs + run_pairs - 1) / run_pairs;
        memory.resize(static_cast<size_t>(stride * run_pairs * pieces));
        random.fill(memory);
        std::vector<int64_t> places;
        for (int64_t i = 0; i < pieces; ++i) places.insert(places.begin() + random.below(i + 1), i);
        for (const int64_t place : places) runs.push_back(memory.data() + place * run_pairs * stride);
        for (int64_t p = 0; p < pairs; ++p)
            std::copy_n(problem.codes.data() + p * problem.bytes * PAIR, problem.bytes * PAIR, pair(p));
    }
    uint8_t* pair(int64_t p) const { return runs[static_cast<size_t>(p / run_pairs)] + p % run_pairs * stride; }
    uint8_t* number(const ScanProblem& problem, int64_t row) const {
        return pair(row / PAIR) + problem.bytes * PAIR + 4 * (row % PAIR);
    }
};

// Room for rows that kernels keep.
struct CellRows {
    std::vector<uint32_t> places, groups;
    std::vector<uint16_t> scores;
    explicit CellRows(int64_t n) : places(room<uint32_t>(n)), groups(room<uint32_t>(n)), scores(room<uint16_t>(n)) {}
    CellFound view() { return {places.data(), groups.data(), scores.data()}; }
    // Whether entry i is this row.
    bool is(size_t i, const CellPair& pair, int64_t row, const ScanProblem& problem) const {
        return places[i] == pair.place + static_cast<uint32_t>(row % PAIR) && groups[i] == pair.group &&
               scores[i] == problem.scores[static_cast<size_t>(row)];
    }
    std::vector<uint32_t> cut(int64_t n) const { return {places.begin(), places.begin() + n}; }
};

inline void check_cell(const Isas& isas, int64_t bytes, int64_t blocks) {
    Random random{static_cast<uint64_t>(15000 + bytes * 100 + blocks)};
    const ScanProblem problem(bytes, blocks, random);
    const int64_t run_pairs = 1 + random.below(3);
    const ScatteredRuns lying(problem, run_pairs, random);
    std::vector<float> sizes(static_cast<size_t>(blocks * BLOCK)), offsets(sizes.size());
    for (int64_t row = 0; row < blocks * BLOCK; ++row) {
        const auto half = [&](float number) {  // the upper half of a float
            uint32_t bits;
            std::memcpy(&bits, &number, 4);
            return bits >> 16;
        };
        const uint32_t word = half(random.number()) << 16 | half(std::fabs(random.number()));
        std::memcpy(lying.number(problem, row), &word, 4);
        const uint32_t low = word << 16, high = word & 0xffff0000u;
        std::memcpy(&sizes[static_cast<size_t>(row)], &low, 4);
        std::memcpy(&offsets[static_cast<size_t>(row)], &high, 4);
    }
    for (int turn = 0; turn < 4; ++turn) {
        const int64_t rows = blocks * BLOCK - random.below(BLOCK);
        const bool masked = turn % 2 != 0;
        std::vector<CellLimit> limits(1 + static_cast<size_t>(random.below(4)));
        for (CellLimit& limit : limits) limit = {random.number(), turn > 1 ? random.number() * 0.1f : -1e30f};
        std::vector<CellPair> pairs;
        for (int64_t from = 0; from < rows; from += PAIR)
            pairs.push_back({lying.pair(from / PAIR), static_cast<uint32_t>(random.below(1 << 30)),
                             static_cast<uint32_t>(random.below(static_cast<int64_t>(limits.size()))),
                             static_cast<uint32_t>(std::min(PAIR, rows - from))});
        const auto n = static_cast<int64_t>(pairs.size());
        for (int64_t i = 0; i < CELL_AHEAD; ++i) pairs.push_back(pairs.back());
        const auto near_of = [&](int64_t row) {
            const auto i = static_cast<size_t>(row);
            const CellLimit& limit = limits[pairs[i / PAIR].group];
            const volatile float scaled = static_cast<float>(problem.scores[i]) * problem.query.gain;
            const volatile float shifted = scaled + limit.shift, difference = shifted - offsets[i];
            const volatile float key = sizes[i] * difference;
            return key - limit.least;
        };
        const auto allowed = [&](int64_t row) {
            return !masked || (problem.masks[static_cast<size_t>(row / BLOCK)] >> (row % BLOCK) & 1);
        };
        const auto what = [&] { return text("cells: bytes, blocks, turn", {bytes, blocks, turn}); };
        for (const bool wide : {false, true})
            agree(isas, what, [&](const Kernels& kernels) {
                ScanQuery query = problem.query;
                std::vector<uint8_t> tables(static_cast<size_t>(wide_tables(bytes)));
                if (wide && kernels.widen_tables) {
                    kernels.widen_tables(query.tables, bytes, tables.data());
                    query.wide = tables.data();
                }
                const uint32_t* masks = masked ? problem.masks.data() : nullptr;
                // All of them with how near they are, those of them that are near, and what the scan finds by itself.
                CellRows all(n * PAIR), found(n * PAIR);
                auto near = room<float>(n * PAIR);
                const int64_t count =
                    kernels.score_cells(query, pairs.data(), n, limits.data(), masks, all.view(), near.data());
                int64_t at = 0;
                bool right = true;
                for (int64_t row = 0; row < rows; ++row) {
                    if (!allowed(row)) continue;
                    const auto i = static_cast<size_t>(at++);
                    right = right && at <= count && near[i] == near_of(row) &&
                            all.is(i, pairs[static_cast<size_t>(row / PAIR)], row, problem);
                }
                expect(right && at == count, std::string(kernels.name) + " scores not by the definition: " + what());
                const int64_t kept = kernels.keep_near(all.view(), near.data(), count, 0.0f);
                const int64_t scanned = kernels.scan_cells(query, pairs.data(), n, limits.data(), masks, found.view());
                at = 0;
                for (int64_t row = 0; row < rows; ++row) {
                    if (!allowed(row) || !(near_of(row) >= 0.0f)) continue;
                    const auto i = static_cast<size_t>(at++);
                    right = right && at <= scanned &&
                            found.is(i, pairs[static_cast<size_t>(row / PAIR)], row, problem) &&
                            all.is(i, pairs[static_cast<size_t>(row / PAIR)], row, problem);
                }
                expect(right && at == scanned && kept == scanned,
                       std::string(kernels.name) + " scans not by the definition: " + what());
                near.resize(static_cast<size_t>(count));
                return Answer().add(near).add(found.cut(scanned));
            });
    }
}

// With tables of 64 where they are made and without, and single blocks, which are not in pairs. Pairs come in any
// order, with any base, and are part empty.
inline void check_buckets(const Isas& isas, int64_t bytes, int64_t blocks) {
    Random random{static_cast<uint64_t>(17000 + 100 * bytes + blocks)};
    const ScanProblem problem(bytes, blocks, random);
    const Scattered lying(problem, random);
    for (int turn = 0; turn < 12; ++turn) {
        const bool narrow = turn % 2 == 1, wide = turn % 3 != 2;
        const int64_t tables = turn % 4 == 0 ? 1 : 2;
        // Runs of one block, or of one pair or two.
        const int64_t room_for = narrow          ? BLOCK
                                 : turn % 4 == 0 ? 2 * PAIR
                                                 : PAIR,
                      places = blocks * BLOCK / room_for, n = 2 * places;
        if (n == 0) continue;
        const auto threshold = static_cast<int32_t>(turn == 0 ? -255 : random.below(300));
        std::vector<BucketRun> runs;
        std::vector<int64_t> firsts;
        std::vector<uint32_t> numbers(static_cast<size_t>(blocks * BLOCK));
        for (int64_t i = 0; i < n; ++i) {
            const int64_t which = random.below(places), first = which * room_for;
            firsts.push_back(first);
            runs.push_back({narrow ? lying.blocks[static_cast<size_t>(which)] : problem.codes.data() + first * bytes,
                            numbers.data() + first, static_cast<uint32_t>(1 + random.below(room_for)),
                            static_cast<uint32_t>(random.below(tables)),
                            static_cast<int32_t>(random.below(511)) - 255});
        }
        runs.push_back(runs[0]);
        const auto what = [&] {
            return text("scan_buckets: bytes, runs, threshold, narrow, wide", {bytes, n, threshold, narrow, wide});
        };
        agree(isas, what, [&](const Kernels& kernels) {
            ScanQuery query = problem.query;
            auto wider = room<uint8_t>(wide_tables(bytes));
            if (wide && kernels.widen_tables) {
                kernels.widen_tables(query.tables, bytes, wider.data());
                query.wide = wider.data();
            }
            const ScanQuery queries[2] = {query, query};
            auto found = room<uint32_t>(n * room_for + BUCKET_ROOM);
            auto estimates = room<int32_t>(n * room_for + BUCKET_ROOM);
            const int64_t count = kernels.scan_buckets(queries, tables, runs.data(), n, room_for, threshold,
                                                       {found.data(), estimates.data()});
            int64_t at = 0;
            bool right = true;
            std::vector<int64_t> answer;
            for (size_t p = 0; p < static_cast<size_t>(n); ++p)
                for (int64_t r = 0; r < runs[p].rows; ++r) {
                    const int64_t estimate = runs[p].base + 2 * problem.scores[static_cast<size_t>(firsts[p] + r)];
                    if (estimate < threshold) continue;
                    const auto i = static_cast<size_t>(at++);
                    right = right && at <= count && found[i] == static_cast<int64_t>(p) * room_for + r &&
                            estimates[i] == estimate;
                    answer.push_back(firsts[p] + r);
                    answer.push_back(estimate);
                }
            expect(right && at == count, std::string(kernels.name) + " is not by the definition: " + what());
            return Answer().add(answer);
        });
    }
}

inline void check_means(const Isas& isas, int64_t groups, int64_t count) {
    Random random{static_cast<uint64_t>(19000 + groups * 100 + count)};
    const int64_t blocks = (count + MEANS - 1) / MEANS;
    std::vector<uint8_t> query(static_cast<size_t>(4 * groups));
    std::vector<int8_t> means(static_cast<size_t>(blocks * groups * MEANS * 4));
    // Now and then the largest there can be.
    for (uint8_t& q : query) q = static_cast<uint8_t>(random.below(3) ? random.below(128) : 127);
    for (int8_t& m : means)
        m = static_cast<int8_t>(random.below(3) ? random.below(255) - 127 : random.below(2) ? 127 : -127);
    std::vector<int32_t> shifts(static_cast<size_t>(count));
    std::vector<float> steps(shifts.size()), squares(shifts.size());
    for (size_t c = 0; c < shifts.size(); ++c) {
        shifts[c] = static_cast<int32_t>(random.below(100000)) - 50000;
        steps[c] = std::fabs(random.number());
        squares[c] = std::fabs(random.number());
    }
    for (const float share : {0.0f, 0.75f}) {
        const float step = 0.01f;
        const auto what = [=] { return text("mean_keys: groups, count", {groups, count}); };
        agree(isas, what, [&](const Kernels& kernels) {
            auto keys = room<float>(count);
            kernels.mean_keys({query.data(), groups, step, share},
                              {means.data(), shifts.data(), steps.data(), squares.data(), count}, keys.data());
            for (int64_t c = 0; c < count; ++c) {
                int32_t sum = 0;
                for (int64_t j = 0; j < 4 * groups; ++j)
                    sum += query[static_cast<size_t>(j)] *
                           means[static_cast<size_t>((((c / MEANS) * groups + j / 4) * MEANS + c % MEANS) * 4 + j % 4)];
                const auto i = static_cast<size_t>(c);
                const volatile float unit = step * steps[i], product = unit * static_cast<float>(sum - shifts[i]);
                const volatile float part = share * squares[i], key = share > 0.0f ? product - part : product;
                expect(keys[i] == key, std::string(kernels.name) + " is not by the definition: " + what());
            }
            return Answer().add(keys);
        });
    }
}

inline void check_sorting(const Isas& isas, int64_t n) {
    Random random{static_cast<uint64_t>(20000 + n)};
    std::vector<uint64_t> numbers(static_cast<size_t>(n));
    random.fill(numbers);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = (numbers[i] & ~uint64_t{0xffff}) | i;  // all different
    std::vector<uint64_t> sorted = numbers;
    std::sort(sorted.begin(), sorted.end());
    const auto what = [=] { return text("sort_numbers: n", {n}); };
    agree(isas, what, [&](const Kernels& kernels) {
        auto out = room<uint64_t>(n);
        kernels.sort_numbers(numbers.data(), n, out.data());
        expect(std::equal(sorted.begin(), sorted.end(), out.begin()),
               std::string(kernels.name) + " is not by the definition: " + what());
        return Answer().add(out);
    });
}

// Tails as the cells keep them, anywhere in memory.
inline void check_tails(const Isas& isas, int64_t words, int64_t n) {
    Random random{static_cast<uint64_t>(22000 + words * 1000 + n)};
    std::vector<uint32_t> memory(static_cast<size_t>(n * (words + 2))), signs(static_cast<size_t>(words));
    std::vector<uint32_t> groups(static_cast<size_t>(n));
    std::vector<uint16_t> scores(groups.size());
    std::vector<uint8_t> weights(static_cast<size_t>(words * 32));
    std::vector<float> bases(7), lifts(7);
    random.fill(memory);
    random.fill(signs);
    random.fill(scores);
    for (uint32_t& group : groups) group = static_cast<uint32_t>(random.below(7));
    for (size_t g = 0; g < bases.size(); ++g) {
        bases[g] = random.number() + 1.0f;
        lifts[g] = random.number();
    }
    for (uint8_t& w : weights) w = static_cast<uint8_t>(random.below(128));
    std::vector<const uint32_t*> tails;
    for (int64_t i = 0; i < n; ++i) {
        uint32_t* tail = memory.data() + random.below(n) * (words + 2);
        for (int k = 0; k < 2; ++k) {  // bias and scale
            const float number = random.number();
            std::memcpy(tail + k, &number, 4);
        }
        tails.push_back(tail);
    }
    const CellTails query{signs.data(), weights.data(), words, 255, 4000, 0.001f, 0.0003f, bases.data(), lifts.data()};
    const auto what = [=] { return text("refine_cells: words, n", {words, n}); };
    agree(isas, what, [&](const Kernels& kernels) {
        auto distances = room<float>(n);
        kernels.refine_cells(query, tails.data(), {nullptr, groups.data(), scores.data()}, n, distances.data());
        for (size_t i = 0; i < tails.size(); ++i) {
            int32_t differ = 0;
            for (int64_t j = 0; j < 32 * words; ++j)
                if ((tails[i][2 + j / 32] ^ signs[static_cast<size_t>(j / 32)]) >> (j % 32) & 1)
                    differ += weights[static_cast<size_t>(j)];
            float bias, scale;
            std::memcpy(&bias, tails[i], 4);
            std::memcpy(&scale, tails[i] + 1, 4);
            const volatile float first =
                static_cast<float>(2 * static_cast<int32_t>(scores[i]) - query.half) * query.first_unit;
            const volatile float rest = static_cast<float>(query.whole - 2 * differ) * query.tail_unit,
                                 both = first + rest;
            const volatile float lifted = both + lifts[groups[i]], scaled = lifted * scale, less = bias - scaled;
            expect(distances[i] == bases[groups[i]] + less,
                   std::string(kernels.name) + " is not by the definition: " + what());
        }
        return Answer().add(distances);
    });
}

inline void check_choice(const Isas& isas, int64_t n) {
    Random random{static_cast<uint64_t>(21000 + n)};
    std::vector<float> keys(static_cast<size_t>(n));
    std::vector<uint32_t> sizes(keys.size());
    const bool equal = random.below(5) == 0;
    int64_t filled = 0;
    for (size_t c = 0; c < keys.size(); ++c) {
        keys[c] = equal ? 0.5f : random.number();
        sizes[c] = static_cast<uint32_t>(random.below(4));
        filled += sizes[c] > 0;
    }
    if (filled == 0) return;
    const int64_t wanted = 1 + random.below(filled);
    const auto what = [=] { return text("choose_cells: n, wanted", {n, wanted}); };
    agree(isas, what, [&](const Kernels& kernels) {
        auto chosen = room<uint32_t>(n);
        const int64_t count = kernels.choose_cells(keys.data(), sizes.data(), n, wanted, chosen.data());
        float least = std::numeric_limits<float>::infinity(), best_left = -least;
        bool right = count >= wanted;
        for (int64_t c = 0, at = 0; c < n; ++c) {
            const auto i = static_cast<size_t>(c);
            const bool taken = at < count && chosen[static_cast<size_t>(at)] == i;
            at += taken;
            right = right && !(taken && sizes[i] == 0);
            if (taken) least = std::min(least, keys[i]);
            if (!taken && sizes[i] > 0) best_left = std::max(best_left, keys[i]);
            if (c == n - 1) right = right && at == count;
        }
        expect(right && least >= best_left, std::string(kernels.name) + " is not by the definition: " + what());
        return Answer().add(chosen);
    });
}

// Rounding may differ: only how close they are is checked.
inline void check_products(const Isas& isas, int64_t panels, int64_t d, int64_t n) {
    Random random{static_cast<uint64_t>(23000 + panels * 1000 + d * 10 + n)};
    std::vector<float> centres(static_cast<size_t>(panels * PANEL * d)), rows(static_cast<size_t>(n * d));
    for (float& v : centres) v = random.number();
    for (float& v : rows) v = random.number();
    for (const std::string& isa : isas) {
        use_isa(isa);
        auto out = room<float>(n * panels * PANEL);
        active().products(centres.data(), panels, d, rows.data(), n, out.data());
        for (int64_t i = 0; i < n; ++i)
            for (int64_t c = 0; c < panels * PANEL; ++c) {
                double sum = 0.0;
                for (int64_t j = 0; j < d; ++j)
                    sum += static_cast<double>(rows[static_cast<size_t>(i * d + j)]) *
                           static_cast<double>(centres[static_cast<size_t>(((c / PANEL) * d + j) * PANEL + c % PANEL)]);
                const double got = static_cast<double>(out[static_cast<size_t>(i * panels * PANEL + c)]);
                expect(std::fabs(got - sum) <= 1e-6 * static_cast<double>(d),
                       isa + ": " + text("products: panels, d, n", {panels, d, n}));
            }
        ++comparisons;
    }
}

inline void check_source_kernels(const Isas& isas) {
    for (const int64_t bytes : {1, 2, 7, 13, 16, 17, 33, 64})
        for (int64_t blocks = 1; blocks <= 9; ++blocks) check_cell(isas, bytes, blocks);
    for (const int64_t bytes : {1, 2, 3, 8, 13, 16})
        for (const int64_t blocks : {1, 2, 3, 6, 12, 32, 70}) check_buckets(isas, bytes, blocks);
    for (const int64_t groups : {1, 2, 25, 32, 200})
        for (const int64_t count : {1, 15, 16, 17, 64, 75}) check_means(isas, groups, count);
    for (const int64_t n : {1, 2, 7, 8, 9, 16, 100, 256}) check_sorting(isas, n);
    for (const int64_t words : {1, 2, 3, 7, 9, 10, 12, 13})
        for (const int64_t n : {1, 63, 64, 65, 200}) check_tails(isas, words, n);
    for (int64_t n = 1; n <= 200; ++n) check_choice(isas, n);
    for (const int64_t n : {1023, 2617}) check_choice(isas, n);
    for (const int64_t panels : {1, 3})
        for (const int64_t d : {1, 3, 16, 100})
            for (const int64_t n : {1, 5, 6, 7, 97}) check_products(isas, panels, d, n);
}

}  // namespace agreement
