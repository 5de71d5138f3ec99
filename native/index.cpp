#include "index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <shared_mutex>

#include "digest.h"
#include "dispatch.h"
#include "parallel.h"
#include "wiped.h"

namespace lethevec {

namespace {

constexpr int64_t ENCODE_GROUP = 64;

Layout layout_for(const IndexSettings& settings, const Encoder& encoder, const Source* source) {
    Layout layout;
    layout.dim = settings.keep_vectors ? encoder.dim : 0;
    if (source && source->ranks()) return layout;
    if (settings.hamming) {
        if (source)
            layout.hamming_words = (encoder.bits + 63) / 64;
        else
            layout.block_words = (encoder.bits + 31) / 32;
        return layout;
    }
    const int64_t first = source ? 0 : encoder.first_bits();
    layout.scan_bytes = (first + 7) / 8;
    layout.norm_classes = settings.metric != Metric::cosine && layout.scan_bytes > 0 && layout.scan_bytes <= CHUNK_BYTES;
    layout.tail_words = (encoder.bits - first + 31) / 32;
    layout.has_factor = true;
    return layout;
}

// Word w of a code of as many bytes; what lies past its end is zero.
uint32_t word_at(const uint8_t* code, int64_t bytes, int64_t w) {
    uint32_t word = 0;
    std::memcpy(&word, code + 4 * w, static_cast<size_t>(std::min<int64_t>(4, bytes - 4 * w)));
    return word;
}

bool bit_at(const uint8_t* code, int64_t j) { return (code[j >> 3] >> (j & 7)) & 1; }

}  // namespace

Index::Index(IndexSettings settings, std::shared_ptr<const Encoder> encoder, std::unique_ptr<Source> source)
    : settings_(settings),
      dim_(encoder->dim),
      encoder_(std::move(encoder)),
      source_(std::move(source)),
      rows_(layout_for(settings_, *encoder_, source_.get())) {}

void Index::remove_row(uint32_t row) {
    if (source_) {
        source_->leave(rows_, row);
        const auto last = static_cast<uint32_t>(rows_.size() - 1);
        if (row != last) source_->renumber(rows_, last, row);
    }
    rows_.remove(row);
}

void Index::add(const float* x, const int64_t* ids, int64_t n, int64_t threads,
                const std::function<void(int64_t)>& progress) {
    std::unique_lock<FairLock> writing(lock_);
    const int64_t before = rows_.size();
    std::vector<uint32_t> rows(static_cast<size_t>(n));
    try {
        for (int64_t i = 0; i < n; ++i) {
            rows_.ask_for(ids, i, n);
            const uint32_t found = rows_.find(ids[i]);
            if (found != Rows::NONE)
                throw IdRefused(ids[i], found < before ? IdRefused::present : IdRefused::repeated);
            rows[static_cast<size_t>(i)] = rows_.append(ids[i]);
        }
        encode_rows(x, rows.data(), n, threads);
        file_rows(x, rows.data(), n, threads, progress);
    } catch (...) {
        while (rows_.size() > before) rows_.remove(static_cast<uint32_t>(rows_.size() - 1));
        throw;
    }
}

void Index::update(const float* x, const int64_t* ids, int64_t n, int64_t threads) {
    std::unique_lock<FairLock> writing(lock_);
    std::vector<uint32_t> rows(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
        rows[static_cast<size_t>(i)] = rows_.find(ids[i]);
        if (rows[static_cast<size_t>(i)] == Rows::NONE) throw IdRefused(ids[i], IdRefused::absent);
    }
    std::vector<uint32_t> sorted = rows;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) throw IdRefused(rows_.id(*twice), IdRefused::repeated);
    if (source_)
        for (uint32_t row : rows) source_->leave(rows_, row);
    encode_rows(x, rows.data(), n, threads);
    file_rows(x, rows.data(), n, threads);
}

