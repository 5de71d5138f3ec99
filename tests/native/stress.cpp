// Stand-alone: one writer adds, updates, forgets and re-encodes while other threads search and look at everything there
// is to see. Meant for the sanitizers (make test-asan, make test-tsan), which find what a comparison cannot: races and
// stray reads.
//
//     stress [rounds] [isa...]
//
// Checked besides: what was forgotten before a search began is not in its answer; answers are in order; and in the end
// the index equals a fresh one of the survivors, added in another order, and holds no byte of what is gone.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "index.h"
#include "kernels/dispatch.h"
#include "sources/graph/graph.h"
#include "sources/pivots/pivots.h"
#include "sources/scan/scan.h"
#include "sources/tables/tables.h"

namespace {

using namespace lethevec;

std::atomic<int> failures{0};

void expect(bool condition, const char* what, const std::string& where) {
    if (condition) return;
    if (failures.fetch_add(1) < 20) std::printf("FAIL %s: %s\n", where.c_str(), what);
}

// SplitMix64.
struct Random {
    uint64_t state;
    uint64_t word() {
        uint64_t z = state += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    int64_t below(int64_t n) { return static_cast<int64_t>(word() % static_cast<uint64_t>(n)); }
    float number() { return static_cast<float>(static_cast<int32_t>(word() >> 32)) * 0x1p-31f; }
};

std::vector<float> numbers(uint64_t seed, int64_t n, float size = 1.0f) {
    Random random{seed * 7919};
    std::vector<float> all(static_cast<size_t>(n));
    for (float& number : all) number = random.number() * size;
    return all;
}

enum class From { scan, tables, pivots, refined, graph };

struct Configuration {
    const char* name;
    Family family;
    int64_t dim, bits;
    IndexSettings settings;
    From from = From::scan;
};

const Configuration CONFIGURATIONS[] = {
    {"progressive cosine", Family::progressive, 24, 48, {Metric::cosine, false, VectorForm::float32}},
    {"progressive l2, codes", Family::progressive, 33, 99, {Metric::l2, false, VectorForm::none}},
    {"progressive ip, long", Family::progressive, 700, 1400, {Metric::ip, false, VectorForm::float32}},
    {"usr l2", Family::usr, 20, 60, {Metric::l2, false, VectorForm::float32}},
    {"usr ip, hamming", Family::usr, 20, 40, {Metric::ip, true, VectorForm::float32}},
    {"superbit cosine, cut", Family::superbit, 20, 47, {Metric::cosine, false, VectorForm::float32}},
    {"simhash l2, hamming, codes", Family::simhash, 17, 150, {Metric::l2, true, VectorForm::none}},
    {"tables cosine", Family::progressive, 24, 48, {Metric::cosine, false, VectorForm::float32}, From::tables},
    {"tables l2, codes", Family::progressive, 17, 51, {Metric::l2, false, VectorForm::none}, From::tables},
    {"pivots cosine", Family::progressive, 24, 96, {Metric::cosine, false, VectorForm::float32}, From::pivots},
    {"pivots l2", Family::progressive, 33, 132, {Metric::l2, false, VectorForm::float32}, From::pivots},
    {"pivots ip, refined", Family::progressive, 20, 80, {Metric::ip, false, VectorForm::float32}, From::refined},
    {"int8 l2", Family::progressive, 20, 60, {Metric::l2, false, VectorForm::int8}},
    {"pivots float16", Family::progressive, 24, 96, {Metric::cosine, false, VectorForm::float16}, From::pivots},
    {"graph cosine", Family::progressive, 24, 24, {Metric::cosine, false, VectorForm::float32}, From::graph},
    {"graph l2", Family::progressive, 33, 33, {Metric::l2, false, VectorForm::float32}, From::graph},
};

std::shared_ptr<const Encoder> encoder_of(const Configuration& c, float gain) {
    auto encoder = std::make_shared<Encoder>();
    encoder->family = c.family;
    encoder->dim = c.dim;
    encoder->bits = c.bits;
    const int64_t m = (c.bits + c.dim - 1) / c.dim;
    if (c.family == Family::simhash) {
        encoder->projection = std::make_shared<Projection>(c.dim, c.bits, numbers(5, c.dim * c.bits).data());
    } else {
        std::vector<float> sign = numbers(6, (m - 1 + FIRST_ROUNDS) * 2 * c.dim);
        for (float& s : sign) s = s < 0.0f ? -1.0f : 1.0f;
        encoder->frame = std::make_shared<Frame>(Frame::hadamard(c.dim, m, sign.data()));
    }
    for (int64_t i = 0; i < m; ++i) encoder->weights.push_back(0.2f * std::pow(0.6f, static_cast<float>(i)));
    encoder->entry_gain = gain;
    encoder->steps = 3;
    encoder->of_direction = c.settings.metric == Metric::cosine;
    return encoder;
}

std::unique_ptr<Source> source_of(const Configuration& c) {
    if (c.from == From::scan) return ScanSettings().make();
    if (c.from == From::tables) {
        TableSettings tables;
        std::vector<float> sign = numbers(8, (1 + FIRST_ROUNDS) * 2 * c.dim);
        for (float& s : sign) s = s < 0.0f ? -1.0f : 1.0f;
        tables.frame = std::make_shared<Frame>(Frame::hadamard(c.dim, 2, sign.data()));
        tables.key_bits = 5;
        tables.probes = 20;
        tables.of_direction = c.settings.metric == Metric::cosine;
        tables.bucket_rows = 64;
        return tables.make();
    }
    if (c.from == From::graph) {
        GraphSettings graph;
        graph.encoder = encoder_of(c, 1.0f);
        graph.metric = c.settings.metric;
        graph.key = {1, 2};
        graph.cell_size = 16;
        graph.cells = 6;
        graph.pool = 24;
        return graph.make();
    }
    PivotSettings pivots;
    pivots.encoder = encoder_of(c, 1.0f);
    pivots.metric = c.settings.metric;
    pivots.key = {1, 2};
    pivots.cell_size = 30;
    pivots.refine = c.from == From::refined;
    return pivots.make();
}

// The ids that are gone for good, in the order in which forget returned.
class Gone {
public:
    void add(const std::vector<int64_t>& ids) {
        std::lock_guard<std::mutex> turn(lock_);
        ids_.insert(ids_.end(), ids.begin(), ids.end());
    }
    std::vector<int64_t> sorted() const {
        std::lock_guard<std::mutex> turn(lock_);
        std::vector<int64_t> copy = ids_;
        std::sort(copy.begin(), copy.end());
        return copy;
    }

private:
    mutable std::mutex lock_;
    std::vector<int64_t> ids_;
};

class Stress {
public:
    Stress(const Configuration& configuration, const std::string& isa, int64_t rounds)
        : c_(configuration),
          where_(std::string(configuration.name) + ", " + isa),
          rounds_(rounds),
          index_(configuration.settings, encoder_of(configuration, 1.0f), source_of(configuration)) {}

