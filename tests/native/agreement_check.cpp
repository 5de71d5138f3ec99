// Stand-alone: every instruction set against the scalar kernels, bit for bit, on random tables and vectors: more dims,
// lengths and magnitudes than a golden file can hold. What the scalar kernels of the hash families give is the golden
// file's to say; those of the index are held against their definitions in agreement_search.h and agreement_sources.h.
//
//     agreement_check [isa...]
#include <algorithm>
#include <exception>

#include "agreement.h"
#include "agreement_coding.h"
#include "agreement_search.h"
#include "agreement_sources.h"
#include "hashing/hashing.h"

namespace {

using namespace lethevec;
using agreement::Answer;
using agreement::Isas;
using agreement::Random;
using agreement::room;

// Values, codes and alignment together; then without the values, because kernels take shortcuts where none are asked
// for.
template <class Encode>
void agree(const Isas& isas, int64_t n, int64_t bits, const char* name, int64_t d, Encode encode) {
    const auto what = [=] { return agreement::text(name, {d, bits}) + " (d, bits)"; };
    agreement::agree(isas, what, [&](const Kernels& kernels) {
        auto values = room<float>(n * bits);
        auto codes = room<uint8_t>(n * ((bits + 7) / 8)), codes_alone = codes;
        auto alignment = room<double>(n), alignment_alone = alignment;
        encode(Output{values.data(), codes.data(), bits, alignment.data()});
        encode(Output{nullptr, codes_alone.data(), bits, alignment_alone.data()});
        agreement::expect(codes == codes_alone, std::string(kernels.name) + ": codes without values differ, " + what());
        agreement::expect(std::memcmp(alignment.data(), alignment_alone.data(), alignment.size() * sizeof(double)) == 0,
                          std::string(kernels.name) + ": alignment without values differs, " + what());
        return Answer().add(values).add(codes).add(alignment);
    });
}

void check(const Isas& isas, int64_t d, int64_t m, bool dense, bool wild) {
    Random random{static_cast<uint64_t>(d * 1000 + m * 10 + dense * 2 + wild)};
    const int64_t n = 1 + random.below(5);
    std::vector<float> table(static_cast<size_t>(dense ? m * d * d : (m - 1 + FIRST_ROUNDS) * 2 * d));
    std::vector<float> x(static_cast<size_t>(n * d));
    for (float& t : table) t = dense ? random.number() * 0.1f : random.sign();
    for (float& v : x) v = wild ? random.wild(100) : random.number();
    const Frame frame = dense ? Frame::dense(d, m, table.data()) : Frame::hadamard(d, m, table.data());
    const Batch batch{x.data(), n, 1};
    std::vector<float> weights(static_cast<size_t>(m));
    for (float& w : weights) w = 0.01f + 0.1f * static_cast<float>(random.word() >> 40) * 0x1p-24f;

    const int64_t cut = 1 + random.below(m * d);
    agree(isas, n, cut, "superbit", d, [&](Output out) { encode_superbit(frame, batch, out); });
    agree(isas, n, m * d, "usr", d, [&](Output out) { encode_usr(frame, 1.5f, 4, batch, out); });
    for (const int64_t sweeps : {0, 1, 2})
        agree(isas, n, m * d, "progressive", d,
              [&](Output out) { encode_progressive(frame, weights.data(), sweeps, batch, out); });
    std::vector<uint8_t> codes(static_cast<size_t>(n * ((m * d + 7) / 8)));
    random.fill(codes);
    agreement::agree(
        isas, [=] { return agreement::text("decode: d, m", {d, m}); },
        [&](const Kernels&) {
            auto back = room<float>(n * d);
            decode(frame, weights.data(), 0.7f, codes.data(), n, 1, back.data());
            return Answer().add(back);
        });
    if (dense) {
        const int64_t bits = 1 + random.below(m * d);
        const Projection projection(d, bits, table.data());
        agree(isas, n, bits, "project", d, [&](Output out) { encode_project(projection, batch, out); });
    }
}

}  // namespace

int main(int count, char** arguments) {
    try {
        Isas isas = {"scalar"};
        for (int i = 1; i < count; ++i) isas.emplace_back(arguments[i]);
        if (count == 1) isas = supported_isas();
        int64_t frames = 0;
        for (int64_t d = 1; d <= 300; d += d < 70 ? 1 : 13)
            for (const int64_t m : {1, 2, 5})
                for (const bool wild : {false, true}) {
                    check(isas, d, m, false, wild);
                    if (d <= 40) check(isas, d, m, true, wild);
                    frames += d <= 40 ? 2 : 1;
                }
        for (const int64_t d : {384, 511, 512, 513, 784, 1536, 2048, 4095, 4096})
            check(isas, d, 2, false, true), ++frames;
        agreement::check_search_kernels(isas);
        agreement::check_source_kernels(isas);
        agreement::check_coding_kernels(isas);
        std::string names;
        for (const std::string& isa : isas) names += " " + isa;
        std::printf("%s%s: %lld frames, %lld comparisons, %d failures\n", agreement::failures ? "FAIL" : "ok",
                    names.c_str(), static_cast<long long>(frames), static_cast<long long>(agreement::comparisons),
                    agreement::failures);
    } catch (const std::exception& error) {
        std::printf("FAIL %s\n", error.what());
        return 1;
    }
    return agreement::failures ? 1 : 0;
}
