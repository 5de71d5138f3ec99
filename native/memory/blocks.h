// Small blocks of memory that are overwritten when they are given back.
//
// For Python's own objects: what is freed is gone at once, and not when the memory is used again. A C library that is
// told to do so is several times slower: it looks for the best place, under a lock.
//
// Blocks of a size lie in pages of that size alone, in one reserved part of the address space, so that whether a block
// is from here, and how large it is, is one look into a table. Pages are kept for later blocks of their size. One
// thread at a time: whoever calls holds Python's lock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lethevec {

constexpr size_t LARGEST_BLOCK = 512;  // bytes; larger ones are somebody else's

// Reserve the address space. False where the system does not give it; then there are no blocks.
bool reserve_blocks() noexcept;

// At least one byte, at most LARGEST_BLOCK, on a boundary of 16 bytes; nullptr where there is no room.
void* take_block(size_t bytes) noexcept;
// How much room the block has, or 0 if it is not from here.
size_t block_room(const void* block) noexcept;
// Overwrite it, and keep it for the next one of its size.
void give_block(void* block, size_t room) noexcept;

}  // namespace lethevec