    void run() {
        std::vector<std::thread> readers;
        for (uint64_t seed = 1; seed <= 3; ++seed) readers.emplace_back([this, seed] { read(seed); });
        write();
        finished_ = true;
        for (std::thread& reader : readers) reader.join();
        compare();
    }

private:
    std::vector<float> vector_of(int64_t id, uint64_t version) const {
        std::vector<float> x = numbers(static_cast<uint64_t>(id) * 4 + version + 1, c_.dim, id % 3 == 0 ? 40.0f : 1.0f);
        round_to(c_.settings.vectors, x.data(), 1, c_.dim, x.data());
        return x;
    }
    std::vector<float> vectors_of(const std::vector<int64_t>& ids, uint64_t version) const {
        std::vector<float> all;
        for (int64_t id : ids) {
            const std::vector<float> one = vector_of(id, version);
            all.insert(all.end(), one.begin(), one.end());
        }
        return all;
    }

    void write() {
        Random random{99};
        int64_t fresh = 0;
        for (int64_t round = 0; round < rounds_; ++round) {
            std::vector<int64_t> added;
            // Now and then enough for another chunk.
            const int64_t count = round % 16 == 7 ? 1500 : 1 + random.below(90);
            for (int64_t i = 0; i < count; ++i) added.push_back(fresh++);
            const int64_t threads = 1 + random.below(3);
            index_.add(vectors_of(added, 0).data(), added.data(), count, threads);
            for (int64_t id : added) versions_[id] = 0;

            std::vector<int64_t> some = pick(random, round % 16 == 11 ? 400 : 1 + random.below(20));
            index_.update(vectors_of(some, 1).data(), some.data(), static_cast<int64_t>(some.size()), threads);
            for (int64_t id : some) versions_[id] = 1;

            refusals(some);
            some = pick(random, round % 16 == 15 ? 1200 : random.below(80));
            const int64_t gone = index_.forget(some.data(), static_cast<int64_t>(some.size()), round % 2 == 0);
            expect(gone == static_cast<int64_t>(some.size()), "forget did not count what it forgot", where_);
            for (int64_t id : some) {
                last_gone_ = vector_of(id, versions_[id]);
                versions_.erase(id);
            }
            gone_.add(some);
            if (c_.settings.vectors != VectorForm::none && c_.from == From::scan && round % 8 == 3) {
                gain_ = gain_ == 1.0f ? 0.25f : 1.0f;
                index_.reencode(encoder_of(c_, gain_), threads, [](int64_t) {});
            }
        }
    }

