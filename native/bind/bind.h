// What the binding files share: the array types that Python may pass, and how a wrong shape is refused.
//
// The bindings are the only code that knows Python. They check shapes and types; values were checked by
// lethevec._vectors, or are by bind_search.cpp, which does all of a search.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <stdexcept>

#include "memory/registers.h"

namespace lethevec {

namespace nb = nanobind;
using namespace nb::literals;

template <class T, size_t Dimensions>
using Array = nb::ndarray<T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;

// Others may run Python meanwhile. Nothing of a record or a query is left in a register when Python goes on, nor on so
// much of the stack.
struct Unlocked {
    explicit Unlocked(size_t stack = DEEP_STACK) : cleared(stack) {}
    nb::gil_scoped_release released;
    ClearedRegisters cleared;  // the first to go
};

inline void expect(bool condition, const char* what) {
    if (!condition) throw std::invalid_argument(what);
}

template <class A>
int64_t rows(const A& array) {
    return static_cast<int64_t>(array.shape(0));
}

template <class A>
int64_t columns(const A& array) {
    return static_cast<int64_t>(array.shape(1));
}

void bind_blocks(nb::module_& module);
void bind_bodies(nb::module_& module);
void bind_filters(nb::module_& module);
void bind_graph(nb::module_& module);
void bind_hashing(nb::module_& module);
void bind_index(nb::module_& module);
void bind_pivots(nb::module_& module);
void bind_search(nb::module_& module);
void bind_stored(nb::module_& module);
void bind_tables(nb::module_& module);
void bind_testing(nb::module_& module);

}  // namespace lethevec
