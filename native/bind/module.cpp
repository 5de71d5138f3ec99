#include "bind/bind.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "fair_lock.h"
#include "kernels/dispatch.h"
#include "memory/file_pile.h"

NB_MODULE(_core, module) {
    using namespace lethevec;
    // A search is one object for the whole process, and where the interpreter ends in a hurry it is still there:
    // nothing to tell users.
    nanobind::set_leak_warnings(false);
    nanobind::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const Inherited& refused) {
            const nb::object error = nb::module_::import_("lethevec.errors").attr("ForkError");
            PyErr_SetString(error.ptr(), refused.what());
        } catch (const FileFull& full) {
            const nb::object error = nb::module_::import_("lethevec.errors").attr("IncompleteWriteError");
            PyErr_SetString(error.ptr(), full.what());
        } catch (const FileUnsettled& unsettled) {
            const nb::object error = nb::module_::import_("lethevec._index.vector_files").attr("UnsettledError");
            PyErr_SetString(error.ptr(), unsettled.what());
        } catch (const FileGone& gone) {
            const nb::object error = nb::module_::import_("lethevec.errors").attr("FileError");
            PyErr_SetString(error.ptr(), gone.what());
        }
    });
    module.doc() = "The native core of lethevec. Private: its functions trust their callers' values.";
    module.def("built_isas", &built_isas, "Instruction sets in this build, narrowest first.");
    module.def("supported_isas", &supported_isas, "Those of them that this machine can run.");
    module.def("cpu_features", &cpu_features, "CPU features that the choice looks at.");
    module.def("use_isa", &use_isa, "name"_a, "Switch the kernels of the whole process.");
    module.def("active_isa", [] { return std::string(active().name); }, "The instruction set in use.");
    bind_hashing(module);
    bind_filters(module);
    bind_index(module);
    bind_stored(module);
    bind_tables(module);
    bind_pivots(module);
    bind_graph(module);
    bind_search(module);
    bind_blocks(module);
    bind_bodies(module);
    bind_testing(module);
}
