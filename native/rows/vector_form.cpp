#include "rows/vector_form.h"

#include <cmath>
#include <cstring>

#include "kernels/dispatch.h"

namespace lethevec {

namespace {

constexpr float INT8_LARGEST = 127.0f;
constexpr uint32_t INT8_LEAST_SCALE = 0x00800000;  // the bits of the smallest normal number, 2^-126
constexpr uint32_t INT8_SCALE_CUT = 0xFF;          // a scale has eight bits less than a float32

uint32_t bits_of(float x) {
    uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

float float_of(uint32_t bits) {
    float x = 0.0f;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

// The least number of sixteen bits that is no smaller than |x| / 127 of any of them. Its products with whole numbers up
// to 127 are exact, which is why a vector that was rounded once has the same scale again.
float scale_of(const float* x, int64_t d) {
    const uint32_t scale = (bits_of(active().greatest_size(x, d) / INT8_LARGEST) + INT8_SCALE_CUT) & ~INT8_SCALE_CUT;
    return float_of(scale < INT8_LEAST_SCALE ? INT8_LEAST_SCALE : scale);
}

// To the nearest; of two as near, to the even one.
uint16_t half_of(float x) {
    const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
    if (size >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7C00u);  // 2^16 and more
    if (size < 0x38800000u) {  // below 2^-14 the last bit is worth 2^-24, as it is of floats from 0.5 to 1
        const float sum = float_of(size) + 0.5f;
        return static_cast<uint16_t>(sign | (bits_of(sum) - 0x3F000000u));
    }
    return static_cast<uint16_t>(sign | ((size - 0x38000000u + 0xFFFu + (size >> 13 & 1u)) >> 13));
}

// Without branches, so that compilers make vector code of a loop over it. A half has ten bits of fraction and an
// exponent that is 112 lower. Those without a leading one are counted in 2^-24: put behind a leading one of 2^-14, and
// less that, they are what they stand for.
float float_of_half(uint16_t half) {
    const uint32_t size = (half & 0x7FFFu) << 13, sign = (half & 0x8000u) << 16;
    const uint32_t small = bits_of(float_of(size + (113u << 23)) - float_of(113u << 23));
    const uint32_t beyond = size < (31u << 23) ? 0u : 112u << 23;  // infinity
    return float_of((size < (1u << 23) ? small : size + (112u << 23) + beyond) | sign);
}

}  // namespace

int64_t form_bytes(VectorForm form, int64_t d) {
    switch (form) {
        case VectorForm::none: return 0;
        case VectorForm::float16: return 2 * d;
        case VectorForm::int8: return static_cast<int64_t>(sizeof(float)) + d;
        case VectorForm::float32: break;
    }
    return 4 * d;
}

void round_to(VectorForm form, const float* x, int64_t n, int64_t d, float* out) {
    for (int64_t i = 0; i < n; ++i, x += d, out += d) {
        if (form == VectorForm::int8) {
            const float scale = scale_of(x, d);
            // A zero has no sign.
            for (int64_t j = 0; j < d; ++j) out[j] = (std::nearbyint(x[j] / scale) + 0.0f) * scale;
        } else if (form == VectorForm::float16) {
            for (int64_t j = 0; j < d; ++j) out[j] = float_of_half(half_of(x[j]));
        } else if (out != x) {
            std::memcpy(out, x, static_cast<size_t>(4 * d));
        }
    }
}

void pack(VectorForm form, const float* x, int64_t d, uint8_t* packed) {
    if (form == VectorForm::int8) {
        const float scale = scale_of(x, d);
        std::memcpy(packed, &scale, sizeof scale);
        for (int64_t j = 0; j < d; ++j)
            packed[sizeof scale + static_cast<size_t>(j)] = static_cast<uint8_t>(static_cast<int8_t>(x[j] / scale));
    } else if (form == VectorForm::float16) {
        for (int64_t j = 0; j < d; ++j) {
            const uint16_t half = half_of(x[j]);
            std::memcpy(packed + 2 * j, &half, sizeof half);
        }
    } else if (form == VectorForm::float32 && packed != reinterpret_cast<const uint8_t*>(x)) {
        std::memcpy(packed, x, static_cast<size_t>(4 * d));
    }
}

void unpack(VectorForm form, const uint8_t* packed, int64_t d, float* x) {
    if (form == VectorForm::int8) {
        float scale = 0.0f;
        std::memcpy(&scale, packed, sizeof scale);
        const auto* numbers = reinterpret_cast<const int8_t*>(packed + sizeof scale);
        for (int64_t j = 0; j < d; ++j) x[j] = static_cast<float>(numbers[j]) * scale;
    } else if (form == VectorForm::float16) {
        for (int64_t j = 0; j < d; ++j) {
            uint16_t half = 0;
            std::memcpy(&half, packed + 2 * j, sizeof half);
            x[j] = float_of_half(half);
        }
    } else if (form == VectorForm::float32 && packed != reinterpret_cast<const uint8_t*>(x)) {
        std::memcpy(x, packed, static_cast<size_t>(4 * d));
    }
}

}  // namespace lethevec
