// Python's own objects in blocks that are overwritten when they are freed.
#include "memory/blocks.h"

#include <cstring>

#include "bind/bind.h"
#include "memory/wipe.h"

namespace lethevec {

namespace {

PyMemAllocatorEx beneath;  // for what is larger, and what was there before

bool fits(size_t bytes) { return bytes <= LARGEST_BLOCK; }

void* allocate(void*, size_t bytes) {
    if (fits(bytes))
        if (void* const block = take_block(bytes ? bytes : 1)) return block;
    return beneath.malloc(beneath.ctx, bytes);
}

void* allocate_zeros(void*, size_t count, size_t each) {
    if (!count || !each || (fits(count) && fits(each) && fits(count * each)))
        if (void* const block = take_block(count && each ? count * each : 1))
            return block;  // a block that was wiped, or never used
    return beneath.calloc(beneath.ctx, count, each);
}

void release(void*, void* at) {
    if (const size_t room = block_room(at)) return give_block(at, room);
    beneath.free(beneath.ctx, at);
}

void* resize(void* own, void* at, size_t bytes) {
    if (!at) return allocate(own, bytes);
    const size_t room = block_room(at);
    if (!room) return beneath.realloc(beneath.ctx, at, bytes);
    if (bytes <= room && 2 * bytes + 16 > room) {
        wipe(static_cast<uint8_t*>(at) + bytes, room - bytes);  // what is cut off is as good as freed
        return at;
    }
    void* const made = allocate(own, bytes);
    if (!made) return nullptr;
    std::memcpy(made, at, bytes < room ? bytes : room);
    give_block(at, room);
    return made;
}

// Whether it is so from now on; twice is once. Not where Python's objects may be made by several threads at a time.
bool wipe_objects() {
#if defined(Py_GIL_DISABLED)
    return false;
#else
    PyMemAllocatorEx raw, objects, memory;
    PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &raw);
    PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &objects);
    PyMem_GetAllocator(PYMEM_DOMAIN_MEM, &memory);
    if (objects.malloc == allocate) return true;
    // What was there before comes back to us as well: all of it has to be the C library's.
    if (objects.malloc != raw.malloc || memory.malloc != raw.malloc || !reserve_blocks()) return false;
    beneath = objects;
    PyMemAllocatorEx ours{nullptr, allocate, allocate_zeros, resize, release};
    PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &ours);
    PyMem_SetAllocator(PYMEM_DOMAIN_MEM, &ours);
    return true;
#endif
}

}  // namespace

void bind_blocks(nb::module_& module) {
    module.def(
        "wipe_objects", &wipe_objects,
        "From now on, overwrite what Python frees of up to 512 bytes; for a Python that leaves its memory to the C "
        "library (PYTHONMALLOC=malloc). False where that cannot be.");
}

}  // namespace lethevec
