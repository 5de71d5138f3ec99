#include "index.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <numeric>
#include <shared_mutex>

#include "digest.h"
#include "kernels/dispatch.h"
#include "memory/wiped.h"
#include "parallel.h"
#include "rows/codes.h"
#include "rows/fingerprint.h"
#include "rows/held.h"
#include "search/search.h"

namespace lethevec {

namespace {

// No two are the same, whatever the index: a set of rows may outlive the index that it is from.
uint64_t next_arrangement() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}

constexpr int64_t ENCODE_GROUP = 64;  // vectors that are encoded together
// How much a thread does with the lock held before it lets others in: numbers of vectors, and vectors.
constexpr int64_t PIECE_NUMBERS = 1 << 19, LEAST_PIECE = 256;

// Sources tell by it that they are a copy.
Progress on_copy(const Progress& progress) {
    return progress ? progress : [](int64_t) {};
}

// At the end of a change, whatever came of it, nothing is left of what the source found out for it.
class Foreseen {
public:
    explicit Foreseen(const std::unique_ptr<Source>& source) : source_(source) {}
    ~Foreseen() { source_->forget_foreseen(); }
    Foreseen(const Foreseen&) = delete;
    Foreseen& operator=(const Foreseen&) = delete;

private:
    const std::unique_ptr<Source>& source_;
};

// Calls take(i, code, norm, factor) for each of n vectors, from several threads.
template <class Take>
void encode_each(const Encoder& encoder, const float* x, int64_t n, int64_t threads, Take take) {
    const int64_t bytes = encoder.code_bytes(), d = encoder.dim;
    parallel_for(n, threads, 4 * ENCODE_GROUP, [&](int64_t begin, int64_t end) {
        const int64_t group = std::min(ENCODE_GROUP, end - begin);
        Wiped<float> scratch(encoder.scratch()), factors(group);
        Wiped<double> norms(group), alignment(group);
        Wiped<uint8_t> codes(group * bytes);
        for (int64_t at = begin; at < end; at += group) {
            const int64_t count = std::min(group, end - at);
            encoder.encode(x + at * d, count, codes.at(0), norms.at(0), factors.at(0), alignment.at(0), scratch.at(0));
            for (int64_t i = 0; i < count; ++i) take(at + i, codes.at(i * bytes), *norms.at(i), *factors.at(i));
        }
    });
}

}  // namespace

Index::Index(IndexSettings settings, std::shared_ptr<const Encoder> encoder, std::unique_ptr<Source> source,
             const FileOfVectors& file)
    : settings_(settings),
      dim_(encoder->dim),
      encoder_(std::move(encoder)),
      source_(std::move(source)),
      stack_of_forget_(source_->stack_of_leave()),
      rows_(layout(), file),
      arrangement_(next_arrangement()) {}

Layout Index::layout() const {
    Layout layout = source_->layout(*encoder_, settings_.metric, settings_.hamming);
    layout.dim = keeps_vectors() ? dim_ : 0;
    layout.form = settings_.vectors;
    return layout;
}

Index::Change::Change(Index& index) : change_(index.lock_), index_(index), before_(std::uncaught_exceptions()) {
    index_.expect_vectors();
}

Index::Change::~Change() noexcept(false) {
    const bool fails = std::uncaught_exceptions() > before_;
    try {
        if (index_.in_file() && index_.rows_.file()->failed()) {
            std::unique_lock<FairLock> writing(index_.lock_);
            index_.rows_.file()->write_again();
        }
        index_.rows_.settle();
    } catch (...) {
        if (!fails) throw;  // else the first error is the one to tell, and the next change tries again
    }
}

// --- Rows

void Index::encode_rows(const float* x, const uint32_t* rows, int64_t n, int64_t threads) {
    const Encoder& encoder = *encoder_;
    const int64_t d = encoder.dim;
    if (!rows_.layout().has_codes()) {  // the source makes its own
        parallel_for(n, threads, 4 * ENCODE_GROUP, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                double norm = 0.0;
                active().norms(x + i * d, d, 1, &norm);
                write_row(rows[i], x + i * d, nullptr, norm, 0.0f);
            }
        });
        return;
    }
    encode_each(encoder, x, n, threads, [&](int64_t i, const uint8_t* code, double norm, float factor) {
        write_row(rows[i], x + i * d, code, norm, factor);
    });
}

