#include "sources/pivots/centres.h"

#include <algorithm>
#include <limits>

#include "kernels/dispatch.h"
#include "memory/wiped.h"

namespace lethevec {

namespace {

constexpr int64_t ROWS_TOGETHER = 96;

int64_t panels_for(int64_t n) { return (n + PANEL - 1) / PANEL; }

}  // namespace

uint32_t Centres::find(int64_t id) const {
    for (int64_t c = 0; c < size(); ++c)
        if (ids_[c] == id) return static_cast<uint32_t>(c);
    return NONE;
}

void Centres::append(int64_t id, const float* row) {
    const int64_t c = size();
    panels_.reserve(panels_for(c + 1));
    rows_.reserve(c + 1);
    squares_.reserve(c + 1);
    ids_.resize(c + 1);
    panels_.resize(panels_for(c + 1));
    rows_.resize(c + 1);
    squares_.resize(c + 1);
    ids_[c] = id;
    replace(c, row);
}

void Centres::replace(int64_t c, const float* row) {
    std::copy(row, row + d_, rows_.at(c));
    float* panel = panels_.at(c / PANEL);
    for (int64_t j = 0; j < d_; ++j) panel[j * PANEL + c % PANEL] = row[j];
    squares_[c] = active().dot(row, row, d_);
}

void Centres::remove(int64_t c) {
    const int64_t last = size() - 1;
    float *to = panels_.at(c / PANEL), *from = panels_.at(last / PANEL);
    for (int64_t j = 0; j < d_; ++j) {
        to[j * PANEL + c % PANEL] = from[j * PANEL + last % PANEL];
        from[j * PANEL + last % PANEL] = 0.0f;
    }
    ids_.remove(c);
    rows_.remove(c);
    squares_.remove(c);
    panels_.resize(panels_for(last));
}

void Centres::nearest(const float* z, int64_t n, const CentreNumbers& without, uint32_t* centres,
                      float* distances) const {
    const Kernels& kernels = active();
    const int64_t count = size(), panels = panels_for(count), width = panels * PANEL;
    const float share = error(d_);
    Wiped<float> products(std::min(n, ROWS_TOGETHER) * width);
    for (int64_t from = 0; from < n; from += ROWS_TOGETHER) {
        const int64_t some = std::min(ROWS_TOGETHER, n - from);
        kernels.products(panels_.at(0), panels, d_, z + from * d_, some, products.at(0));
        for (int64_t i = 0; i < some; ++i) {
            const float* row = z + (from + i) * d_;
            float* product = products.at(i * width);
            const float slack = share * kernels.dot(row, row, d_) + TINY;
            // Everything less |z|^2, which is the same for all.
            float best = std::numeric_limits<float>::infinity();
            for (uint32_t c : without) product[c] = -best;  // as far as can be
            for (int64_t c = 0; c < count; ++c) {
                const float upper = squares_[c] * (1.0f + share) - 2.0f * product[c];
                best = upper < best ? upper : best;
            }
            const float limit = best + 2.0f * slack;
            uint32_t found = NONE;
            float distance = 0.0f;
            for (int64_t c = 0; c < count; ++c) {
                if (squares_[c] * (1.0f - share) - 2.0f * product[c] > limit) continue;
                if (product[c] == -std::numeric_limits<float>::infinity()) continue;
                const float exact = kernels.squared_distance(row, rows_.at(c), d_);
                if (found == NONE || exact < distance || (exact == distance && ids_[c] < ids_[found])) {
                    found = static_cast<uint32_t>(c);
                    distance = exact;
                }
            }
            centres[from + i] = found;
            distances[from + i] = distance;
        }
    }
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

int64_t Centres::bytes() const { return panels_.bytes() + rows_.bytes() + ids_.bytes() + squares_.bytes(); }

void Centres::raw_memory(std::vector<uint8_t>& all) const {
    panels_.raw_memory(all);
    rows_.raw_memory(all);
    ids_.raw_memory(all);
    squares_.raw_memory(all);
}

}  // namespace lethevec
