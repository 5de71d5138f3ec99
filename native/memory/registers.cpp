// In assembly, since no compiler lets one name a register that it does not use itself. An assembler takes every
// instruction, whatever this file is compiled for; the CPU is asked before one runs.
#include "memory/registers.h"

#include "memory/wipe.h"

namespace lethevec {

namespace {

template <size_t BYTES>
__attribute__((noinline)) void clear_below() {
    unsigned char below[BYTES];
    wipe(below, sizeof below);
}

}  // namespace

void clear_stack(size_t used) {
    if (used <= LITTLE_STACK)
        clear_below<LITTLE_STACK>();
    else if (used <= STACK)
        clear_below<STACK>();
    else
        clear_below<DEEP_STACK>();
}

#define LETHEVEC_FIRST(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15)
#define LETHEVEC_OTHERS(f) \
    f(16) f(17) f(18) f(19) f(20) f(21) f(22) f(23) f(24) f(25) f(26) f(27) f(28) f(29) f(30) f(31)

#if defined(LETHEVEC_X86)

#define LETHEVEC_CLOBBERED                                                                                     \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
        "xmm13", "xmm14", "xmm15"
#define LETHEVEC_CLEAR_ZMM(n) "vpxorq %%zmm" #n ", %%zmm" #n ", %%zmm" #n "\n\t"
#define LETHEVEC_CLEAR_XMM(n) "pxor %%xmm" #n ", %%xmm" #n "\n\t"
#define LETHEVEC_READ_ZMM(n) "vmovdqu64 %%zmm" #n ", 64*" #n "(%0)\n\t"
#define LETHEVEC_READ_YMM(n) "vmovdqu %%ymm" #n ", 32*" #n "(%0)\n\t"
#define LETHEVEC_READ_XMM(n) "movdqu %%xmm" #n ", 16*" #n "(%0)\n\t"

void clear_registers() {
    // Code for every x86 knows nothing of registers from 16 on, so there is nothing to tell the compiler of them.
    if (__builtin_cpu_supports("avx512f")) __asm__ __volatile__(LETHEVEC_OTHERS(LETHEVEC_CLEAR_ZMM) : :);
    if (__builtin_cpu_supports("avx"))
        __asm__ __volatile__("vzeroall" : : : LETHEVEC_CLOBBERED);
    else
        __asm__ __volatile__(LETHEVEC_FIRST(LETHEVEC_CLEAR_XMM) : : : LETHEVEC_CLOBBERED);
}

size_t read_registers(uint8_t* out) {
    if (__builtin_cpu_supports("avx512f")) {
        __asm__ __volatile__(LETHEVEC_FIRST(LETHEVEC_READ_ZMM) LETHEVEC_OTHERS(LETHEVEC_READ_ZMM)
                             :
                             : "r"(out)
                             : "memory");
        return 32 * 64;
    }
    if (__builtin_cpu_supports("avx")) {
        __asm__ __volatile__(LETHEVEC_FIRST(LETHEVEC_READ_YMM) : : "r"(out) : "memory");
        return 16 * 32;
    }
    __asm__ __volatile__(LETHEVEC_FIRST(LETHEVEC_READ_XMM) : : "r"(out) : "memory");
    return 16 * 16;
}

#elif defined(LETHEVEC_ARM)

#define LETHEVEC_CLEAR(n) "movi v" #n ".2d, #0\n\t"
#define LETHEVEC_READ(n) "str q" #n ", [%0, #16*" #n "]\n\t"

void clear_registers() {
    // The lower halves of 8 to 15 are the caller's, and the compiler puts them back.
    __asm__ __volatile__(LETHEVEC_FIRST(LETHEVEC_CLEAR) LETHEVEC_OTHERS(LETHEVEC_CLEAR)
                         :
                         :
                         : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",
                           "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26",
                           "v27", "v28", "v29", "v30", "v31");
}

size_t read_registers(uint8_t* out) {
    __asm__ __volatile__(LETHEVEC_FIRST(LETHEVEC_READ) LETHEVEC_OTHERS(LETHEVEC_READ) : : "r"(out) : "memory");
    return 32 * 16;
}

#else

// Unknown registers: whatever is left in them stays there.
void clear_registers() {}
size_t read_registers(uint8_t*) { return 0; }

#endif

}  // namespace lethevec
