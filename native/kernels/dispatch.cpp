#include "kernels/dispatch.h"

#include <atomic>
#include <stdexcept>

namespace lethevec {

#define LETHEVEC_DECLARE(isa)     \
    namespace isa {               \
    extern const Kernels kernels; \
    }
LETHEVEC_DECLARE(scalar)
#if defined(LETHEVEC_X86)
LETHEVEC_DECLARE(avx2)
LETHEVEC_DECLARE(avx512)
#elif defined(LETHEVEC_ARM)
LETHEVEC_DECLARE(neon)
#endif
#undef LETHEVEC_DECLARE

namespace {

struct Isa {
    const Kernels* kernels;
    bool supported;
};

#if defined(LETHEVEC_X86)
// The compiler's run-time check also asks the operating system whether it saves the wide registers.
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512vnni");
}
#endif

const std::vector<Isa>& isas() {
    static const std::vector<Isa> all = {
        {&scalar::kernels, true},
#if defined(LETHEVEC_X86)
        {&avx2::kernels, has_avx2()},
        {&avx512::kernels, has_avx512()},
#elif defined(LETHEVEC_ARM)
        {&neon::kernels, true},
#endif
    };
    return all;
}

const Kernels* widest() {
    const Kernels* best = nullptr;
    for (const Isa& isa : isas())
        if (isa.supported) best = isa.kernels;
    return best;
}

std::atomic<const Kernels*>& chosen() {
    static std::atomic<const Kernels*> kernels{widest()};
    return kernels;
}

}  // namespace

std::vector<std::string> built_isas() {
    std::vector<std::string> names;
    for (const Isa& isa : isas()) names.emplace_back(isa.kernels->name);
    return names;
}

std::vector<std::string> supported_isas() {
    std::vector<std::string> names;
    for (const Isa& isa : isas())
        if (isa.supported) names.emplace_back(isa.kernels->name);
    return names;
}

std::vector<std::string> cpu_features() {
    std::vector<std::string> names;
#if defined(LETHEVEC_X86)
#define LETHEVEC_FEATURE(name) \
    if (__builtin_cpu_supports(name)) names.emplace_back(name);
    LETHEVEC_FEATURE("popcnt")
    LETHEVEC_FEATURE("avx2")
    LETHEVEC_FEATURE("fma")
    LETHEVEC_FEATURE("avx512f")
    LETHEVEC_FEATURE("avx512bw")
    LETHEVEC_FEATURE("avx512dq")
    LETHEVEC_FEATURE("avx512vl")
    LETHEVEC_FEATURE("avx512vbmi")
    LETHEVEC_FEATURE("avx512vbmi2")
    LETHEVEC_FEATURE("avx512vpopcntdq")
    LETHEVEC_FEATURE("avx512vnni")
#undef LETHEVEC_FEATURE
#elif defined(LETHEVEC_ARM)
    names.emplace_back("neon");
#endif
    return names;
}

void use_isa(const std::string& name) {
    for (const Isa& isa : isas())
        if (isa.supported && name == isa.kernels->name) {
            chosen().store(isa.kernels);
            return;
        }
    throw std::invalid_argument("not supported: " + name);
}

const Kernels& active() { return *chosen().load(std::memory_order_relaxed); }

}  // namespace lethevec
