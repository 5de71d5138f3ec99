// Refined centres of the source "pivots": the centre of a cell is the mean of its pivot and of a keyed sample of the
// records that are nearest to it. Mirrors `refined_centres` of the spec.
//
// Who is in a sample is a matter of pivots alone, never of where the means have come to lie, so one step is all there
// is.
#include <algorithm>
#include <cstring>

#include "kernels/dispatch.h"
#include "memory/wiped.h"
#include "sources/pivots/pivots.h"

namespace lethevec {

namespace {

constexpr uint64_t SAMPLE_TAG = 0x73616D706C650000ull;  // so that samples and pivots have nothing to do with each other
constexpr uint64_t SHARE = uint64_t{1} << 60;           // a sixteenth
constexpr size_t ROWS_TOGETHER = 96;

}  // namespace

bool Pivots::sampled(int64_t id) const {
    return siphash({settings_.key.k0 ^ SAMPLE_TAG, settings_.key.k1}, static_cast<uint64_t>(id)) < SHARE &&
           !is_pivot(id);
}

void Pivots::exchange_home(const Rows& rows, uint32_t row, Home from, Home to) {
    float* z = scratch_.data();  // this must not fail
    geometry(rows.vector(row, z), 1, z);
    if (from.pivot) {
        samples_->sums.subtract(from.pivot - 1, z);
        --samples_->counts[from.pivot - 1];
    }
    if (to.pivot) {
        samples_->sums.add(to.pivot - 1, z);
        ++samples_->counts[to.pivot - 1];
    }
    home(row) = to;
}

void Pivots::rehome(const Rows& rows, uint32_t row, Home after, WipedVector<Rehoming>& journal) {
    const Home before = home(row);
    journal.push_back({row, before, after});
    exchange_home(rows, row, before, after);
}

void Pivots::home_anywhere(const Rows& rows, const std::vector<uint32_t>& homeless, const CentreNumbers& without,
                           const Progress& progress, WipedVector<Rehoming>& journal) {
    const size_t most = std::min(homeless.size(), ROWS_TOGETHER);
    Wiped<float> z(static_cast<int64_t>(most) * d_), distances(static_cast<int64_t>(most));
    Wiped<uint32_t> pivots(static_cast<int64_t>(most));
    for (size_t at = 0; at < homeless.size(); at += most) {
        const auto some = static_cast<int64_t>(std::min(most, homeless.size() - at));
        const uint32_t* these = homeless.data() + at;
        for (int64_t i = 0; i < some; ++i) geometry(rows.vector(these[i], z.at(i * d_)), 1, z.at(i * d_));
        samples_->pivots.nearest(z.at(0), some, without, pivots.at(0), distances.at(0));
        for (int64_t i = 0; i < some; ++i) rehome(rows, these[i], {*pivots.at(i) + 1, *distances.at(i)}, journal);
        if (progress) progress(0);
    }
}

void Pivots::find_homes(const Rows& rows, const uint32_t* which, int64_t n, const RowSet& leaving,
                        const CentreNumbers& fresh, const Progress& progress, Change& change) {
    WipedVector<Rehoming>& journal = change.homes;
    std::vector<uint32_t> homeless;
    Wiped<float> z(d_);
    int64_t looked = 0;
    // Those that were here before: all of them, where there was no pivot at all, else those that a new one is nearer
    // to.
    for (uint32_t row = 0; !fresh.empty() && row < rows.size(); ++row) {
        if (!filed(row)) continue;
        if (change.ends_void) {
            if (sampled(rows.id(row)) && !leaving.has(row)) homeless.push_back(row);
        } else if (home(row).pivot) {
            uint32_t pivot = home(row).pivot - 1;
            float distance = home(row).distance;
            geometry(rows.vector(row, z.at(0)), 1, z.at(0));
            if (samples_->pivots.nearer(z.at(0), fresh.data(), static_cast<int64_t>(fresh.size()), pivot, distance))
                rehome(rows, row, {pivot + 1, distance}, journal);
            if (progress && ++looked % static_cast<int64_t>(ROWS_TOGETHER) == 0) progress(0);
        }
    }
    for (int64_t i = 0; i < n; ++i)
        if (sampled(rows.id(which[i]))) homeless.push_back(which[i]);
    home_anywhere(rows, homeless, change.gone, progress, journal);
}

void Pivots::lose_homes(const Rows& rows, const uint32_t* which, int64_t n, const RowSet& leaving,
                        const Progress& progress, Change& change) {
    WipedVector<Rehoming>& journal = change.homes;
    const auto leave_home = [&](uint32_t row) {
        if (filed(row) && home(row).pivot) rehome(rows, row, Home{}, journal);
    };
    for (int64_t i = 0; i < n; ++i) leave_home(which[i]);
    for (uint32_t row : change.promoted) leave_home(row);
    if (change.gone.empty()) return;
    std::vector<uint8_t> lost(static_cast<size_t>(centres_.size()), 0);
    for (uint32_t c : change.gone) lost[c] = 1;
    std::vector<uint32_t> homeless;
    for (uint32_t row = 0; row < rows.size(); ++row)
        if (filed(row) && home(row).pivot && lost[home(row).pivot - 1] && !leaving.has(row)) homeless.push_back(row);
    for (uint32_t row : change.demoted)
        if (sampled(rows.id(row))) homeless.push_back(row);
    home_anywhere(rows, homeless, change.gone, progress, journal);
}

void Pivots::recentre(const CentreNumbers& fresh, Change& change) {
    std::vector<uint8_t> touched(static_cast<size_t>(centres_.size()), 0);
    for (const Rehoming& one : change.homes) {
        if (one.before.pivot) touched[one.before.pivot - 1] = 1;
        if (one.after.pivot) touched[one.after.pivot - 1] = 1;
    }
    for (uint32_t c : change.gone) touched[c] = 0;
    for (uint32_t c : fresh) touched[c] = 0;
    CentreNumbers& changed = change.changed;
    WipedVector<float>& old = change.old;
    Wiped<float> mean(d_);
    changed.clear();
    const auto wide = static_cast<size_t>(d_);
    size_t count = 0;
    for (uint8_t one : touched) count += one;
    changed.reserve(count + fresh.size());
    old.reserve(count * wide);
    for (uint32_t c = 0; c < touched.size(); ++c) {
        if (!touched[c]) continue;
        samples_->sums.mean(c, samples_->counts[c], mean.at(0));
        if (std::memcmp(mean.at(0), centres_.row(c), wide * sizeof(float)) == 0) continue;
        old.append(centres_.row(c), centres_.row(c) + d_);
        changed.push_back(c);
        centres_.replace(c, mean.at(0));
    }
    for (uint32_t c : fresh) {
        samples_->sums.mean(c, samples_->counts[c], mean.at(0));
        centres_.replace(c, mean.at(0));
        changed.push_back(c);
    }
}

}  // namespace lethevec
