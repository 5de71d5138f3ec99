// Memory that is read here and there: on large pages where the system has them, because with small ones finding out
// where a page lies takes longer than reading from it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lethevec {

constexpr int64_t LARGE_PAGE = 2 << 20;
constexpr int64_t WORTH_LARGE_PAGES = LARGE_PAGE / 4;  // bytes

// Zeroed, on a cache line's boundary. From WORTH_LARGE_PAGES on it comes from the system by itself: large pages are
// asked for as far as they would be filled, what is never touched takes no memory, and what is freed goes back at once
// instead of leaving a hole. Throws std::bad_alloc.
void* allocate_pages(int64_t bytes);
// Overwrites it first.
void free_pages(void* memory, int64_t bytes) noexcept;

// The same from the system alone, where it can be had (see MAPS_PAGES): whole, on a large page's boundary, not touched.
#if defined(__linux__)
constexpr bool MAPS_PAGES = true;
#else
constexpr bool MAPS_PAGES = false;
#endif
void* map_pages(int64_t bytes);
void unmap_pages(void* memory, int64_t bytes) noexcept;

}  // namespace lethevec
