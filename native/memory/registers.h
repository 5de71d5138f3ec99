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

// The stack below the caller, where the calls that have just ended kept what they had no register for.
void clear_stack();

// What they hold, one after the other; returns how many bytes that are. For tests.
constexpr size_t REGISTER_BYTES = 32 * 64;
size_t read_registers(uint8_t* out);

// Clears both when it goes: for calls that see records or queries, and for threads that work for them.
struct ClearedRegisters {
    ClearedRegisters() = default;
    ClearedRegisters(const ClearedRegisters&) = delete;
    ClearedRegisters& operator=(const ClearedRegisters&) = delete;
    ~ClearedRegisters() {
        clear_stack();
        clear_registers();
    }
};

}  // namespace lethevec
