#include "memory/pile.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "memory/pages.h"
#include "memory/wipe.h"

namespace lethevec {

namespace {

constexpr int64_t REGION = 16 * LARGE_PAGE;  // about as many bytes

// calloc knows when the system's pages are zero already; the pointer to free is kept before the memory.
uint8_t* allocate(int64_t bytes) {
    auto* raw = static_cast<uint8_t*>(std::calloc(static_cast<size_t>(bytes) + 128, 1));
    if (!raw) throw std::bad_alloc();
    uint8_t* memory = raw + 128 - reinterpret_cast<uintptr_t>(raw) % 64;
    std::memcpy(memory - sizeof raw, &raw, sizeof raw);
    return memory;
}

void free_single(uint8_t* memory) {
    uint8_t* raw = nullptr;
    std::memcpy(&raw, memory - sizeof raw, sizeof raw);
    std::free(raw);
}

#if defined(__linux__)

// A piece will be filled from end to end: its pages are had in one call, where each would be a fault of its own. Again
// a wish.
void have_pages(uint8_t* memory, int64_t bytes) {
#if defined(MADV_POPULATE_WRITE)
    constexpr uintptr_t PAGE = 65536;
    const uintptr_t from = reinterpret_cast<uintptr_t>(memory) / PAGE * PAGE;
    const uintptr_t to = (reinterpret_cast<uintptr_t>(memory) + static_cast<uintptr_t>(bytes)) / PAGE * PAGE;
    if (to > from) madvise(reinterpret_cast<void*>(from), to - from, MADV_POPULATE_WRITE);
#else
    (void)memory, (void)bytes;
#endif
}

// Whole pages go back to the system; what shares a page with a neighbour stays, and is zero.
void give_back(uint8_t* memory, int64_t bytes) {
    constexpr uintptr_t PAGE = 65536;  // no system has larger ones
    const uintptr_t from = (reinterpret_cast<uintptr_t>(memory) + PAGE - 1) / PAGE * PAGE;
    const uintptr_t to = (reinterpret_cast<uintptr_t>(memory) + static_cast<uintptr_t>(bytes)) / PAGE * PAGE;
    if (to > from) madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

#else

void have_pages(uint8_t*, int64_t) {}
void give_back(uint8_t*, int64_t) {}

#endif

}  // namespace

Pile::Pile(int64_t bytes, int64_t small)
    : bytes_(bytes), alone_(MAPS_PAGES ? (small + bytes - 1) / bytes : std::numeric_limits<int64_t>::max()) {}

Pile::~Pile() {
    for (int64_t piece = 0; piece < size_; ++piece) wipe(at(piece), static_cast<size_t>(bytes_));
    while (made_ > 0) release(--made_);
}

int64_t Pile::in_region() const { return std::max<int64_t>(1, REGION / bytes_); }
int64_t Pile::region_bytes() const { return (in_region() * bytes_ + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE; }

uint8_t* Pile::at(int64_t piece) const {
    if (piece < alone_) return singles_[static_cast<size_t>(piece)];
    const int64_t i = piece - alone_;
    return regions_[static_cast<size_t>(i / in_region())] + i % in_region() * bytes_;
}

void Pile::make(int64_t piece) {
    if (piece < alone_) {
        singles_.reserve(singles_.size() + 1);
        singles_.push_back(allocate(bytes_));
    } else if ((piece - alone_) % in_region() == 0) {
        regions_.reserve(regions_.size() + 1);
        regions_.push_back(static_cast<uint8_t*>(map_pages(region_bytes())));
    }
    if (piece >= alone_) have_pages(at(piece), bytes_);
}

void Pile::release(int64_t piece) {
    if (piece < alone_) {
        free_single(singles_.back());
        singles_.pop_back();
    } else if ((piece - alone_) % in_region() == 0) {
        unmap_pages(regions_.back(), region_bytes());
        regions_.pop_back();
    } else {
        give_back(at(piece), bytes_);
    }
}

uint8_t* Pile::push() {
    if (size_ == made_) {
        make(made_);
        ++made_;
    }
    return at(size_++);
}

void Pile::pop() {
    --size_;
    if (made_ > size_ + 1) release(--made_);
}

void Pile::raw_memory(std::vector<uint8_t>& all) const {
    for (int64_t piece = 0; piece < made_; ++piece) all.insert(all.end(), at(piece), at(piece) + bytes_);
}

}  // namespace lethevec
