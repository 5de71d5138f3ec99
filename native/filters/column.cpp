#include "filters/column.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "kernels/dispatch.h"

namespace lethevec::filters {

namespace {

// Sixty-four bytes, each 0 or 1, as bits.
uint64_t packed(const uint8_t* flags) {
    uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) {
        uint64_t eight = 0;
        for (int j = 0; j < 8; ++j) eight |= static_cast<uint64_t>(flags[8 * i + j]) << (8 * j);
        // Byte j goes to bit 56 + j: no two meet, so nothing carries.
        bits |= (eight * 0x0102040810204080ull) >> 56 << (8 * i);
    }
    return bits;
}

constexpr int FEW_ROWS = 8;  // of a word, that are looked at one by one

template <class T, class Passes>
void keep_words(const T* codes, int64_t rows, uint64_t* mask, Passes passes) {
    const int64_t words = words_for(rows);
    for (int64_t w = 0; w < words; ++w) {
        if (!mask[w]) continue;
        if (__builtin_popcountll(mask[w]) <= FEW_ROWS) {
            uint64_t kept = 0;
            for (uint64_t left = mask[w]; left; left &= left - 1) {
                const int j = __builtin_ctzll(left);
                kept |= static_cast<uint64_t>(passes(codes[64 * w + j])) << j;
            }
            mask[w] = kept;
            continue;
        }
        alignas(64) uint8_t flags[64];
        const T* from = codes + 64 * w;
        for (int j = 0; j < 64; ++j) flags[j] = passes(from[j]);
        mask[w] &= packed(flags);
    }
}

void keep_range(const uint8_t* codes, int64_t words, uint32_t low, uint32_t high, uint64_t* mask) {
    active().keep_between8(codes, words, low, high, mask);
}
void keep_range(const uint16_t* codes, int64_t words, uint32_t low, uint32_t high, uint64_t* mask) {
    active().keep_between16(codes, words, low, high, mask);
}
void keep_range(const uint32_t* codes, int64_t words, uint32_t low, uint32_t high, uint64_t* mask) {
    active().keep_between32(codes, words, low, high, mask, nullptr);
}

}  // namespace

void Choice::add(uint32_t code) {
    if (has(code)) return;
    if (count < FEW) {
        few[count++] = code;
        return;
    }
    if (count == FEW) {
        if (codes <= BYTES_UP_TO)
            bytes.assign(BYTES_UP_TO, 0);
        else
            bits.assign(static_cast<size_t>(words_for(codes)), 0);
        ++count;
        for (uint32_t one : few) add(one);
    }
    if (!bytes.empty())
        bytes[code] = 1;
    else
        bits[code / 64] |= uint64_t{1} << (code % 64);
}

bool Choice::has(uint32_t code) const {
    if (count <= FEW) return std::find(few, few + count, code) != few + count;
    return bytes.empty() ? bits[code / 64] >> (code % 64) & 1 : bytes[code];
}

template <class Work>
auto Column::with_codes(Work work) const {
    return width_ == 1 ? work(narrow_.at(0)) : width_ == 2 ? work(middle_.at(0)) : work(wide_.at(0));
}

int64_t Column::place(uint32_t row) const {
    const Pair* begin = pairs_.at(0);
    return std::lower_bound(begin, begin + pairs_.size(), row, [](const Pair& p, uint32_t r) { return p.row < r; }) -
           begin;
}

uint32_t Column::get(uint32_t row) const {
    if (dense_) return with_codes([&](const auto* codes) { return static_cast<uint32_t>(codes[row]); });
    const int64_t at = place(row);
    return at < pairs_.size() && pairs_[at].row == row ? pairs_[at].code : 0;
}

void Column::widen(int width) {
    const int64_t size = padded(rows_);
    if (width == 2) {
        Growing<uint16_t> wider;
        wider.resize(size);
        for (int64_t i = 0; i < rows_; ++i) wider[i] = static_cast<uint16_t>(get(static_cast<uint32_t>(i)));
        middle_.swap(wider);
    } else if (width == 4) {
        Growing<uint32_t> wider;
        wider.resize(size);
        for (int64_t i = 0; i < rows_; ++i) wider[i] = get(static_cast<uint32_t>(i));
        wide_.swap(wider);
    } else {
        Growing<uint8_t> narrower;
        narrower.resize(size);
        for (int64_t i = 0; i < rows_; ++i) narrower[i] = static_cast<uint8_t>(get(static_cast<uint32_t>(i)));
        narrow_.swap(narrower);
    }
    if (width != 1) narrow_.resize(0);
    if (width != 2) middle_.resize(0);
    if (width != 4) wide_.resize(0);
    width_ = width;
}

