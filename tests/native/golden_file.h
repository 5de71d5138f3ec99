// Reads the records of hashing-v1.bin (the format is described in tools/make_golden.py). Bounds are checked: a cut or
// damaged file is an error and never a read past the end.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

struct GoldenCase {
    int64_t kind = 0, dense = 0, d = 0, m = 0, bits = 0, n = 0, steps = 0, sweeps = 0;
    std::string name;
    std::vector<float> table, parameters, x, values, back;
    std::vector<uint8_t> codes;

    int64_t code_bytes() const { return (bits + 7) / 8; }
    float entry_gain() const { return parameters[0]; }
    float scale() const { return parameters[1]; }
    const float* weights() const { return parameters.data() + 2; }
};

struct GoldenFile {
    std::vector<float> tanh_x, tanh_y;
    std::vector<GoldenCase> cases;
};

namespace golden_detail {

inline void expect(bool condition, const std::string& what) {
    if (!condition) throw std::runtime_error(what);
}

inline std::vector<float> floats(const std::vector<uint8_t>& payload) {
    expect(payload.size() % 4 == 0, "a list of floats has a broken length");
    std::vector<float> out(payload.size() / 4);
    if (!out.empty()) std::memcpy(out.data(), payload.data(), payload.size());
    return out;
}

inline void check_sizes(const GoldenCase& c) {
    const auto at = [&](const char* what) { return c.name + ": wrong size of " + what; };
    expect(c.kind >= 0 && c.kind <= 3 && c.d >= 1 && c.m >= 1 && c.n >= 1 && c.bits >= 1, c.name + ": bad header");
    expect(c.d <= 65536 && c.m <= 65536 && c.bits <= (1 << 20) && c.n <= 65536, c.name + ": bad header");
    const int64_t table = c.kind == 0 ? c.d * c.bits : c.dense ? c.m * c.d * c.d : (c.m + 2) * 2 * c.d;
    expect(static_cast<int64_t>(c.table.size()) == table, at("its table"));
    expect(static_cast<int64_t>(c.parameters.size()) == 2 + c.m, at("its parameters"));
    expect(static_cast<int64_t>(c.x.size()) == c.n * c.d, at("x"));
    expect(static_cast<int64_t>(c.values.size()) == c.n * c.bits, at("values"));
    expect(static_cast<int64_t>(c.codes.size()) == c.n * c.code_bytes(), at("codes"));
    expect(c.back.empty() || static_cast<int64_t>(c.back.size()) == c.n * c.d, at("the reconstruction"));
}

}  // namespace golden_detail

inline GoldenFile read_golden(const char* path) {
    using namespace golden_detail;
    std::FILE* file = std::fopen(path, "rb");
    expect(file != nullptr, std::string(path) + ": cannot be opened");
    GoldenFile golden;
    GoldenCase current;
    bool first = true;
    for (;;) {
        char tag[5] = {};
        uint64_t length = 0;
        const size_t got = std::fread(tag, 1, 4, file);
        if (got == 0 && !first) break;
        expect(got == 4 && std::fread(&length, 1, 8, file) == 8, "the file ends inside a record's head");
        expect(length < (uint64_t{1} << 30), "a record is too long");
        std::vector<uint8_t> payload(length);
        expect(std::fread(payload.data(), 1, payload.size(), file) == payload.size(), "the file ends inside a record");
        const std::string name = tag;
        expect(first == (name == "LVG1"), "not a golden file of version 1");
        first = false;
        if (name == "TANH") {
            const std::vector<float> both = floats(payload);
            const auto half = both.begin() + static_cast<int64_t>(both.size() / 2);
            golden.tanh_x.assign(both.begin(), half);
            golden.tanh_y.assign(half, both.end());
        } else if (name == "CASE") {
            expect(payload.size() == 64, "a case's head has the wrong length");
            current = GoldenCase();
            int64_t head[8];
            std::memcpy(head, payload.data(), 64);
            current.kind = head[0], current.dense = head[1], current.d = head[2], current.m = head[3];
            current.bits = head[4], current.n = head[5], current.steps = head[6], current.sweeps = head[7];
        } else if (name == "NAME") {
            current.name.assign(payload.begin(), payload.end());
        } else if (name == "TABL") {
            current.table = floats(payload);
        } else if (name == "PARM") {
            current.parameters = floats(payload);
        } else if (name == "XXXX") {
            current.x = floats(payload);
        } else if (name == "VALS") {
            current.values = floats(payload);
        } else if (name == "CODE") {
            current.codes = payload;
        } else if (name == "BACK") {
            current.back = floats(payload);
        } else if (name == "DONE") {
            check_sizes(current);
            golden.cases.push_back(current);
        } else {
            expect(name == "LVG1", "an unknown record: " + name);
        }
    }
    std::fclose(file);
    expect(!golden.cases.empty() && !golden.tanh_x.empty(), "the file holds no cases");
    return golden;
}