int64_t Index::forget(const int64_t* ids, int64_t n, bool ignore_unknown) {
    std::unique_lock<FairLock> writing(lock_);
    // One id is the common case and needs no list.
    if (n == 1) {
        const uint32_t row = rows_.find(ids[0]);
        if (row != Rows::NONE) {
            remove_row(row);
            return 1;
        }
        if (!ignore_unknown) throw IdRefused(ids[0], IdRefused::absent);
        return 0;
    }
    std::vector<uint32_t> rows;
    rows.reserve(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
        rows_.ask_for(ids, i, n);
        const uint32_t row = rows_.find(ids[i]);
        if (row != Rows::NONE)
            rows.push_back(row);
        else if (!ignore_unknown)
            throw IdRefused(ids[i], IdRefused::absent);
    }
    // From the last row down, so that a removal never moves a row that is still to go.
    std::sort(rows.begin(), rows.end(), std::greater<uint32_t>());
    const auto twice = std::adjacent_find(rows.begin(), rows.end());
    if (twice != rows.end()) throw IdRefused(rows_.id(*twice), IdRefused::repeated);
    for (uint32_t row : rows) remove_row(row);
    return static_cast<int64_t>(rows.size());
}

void Index::add_codes(const float* x, const uint8_t* codes, const float* norms, const float* factors, const int64_t* ids,
                      int64_t n, int64_t threads) {
    std::unique_lock<FairLock> writing(lock_);
    const int64_t before = rows_.size(), bytes = encoder_->code_bytes(), d = encoder_->dim;
    std::vector<uint32_t> rows(static_cast<size_t>(n));
    try {
        for (int64_t i = 0; i < n; ++i) {
            rows_.ask_for(ids, i, n);
            const uint32_t found = rows_.find(ids[i]);
            if (found != Rows::NONE)
                throw IdRefused(ids[i], found < before ? IdRefused::present : IdRefused::repeated);
            rows[static_cast<size_t>(i)] = rows_.append(ids[i]);
            write_row(rows[static_cast<size_t>(i)], x ? x + i * d : nullptr, codes + i * bytes,
                      static_cast<double>(norms[i]), factors[i]);
        }
        file_rows(x, rows.data(), n, threads);
    } catch (...) {
        while (rows_.size() > before) rows_.remove(static_cast<uint32_t>(rows_.size() - 1));
        throw;
    }
}

// Tells the source of rows that were filled in. Where vectors are not kept it is given those that the codes stand for: a
// snapshot has nothing else to make it from again.
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
    for (int64_t g = 0; g < layout.scan_bytes; ++g) code[g] = *rows_.scan_byte(row, g);
    const uint32_t* tail = rows_.tail(row) + 1;
    for (int64_t j = first; j < encoder_->bits; ++j)
        if (bit_at(reinterpret_cast<const uint8_t*>(tail), j - first)) code[j >> 3] |= static_cast<uint8_t>(1 << (j & 7));
}

void Index::reencode(std::shared_ptr<const Encoder> encoder, int64_t threads, const std::function<void(int64_t)>& progress) {
    std::unique_lock<FairLock> writing(lock_);
    encoder_ = std::move(encoder);
    constexpr int64_t STRIDE = 8192;
    std::exception_ptr interrupted;
    std::vector<uint32_t> rows(STRIDE);
    for (int64_t c = 0; c < rows_.chunks(); ++c) {
        const int64_t used = rows_.used(c);
        for (int64_t i = 0; i < used; ++i) rows[static_cast<size_t>(i)] = static_cast<uint32_t>(c * rows_.chunk_rows() + i);
        encode_rows(rows_.chunk(c).vectors, rows.data(), used, threads);
        // An interrupt must not leave codes of two gains: the work is finished first.
        try {
            progress(used);
        } catch (...) {
            if (!interrupted) interrupted = std::current_exception();
        }
    }
    if (interrupted) std::rethrow_exception(interrupted);
}

int64_t Index::size() const {
    std::shared_lock<FairLock> reading(lock_);
    return rows_.size();
}

