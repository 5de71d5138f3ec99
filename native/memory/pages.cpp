#include "memory/pages.h"

#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "memory/wipe.h"

namespace lethevec {

namespace {

constexpr std::align_val_t LINE{64};

}  // namespace

#if defined(__linux__)

namespace {

size_t rounded(int64_t bytes) {
    constexpr int64_t PAGE = 65536;  // no system has larger ones
    return static_cast<size_t>((bytes + PAGE - 1) / PAGE * PAGE);
}

}  // namespace

// What lies before and after it is given back.
void* map_pages(int64_t bytes) {
    const size_t wanted = rounded(bytes), page = LARGE_PAGE;
    void* raw =
        mmap(nullptr, wanted + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) throw std::bad_alloc();
    auto* from = static_cast<uint8_t*>(raw);
    const size_t before = (page - reinterpret_cast<uintptr_t>(from) % page) % page;
    uint8_t* memory = from + before;
    if (before) munmap(from, before);
    munmap(memory + wanted, page - before);
#if defined(MADV_HUGEPAGE)
    // It is a wish; without large pages everything works as well, only slower.
    madvise(memory, wanted, MADV_HUGEPAGE);
#endif
    return memory;
}

void unmap_pages(void* memory, int64_t bytes) noexcept { munmap(memory, rounded(bytes)); }

#else

void* map_pages(int64_t) { throw std::bad_alloc(); }
void unmap_pages(void*, int64_t) noexcept {}

#endif

void* allocate_pages(int64_t bytes) {
    if (MAPS_PAGES && bytes >= WORTH_LARGE_PAGES) return map_pages(bytes);
    void* memory = ::operator new(static_cast<size_t>(bytes), LINE);
    std::memset(memory, 0, static_cast<size_t>(bytes));
    return memory;
}

void free_pages(void* memory, int64_t bytes) noexcept {
    if (!memory) return;
    wipe(memory, static_cast<size_t>(bytes));
    if (MAPS_PAGES && bytes >= WORTH_LARGE_PAGES) return unmap_pages(memory, bytes);
    ::operator delete(memory, LINE);
}

}  // namespace lethevec
