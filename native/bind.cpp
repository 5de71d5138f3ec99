#include "bind.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "dispatch.h"

NB_MODULE(_core, module) {
    using namespace lethevec;
    // A search is one object for the whole process, and where the interpreter ends in a hurry it is still there: nothing to tell users.
    nanobind::set_leak_warnings(false);
    module.doc() = "The native core of lethevec. Private: its functions trust their callers' values.";
    module.def("built_isas", &built_isas, "Instruction sets in this build, narrowest first.");
    module.def("supported_isas", &supported_isas, "Those of them that this machine can run.");
    module.def("cpu_features", &cpu_features, "CPU features that the choice looks at.");
    module.def("use_isa", &use_isa, "name"_a, "Switch the kernels of the whole process.");
    module.def("active_isa", [] { return std::string(active().name); }, "The instruction set in use.");
    module.def(
        "registers",
        [] {
            uint8_t held[REGISTER_BYTES];
            const size_t bytes = read_registers(held);
            return nb::bytes(reinterpret_cast<const char*>(held), bytes);
        },
        "What the wide registers of the CPU hold. For tests.");
    bind_hashing(module);
    bind_tables(module);
    bind_index(module);
    bind_search(module);
    bind_pivots(module);
}
