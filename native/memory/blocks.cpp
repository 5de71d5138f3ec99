#include "memory/blocks.h"

#include <new>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#endif

#include "memory/wipe.h"

namespace lethevec {

#if defined(__unix__) || defined(__APPLE__)

namespace {

constexpr size_t STEP = 16;        // between two sizes
constexpr size_t PAGE = 16 << 10;  // blocks of one size; no system has smaller pages that this is not a multiple of
constexpr size_t MORE = 1 << 20;   // that is asked of the system at a time
constexpr size_t RESERVED = size_t{16} << 30;

struct Free {
    Free* next;
};

uint8_t* base = nullptr;                // of what is reserved
size_t usable = 0, begun = 0;           // bytes of it that may be touched, and that pages have been made of
uint8_t sizes[RESERVED / PAGE];         // of the blocks in each page, in steps; touched as far as there are pages
Free* spare[LARGEST_BLOCK / STEP + 1];  // blocks that were given back, by their size in steps
struct {
    uint8_t *at, *end;
} fresh[LARGEST_BLOCK / STEP + 1];  // the part of each size's newest page that was never used

bool begin_page(size_t steps) noexcept {
    if (begun == usable) {
        if (usable == RESERVED || mprotect(base + usable, MORE, PROT_READ | PROT_WRITE)) return false;
        usable += MORE;
    }
    sizes[begun / PAGE] = static_cast<uint8_t>(steps);
    fresh[steps] = {base + begun, base + begun + PAGE};
    begun += PAGE;
    return true;
}

}  // namespace

bool reserve_blocks() noexcept {
    if (base) return true;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#if defined(MAP_NORESERVE)
    flags |= MAP_NORESERVE;
#endif
    void* const made = mmap(nullptr, RESERVED, PROT_NONE, flags, -1, 0);
    if (made == MAP_FAILED) return false;
    base = static_cast<uint8_t*>(made);
    return true;
}

void* take_block(size_t bytes) noexcept {
    const size_t steps = (bytes + STEP - 1) / STEP;
    if (Free* const block = spare[steps]) {
        spare[steps] = block->next;
        block->next = nullptr;
        return block;
    }
    auto& page = fresh[steps];
    const size_t room = steps * STEP;
    if (static_cast<size_t>(page.end - page.at) < room && !begin_page(steps)) return nullptr;
    void* const block = page.at;
    page.at += room;
    return block;
}

size_t block_room(const void* block) noexcept {
    const size_t offset = static_cast<size_t>(static_cast<const uint8_t*>(block) - base);
    return offset < begun ? sizes[offset / PAGE] * STEP : 0;  // before the base is far behind it
}

void give_block(void* block, size_t room) noexcept {
    wipe(block, room);
    Free* const given = new (block) Free{spare[room / STEP]};
    spare[room / STEP] = given;
}

#else

bool reserve_blocks() noexcept { return false; }
void* take_block(size_t) noexcept { return nullptr; }
size_t block_room(const void*) noexcept { return 0; }
void give_block(void*, size_t) noexcept {}

#endif

}  // namespace lethevec
