// Overwriting memory so that the compiler cannot leave it out.
#pragma once

#include <cstddef>
#include <cstring>

namespace lethevec {

inline void wipe(void* at, std::size_t bytes) {
    if (bytes == 0) return;
    std::memset(at, 0, bytes);
    // The memory is declared to be read here, so the writes above must happen.
    __asm__ __volatile__("" : : "r"(at) : "memory");
}

}  // namespace lethevec