void Index::write_row(uint32_t row, const float* x, const uint8_t* code, double norm, float factor) {
    rows_.set_norm(row, static_cast<float>(norm));
    if (keeps_vectors()) rows_.set_vector(row, x);
    if (outlines_) outlines_->set(row, x);
    write_code(rows_, row, code, factor);
}

void Index::file_rows(Source& source, const float* x, const uint32_t* rows, int64_t n, int64_t threads,
                      const Progress& progress) const {
    source.add(NewRows(rows_, rows, n, keeps_vectors() ? x : nullptr, *encoder_), threads, progress);
}

// It has left the source.
void Index::remove_row(uint32_t row) {
    const auto last = static_cast<uint32_t>(rows_.size() - 1);
    if (row != last) source_->renumber(rows_, last, row);
    arrangement_ = next_arrangement();
    if (filters_) filters_->remove(row);
    if (outlines_) outlines_->remove(row);
    rows_.remove(row);
    shown_ = std::min(shown_, rows_.size());
}

void Index::put_back(HeldRows& before, const uint32_t* which, int64_t first, int64_t count) {
    before.put_back(rows_, which, first, count);
    for (int64_t i = first; outlines_ && i < first + count; ++i) outlines_->set(which[i], before.vectors(i));
}

// It may not have got its outline or its fields yet.
void Index::drop_last_row() {
    arrangement_ = next_arrangement();
    if (filters_ && filters_->rows() == rows_.size()) filters_->remove(static_cast<uint32_t>(rows_.size() - 1));
    if (outlines_ && outlines_->rows() == rows_.size()) outlines_->remove(static_cast<uint32_t>(rows_.size() - 1));
    rows_.remove(static_cast<uint32_t>(rows_.size() - 1));
}

// --- Changes

template <class Work>
void Index::in_pieces(int64_t n, int64_t threads, bool allowed, const Progress& progress, Work work) {
    const int64_t most = allowed ? std::max(LEAST_PIECE, threads * PIECE_NUMBERS / dim_) : std::max<int64_t>(1, n);
    for (int64_t from = 0; from < n; from += most) {
        const int64_t count = std::min(most, n - from);
        {
            std::unique_lock<FairLock> writing(lock_);
            work(from, count);
        }
        if (progress) progress(count);
        if (from + most < n) lock_.let_readers_in();
    }
}

void Index::install(std::unique_ptr<Source> changed) {
    std::unique_lock<FairLock> writing(lock_);
    source_.swap(changed);
    shown_ = rows_.size();
    writing.unlock();  // the old one is wiped while others search
}

void Index::append_rows(const int64_t* ids, int64_t n, int64_t before, uint32_t* rows) {
    for (int64_t i = 0; i < n; ++i) {
        rows_.ask_for(ids, i, n);
        const uint32_t found = rows_.find(ids[i]);
        if (found != Rows::NONE) throw IdRefused(ids[i], found < before ? IdRefused::present : IdRefused::repeated);
        rows[i] = rows_.append(ids[i]);
    }
    arrangement_ = next_arrangement();
    if (outlines_) outlines_->append(n);
    if (!filters_) return;
    filters::Filters::Change none(*filters_);
    filters_->prepare({}, n, none);
    filters_->append(none);
}

void Index::take_back(int64_t before, int64_t filed) {
    std::unique_lock<FairLock> writing(lock_);
    while (rows_.size() > before) {
        const auto last = static_cast<uint32_t>(rows_.size() - 1);
        if (last < filed) source_->leave(rows_, &last, 1, 1, nullptr);
        drop_last_row();
    }
    shown_ = rows_.size();
}

