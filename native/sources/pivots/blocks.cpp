#include "sources/pivots/blocks.h"

#include <algorithm>
#include <cstring>

#include "memory/pages.h"
#include "memory/wipe.h"

namespace lethevec {

// As many blocks as fill a few large pages: what is left of the last one has small pages, so that it does not count.
Blocks::Blocks(int64_t scan_bytes, int64_t rest_bytes) : scan_bytes_(scan_bytes), rest_bytes_(rest_bytes), shift_(2) {
    while (2 * slab_bytes() <= 4 * LARGE_PAGE) ++shift_;
}

Blocks::Blocks(const Blocks& other)
    : scan_bytes_(other.scan_bytes_), rest_bytes_(other.rest_bytes_), shift_(other.shift_) {
    try {
        reserve(other.size_);
    } catch (...) {
        release();
        throw;
    }
    // What is not in use is not touched, and takes no memory.
    const int64_t each = int64_t{1} << shift_;
    for (int64_t from = 0; from < other.size_; from += each) {
        const auto block = static_cast<uint32_t>(from);
        const int64_t used = std::min(each, other.size_ - from);
        std::memcpy(scan(block), other.scan(block), static_cast<size_t>(used * scan_bytes_));
        std::memcpy(rest(block), other.rest(block), static_cast<size_t>(used * rest_bytes_));
    }
    size_ = other.size_;
}

Blocks::~Blocks() { release(); }

void Blocks::release() noexcept {
    for (uint8_t* slab : slabs_) free_pages(slab, slab_bytes());
    slabs_.clear();
}

void Blocks::reserve(int64_t n) {
    slabs_.reserve(slabs_for(n));
    while (slabs_.size() < slabs_for(n)) slabs_.push_back(static_cast<uint8_t*>(allocate_pages(slab_bytes())));
}

uint32_t Blocks::append() {
    reserve(size_ + 1);
    return static_cast<uint32_t>(size_++);
}

void Blocks::remove(uint32_t block) {
    const auto last = static_cast<uint32_t>(size_ - 1);
    if (block != last) {
        std::memcpy(scan(block), scan(last), static_cast<size_t>(scan_bytes_));
        std::memcpy(rest(block), rest(last), static_cast<size_t>(rest_bytes_));
    }
    wipe(scan(last), static_cast<size_t>(scan_bytes_));
    wipe(rest(last), static_cast<size_t>(rest_bytes_));
    --size_;
    fit();
}

void Blocks::fit() {
    while (slabs_.size() > slabs_for(size_) + 1) {
        free_pages(slabs_.back(), slab_bytes());
        slabs_.pop_back();
    }
}

void Blocks::raw_memory(std::vector<uint8_t>& all) const {
    for (const uint8_t* slab : slabs_) all.insert(all.end(), slab, slab + slab_bytes());
}

}  // namespace lethevec
