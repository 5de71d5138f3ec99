// The CPU's wide registers keep the last numbers that went through them: a piece of a vector that was copied, a query.
// Whoever saves registers later writes these to the stack, where no forget finds them. The dynamic linker does so, the
// first time that a function of another library is called. So they are cleared before a call returns, and so is the
// stack, where compilers keep what they have no register for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lethevec {

// All that the CPU has, whichever instructions the kernels use: the C library copies memory with the widest.
void clear_registers();

// How far down the stack calls reach: a forget in a source that has little to do; a search, an add or any other forget;
// and an update. tests/index/test_registers.py measures it.
constexpr size_t LITTLE_STACK = 4 * 1024, STACK = 32 * 1024, DEEP_STACK = 64 * 1024;

// The stack below the caller, where the calls that have just ended kept what they had no register for. To clear more
// than was used takes time: a forget takes as long as 16 KB do.
void clear_stack(size_t used = DEEP_STACK);

// What they hold, one after the other; returns how many bytes that are. For tests.
constexpr size_t REGISTER_BYTES = 32 * 64;
size_t read_registers(uint8_t* out);

// Clears both when it goes: for calls that see records or queries, and for threads that work for them.
struct ClearedRegisters {
    explicit ClearedRegisters(size_t stack = DEEP_STACK) : stack(stack) {}
    ClearedRegisters(const ClearedRegisters&) = delete;
    ClearedRegisters& operator=(const ClearedRegisters&) = delete;
    ~ClearedRegisters() {
        clear_stack(stack);
        clear_registers();
    }
    const size_t stack;
};

}  // namespace lethevec