void Index::add(const float* x, const int64_t* ids, int64_t n, int64_t threads, const Progress& progress) {
    const Change change(*this);
    const int64_t before = rows_.size();
    int64_t filed = before;
    std::vector<uint32_t> rows(static_cast<size_t>(n));
    std::unique_ptr<Source> copy = source_->copy_for(n);
    const Foreseen foreseen(source_);
    if (!copy && keeps_vectors()) source_->foresee_add(rows_, x, ids, n, threads);
    try {
        in_pieces(n, threads, copy || source_->changes_in_pieces(), copy ? nullptr : progress,
                  [&](int64_t from, int64_t count) {
                      const int64_t first = rows_.size();
                      uint32_t* some = rows.data() + from;
                      try {
                          append_rows(ids + from, count, before, some);
                          encode_rows(x + from * dim_, some, count, threads);
                          if (copy) return;
                          file_rows(*source_, x + from * dim_, some, count, threads);
                      } catch (...) {
                          while (rows_.size() > first) drop_last_row();
                          throw;
                      }
                      filed = shown_ = rows_.size();
                  });
        if (!copy) return;
        file_rows(*copy, x, rows.data(), n, threads, on_copy(progress));
        install(std::move(copy));
    } catch (...) {
        take_back(before, filed);
        throw;
    }
}

void Index::update(const float* x, const int64_t* ids, int64_t n, int64_t threads, const Progress& progress) {
    const Change change(*this);
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
    std::unique_ptr<Source> copy = source_->copy_without(rows_, rows.data(), n, threads,
                                                         on_copy(progress ? [&](int64_t) { progress(0); } : progress));
    int64_t filed = 0;  // rows that have left their source and are back in it
    try {
        in_pieces(n, threads, copy || source_->changes_in_pieces(), copy ? nullptr : progress,
                  [&](int64_t from, int64_t count) {
                      const uint32_t* some = rows.data() + from;
                      if (!copy) source_->leave(rows_, some, count, threads, nullptr);
                      try {
                          encode_rows(x + from * dim_, some, count, threads);
                          if (copy) return;
                          file_rows(*source_, x + from * dim_, some, count, threads);
                      } catch (...) {
                          put_back(before, rows.data(), from, count);
                          if (!copy) file_rows(*source_, before.vectors(from), some, count, 1);
                          throw;
                      }
                      filed = from + count;
                  });
        if (!copy) return;
        // Until all are filed, a search finds a record where it was, and tells how far it is now.
        file_rows(*copy, x, rows.data(), n, threads, on_copy(progress));
        install(std::move(copy));
    } catch (...) {
        std::unique_lock<FairLock> writing(lock_);
        if (filed) source_->leave(rows_, rows.data(), filed, 1, nullptr);
        put_back(before, rows.data(), 0, copy ? n : filed);
        if (filed) file_rows(*source_, before.vectors(0), rows.data(), filed, 1);
        throw;
    }
}