void Index::contains(const int64_t* ids, int64_t n, bool* out) const {
    std::shared_lock<FairLock> reading(lock_);
    for (int64_t i = 0; i < n; ++i) out[i] = rows_.find(ids[i]) != Rows::NONE;
}

std::vector<int64_t> Index::ids() const {
    std::shared_lock<FairLock> reading(lock_);
    std::vector<int64_t> all(static_cast<size_t>(rows_.size()));
    for (int64_t c = 0, at = 0; c < rows_.chunks(); ++c) {
        std::copy_n(rows_.chunk(c).ids, rows_.used(c), all.begin() + at);
        at += rows_.used(c);
    }
    std::sort(all.begin(), all.end());
    return all;
}

void Index::get(const int64_t* ids, int64_t n, float* out) const {
    std::shared_lock<FairLock> reading(lock_);
    const int64_t d = rows_.layout().dim;
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t row = rows_.find(ids[i]);
        if (row == Rows::NONE) throw IdRefused(ids[i], IdRefused::absent);
        std::memcpy(out + i * d, rows_.vector(row), static_cast<size_t>(4 * d));
    }
}

void Index::export_codes(const int64_t* ids, int64_t n, uint8_t* codes, float* norms, float* factors) const {
    std::shared_lock<FairLock> reading(lock_);
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t row = rows_.find(ids[i]);
        if (row == Rows::NONE) throw IdRefused(ids[i], IdRefused::absent);
        read_code(row, codes + i * encoder_->code_bytes());
        norms[i] = rows_.norm(row);
        factors[i] = 0.0f;
        if (rows_.layout().has_factor) std::memcpy(&factors[i], rows_.tail(row), sizeof(float));
    }
}

int64_t Index::digest_lanes(int64_t threads, uint16_t* lanes) const {
    std::shared_lock<FairLock> reading(lock_);
    std::mutex adding;
    const int64_t code_bytes = encoder_->code_bytes(), d = rows_.layout().dim;
    parallel_for(rows_.size(), threads, 256, [&](int64_t begin, int64_t end) {
        digest::Sums sums;
        // A record: a tag, its id, then its vector; or, where vectors are not kept, all that is: norm, factor and code.
        const int64_t size = 9 + (d ? 4 * d : 8 + code_bytes);
        Wiped<uint8_t> record(size);
        uint8_t* at = record.at(0);
        for (int64_t r = begin; r < end; ++r) {
            const auto row = static_cast<uint32_t>(r);
            const int64_t id = rows_.id(row);
            at[0] = d ? 'v' : 'c';
            std::memcpy(at + 1, &id, 8);
            if (d) {
                std::memcpy(at + 9, rows_.vector(row), static_cast<size_t>(4 * d));
            } else {
                const float norm = rows_.norm(row);
                std::memcpy(at + 9, &norm, 4);
                std::memset(at + 13, 0, 4);
                if (rows_.layout().has_factor) std::memcpy(at + 13, rows_.tail(row), 4);
                read_code(row, at + 17);
            }
            sums.add(at, size);
        }
        std::lock_guard<std::mutex> turn(adding);
        sums.add_to(lanes);
    });
    return rows_.size();
}

Index::Bytes Index::bytes() const {
    std::shared_lock<FairLock> reading(lock_);
    return {rows_.bytes_of_vectors(), rows_.bytes_of_codes(), rows_.bytes_of_map(), rows_.bytes_allocated()};
}

void Index::inspect(const std::function<void(const Rows&, const Source*)>& look) const {
    std::shared_lock<FairLock> reading(lock_);
    look(rows_, source_.get());
}

std::vector<uint8_t> Index::raw_memory() const {
    std::shared_lock<FairLock> reading(lock_);
    std::vector<uint8_t> all = rows_.raw_memory();
    if (source_) source_->raw_memory(all);
    return all;
}

}  // namespace lethevec
