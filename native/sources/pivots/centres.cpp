#include "sources/pivots/centres.h"

#include <algorithm>
#include <limits>

#include "kernels/dispatch.h"
#include "memory/wiped.h"

namespace lethevec {

namespace {

// Rows that meet the same centres while these are in the second cache.
constexpr int64_t ROWS_TOGETHER = 48, PANELS_TOGETHER = 48;
constexpr float INFINITE = std::numeric_limits<float>::infinity();

}  // namespace

uint32_t Centres::find(int64_t id) const {
    for (int64_t c = 0; c < size(); ++c)
        if (ids_[c] == id) return static_cast<uint32_t>(c);
    return NONE;
}

void Centres::append(int64_t id, const float* row) {
    const int64_t c = size();
    rows_.reserve(c + 1);
    squares_.reserve(c + 1);
    ids_.resize(c + 1);
    rows_.resize(c + 1);
    squares_.resize(c + 1);
    ids_[c] = id;
    replace(c, row);
}

void Centres::replace(int64_t c, const float* row) {
    std::copy(row, row + d_, rows_.at(c));
    rounded_.outdate();
    squares_[c] = active().dot(row, row, d_);
}

void Centres::remove(int64_t c) {
    rounded_.outdate();
    ids_.remove(c);
    rows_.remove(c);
    squares_.remove(c);
}

void Centres::nearest(const float* z, int64_t n, const CentreNumbers& without, uint32_t* centres,
                      float* distances) const {
    const Kernels& kernels = active();
    const int64_t most = std::min(n, ROWS_TOGETHER), width = PANELS_TOGETHER * MEANS;
    RoundedCentres::Rows rounded(rounded_, most);
    Wiped<float> bounds(most * width);
    // Centres to pass over are as far as can be, like what lies past the last one.
    WipedVector<float> squares;
    const float* sizes = rounded_.squares();
    if (!without.empty()) {
        squares.assign(rounded_.squares(), rounded_.squares() + rounded_.panels() * MEANS);
        for (uint32_t c : without) squares[c] = INFINITE;
        sizes = squares.data();
    }
    for (int64_t from = 0; from < n; from += ROWS_TOGETHER) {
        const int64_t some = std::min(ROWS_TOGETHER, n - from);
        rounded.take(z + from * d_, some);
        for (int64_t i = from; i < from + some; ++i) {
            centres[i] = NONE;
            distances[i] = INFINITE;
        }
        for (int64_t panel = 0; panel < rounded_.panels(); panel += PANELS_TOGETHER) {
            const int64_t panels = std::min(PANELS_TOGETHER, rounded_.panels() - panel), there = panels * MEANS;
            rounded.compare(panel, panels, sizes, bounds.at(0));
            for (int64_t i = 0; i < some; ++i) {
                const float *row = z + (from + i) * d_, *bound = bounds.at(i * there);
                uint32_t& found = centres[from + i];
                float& distance = distances[from + i];
                const auto look = [&](int64_t c) {
                    const int64_t other = panel * MEANS + c;
                    if (sizes[other] < INFINITE) compare(row, static_cast<uint32_t>(other), found, distance);
                };
                // The likeliest first, so that few others are left.
                const float low = kernels.least(bound, there), base = rounded.base(i);
                if (low + base > distance || !(base < INFINITE)) continue;
                const int64_t likely = kernels.first_within(bound, 0, there, low);
                if (likely < there) look(likely);
                const auto limit = [&] { return distance - base; };
                for (int64_t c = kernels.first_within(bound, 0, there, limit()); c < there;
                     c = kernels.first_within(bound, c + 1, there, limit()))
                    if (c != likely) look(c);
            }
        }
        // Where squares are too large for a float, bounds say nothing.
        for (int64_t i = from; i < from + some; ++i) {
            if (distances[i] < INFINITE) continue;
            for (uint32_t c = 0; c < size(); ++c)
                if (std::find(without.begin(), without.end(), c) == without.end())
                    compare(z + i * d_, c, centres[i], distances[i]);
        }
    }
}

void Centres::compare(const float* z, uint32_t c, uint32_t& found, float& distance) const {
    const float exact = active().squared_distance(z, rows_.at(c), d_);
    if (found != NONE && (exact > distance || (exact == distance && ids_[c] >= ids_[found]))) return;
    found = c;
    distance = exact;
}

bool Centres::nearer(const float* z, const uint32_t* of, int64_t n, uint32_t& own, float& distance) const {
    bool changed = false;
    for (int64_t i = 0; i < n; ++i) {
        const float other = active().squared_distance(z, rows_.at(of[i]), d_);
        if (other > distance || (other == distance && ids_[of[i]] >= ids_[own])) continue;
        own = of[i];
        distance = other;
        changed = true;
    }
    return changed;
}

int64_t Centres::bytes() const { return rounded_.bytes() + rows_.bytes() + ids_.bytes() + squares_.bytes(); }

void Centres::raw_memory(std::vector<uint8_t>& all) const {
    rounded_.raw_memory(all);
    rows_.raw_memory(all);
    ids_.raw_memory(all);
    squares_.raw_memory(all);
}

}  // namespace lethevec