void Column::reserve(int64_t rows, int64_t more, uint32_t codes) {
    if (!dense_) {
        pairs_.reserve(pairs_.size() + more);
        return;
    }
    if (width_for(codes) > width_) widen(width_for(codes));
    if (width_ == 1) narrow_.reserve(padded(rows));
    if (width_ == 2) middle_.reserve(padded(rows));
    if (width_ == 4) wide_.reserve(padded(rows));
}

void Column::set_rows(int64_t rows) noexcept {
    rows_ = rows;
    if (!dense_) return;
    // Growing uses what was reserved; shrinking cannot fail.
    if (width_ == 1) narrow_.resize(padded(rows));
    if (width_ == 2) middle_.resize(padded(rows));
    if (width_ == 4) wide_.resize(padded(rows));
}

void Column::put(uint32_t row, uint32_t code) noexcept {
    if (width_ == 1)
        narrow_[row] = static_cast<uint8_t>(code);
    else if (width_ == 2)
        middle_[row] = static_cast<uint16_t>(code);
    else
        wide_[row] = code;
}

void Column::set(uint32_t row, uint32_t code) noexcept {
    if (dense_) {
        count_ += (code != 0) - (get(row) != 0);
        put(row, code);
        return;
    }
    const int64_t at = place(row), size = pairs_.size();
    const bool there = at < size && pairs_[at].row == row;
    if (there && code) {
        pairs_[at].code = code;
    } else if (there) {
        std::memmove(pairs_.at(at), pairs_.at(at + 1), static_cast<size_t>(size - at - 1) * sizeof(Pair));
        pairs_.resize(size - 1);
    } else if (code) {
        pairs_.grow(size + 1);
        std::memmove(pairs_.at(at + 1), pairs_.at(at), static_cast<size_t>(size - at) * sizeof(Pair));
        pairs_[at] = {row, code};
    }
    count_ = pairs_.size();
}

void Column::remove(uint32_t row) noexcept {
    const auto last = static_cast<uint32_t>(rows_ - 1);
    const int64_t size = pairs_.size();
    if (dense_) {
        const uint32_t moved = get(last);
        set(last, 0);
        if (row != last) set(row, moved);
    } else if (size && pairs_[size - 1].row == last && row != last && get(row) == 0) {
        // The last pair moves up, without a moment in which there is one less: it needs no memory.
        const uint32_t moved = pairs_[size - 1].code;
        const int64_t at = place(row);
        std::memmove(pairs_.at(at + 1), pairs_.at(at), static_cast<size_t>(size - 1 - at) * sizeof(Pair));
        pairs_[at] = {row, moved};
    } else {
        const uint32_t moved = get(last);
        set(last, 0);
        if (row != last) set(row, moved);  // one that is there, or none
    }
    set_rows(rows_ - 1);
}

void Column::recode(const std::vector<uint32_t>& moved, uint32_t codes) noexcept {
    if (!dense_) {
        for (int64_t i = 0; i < pairs_.size(); ++i) pairs_[i].code = moved[pairs_[i].code];
        return;
    }
    for (int64_t row = 0; row < rows_; ++row) {
        const auto at = static_cast<uint32_t>(row);
        put(at, moved[get(at)]);
    }
    if (width_for(codes) == width_) return;
    try {
        widen(width_for(codes));
    } catch (const std::bad_alloc&) {
    }
}

