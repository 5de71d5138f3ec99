// What an index holds of a record: how it is written into a row, read from it, and kept while it may have to be put back.
#include "index_rows.h"

#include <algorithm>
#include <cstring>

#include "dispatch.h"
#include "parallel.h"

namespace lethevec {

namespace {

constexpr int64_t ENCODE_GROUP = 64;

// Word w of a code of as many bytes; what lies past its end is zero.
uint32_t word_at(const uint8_t* code, int64_t bytes, int64_t w) {
    uint32_t word = 0;
    std::memcpy(&word, code + 4 * w, static_cast<size_t>(std::min<int64_t>(4, bytes - 4 * w)));
    return word;
}

bool bit_at(const uint8_t* code, int64_t j) { return (code[j >> 3] >> (j & 7)) & 1; }

}  // namespace

void Index::encode_rows(const float* x, const uint32_t* rows, int64_t n, int64_t threads) {
    const Encoder& encoder = *encoder_;
    const int64_t bytes = encoder.code_bytes(), d = encoder.dim;
    if (source_ && source_->ranks()) {
        // The source makes codes of its own; all that is needed here is the norm.
        for (int64_t i = 0; i < n; ++i) {
            double norm = 0.0;
            active().norms(x + i * d, d, 1, &norm);
            write_row(rows[i], x + i * d, nullptr, norm, 0.0f);
        }
        return;
    }
    parallel_for(n, threads, 4 * ENCODE_GROUP, [&](int64_t begin, int64_t end) {
        const int64_t group = std::min(ENCODE_GROUP, end - begin);
        Wiped<float> scratch(encoder.scratch()), factors(group);
        Wiped<double> norms(group), alignment(group);
        Wiped<uint8_t> codes(group * bytes);
        for (int64_t at = begin; at < end; at += group) {
            const int64_t count = std::min(group, end - at);
            encoder.encode(x + at * d, count, codes.at(0), norms.at(0), factors.at(0), alignment.at(0), scratch.at(0));
            for (int64_t i = 0; i < count; ++i)
                write_row(rows[at + i], x + (at + i) * d, codes.at(i * bytes), *norms.at(i), *factors.at(i));
        }
    });
}

void Index::write_row(uint32_t row, const float* x, const uint8_t* code, double norm, float factor) {
    const Layout& layout = rows_.layout();
    rows_.set_norm(row, static_cast<float>(norm));
    if (layout.dim && x != rows_.vector(row)) std::memcpy(rows_.vector(row), x, static_cast<size_t>(4 * layout.dim));
    if (layout.hamming_words) std::memcpy(rows_.hamming(row), code, static_cast<size_t>(encoder_->code_bytes()));
    for (int64_t w = 0; w < layout.block_words; ++w) *rows_.block_word(row, w) = word_at(code, encoder_->code_bytes(), w);
    if (!layout.has_factor) return;
    const int64_t first = first_bits(), bits = encoder_->bits;
    if (layout.scan_bytes) {
        uint8_t* byte = rows_.scan_byte(row, 0);
        for (int64_t g = 0; g + 1 < layout.scan_bytes; ++g) byte[g * PAIR] = code[g];
        const int64_t g = layout.scan_bytes - 1;
        byte[g * PAIR] = static_cast<uint8_t>(code[g] & ((1 << (first - 8 * g)) - 1));
    }
    uint32_t* tail = rows_.tail(row);
    std::memcpy(tail, &factor, sizeof factor);
    const int64_t bytes = encoder_->code_bytes();
    for (int64_t w = 0; w < layout.tail_words; ++w) {
        // Words start anywhere in a byte: five bytes have all their bits.
        const int64_t from = first + 32 * w, left = bits - from;
        uint64_t five = 0;
        std::memcpy(&five, code + from / 8, static_cast<size_t>(std::min<int64_t>(5, bytes - from / 8)));
        five >>= from % 8;
        tail[1 + w] = static_cast<uint32_t>(left < 32 ? five & ((uint64_t{1} << left) - 1) : five);
    }
}

void Index::read_code(uint32_t row, uint8_t* code) const {
    const Layout& layout = rows_.layout();
    if (layout.hamming_words) {
        std::memcpy(code, rows_.hamming(row), static_cast<size_t>(encoder_->code_bytes()));
        return;
    }
    if (layout.block_words) {
        const int64_t bytes = encoder_->code_bytes();
        for (int64_t w = 0; w < layout.block_words; ++w)
            std::memcpy(code + 4 * w, rows_.block_word(row, w), static_cast<size_t>(std::min<int64_t>(4, bytes - 4 * w)));
        return;
    }
    const int64_t first = first_bits();
    std::memset(code, 0, static_cast<size_t>(encoder_->code_bytes()));
    if (!keeps_codes()) return;
    for (int64_t g = 0; g < layout.scan_bytes; ++g) code[g] = *rows_.scan_byte(row, g);
    const uint32_t* tail = rows_.tail(row) + 1;
    for (int64_t j = first; j < encoder_->bits; ++j)
        if (bit_at(reinterpret_cast<const uint8_t*>(tail), j - first)) code[j >> 3] |= static_cast<uint8_t>(1 << (j & 7));
}

void Index::file_rows(const float* x, const uint32_t* rows, int64_t n, int64_t threads,
                      const std::function<void(int64_t)>& progress) {
    if (!source_) return;
    if (settings_.keep_vectors) return source_->add(rows_, rows, n, x, threads, progress);
    constexpr int64_t STRIDE = 4096;
    const int64_t d = encoder_->dim, bytes = encoder_->code_bytes(), most = std::min(STRIDE, n);
    int64_t filed = 0;
    try {
        Wiped<uint8_t> codes(most * bytes);
        Wiped<float> decoded(most * d);
        while (filed < n) {
            const int64_t count = std::min(most, n - filed);
            for (int64_t i = 0; i < count; ++i) read_code(rows[filed + i], codes.at(i * bytes));
            encoder_->decode(codes.at(0), count, threads, decoded.at(0));
            source_->add(rows_, rows + filed, count, decoded.at(0), threads, nullptr);
            filed += count;
        }
    } catch (...) {
        while (filed > 0) source_->leave(rows_, rows[--filed]);
        throw;
    }
}

Index::Held::Held(const Index& index, const uint32_t* rows, int64_t n)
    : n(n),
      d(index.rows_.layout().dim),
      bytes(index.keeps_codes() ? index.encoder_->code_bytes() : 0),
      x(n * d),
      norms(n),
      factors(n),
      codes(n * bytes) {
    for (int64_t i = 0; i < n; ++i) {
        if (d) std::memcpy(x.at(i * d), index.rows_.vector(rows[i]), static_cast<size_t>(4 * d));
        if (bytes) index.read_code(rows[i], codes.at(i * bytes));
        *norms.at(i) = index.rows_.norm(rows[i]);
        if (index.rows_.layout().has_factor) std::memcpy(factors.at(i), index.rows_.tail(rows[i]), sizeof(float));
    }
}

void Index::Held::put_back(Index& index, const uint32_t* rows) {
    for (int64_t i = 0; i < n; ++i)
        index.write_row(rows[i], x.at(i * d), codes.at(i * bytes), static_cast<double>(*norms.at(i)), *factors.at(i));
}

}  // namespace lethevec
