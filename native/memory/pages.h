// Memory that is read here and there: on large pages where the system has them, because with small ones finding out
// where a page lies takes longer than reading from it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lethevec {

constexpr int64_t LARGE_PAGE = 2 << 20;
constexpr int64_t WORTH_LARGE_PAGES = LARGE_PAGE / 4;  // bytes

// Zeroed, on a cache line's boundary. Large pages are asked for from WORTH_LARGE_PAGES on. Throws std::bad_alloc.
void* allocate_pages(int64_t bytes);
// Overwrites it first.
void free_pages(void* memory, int64_t bytes) noexcept;

}  // namespace lethevec
