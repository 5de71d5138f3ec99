// Stand-alone: the kernels against the golden file, bit for bit, with every instruction set that this machine has, or
// with those named; one that is named and not supported is a failure. No Python, so it runs under an emulator.
//
//     golden_check hashing-v1.bin [isa...]
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "golden_file.h"
#include "hashing/hashing.h"
#include "kernels/dispatch.h"

namespace {

using namespace lethevec;

int failures = 0;

template <class T>
void compare(const std::vector<T>& got, const std::vector<T>& expected, const std::string& isa,
             const std::string& what) {
    if (got.size() == expected.size() && std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)) == 0) return;
    size_t at = 0;
    while (at < got.size() && std::memcmp(&got[at], &expected[at], sizeof(T)) == 0) ++at;
    std::printf("FAIL %s: %s differ, first at %zu of %zu\n", isa.c_str(), what.c_str(), at, expected.size());
    ++failures;
}

void encode(const GoldenCase& c, Batch batch, Output out) {
    if (c.kind == 0) {
        encode_project(Projection(c.d, c.bits, c.table.data()), batch, out);
        return;
    }
    const Frame frame = c.dense ? Frame::dense(c.d, c.m, c.table.data()) : Frame::hadamard(c.d, c.m, c.table.data());
    if (c.kind == 1) encode_superbit(frame, batch, out);
    if (c.kind == 2) encode_usr(frame, c.entry_gain(), c.steps, batch, out);
    if (c.kind == 3) encode_progressive(frame, c.weights(), c.sweeps, batch, out);
}

void check(const GoldenCase& c, const std::string& isa) {
    // Values and codes together and apart: the kernels take shortcuts when only one is asked for.
    for (const int want : {3, 1, 2}) {
        std::vector<float> values(c.values.size());
        std::vector<uint8_t> codes(c.codes.size());
        encode(c, {c.x.data(), c.n, want},
               {want & 1 ? values.data() : nullptr, want & 2 ? codes.data() : nullptr, c.bits});
        if (want & 1) compare(values, c.values, isa, c.name + " values");
        if (want & 2) compare(codes, c.codes, isa, c.name + " codes");
    }
    // The last row alone.
    std::vector<float> values(static_cast<size_t>(c.bits));
    encode(c, {c.x.data() + (c.n - 1) * c.d, 1, 1}, {values.data(), nullptr, c.bits});
    compare(values, {c.values.end() - c.bits, c.values.end()}, isa, c.name + " values of a row alone");
    if (!c.back.empty()) {
        const Frame frame =
            c.dense ? Frame::dense(c.d, c.m, c.table.data()) : Frame::hadamard(c.d, c.m, c.table.data());
        std::vector<float> back(c.back.size());
        decode(frame, c.weights(), c.scale(), c.codes.data(), c.n, 2, back.data());
        compare(back, c.back, isa, c.name + " reconstruction");
    }
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 2) {
        std::printf("usage: golden_check FILE [isa...]\n");
        return 2;
    }
    try {
        const GoldenFile golden = read_golden(arguments[1]);
        std::vector<std::string> isas(arguments + 2, arguments + count);
        if (isas.empty()) isas = supported_isas();
        for (const std::string& isa : isas) {
            const int before = failures;
            use_isa(isa);
            std::vector<float> y(golden.tanh_x.size());
            active().activate(golden.tanh_x.data(), static_cast<int64_t>(y.size()), y.data());
            compare(y, golden.tanh_y, isa, "tanh");
            for (const GoldenCase& c : golden.cases) check(c, isa);
            std::printf("%s %s: %zu cases\n", failures == before ? "ok" : "FAIL", isa.c_str(), golden.cases.size());
        }
    } catch (const std::exception& error) {
        std::printf("FAIL %s\n", error.what());
        return 1;
    }
    return failures ? 1 : 0;
}
