#include "index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <shared_mutex>

#include "digest.h"
#include "dispatch.h"
#include "index_rows.h"
#include "parallel.h"
#include "wiped.h"

namespace lethevec {

namespace {

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

}  // namespace

Index::Index(IndexSettings settings, std::shared_ptr<const Encoder> encoder, std::unique_ptr<Source> source)
    : settings_(settings),
      dim_(encoder->dim),
      encoder_(std::move(encoder)),
      source_(std::move(source)),
      rows_(layout_for(settings_, *encoder_, source_.get())) {}

// It has left the source.
void Index::remove_row(uint32_t row) {
    const auto last = static_cast<uint32_t>(rows_.size() - 1);
    if (source_ && row != last) source_->renumber(rows_, last, row);
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

// Those that have left come back in the memory that leaving has freed.
void Index::leave_source(const std::vector<uint32_t>& rows) {
    if (!source_) return;
    size_t left = 0;
    try {
        for (; left < rows.size(); ++left) source_->leave(rows_, rows[left]);
    } catch (...) {
        const int64_t d = rows_.layout().dim;
        for (; left > 0; --left) file_rows(d ? rows_.vector(rows[left - 1]) : nullptr, &rows[left - 1], 1, 1);
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
    Held before(*this, rows.data(), n);
    leave_source(rows);
    try {
        encode_rows(x, rows.data(), n, threads);
        file_rows(x, rows.data(), n, threads);
    } catch (...) {
        before.put_back(*this, rows.data());
        file_rows(before.x.at(0), rows.data(), n, 1);
        throw;
    }
}

int64_t Index::forget(const int64_t* ids, int64_t n, bool ignore_unknown) {
    std::unique_lock<FairLock> writing(lock_);
    // One id is the common case and needs no list.
    if (n == 1) {
        const uint32_t row = rows_.find(ids[0]);
        if (row != Rows::NONE) {
            if (source_) source_->leave(rows_, row);
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
    leave_source(rows);
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
