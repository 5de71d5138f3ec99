// Stand-alone: every request for memory of a change fails once. The change must then have done nothing, and when it is
// tried again with memory it must do all: what can be seen in the end is that of a fresh index of the same records.
//
//     no_memory [source ...]
//
// Searches are made to fail likewise: they throw, and change nothing.
//
// Whatever memory a call gives back, whether it succeeds or fails, is looked at first: no piece of a record's vector,
// no id and no piece of a query may be in it.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "index.h"
#include "sources/graph/graph.h"
#include "sources/pivots/pivots.h"
#include "sources/scan/scan.h"
#include "sources/tables/tables.h"

namespace {

// How many more requests are granted; negative: all of them.
std::atomic<int64_t> granted{-1};

void* take(std::size_t bytes, std::size_t alignment) {
    if (granted.load() >= 0 && granted.fetch_sub(1) <= 0) {
        granted = -1;  // one that fails, so that what was done can be undone
        throw std::bad_alloc();
    }
    const std::size_t whole = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    void* memory = alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, whole) : std::malloc(whole);
    if (!memory) throw std::bad_alloc();
    std::memset(memory, 0, malloc_usable_size(memory));  // what others have left in it is not the core's doing
    return memory;
}

// What must be in no memory that is given back: eight bytes each, sorted. A plain array, since asking for memory here
// would be asking ourselves.
std::array<uint64_t, 65536> needles;
std::size_t needle_count = 0;
bool watching = false;
uint64_t found_needle = 0;

