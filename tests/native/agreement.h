// What the agreement checks share: random numbers, and the comparison of every instruction set's answer with the
// first's.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/dispatch.h"

namespace agreement {

inline int failures = 0;
inline int64_t comparisons = 0;

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
    float sign() { return word() >> 63 ? -1.0f : 1.0f; }
    // In (-1, 1).
    float number() { return static_cast<float>(static_cast<int32_t>(word() >> 32)) * 0x1p-31f; }
    // Of any size from denormal to 2^largest; now and then a zero of either sign.
    float wild(int largest) {
        const int exponent = static_cast<int>(below(largest + 145)) - 145;
        if (below(16) == 0) return sign() * 0.0f;
        return static_cast<float>(static_cast<double>(number()) * __builtin_ldexp(1.0, exponent));
    }
    template <class T>
    void fill(std::vector<T>& words) {
        for (T& w : words) w = static_cast<T>(word());
    }
};

// The bytes of all that a kernel gave. Outputs are longer than they need be, so that a write past the end shows as
// well.
struct Answer {
    std::vector<uint8_t> bytes;
    template <class T>
    Answer& add(const std::vector<T>& part) {
        const auto* from = reinterpret_cast<const uint8_t*>(part.data());
        bytes.insert(bytes.end(), from, from + part.size() * sizeof(T));
        return *this;
    }
};

// n elements of an output and some that must stay as they are.
template <class T>
std::vector<T> room(int64_t n) {
    std::vector<T> out(static_cast<size_t>(n) + 32 / sizeof(T));
    std::memset(out.data(), 0x5a, out.size() * sizeof(T));
    return out;
}

inline void expect(bool condition, const std::string& what) {
    if (condition) return;
    if (++failures <= 30) std::printf("FAIL %s\n", what.c_str());
}

// Runs `run`, which returns an Answer, with each instruction set; all must give the first one's bytes. `what` is a
// function that says what was run: it is only asked when something is wrong.
template <class What, class Run>
void agree(const std::vector<std::string>& isas, What what, Run run) {
    Answer expected;
    for (const std::string& isa : isas) {
        lethevec::use_isa(isa);
        const Answer got = run(lethevec::active());
        if (isa == isas.front())
            expected = got;
        else if (++comparisons, got.bytes != expected.bytes)
            expect(false, isa + " differs from " + isas.front() + ": " + what());
    }
}

inline std::string text(const char* name, std::initializer_list<int64_t> sizes) {
    std::string all = name;
    for (const int64_t size : sizes) all += " " + std::to_string(size);
    return all;
}

}  // namespace agreement