    std::vector<int64_t> pick(Random& random, int64_t count) const {
        std::vector<int64_t> ids;
        for (const auto& [id, version] : versions_) ids.push_back(id);
        for (size_t i = ids.size(); i > 1; --i)
            std::swap(ids[i - 1], ids[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
        ids.resize(static_cast<size_t>(std::min<int64_t>(count, static_cast<int64_t>(ids.size()))));
        return ids;
    }

    // Refused calls must leave no trace either.
    void refusals(std::vector<int64_t> ids) {
        const int64_t size = index_.size();
        ids.insert(ids.begin(), -5);
        const std::vector<float> x = vectors_of(ids, 2);
        const auto n = static_cast<int64_t>(ids.size());
        int refused = 0;
        try {
            index_.add(x.data(), ids.data(), n, 1);
        } catch (const IdRefused&) {
            ++refused;
        }
        try {
            index_.update(x.data(), ids.data(), n, 1);
        } catch (const IdRefused&) {
            ++refused;
        }
        try {
            index_.forget(ids.data(), n, false);
        } catch (const IdRefused&) {
            ++refused;
        }
        expect(refused == 3 && index_.size() == size, "a call should have been refused, and changed nothing", where_);
    }

    void read(uint64_t seed) {
        Random random{seed * 1000};
        constexpr int64_t N = 3, K = 7;
        std::vector<int64_t> ids(N * K);
        std::vector<float> distances(N * K);
        while (!finished_) {
            const std::vector<int64_t> gone = gone_.sorted();
            const std::vector<float> queries = numbers(random.word(), N * c_.dim);
            std::vector<int64_t> allowed;
            for (int64_t i = 0; i < 40; ++i) allowed.push_back(random.below(3000) - 10);
            const bool filtered = random.below(3) == 0;
            const double effort = random.below(2) ? 0.05 : 1.0 + static_cast<double>(random.below(50));
            SearchRequest request = {queries.data(), N, K, effort, {}, 1 + random.below(2)};
            if (filtered) request.allowed = {allowed.data(), 40};
            index_.search(request, {ids.data(), distances.data()});
            for (size_t i = 0; i < ids.size(); ++i) {
                const bool empty = ids[i] == -1;
                expect(empty == std::isinf(distances[i]) && !std::isnan(distances[i]), "a distance is not one", where_);
                expect(i % K == 0 || distances[i - 1] <= distances[i], "answers are out of order", where_);
                expect(!std::binary_search(gone.begin(), gone.end(), ids[i]), "a forgotten record was found", where_);
            }
            look(random, gone, queries);
        }
    }

    void look(Random& random, const std::vector<int64_t>& gone, const std::vector<float>& queries) {
        switch (random.below(7)) {
            case 0: {
                HitList hits;
                index_.search_radius(queries.data(), 3.0f, {}, hits);
                for (const Hit& hit : hits)
                    expect(!std::binary_search(gone.begin(), gone.end(), hit.id), "radius: a forgotten record", where_);
                break;
            }
            case 1: {
                uint16_t lanes[1024] = {};
                index_.digest_lanes(2, lanes);
                break;
            }
            case 2: {
                const std::vector<int64_t> all = index_.ids();
                expect(std::is_sorted(all.begin(), all.end()), "ids are out of order", where_);
                for (int64_t id : all)
                    expect(!std::binary_search(gone.begin(), gone.end(), id), "ids: a forgotten one", where_);
                break;
            }
            case 3: {
                bool found = true;
                if (!gone.empty()) index_.contains(&gone[gone.size() / 2], 1, &found);
                expect(gone.empty() || !found, "contains: a forgotten record", where_);
                break;
            }
            case 4: {
                const int64_t id = random.below(500);
                std::vector<float> x(static_cast<size_t>(c_.dim));
                try {
                    if (c_.settings.vectors != VectorForm::none) index_.get(&id, 1, x.data());
                    if (c_.settings.vectors != VectorForm::none)
                        expect(x == vector_of(id, 0) || x == vector_of(id, 1), "get: a mixture of two versions",
                               where_);
                } catch (const IdRefused&) {
                }
                break;
            }
            case 5: {
                const int64_t id = random.below(500);
                std::vector<uint8_t> code(static_cast<size_t>((c_.bits + 7) / 8));
                float norm = 0, factor = 0;
                try {
                    index_.export_codes(&id, 1, code.data(), &norm, &factor);
                } catch (const IdRefused&) {
                }
                break;
            }
            default: expect(index_.bytes().allocated > 0 && index_.size() >= 0, "sizes", where_);
        }
    }

    void compare() {
        std::vector<int64_t> ids;
        for (const auto& [id, version] : versions_) ids.push_back(id);
        expect(ids == index_.ids(), "the survivors are others", where_);
        std::reverse(ids.begin(), ids.end());
        Index other(c_.settings, encoder_of(c_, gain_), source_of(c_));
        for (int64_t id : ids) other.add(vector_of(id, versions_[id]).data(), &id, 1, 1);
        uint16_t a[1024] = {}, b[1024] = {};
        index_.digest_lanes(1, a);
        other.digest_lanes(3, b);
        expect(std::memcmp(a, b, sizeof a) == 0, "the digest differs from a fresh index's", where_);
        constexpr int64_t N = 20, K = 9;
        const std::vector<float> queries = numbers(12345, N * c_.dim);
        for (double effort : {0.02, 1.0, 1e9}) {
            std::vector<int64_t> ids_a(N * K), ids_b(N * K);
            std::vector<float> distances_a(N * K), distances_b(N * K);
            index_.search({queries.data(), N, K, effort, {}, 2}, {ids_a.data(), distances_a.data()});
            other.search({queries.data(), N, K, effort, {}, 1}, {ids_b.data(), distances_b.data()});
            expect(ids_a == ids_b, "answers differ from a fresh index's", where_);
            expect(std::memcmp(distances_a.data(), distances_b.data(), N * K * sizeof(float)) == 0, "distances differ",
                   where_);
        }
        const std::vector<uint8_t> memory = index_.raw_memory();
        const auto* trace = reinterpret_cast<const uint8_t*>(last_gone_.data());
        expect(std::search(memory.begin(), memory.end(), trace, trace + 16) == memory.end(),
               "a trace of a forgotten record", where_);
        // And down to nothing, and from there to one again.
        ids = index_.ids();
        index_.forget(ids.data(), static_cast<int64_t>(ids.size()), false);
        std::vector<int64_t> found(K);
        std::vector<float> distances(K);
        index_.search({queries.data(), 1, K, 1.0, {}, 1}, {found.data(), distances.data()});
        expect(index_.size() == 0 && found[0] == -1, "an empty index found something", where_);
        const std::vector<uint8_t> rest = index_.raw_memory();
        // 127: the largest id, which stands for none in cells. 1: how many there are in the sample of the void. 127 and
        // 128: infinity, the distance to where there is no pivot.
        const auto empty = [](uint8_t byte) { return byte <= 1 || byte == 255 || byte == 127 || byte == 128; };
        expect(std::all_of(rest.begin(), rest.end(), empty), "an empty index holds bytes", where_);
        const int64_t id = std::numeric_limits<int64_t>::min();
        index_.add(queries.data(), &id, 1, 1);
        index_.search({queries.data(), 1, K, 1.0, {}, 1}, {found.data(), distances.data()});
        expect(found[0] == id && found[1] == -1, "one record was not found", where_);
    }

    const Configuration& c_;
    const std::string where_;
    const int64_t rounds_;
    Index index_;
    Gone gone_;
    std::map<int64_t, uint64_t> versions_;  // the model, the writer's own
    std::vector<float> last_gone_;
    float gain_ = 1.0f;
    std::atomic<bool> finished_{false};
};

}  // namespace

int main(int argc, char** argv) {
    const int64_t rounds = argc > 1 ? std::atoll(argv[1]) : 32;
    std::vector<std::string> isas(argv + std::min(argc, 2), argv + argc);
    if (isas.empty()) isas = supported_isas();
    for (const std::string& isa : isas) {
        use_isa(isa);
        for (const Configuration& configuration : CONFIGURATIONS) Stress(configuration, isa, rounds).run();
        std::printf("%s: %zu configurations, %lld rounds each\n", isa.c_str(), std::size(CONFIGURATIONS),
                    static_cast<long long>(rounds));
        std::fflush(stdout);
    }
    if (failures) std::printf("%d failures\n", failures.load());
    return failures ? 1 : 0;
}