int64_t Index::forget(const int64_t* ids, int64_t n, bool ignore_unknown, int64_t threads, const Progress& progress) {
    const Change change(*this);
    // One id is the common case and needs no list.
    if (n == 1) {
        const uint32_t row = rows_.find(ids[0]);
        if (row != Rows::NONE) {
            const Foreseen foreseen(source_);
            source_->foresee_leave(rows_, &row, 1, 1);
            std::unique_lock<FairLock> writing(lock_);
            source_->leave(rows_, &row, 1, 1, nullptr);
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
    const auto count = static_cast<int64_t>(rows.size());
    std::unique_ptr<Source> copy = source_->copy_without(rows_, rows.data(), count, threads, on_copy(progress));
    const bool have_left = copy != nullptr;
    if (have_left) install(std::move(copy));
    const Foreseen foreseen(source_);
    if (!have_left) source_->foresee_leave(rows_, rows.data(), count, threads);
    // From here on nothing stops it: searches may have missed the records already.
    in_pieces(count, 1, have_left || source_->changes_in_pieces(), nullptr, [&](int64_t from, int64_t some) {
        if (!have_left) source_->leave(rows_, rows.data() + from, some, threads, nullptr);
        for (int64_t i = from; i < from + some; ++i) remove_row(rows[static_cast<size_t>(i)]);
    });
    return count;
}

void Index::add_codes(const CodedRecords& records, int64_t threads) {
    const Change change(*this);
    const int64_t before = rows_.size(), n = records.n, bytes = encoder_->code_bytes();
    std::vector<uint32_t> rows(static_cast<size_t>(n));
    std::unique_lock<FairLock> writing(lock_);
    try {
        append_rows(records.ids, n, before, rows.data());
        for (int64_t i = 0; i < n; ++i)
            write_row(rows[static_cast<size_t>(i)], records.x ? records.x + i * dim_ : nullptr,
                      records.codes + i * bytes, static_cast<double>(records.norms[i]), records.factors[i]);
        file_rows(*source_, records.x, rows.data(), n, threads);
    } catch (...) {
        while (rows_.size() > before) drop_last_row();
        throw;
    }
    shown_ = rows_.size();
}

int64_t Index::load(const float* x, const int64_t* ids, int64_t n, int64_t threads) {
    const Change change(*this);
    std::unique_lock<FairLock> writing(lock_);
    std::vector<uint32_t> rows(static_cast<size_t>(n));
    int64_t known = 0;
    const int64_t before = rows_.size();
    for (int64_t i = 0; i < n; ++i) {
        rows_.ask_for(ids, i, n);
        const uint32_t found = rows_.find(ids[i]);
        if (found != Rows::NONE && found >= before) throw IdRefused(ids[i], IdRefused::repeated);
        known += found != Rows::NONE;
        rows[static_cast<size_t>(i)] = found == Rows::NONE ? rows_.append(ids[i]) : found;
    }
    arrangement_ = next_arrangement();
    encode_rows(x, rows.data(), n, threads);
    return known;
}

bool Index::file_loaded(const Image& image, int64_t threads, const Progress& progress) {
    const Change change(*this);
    std::unique_lock<FairLock> writing(lock_);
    std::vector<uint32_t> rest;
    const bool restored = image.data && restore(image, threads, on_copy(progress), rest);
    if (!restored) {
        rest.resize(static_cast<size_t>(rows_.size()));
        std::iota(rest.begin(), rest.end(), 0);
    }
    if (!rest.empty())
        file_rows(*source_, nullptr, rest.data(), static_cast<int64_t>(rest.size()), threads, on_copy(progress));
    shown_ = rows_.size();
    return restored;
}

// Whether the image is one of these rows, which are filed then; `rest` are the others.
bool Index::restore(const Image& image, int64_t threads, const Progress& progress, std::vector<uint32_t>& rest) {
    uint64_t named = 0;
    if (!keeps_vectors() || image.bytes < sizeof named) return false;
    std::vector<bool> has(static_cast<size_t>(rows_.size()));
    for (int64_t i = 0; i < image.n; ++i) {
        if (image.rows[i] >= rows_.size() || has[image.rows[i]]) return false;
        has[image.rows[i]] = true;
    }
    std::memcpy(&named, image.data, sizeof named);
    if (fingerprint(rows_, image.rows, image.n, threads) != named) return false;
    const NewRows added(rows_, image.rows, image.n, nullptr, *encoder_);
    if (!source_->restore(added, image.data + sizeof named, image.bytes - sizeof named, threads, progress))
        return false;
    for (uint32_t row = 0; row < rows_.size(); ++row)
        if (!has[row]) rest.push_back(row);
    return true;
}

std::vector<uint8_t> Index::image(const int64_t* ids, int64_t n, int64_t threads) const {
    std::shared_lock<FairLock> reading(lock_);
    expect_vectors();
    if (!keeps_vectors() || n != shown_) return {};
    std::vector<uint32_t> rows(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
        rows_.ask_for(ids, i, n);
        rows[static_cast<size_t>(i)] = find(ids[i]);
        if (rows[static_cast<size_t>(i)] == Rows::NONE) throw IdRefused(ids[i], IdRefused::absent);
    }
    std::vector<uint8_t> made = source_->image(rows_, rows.data(), n);
    if (made.empty()) return made;
    const uint64_t named = fingerprint(rows_, rows.data(), n, threads);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&named);
    made.insert(made.begin(), bytes, bytes + sizeof named);
    return made;
}

void Index::reencode(std::shared_ptr<const Encoder> encoder, int64_t threads, const Progress& progress) {
    const FairLock::Change change(lock_);
    expect_vectors();
    const int64_t bytes = rows_.layout().has_codes() ? encoder->code_bytes() : 0, n = bytes ? rows_.size() : 0;
    WipedVector<uint8_t> codes(static_cast<size_t>(n * bytes));
    WipedVector<float> factors(static_cast<size_t>(n));
    Wiped<float> room(rows_.room(bytes ? rows_.chunk_rows() : 0));
    for (int64_t c = 0; bytes && c < rows_.chunks(); ++c) {
        const int64_t first = c * rows_.chunk_rows();
        const float* x = rows_.vectors(static_cast<uint32_t>(first), rows_.used(c), room.at(0));
        encode_each(*encoder, x, rows_.used(c), threads, [&](int64_t i, const uint8_t* code, double, float factor) {
            std::memcpy(codes.data() + (first + i) * bytes, code, static_cast<size_t>(bytes));
            factors[static_cast<size_t>(first + i)] = factor;
        });
        if (progress) progress(rows_.used(c));
    }
    // Nothing can fail from here on, and nobody sees codes of two gains.
    std::unique_lock<FairLock> writing(lock_);
    encoder_.swap(encoder);
    for (int64_t row = 0; row < n; ++row)
        write_code(rows_, static_cast<uint32_t>(row), codes.data() + row * bytes, factors[static_cast<size_t>(row)]);
}

// --- Searches

Allowed Index::allowed_rows(const AllowedIds& allowed) const {
    if (allowed.rows) {
        expect_unmoved(*allowed.rows);
        return Allowed(rows_, shown_, allowed.rows->bits);
    }
    return allowed.ids ? Allowed(rows_, shown_, allowed.ids, allowed.n) : Allowed(rows_, shown_);
}

SearchWork Index::search(const SearchRequest& request, const Answers& answers) const {
    std::shared_lock<FairLock> reading(lock_);
    expect_vectors();
    const Allowed allowed = allowed_rows(request.allowed);
    const Search::Of searched = {rows_, *source_, *encoder_, settings_.metric, outlines_.get()};
    std::mutex adding;
    SearchWork total;
    // Queries take their turns in pieces: a core that others use as well does fewer of them.
    const int64_t threads = std::max<int64_t>(1, std::min(request.threads, request.n));
    const int64_t even = (request.n + threads - 1) / threads, pieces_each = threads > 1 ? 8 : 1;
    const int64_t together = Search::together(searched, allowed, request.k, request.effort);
    const int64_t piece = std::min(even, std::max(together, (even + pieces_each - 1) / pieces_each));
    std::atomic<int64_t> next{0};
    parallel_for(threads, threads, 1, [&](int64_t, int64_t) {
        Search search(searched, allowed);
        for (int64_t begin; (begin = next.fetch_add(piece)) < request.n;)
            search.nearest(request.queries + begin * dim_, std::min(piece, request.n - begin), request.k,
                           request.effort, answers.ids + begin * request.k, answers.distances + begin * request.k);
        std::lock_guard<std::mutex> turn(adding);
        total += search.work();
    });
    return total;
}

SearchWork Index::search_radius(const float* query, float radius, const AllowedIds& allowed, HitList& hits) const {
    std::shared_lock<FairLock> reading(lock_);
    expect_vectors();
    const Allowed rows = allowed_rows(allowed);
    Search search({rows_, *source_, *encoder_, settings_.metric, outlines_.get()}, rows);
    search.within(query, radius, hits);
    return search.work();
}

// --- Filters

void Index::keep_fields(std::optional<std::vector<std::string>> only) {
    const FairLock::Change change(lock_);
    const bool nothing = only && only->empty();
    auto fields = std::make_unique<filters::Filters>(std::move(only));
    filters::Filters::Change none(*fields);
    fields->prepare({}, rows_.size(), none);
    fields->append(none);
    // Where there are filters, many rows will be compared with a query one by one.
    std::unique_ptr<Outlines> outlines;
    if (!nothing && settings_.vectors == VectorForm::float32 && dim_ >= Outlines::LEAST_DIM && !in_file()) {
        outlines = std::make_unique<Outlines>(dim_);
        outlines->append(rows_.size());
        for (int64_t row = 0; row < rows_.size(); ++row)
            outlines->set(static_cast<uint32_t>(row), rows_.vector(static_cast<uint32_t>(row), nullptr));
    }
    std::unique_lock<FairLock> writing(lock_);
    filters_.swap(fields);
    outlines_.swap(outlines);
}

void Index::set_fields(const int64_t* ids, int64_t n, const filters::Texts& texts) {
    const FairLock::Change change(lock_);
    if (!filters_) throw std::logic_error("no fields are kept");
    std::vector<uint32_t> rows;
    std::vector<std::string_view> payloads, subjects;
    for (int64_t i = 0; i < n; ++i) {
        rows_.ask_for(ids, i, n);
        const uint32_t row = rows_.find(ids[i]);
        if (row == Rows::NONE) continue;
        rows.push_back(row);
        payloads.push_back(texts.payloads ? texts.payloads[i] : std::string_view());
        subjects.push_back(texts.subjects ? texts.subjects[i] : std::string_view());
    }
    std::unique_lock<FairLock> writing(lock_);
    filters::Filters::Change values(*filters_);
    filters_->prepare({payloads.data(), subjects.data()}, static_cast<int64_t>(rows.size()), values,
                      filters::Filters::As::replacements);
    filters_->replace(values, rows.data());
}

SelectedRows Index::select(const filters::Condition& condition, int64_t unsure_from,
                           std::vector<int64_t>& unsure) const {
    std::shared_lock<FairLock> reading(lock_);
    if (!filters_) throw std::logic_error("no fields are kept");
    filters::Answer answer;
    filters_->evaluate(condition, [&](int64_t id) { return find(id); }, unsure_from, answer);
    // Only of what can be seen.
    const auto hide = [&](std::vector<uint64_t>& bits) {
        const auto seen = static_cast<size_t>(shown_);
        for (size_t w = seen / 64; w < bits.size(); ++w)
            bits[w] &= w == seen / 64 ? (uint64_t{1} << (seen % 64)) - 1 : 0;
    };
    hide(answer.yes);
    SelectedRows rows = {std::move(answer.yes), arrangement_};
    if (!answer.any_unsure) return rows;
    hide(answer.unsure);
    SelectedRows{std::move(answer.unsure), arrangement_}.each([&](uint32_t row) { unsure.push_back(rows_.id(row)); });
    return rows;
}

void Index::expect_unmoved(const SelectedRows& rows) const {
    if (rows.arrangement != arrangement_) throw RowsMoved();
}

void Index::include(SelectedRows& rows, const int64_t* ids, int64_t n) const {
    std::shared_lock<FairLock> reading(lock_);
    expect_unmoved(rows);
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t row = find(ids[i]);
        if (row != Rows::NONE) rows.set(row);
    }
}

