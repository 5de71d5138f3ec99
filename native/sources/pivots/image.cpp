// The source "pivots": its image. Everything but whose cell a record is in follows quickly from the records.
//
// How many pivots there are, in four bytes; then for each row, in two bytes or four, the number of the pivot whose cell
// it is in, counted among the rows. All numbers begin with their lowest byte.
#include <algorithm>
#include <cstring>

#include "kernels/dispatch.h"
#include "sources/pivots/pivots.h"

namespace lethevec {

namespace {

constexpr size_t HEAD = 4;

size_t width_for(size_t pivots) { return pivots <= 1 << 16 ? 2 : 4; }

}  // namespace

std::vector<uint8_t> Pivots::image(const Rows& rows, const uint32_t* which, int64_t n) const {
    if (samples_ || void_) return {};
    std::vector<std::pair<int64_t, uint32_t>> centres;
    for (int64_t c = 0; c < centres_.size(); ++c) centres.emplace_back(centres_.id(c), static_cast<uint32_t>(c));
    std::sort(centres.begin(), centres.end());
    std::vector<uint32_t> numbers(centres.size());  // among the rows, of each centre
    uint32_t pivots = 0;
    for (int64_t i = 0; i < n; ++i) {
        if (!is_pivot(rows.id(which[i]))) continue;
        const std::pair<int64_t, uint32_t> wanted(rows.id(which[i]), 0);
        numbers[std::lower_bound(centres.begin(), centres.end(), wanted)->second] = pivots++;
    }
    const size_t width = width_for(pivots);
    std::vector<uint8_t> made(HEAD + static_cast<size_t>(n) * width);
    std::memcpy(made.data(), &pivots, HEAD);
    for (int64_t i = 0; i < n; ++i)
        std::memcpy(made.data() + HEAD + static_cast<size_t>(i) * width, &numbers[link(which[i]).cell - 1], width);
    return made;
}

bool Pivots::restore(const NewRows& added, const uint8_t* image, size_t bytes, int64_t threads,
                     const Progress& progress) {
    const Rows& rows = added.rows;
    const int64_t n = added.n;
    if (samples_ || filed_ > 0 || bytes < HEAD) return false;
    uint32_t pivots = 0;
    std::memcpy(&pivots, image, HEAD);
    const size_t width = width_for(pivots);
    if (pivots == 0 || bytes != HEAD + static_cast<size_t>(n) * width) return false;
    const auto number = [&](int64_t i) {
        uint32_t value = 0;
        std::memcpy(&value, image + HEAD + static_cast<size_t>(i) * width, width);
        return value;
    };
    const uint64_t limit = settings_.limit(n);
    WipedVector<HashedId> records = hashed(rows, added.which, n), ordered;
    std::vector<uint32_t> chosen;
    for (int64_t i = 0; i < n; ++i) {
        if (number(i) >= pivots) return false;
        if (records[static_cast<size_t>(i)].hash < limit) chosen.push_back(added.which[i]);
    }
    if (chosen.size() != pivots) return false;
    if (follows()) order_.prepare(records, ordered);
    limit_ = limit;

    Wiped<float> z(d_);
    for (uint32_t row : chosen) {
        geometry(rows.vector(row, z.at(0)), 1, z.at(0));
        double norm = 0.0;
        active().norms(z.at(0), d_, 1, &norm);
        append_centre(rows.id(row), z.at(0), norm);
    }
    // The void is the first cell, and the last one takes its number.
    CentreNumbers numbers;
    settle();
    remove_centres({0}, numbers);
    settle();
    void_ = false;
    if (follows()) order_.insert(ordered);
    if (follows()) order_.shorten(limit_);
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t row = added.which[i], c = number(i) + 1 == pivots ? 0 : number(i) + 1;
        take_piece(row);
        link(row) = {c + 1, cells_.add(c, row), 0.0f};
        stale_[c] |= CHANGED | SAMPLE;
    }
    if (progress) progress(0);
    fill_cells(rows, threads, progress);
    refresh();
    return true;
}

}  // namespace lethevec
