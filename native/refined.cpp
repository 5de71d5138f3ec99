// Refined centres of the source "pivots": the centre of a cell is the mean of its pivot and of a keyed sample of the records
// that are nearest to it. Mirrors `refined_centres` of the spec.
//
// Who is in a sample is a matter of pivots alone, never of where the means have come to lie, so one step is all there is.
#include <algorithm>
#include <cstring>

#include "dispatch.h"
#include "pivots.h"
#include "wiped.h"

namespace lethevec {

namespace {

constexpr uint64_t OTHER_KEY = 0x73616D706C650000ull;  // so that samples and pivots have nothing to do with each other
constexpr uint64_t SHARE = uint64_t{1} << 60;          // a sixteenth

}  // namespace

bool Pivots::sampled(int64_t id) const {
    return siphash({settings_.key.k0 ^ OTHER_KEY, settings_.key.k1}, static_cast<uint64_t>(id)) < SHARE && !is_pivot(id);
}

void Pivots::rehome(const Rows& rows, const Rehoming& change, bool back) {
    const Home from = back ? change.after : change.before, to = back ? change.before : change.after;
    float* z = scratch_.data();  // this must not fail either
    geometry(rows.vector(change.row), 1, z);
    if (from.pivot) {
        samples_->sums.subtract(from.pivot - 1, z);
        --samples_->counts[from.pivot - 1];
    }
    if (to.pivot) {
        samples_->sums.add(to.pivot - 1, z);
        ++samples_->counts[to.pivot - 1];
    }
    home(change.row) = to;
}

void Pivots::find_homes(const Rows& rows, const uint32_t* which, int64_t n, const std::vector<uint32_t>& fresh,
                        bool ends_void, std::vector<Rehoming>& journal) {
    const uint32_t without = ends_void ? 0 : NONE;
    Wiped<float> z(d_);
    auto settle = [&](uint32_t row, Home after) {
        journal.push_back({row, home(row), after});
        rehome(rows, journal.back(), false);
    };
    auto anywhere = [&](uint32_t row) {
        uint32_t pivot = 0;
        float distance = 0.0f;
        geometry(rows.vector(row), 1, z.at(0));
        samples_->pivots.nearest(z.at(0), 1, without, &pivot, &distance);
        settle(row, {pivot + 1, distance});
    };
    // Those that were here before: all of them, where there was no pivot at all, else those that a new one is nearer to.
    for (uint32_t row = 0; !fresh.empty() && row < rows.size(); ++row) {
        if (!filed(row)) continue;
        if (ends_void) {
            if (sampled(rows.id(row))) anywhere(row);
        } else if (home(row).pivot) {
            uint32_t pivot = home(row).pivot - 1;
            float distance = home(row).distance;
            geometry(rows.vector(row), 1, z.at(0));
            if (samples_->pivots.nearer(z.at(0), fresh.data(), static_cast<int64_t>(fresh.size()), pivot, distance))
                settle(row, {pivot + 1, distance});
        }
    }
    for (int64_t i = 0; i < n; ++i)
        if (sampled(rows.id(which[i]))) anywhere(which[i]);
}

void Pivots::lose_homes(const Rows& rows, uint32_t gone, uint32_t row, std::vector<Rehoming>& journal) {
    if (gone == NONE) {
        journal.push_back({row, home(row), Home{}});
        rehome(rows, journal.back(), false);
        return;
    }
    Wiped<float> z(d_);
    for (uint32_t other = 0; other < rows.size(); ++other) {
        if (!filed(other) || home(other).pivot != gone + 1) continue;
        Home after{};
        uint32_t pivot = 0;
        geometry(rows.vector(other), 1, z.at(0));
        samples_->pivots.nearest(z.at(0), 1, gone, &pivot, &after.distance);
        after.pivot = pivot + 1;
        journal.push_back({other, home(other), after});
        rehome(rows, journal.back(), false);
    }
}

void Pivots::recentre(const std::vector<Rehoming>& journal, const std::vector<uint32_t>& fresh, uint32_t without,
                      std::vector<uint32_t>& changed, std::vector<float>& old) {
    std::vector<uint8_t> touched(static_cast<size_t>(centres_.size()), 0);
    for (const Rehoming& change : journal) {
        if (change.before.pivot) touched[change.before.pivot - 1] = 1;
        if (change.after.pivot) touched[change.after.pivot - 1] = 1;
    }
    if (without != NONE) touched[without] = 0;
    for (uint32_t c : fresh) touched[c] = 0;
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
        old.insert(old.end(), centres_.row(c), centres_.row(c) + d_);
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
