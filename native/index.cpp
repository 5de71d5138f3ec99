#include "index.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <shared_mutex>

#include "digest.h"
#include "kernels/dispatch.h"
#include "memory/wiped.h"
#include "parallel.h"
#include "rows/codes.h"
#include "rows/held.h"
#include "search/search.h"

namespace lethevec {

namespace {

constexpr int64_t ENCODE_GROUP = 64;  // vectors that are encoded together

}  // namespace

Index::Index(IndexSettings settings, std::shared_ptr<const Encoder> encoder, std::unique_ptr<Source> source)
    : settings_(settings),
      dim_(encoder->dim),
      encoder_(std::move(encoder)),
      source_(std::move(source)),
      rows_(layout()) {}

Layout Index::layout() const {
    Layout layout = source_->layout(*encoder_, settings_.metric, settings_.hamming);
    layout.dim = settings_.keep_vectors ? dim_ : 0;
    return layout;
}

// --- Rows

void Index::encode_rows(const float* x, const uint32_t* rows, int64_t n, int64_t threads) {
    const Encoder& encoder = *encoder_;
    const int64_t bytes = encoder.code_bytes(), d = encoder.dim;
    if (!rows_.layout().has_codes()) {  // the source makes its own
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
    const int64_t d = rows_.layout().dim;
    rows_.set_norm(row, static_cast<float>(norm));
    if (d && x != rows_.vector(row)) std::memcpy(rows_.vector(row), x, static_cast<size_t>(4 * d));
    write_code(rows_, row, code, factor);
}

void Index::file_rows(const float* x, const uint32_t* rows, int64_t n, int64_t threads, const Progress& progress) {
    source_->add(NewRows(rows_, rows, n, settings_.keep_vectors ? x : nullptr, *encoder_), threads, progress);
}

void Index::leave_source(const uint32_t* rows, int64_t n, int64_t threads) {
    source_->leave(rows_, rows, n, threads, nullptr);
}

// It has left the source.
void Index::remove_row(uint32_t row) {
    const auto last = static_cast<uint32_t>(rows_.size() - 1);
    if (row != last) source_->renumber(rows_, last, row);
    rows_.remove(row);
}

// --- Changes

void Index::add(const float* x, const int64_t* ids, int64_t n, int64_t threads, const Progress& progress) {
    const FairLock::Change change(lock_);
    std::unique_lock<FairLock> writing(lock_);
    const int64_t before = rows_.size();
    std::vector<uint32_t> rows(static_cast<size_t>(n));
    try {
        for (int64_t i = 0; i < n; ++i) {
            rows_.ask_for(ids, i, n);
            const uint32_t found = rows_.find(ids[i]);
            if (found != Rows::NONE) throw IdRefused(ids[i], found < before ? IdRefused::present : IdRefused::repeated);
            rows[static_cast<size_t>(i)] = rows_.append(ids[i]);
        }
        encode_rows(x, rows.data(), n, threads);
        file_rows(x, rows.data(), n, threads);
    } catch (...) {
        while (rows_.size() > before) rows_.remove(static_cast<uint32_t>(rows_.size() - 1));
        throw;
    }
}

void Index::update(const float* x, const int64_t* ids, int64_t n, int64_t threads) {
    const FairLock::Change change(lock_);
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
    HeldRows before(rows_, rows.data(), n);
    leave_source(rows.data(), n, threads);
    try {
        encode_rows(x, rows.data(), n, threads);
        file_rows(x, rows.data(), n, threads);
    } catch (...) {
        before.put_back(rows_, rows.data());
        file_rows(before.vectors(), rows.data(), n, 1);
        throw;
    }
}

int64_t Index::forget(const int64_t* ids, int64_t n, bool ignore_unknown) {
    const FairLock::Change change(lock_);
    std::unique_lock<FairLock> writing(lock_);
    // One id is the common case and needs no list.
    if (n == 1) {
        const uint32_t row = rows_.find(ids[0]);
        if (row != Rows::NONE) {
            leave_source(&row, 1, 1);
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
    leave_source(rows.data(), static_cast<int64_t>(rows.size()), 1);
    for (uint32_t row : rows) remove_row(row);
    return static_cast<int64_t>(rows.size());
}

void Index::add_codes(const CodedRecords& records, int64_t threads) {
    const FairLock::Change change(lock_);
    std::unique_lock<FairLock> writing(lock_);
    const int64_t before = rows_.size(), n = records.n, bytes = encoder_->code_bytes(), d = encoder_->dim;
    const int64_t* ids = records.ids;
    std::vector<uint32_t> rows(static_cast<size_t>(n));
    try {
        for (int64_t i = 0; i < n; ++i) {
            rows_.ask_for(ids, i, n);
            const uint32_t found = rows_.find(ids[i]);
            if (found != Rows::NONE) throw IdRefused(ids[i], found < before ? IdRefused::present : IdRefused::repeated);
            rows[static_cast<size_t>(i)] = rows_.append(ids[i]);
            write_row(rows[static_cast<size_t>(i)], records.x ? records.x + i * d : nullptr, records.codes + i * bytes,
                      static_cast<double>(records.norms[i]), records.factors[i]);
        }
        file_rows(records.x, rows.data(), n, threads);
    } catch (...) {
        while (rows_.size() > before) rows_.remove(static_cast<uint32_t>(rows_.size() - 1));
        throw;
    }
}

void Index::reencode(std::shared_ptr<const Encoder> encoder, int64_t threads,
                     const std::function<void(int64_t)>& progress) {
    const FairLock::Change change(lock_);
    std::unique_lock<FairLock> writing(lock_);
    encoder_ = std::move(encoder);
    constexpr int64_t STRIDE = 8192;
    std::exception_ptr interrupted;
    std::vector<uint32_t> rows(STRIDE);
    for (int64_t c = 0; c < rows_.chunks(); ++c) {
        const int64_t used = rows_.used(c);
        for (int64_t i = 0; i < used; ++i)
            rows[static_cast<size_t>(i)] = static_cast<uint32_t>(c * rows_.chunk_rows() + i);
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

// --- Searches

Allowed Index::allowed_rows(const AllowedIds& allowed) const {
    return allowed.ids ? Allowed(rows_, allowed.ids, allowed.n) : Allowed(rows_);
}

SearchWork Index::search(const SearchRequest& request, const Answers& answers) const {
    std::shared_lock<FairLock> reading(lock_);
    const Allowed allowed = allowed_rows(request.allowed);
    const Search::Of searched = {rows_, *source_, *encoder_, settings_.metric};
    std::mutex adding;
    SearchWork total;
    parallel_for(request.n, request.threads, 1, [&](int64_t begin, int64_t end) {
        Search search(searched, allowed);
        search.nearest(request.queries + begin * dim_, end - begin, request.k, request.effort,
                       answers.ids + begin * request.k, answers.distances + begin * request.k);
        std::lock_guard<std::mutex> turn(adding);
        total += search.work();
    });
    return total;
}

SearchWork Index::search_radius(const float* query, float radius, const AllowedIds& allowed,
                                std::vector<std::pair<float, int64_t>>& hits) const {
    std::shared_lock<FairLock> reading(lock_);
    const Allowed rows = allowed_rows(allowed);
    Search search({rows_, *source_, *encoder_, settings_.metric}, rows);
    search.within(query, radius, hits);
    return search.work();
}

// --- Records given back

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
        uint8_t* code = codes + i * encoder_->code_bytes();
        if (rows_.layout().has_codes())
            read_code(rows_, row, code);
        else
            std::memset(code, 0, static_cast<size_t>(encoder_->code_bytes()));
        norms[i] = rows_.norm(row);
        factors[i] = read_factor(rows_, row);
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
                const float norm = rows_.norm(row), factor = read_factor(rows_, row);
                std::memcpy(at + 9, &norm, 4);
                std::memcpy(at + 13, &factor, 4);
                read_code(rows_, row, at + 17);
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

void Index::inspect(const std::function<void(const Rows&, const Source&)>& look) const {
    std::shared_lock<FairLock> reading(lock_);
    look(rows_, *source_);
}

std::vector<uint8_t> Index::raw_memory() const {
    std::shared_lock<FairLock> reading(lock_);
    std::vector<uint8_t> all = rows_.raw_memory();
    source_->raw_memory(all);
    return all;
}

}  // namespace lethevec