void Column::adapt() noexcept {
    try {
        if (dense_ && rows_ > 64 && worth_list(rows_, count_)) {
            Growing<Pair> pairs;
            pairs.resize(count_);
            int64_t at = 0;
            for (int64_t row = 0; row < rows_; ++row)
                if (const uint32_t code = get(static_cast<uint32_t>(row)))
                    pairs[at++] = {static_cast<uint32_t>(row), code};
            pairs_.swap(pairs);
            dense_ = false;
            narrow_.resize(0);
            middle_.resize(0);
            wide_.resize(0);
        } else if (!dense_ && worth_column(rows_, count_)) {
            uint32_t largest = 0;
            for (int64_t i = 0; i < pairs_.size(); ++i) largest = std::max(largest, pairs_[i].code);
            width_ = width_for(largest + 1);
            if (width_ == 1) narrow_.resize(padded(rows_));
            if (width_ == 2) middle_.resize(padded(rows_));
            if (width_ == 4) wide_.resize(padded(rows_));
            for (int64_t i = 0; i < pairs_.size(); ++i) put(pairs_[i].row, pairs_[i].code);
            dense_ = true;
            pairs_.resize(0);
        }
    } catch (const std::bad_alloc&) {
    }
}

template <class Passes>
void Column::keep_pairs(Passes passes, uint64_t* mask) const {
    int64_t done = 0;  // words that are as they should be
    uint64_t word = 0;
    for (int64_t i = 0; i < pairs_.size(); ++i) {
        const int64_t at = pairs_[i].row / 64;
        if (at != done) {
            mask[done] &= word;
            std::fill(mask + done + 1, mask + at, uint64_t{0});
            done = at;
            word = 0;
        }
        word |= static_cast<uint64_t>(passes(pairs_[i].code)) << (pairs_[i].row % 64);
    }
    const int64_t words = words_for(rows_);
    if (!words) return;
    mask[done] &= word;
    std::fill(mask + done + 1, mask + words, uint64_t{0});
}

void Column::keep(const Choice& choice, uint64_t* mask) const {
    if (choice.empty()) {
        std::fill_n(mask, words_for(rows_), uint64_t{0});
        return;
    }
    if (!dense_) {
        keep_pairs([&](uint32_t code) { return choice.has(code); }, mask);
        return;
    }
    if (width_ == 1) {
        uint8_t chosen[256] = {};
        for (uint32_t code = 1; code < std::min<uint32_t>(choice.codes, 256); ++code) chosen[code] = choice.has(code);
        active().keep_chosen8(narrow_.at(0), words_for(rows_), chosen, mask);
        return;
    }
    with_codes([&](const auto* codes) {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(codes)>>;
        // What does not fit is no row's code: it counts as the first once more.
        T few[Choice::FEW];
        int distinct = 0;
        if (choice.count <= Choice::FEW) {
            for (int i = 0; i < choice.count; ++i)
                if (static_cast<T>(choice.few[i]) == choice.few[i]) few[distinct++] = static_cast<T>(choice.few[i]);
            if (!distinct) {
                std::fill_n(mask, words_for(rows_), uint64_t{0});
                return;
            }
            for (int i = distinct; i < Choice::FEW; ++i) few[i] = few[0];
        }
        const T a = few[0], b = few[1], c = few[2], d = few[3];
        if (choice.count > Choice::FEW) {
            const uint8_t* bytes = choice.bytes.data();
            const uint64_t* bits = choice.bits.data();
            if (choice.bytes.empty())
                keep_words(codes, rows_, mask,
                           [=](T code) { return static_cast<uint8_t>(bits[code / 64] >> (code % 64) & 1); });
            else
                keep_words(codes, rows_, mask, [=](T code) { return bytes[code]; });
        } else if (distinct == 1) {
            keep_range(codes, words_for(rows_), a, a, mask);
        } else {
            keep_words(codes, rows_, mask, [=](T code) {
                return static_cast<uint8_t>((code == a) | (code == b) | (code == c) | (code == d));
            });
        }
    });
}

void Column::keep_present(uint64_t* mask) const {
    if (!dense_) return keep_pairs([](uint32_t) { return true; }, mask);
    with_codes([&](const auto* codes) {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(codes)>>;
        keep_range(codes, words_for(rows_), 1, std::numeric_limits<T>::max(), mask);
    });
}

int64_t Column::bytes(int64_t rows, int64_t count, int64_t live) {
    if (!worth_column(rows, count)) return count * static_cast<int64_t>(sizeof(Pair));
    return padded(rows) * width_for(static_cast<uint32_t>(live + 1));
}

void Column::raw_memory(std::vector<uint8_t>& all) const {
    narrow_.raw_memory(all);
    middle_.raw_memory(all);
    wide_.raw_memory(all);
    pairs_.raw_memory(all);
}

}  // namespace lethevec::filters
