#include "memory/pages.h"

#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "memory/wipe.h"

namespace lethevec {

namespace {

std::align_val_t alignment(int64_t bytes) {
    return std::align_val_t{static_cast<size_t>(bytes >= WORTH_LARGE_PAGES ? LARGE_PAGE : 64)};
}

size_t rounded(int64_t bytes) {
    if (bytes < WORTH_LARGE_PAGES) return static_cast<size_t>(bytes);
    return static_cast<size_t>((bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE);
}

}  // namespace

void* allocate_pages(int64_t bytes) {
    void* memory = ::operator new(rounded(bytes), alignment(bytes));
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    // It is a wish; without large pages everything works as well, only slower.
    if (bytes >= WORTH_LARGE_PAGES) madvise(memory, rounded(bytes), MADV_HUGEPAGE);
#endif
    std::memset(memory, 0, static_cast<size_t>(bytes));
    return memory;
}

void free_pages(void* memory, int64_t bytes) noexcept {
    if (!memory) return;
    wipe(memory, static_cast<size_t>(bytes));
    ::operator delete(memory, alignment(bytes));
}

}  // namespace lethevec