void give_back(void* memory) {
    if (watching && memory && !found_needle) {
        const auto* bytes = static_cast<const unsigned char*>(memory);
        for (std::size_t at = 0; at + 8 <= malloc_usable_size(memory); at += 4) {
            uint64_t eight;
            std::memcpy(&eight, bytes + at, 8);
            if (eight && std::binary_search(needles.begin(), needles.begin() + needle_count, eight)) {
                found_needle = eight;
                if (std::getenv("NO_MEMORY_TRAP")) __builtin_trap();
            }
        }
    }
    std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return take(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give_back(memory); }

namespace {

using namespace lethevec;

constexpr int64_t DIM = 36, K = 5, QUERIES = 6;
int failures = 0;

void expect(bool condition, const std::string& what) {
    if (!condition && ++failures <= 20) std::printf("FAIL %s\n", what.c_str());
}

std::vector<float> numbers(uint64_t seed, int64_t n) {
    std::vector<float> all(static_cast<size_t>(n));
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    for (float& number : all) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        number = static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f;
    }
    return all;
}

std::shared_ptr<const Frame> frame_of(int64_t m) {
    std::vector<float> sign = numbers(6, (m - 1 + FIRST_ROUNDS) * 2 * DIM);
    for (float& s : sign) s = s < 0.0f ? -1.0f : 1.0f;
    return std::make_shared<Frame>(Frame::hadamard(DIM, m, sign.data()));
}

std::shared_ptr<const Encoder> encoder_of(int64_t m) {
    auto encoder = std::make_shared<Encoder>();
    encoder->family = Family::progressive;
    encoder->dim = DIM;
    encoder->bits = m * DIM;
    encoder->frame = frame_of(m);
    for (int64_t i = 0; i < m; ++i) encoder->weights.push_back(0.2f * std::pow(0.6f, static_cast<float>(i)));
    return encoder;
}

VectorForm form_of(const std::string& kind) {
    return kind == "int8" ? VectorForm::int8 : kind == "float16, refined" ? VectorForm::float16 : VectorForm::float32;
}

bool in_file(const std::string& kind) { return FILES_OF_VECTORS && kind.find("in a file") != std::string::npos; }

FileOfVectors file_for(const std::string& kind) {
    if (!in_file(kind)) return {};
    const char* folder = std::getenv("TMPDIR");
    std::string path = std::string(folder ? folder : "/tmp") + "/no_memory.XXXXXX";
    const int descriptor = mkstemp(path.data());
    if (descriptor < 0) {
        std::perror(path.c_str());
        std::exit(1);
    }
    return {descriptor, path};
}

std::unique_ptr<Index> index_of(const std::string& kind) {
    std::unique_ptr<Source> source;
    if (kind == "tables") {
        TableSettings tables;
        tables.frame = frame_of(2);
        tables.key_bits = 4;
        tables.probes = 10;
        tables.bucket_rows = 32;
        source = tables.make();
    } else if (kind == "scan" || kind == "outlines" || kind == "int8" || kind == "scan in a file") {
        source = ScanSettings().make();
    } else if (kind == "graph") {
        GraphSettings graph;
        graph.encoder = encoder_of(1);
        graph.metric = Metric::l2;
        graph.key = {1, 2};
        graph.cell_size = 12;
        graph.cells = 4;
        graph.pool = 10;
        source = graph.make();
    } else {
        PivotSettings pivots;
        pivots.encoder = encoder_of(4);
        pivots.metric = Metric::l2;
        pivots.key = {1, 2};
        pivots.cell_size = kind == "void" ? int64_t{1} << 40 : kind.rfind("following", 0) == 0 ? 0 : 12;
        pivots.refine = kind == "refined" || kind == "following, refined" || kind == "float16, refined";
        source = pivots.make();
    }
    const FileOfVectors file = file_for(kind);
    auto index = std::make_unique<Index>(IndexSettings{Metric::l2, false, form_of(kind)}, encoder_of(2),
                                         std::move(source), file);
    if (file.descriptor >= 0) close(file.descriptor);
    if (kind == "outlines") index->keep_fields(std::nullopt);
    return index;
}

// An id that is like no other eight bytes.
int64_t id_of(int64_t number) {
    return static_cast<int64_t>((static_cast<uint64_t>(number) + 1) * 0x9E3779B97F4A7C15u | 0x4000000000000000u);
}

// Every second pair of floats of these vectors, and these ids, must not be left in memory.
void look_for(const std::vector<float>& x, const std::vector<int64_t>& ids) {
    const auto add = [](uint64_t eight) {
        if (eight && needle_count < needles.size()) needles[needle_count++] = eight;
    };
    for (std::size_t i = 0; i + 2 <= x.size(); i += 2) {
        uint64_t eight;
        std::memcpy(&eight, &x[i], 8);
        add(eight);
    }
    for (int64_t id : ids) add(static_cast<uint64_t>(id));
    std::sort(needles.begin(), needles.begin() + needle_count);
}

// Nor what is kept of them in a small form.
void look_for_kept(VectorForm form, const std::vector<float>& x) {
    if (form == VectorForm::float32) return;
    std::vector<uint8_t> kept(static_cast<size_t>(form_bytes(form, DIM)));
    for (std::size_t i = 0; i + DIM <= x.size() && needle_count < needles.size(); i += DIM) {
        pack(form, &x[i], DIM, kept.data());
        uint64_t eight;
        std::memcpy(&eight, kept.data() + 8, 8);
        needles[needle_count++] = eight;
    }
    std::sort(needles.begin(), needles.begin() + needle_count);
}

// All that can be seen of an index.
struct Seen {
    std::vector<int64_t> ids, answers;
    std::vector<float> distances;
    std::vector<uint16_t> digest;
    bool operator==(const Seen& other) const {
        return ids == other.ids && answers == other.answers && digest == other.digest &&
               distances.size() == other.distances.size() &&
               std::memcmp(distances.data(), other.distances.data(), distances.size() * sizeof(float)) == 0;
    }
};

Seen look(const Index& index) {
    Seen seen;
    seen.ids = index.ids();
    seen.digest.resize(1024);
    index.digest_lanes(1, seen.digest.data());
    const std::vector<float> queries = numbers(77, QUERIES * DIM);
    for (const double effort : {0.05, 1.0, 1e6}) {
        std::vector<int64_t> ids(QUERIES * K);
        std::vector<float> distances(QUERIES * K);
        index.search({queries.data(), QUERIES, K, effort, {}, 1}, {ids.data(), distances.data()});
        seen.answers.insert(seen.answers.end(), ids.begin(), ids.end());
        seen.distances.insert(seen.distances.end(), distances.begin(), distances.end());
    }
    return seen;
}

std::vector<uint8_t> codes_of(const Index& index, const std::vector<int64_t>& ids) {
    std::vector<uint8_t> codes(ids.size() * ((3 * DIM + 7) / 8));
    std::vector<float> norms(ids.size()), factors(ids.size());
    index.export_codes(ids.data(), static_cast<int64_t>(ids.size()), codes.data(), norms.data(), factors.data());
    const auto* from = reinterpret_cast<const uint8_t*>(factors.data());
    codes.insert(codes.end(), from, from + factors.size() * sizeof(float));
    return codes;
}

// A graph asks for memory hundreds of times in a call. There one request in so many fails in each call, others in the
// next call.
int64_t one_in = 1, calls = 0;

// Lets one request after the other fail until the call succeeds; returns how many did.
template <class Call>
int64_t until_it_works(const Index& index, const std::string& what, Call call) {
    const Seen before = look(index);
    for (int64_t allowed = calls++ % one_in;; allowed += one_in) {
        bool threw = false;
        granted = allowed;
        watching = true;
        try {
            call();
        } catch (const std::bad_alloc&) {
            threw = true;
        }
        watching = false;
        granted = -1;
        expect(!found_needle, what + ": gave back memory with something of a record or a query in it, request " +
                                  std::to_string(allowed));
        found_needle = 0;
        if (!threw) return allowed;  // it did all, perhaps with less memory than it would have liked
        expect(look(index) == before,
               what + ": changed something although request " + std::to_string(allowed) + " failed");
        if (failures > 20) return allowed;
    }
}

void check(const std::string& kind) {
    std::unique_ptr<Index> index = index_of(kind);
    one_in = kind == "graph" ? 23 : 1;
    std::vector<int64_t> ids;
    for (int64_t id = 0; id < 400; ++id) ids.push_back(id_of(id * 3));
    const auto vectors = [&kind](const std::vector<int64_t>& of, uint64_t version) {
        std::vector<float> x;
        for (int64_t id : of) {
            std::vector<float> one = numbers(static_cast<uint64_t>(id) * 2 + version + 1, DIM);
            round_to(form_of(kind), one.data(), 1, DIM, one.data());
            x.insert(x.end(), one.begin(), one.end());
        }
        return x;
    };
    const std::vector<float> first = vectors(ids, 0);
    needle_count = 0;
    look_for(first, ids);
    look_for_kept(form_of(kind), first);
    int64_t failed =
        until_it_works(*index, kind + ", the first", [&] { index->add(first.data(), ids.data(), 400, 1); });
    std::vector<int64_t> added;
    // One by one: some are pivots, some sampled, some part of an origin.
    for (int64_t number = 1; number < 120; number += 3) {
        const int64_t id = id_of(number);
        const std::vector<float> x = vectors({id}, 0);
        look_for(x, {id});
        failed += until_it_works(*index, kind + ", add", [&] { index->add(x.data(), &id, 1, 1); });
        added.push_back(id);
    }
    std::vector<int64_t> many;
    for (int64_t id = 2; id < 400; id += 3) many.push_back(id_of(id));
    const std::vector<float> x = vectors(many, 0);
    look_for(x, many);
    failed += until_it_works(*index, kind + ", add many",
                             [&] { index->add(x.data(), many.data(), static_cast<int64_t>(many.size()), 1); });
    for (int64_t i = 0; i < 60; ++i)
        failed +=
            until_it_works(*index, kind + ", forget", [&] { index->forget(&ids[static_cast<size_t>(i)], 1, false); });
    for (int64_t i = 60; i < 100; ++i) {
        const std::vector<float> moved = vectors({ids[static_cast<size_t>(i)]}, 1);
        look_for(moved, {});
        failed += until_it_works(*index, kind + ", update",
                                 [&] { index->update(moved.data(), &ids[static_cast<size_t>(i)], 1, 1); });
    }
    const std::vector<int64_t> several(ids.begin() + 100, ids.begin() + 130),
        going(ids.begin() + 130, ids.begin() + 220);
    const std::vector<float> elsewhere = vectors(several, 1);
    look_for(elsewhere, {});
    failed +=
        until_it_works(*index, kind + ", update many", [&] { index->update(elsewhere.data(), several.data(), 30, 1); });
    failed += until_it_works(*index, kind + ", forget many", [&] { index->forget(going.data(), 90, false); });
    // So many that pivots change a copy.
    std::vector<int64_t> crowd;
    for (int64_t number = 2000; number < 2700; ++number) crowd.push_back(id_of(number));
    const std::vector<float> there = vectors(crowd, 0), then = vectors(crowd, 1);
    look_for(there, crowd);
    look_for(then, {});
    failed += until_it_works(*index, kind + ", add a crowd", [&] { index->add(there.data(), crowd.data(), 700, 1); });
    failed +=
        until_it_works(*index, kind + ", update a crowd", [&] { index->update(then.data(), crowd.data(), 300, 1); });
    failed += until_it_works(*index, kind + ", forget a crowd", [&] { index->forget(crowd.data(), 260, false); });
    failed += until_it_works(*index, kind + ", forget most", [&] { index->forget(crowd.data() + 260, 440, false); });
    std::unique_ptr<Index> other = index_of(kind);
    const auto add = [&](const std::vector<int64_t>& of, uint64_t version) {
        other->add(vectors(of, version).data(), of.data(), static_cast<int64_t>(of.size()), 1);
    };
    add(many, 0);
    add({ids.begin() + 60, ids.begin() + 130}, 1);
    add({ids.begin() + 220, ids.end()}, 0);
    add(added, 0);
    expect(look(*index) == look(*other), kind + ": in the end it is not a fresh index");
    std::printf("%s: %lld requests failed\n", kind.c_str(), static_cast<long long>(failed));
}

// All codes are made for another gain, or none.
void check_reencoding() {
    const auto usr = [](float gain) {
        auto encoder = std::make_shared<Encoder>();
        encoder->family = Family::usr;
        encoder->dim = DIM;
        encoder->bits = 3 * DIM;
        encoder->frame = frame_of(3);
        encoder->entry_gain = gain;
        encoder->steps = 2;
        return encoder;
    };
    constexpr int64_t RECORDS = 9000;  // of more than one chunk
    std::vector<int64_t> ids;
    for (int64_t number = 0; number < RECORDS; ++number) ids.push_back(id_of(number));
    const std::vector<float> x = numbers(3, RECORDS * DIM);
    const auto made = [&](float gain) {
        auto index = std::make_unique<Index>(IndexSettings{Metric::l2, false, VectorForm::float32}, usr(gain),
                                             ScanSettings().make());
        index->add(x.data(), ids.data(), RECORDS, 1);
        return index;
    };
    one_in = 1;
    const std::unique_ptr<Index> index = made(0.5f), other = made(0.01f);
    needle_count = 0;
    look_for(x, ids);
    const int64_t failed = until_it_works(*index, "re-encoding", [&] { index->reencode(usr(0.01f), 1, nullptr); });
    expect(index->raw_memory().size() == other->raw_memory().size() && look(*index) == look(*other) &&
               codes_of(*index, ids) == codes_of(*other, ids),
           "re-encoding: the codes are not those of an index that has always had this gain");
    // And so where somebody stops it: nothing has changed then.
    int told = 0;
    try {
        index->reencode(usr(0.5f), 1, [&](int64_t) {
            if (++told == 2) throw std::runtime_error("stop");
        });
    } catch (const std::runtime_error&) {
    }
    expect(told == 2 && codes_of(*index, ids) == codes_of(*other, ids), "re-encoding: it was stopped, and left codes");
    std::printf("re-encoding: %lld requests failed\n", static_cast<long long>(failed));
}

// An index made from an image, where threads of the last part find no memory: what one of them leaves is done by
// others, and nothing twice.
void check_image() {
    constexpr int64_t RECORDS = 700;
    std::vector<int64_t> ids;
    for (int64_t number = 0; number < RECORDS; ++number) ids.push_back(id_of(number));
    const std::vector<float> x = numbers(3, RECORDS * DIM);
    const std::unique_ptr<Index> index = index_of("pivots");
    index->add(x.data(), ids.data(), RECORDS, 1);
    const std::vector<uint8_t> image = index->image(ids.data(), RECORDS, 1);
    std::vector<uint32_t> rows(RECORDS);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint32_t>(i);
    const Seen wanted = look(*index);
    needle_count = 0;
    look_for(x, ids);
    int64_t failed = 0, mended = 0;
    for (int64_t allowed = 0;; ++allowed) {
        const std::unique_ptr<Index> made = index_of("pivots");
        made->load(x.data(), ids.data(), RECORDS, 1);
        bool threw = false, restored = false;
        granted = allowed;
        watching = true;
        try {
            restored = made->file_loaded({image.data(), image.size(), rows.data(), RECORDS}, 2, {});
        } catch (const std::bad_alloc&) {
            threw = true;
        }
        watching = false;
        const bool asked = granted.exchange(-1) < 0;
        expect(!found_needle, "image: gave back memory with something of a record in it");
        found_needle = 0;
        if (threw) {
            ++failed;
            continue;
        }
        expect(restored && look(*made) == wanted,
               "image: not the same, although request " + std::to_string(allowed) + " alone failed");
        if (!asked) break;
        ++mended;
    }
    expect(mended > 0, "image: no request that failed was made up for");
    std::printf("image: %lld requests failed, %lld were made up for\n", static_cast<long long>(failed),
                static_cast<long long>(mended));
}

}  // namespace

int main(int count, char** arguments) {
    std::vector<std::string> kinds(arguments + 1, arguments + count);
    if (kinds.empty())
        kinds = {"scan",
                 "outlines",
                 "tables",
                 "pivots",
                 "refined",
                 "void",
                 "following",
                 "following, refined",
                 "graph",
                 "int8",
                 "float16, refined",
                 "scan in a file",
                 "pivots in a file"};
    for (const std::string& kind : kinds)
        if (kind != "image") check(kind);
    if (count == 1 || kinds[0] == "image") check_image();
    if (count == 1) check_reencoding();
    if (failures) std::printf("%d failures\n", failures);
    return failures ? 1 : 0;
}