std::vector<int64_t> Index::ids_of(const SelectedRows& rows) const {
    std::shared_lock<FairLock> reading(lock_);
    expect_unmoved(rows);
    std::vector<int64_t> ids;
    ids.reserve(static_cast<size_t>(rows.count()));
    rows.each([&](uint32_t row) { ids.push_back(rows_.id(row)); });
    return ids;
}

void Index::are_selected(const SelectedRows& rows, const int64_t* ids, int64_t n, bool* out) const {
    std::shared_lock<FairLock> reading(lock_);
    expect_unmoved(rows);
    for (int64_t i = 0; i < n; ++i) {
        rows_.ask_for(ids, i, n);
        const uint32_t row = find(ids[i]);
        out[i] = row != Rows::NONE && rows.has(row);
    }
}

// --- Records given back

uint32_t Index::find(int64_t id) const {
    const uint32_t row = rows_.find(id);
    return row < shown_ ? row : Rows::NONE;
}

int64_t Index::size() const {
    std::shared_lock<FairLock> reading(lock_);
    return shown_;
}

void Index::contains(const int64_t* ids, int64_t n, bool* out) const {
    std::shared_lock<FairLock> reading(lock_);
    for (int64_t i = 0; i < n; ++i) out[i] = find(ids[i]) != Rows::NONE;
}

