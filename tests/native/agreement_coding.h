// The kernels that cells of the source "pivots" are changed with: sums over the bits of a code, rows against one
// centre.
#pragma once

#include <cmath>

#include "agreement.h"

namespace agreement {

using namespace lethevec;

// By the definition too: lanes of eight, then pairwise.
inline void check_code_sum(const std::vector<std::string>& isas, int64_t from, int64_t d) {
    Random random{static_cast<uint64_t>(41000 + 1000 * from + d)};
    std::vector<uint8_t> code(static_cast<size_t>((from + d + 7) / 8));
    std::vector<float> values(static_cast<size_t>(d));
    random.fill(code);
    for (float& v : values) v = random.wild(20);
    double lanes[8] = {};
    for (int64_t j = 0; j < d; ++j) {
        const auto v = static_cast<double>(values[static_cast<size_t>(j)]);
        lanes[j % 8] += code[static_cast<size_t>((from + j) / 8)] >> ((from + j) % 8) & 1 ? v : -v;
    }
    for (int half = 4; half >= 1; half /= 2)
        for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
    const auto what = [=] { return text("code_sum: from, d", {from, d}); };
    agree(isas, what, [&](const Kernels& kernels) {
        const double sum = kernels.code_sum(code.data(), from, values.data(), d);
        expect(sum == lanes[0], std::string(kernels.name) + " is not by the definition: " + what());
        return Answer().add(std::vector<double>{sum});
    });
}

// Rounding may differ: only how close they are is checked.
inline void check_dots(const std::vector<std::string>& isas, int64_t d, int64_t n) {
    Random random{static_cast<uint64_t>(51000 + 100 * d + n)};
    std::vector<float> rows(static_cast<size_t>(n * d)), with(static_cast<size_t>(d));
    for (float& v : rows) v = random.number();
    for (float& v : with) v = random.number();
    for (const std::string& isa : isas) {
        use_isa(isa);
        auto out = room<float>(n);
        const auto untouched = out;
        active().dots(rows.data(), n, with.data(), d, out.data());
        bool right = std::memcmp(out.data() + n, untouched.data() + n,
                                 (out.size() - static_cast<size_t>(n)) * sizeof(float)) == 0;
        for (int64_t i = 0; i < n; ++i) {
            double sum = 0.0;
            for (int64_t j = 0; j < d; ++j)
                sum += static_cast<double>(rows[static_cast<size_t>(i * d + j)]) *
                       static_cast<double>(with[static_cast<size_t>(j)]);
            right = right &&
                    std::fabs(static_cast<double>(out[static_cast<size_t>(i)]) - sum) <= 1e-6 * static_cast<double>(d);
        }
        expect(right, isa + ": " + text("dots: d, n", {d, n}));
        ++comparisons;
    }
}

inline void check_coding_kernels(const std::vector<std::string>& isas) {
    for (int64_t from = 0; from <= 16; ++from)
        for (int64_t d = 1; d <= 40; ++d) check_code_sum(isas, from, d);
    for (const int64_t d : {100, 128, 300}) check_code_sum(isas, 3 * d, d);
    for (const int64_t d : {1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 100, 128})
        for (const int64_t n : {1, 2, 5, 97}) check_dots(isas, d, n);
}

}  // namespace agreement