std::vector<int64_t> Index::ids() const {
    std::shared_lock<FairLock> reading(lock_);
    std::vector<int64_t> all(static_cast<size_t>(shown_));
    for (int64_t c = 0, at = 0; at < shown_; ++c) {
        const int64_t used = std::min(rows_.used(c), shown_ - at);
        std::copy_n(rows_.chunk(c).ids, used, all.begin() + at);
        at += used;
    }
    std::sort(all.begin(), all.end());
    return all;
}

void Index::get(const int64_t* ids, int64_t n, float* out) const {
    std::shared_lock<FairLock> reading(lock_);
    expect_vectors();
    const int64_t d = rows_.layout().dim;
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t row = find(ids[i]);
        if (row == Rows::NONE) throw IdRefused(ids[i], IdRefused::absent);
        unpack(rows_.layout().form, rows_.packed(row), d, out + i * d);
    }
}

void Index::export_codes(const int64_t* ids, int64_t n, uint8_t* codes, float* norms, float* factors) const {
    std::shared_lock<FairLock> reading(lock_);
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t row = find(ids[i]);
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
    expect_vectors();
    std::mutex adding;
    const int64_t code_bytes = encoder_->code_bytes(), d = rows_.layout().dim;
    parallel_for(shown_, threads, 256, [&](int64_t begin, int64_t end) {
        digest::Sums sums;
        // A record: a tag, its id, then its vector; or, where vectors are not kept, all that is: norm, factor and code.
        const int64_t size = 9 + (d ? 4 * d : 8 + code_bytes);
        Wiped<uint8_t> record(size);
        Wiped<float> room(d);
        uint8_t* at = record.at(0);
        for (int64_t r = begin; r < end; ++r) {
            const auto row = static_cast<uint32_t>(r);
            const int64_t id = rows_.id(row);
            at[0] = d ? digest::VECTOR_TAG : digest::CODE_TAG;
            std::memcpy(at + 1, &id, 8);
            if (d) {
                unpack(rows_.layout().form, rows_.packed(row), d, room.at(0));
                std::memcpy(at + 9, room.at(0), static_cast<size_t>(4 * d));
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
    return shown_;
}

Index::Bytes Index::bytes() const {
    std::shared_lock<FairLock> reading(lock_);
    return {rows_.bytes_of_vectors(), rows_.bytes_of_codes(), rows_.bytes_of_map(), rows_.bytes_allocated()};
}

// --- The file of vectors

void Index::expect_vectors() const {
    if (!in_file()) return;
    if (lock_.inherited())
        throw Inherited(
            "expected a call in the process that made the index, whose vectors lie in a file, got one in a process "
            "that was forked from it");
    rows_.file()->expect_there();
}

std::vector<std::pair<int64_t, int64_t>> Index::parts_of_file(bool rewritten) {
    const FairLock::Change change(lock_);
    return in_file() ? rows_.file()->parts(rewritten) : std::vector<std::pair<int64_t, int64_t>>();
}

std::optional<int64_t> Index::id_at(int64_t in_file_at) const {
    std::shared_lock<FairLock> reading(lock_);
    if (!in_file() || in_file_at < FILE_HEAD) return std::nullopt;
    const auto [piece, at] = rows_.file()->piece_at(in_file_at);
    const int64_t row = piece * rows_.chunk_rows() + at / rows_.layout().vector_bytes();
    if (row >= shown_) return std::nullopt;
    return rows_.id(static_cast<uint32_t>(row));
}

void Index::overwrite_file() {
    const FairLock::Change change(lock_);
    std::unique_lock<FairLock> writing(lock_);
    if (in_file()) rows_.file()->overwrite();
}

void Index::let_go_of_file() {
    if (in_file()) rows_.file()->let_go();
}

void Index::inspect(const std::function<void(const Rows&, const Source&)>& look) const {
    std::shared_lock<FairLock> reading(lock_);
    look(rows_, *source_);
}

std::vector<uint8_t> Index::raw_memory() const {
    const FairLock::Change nobody(lock_);  // is at what is found out before a change, without the lock
    std::shared_lock<FairLock> reading(lock_);
    expect_vectors();
    std::vector<uint8_t> all = rows_.raw_memory();
    source_->raw_memory(all);
    if (filters_) filters_->raw_memory(all);
    if (outlines_) outlines_->raw_memory(all);
    return all;
}

}  // namespace lethevec
