// What NumPy is asked for by the calls that do everything at once: whether something is an array, and new arrays.
#pragma once

#include <type_traits>

#include "bind/bind.h"
#include "bind/matrix.h"
#include "hashing/hashing.h"

namespace lethevec {

// Looked up once and kept for good.
struct Numpy {
    PyObject *array_type, *empty, *uint8, *int64, *float32;

    static const Numpy& get() {
        static const Numpy numpy = [] {
            const nb::module_ module = nb::module_::import_("numpy");
            const auto kept = [](nb::object object) { return object.release().ptr(); };
            const auto type = [&](const char* name) { return kept(module.attr("dtype")(module.attr(name))); };
            return Numpy{kept(module.attr("ndarray")), kept(module.attr("empty")), type("uint8"), type("int64"),
                         type("float32")};
        }();
        return numpy;
    }

    // Not of a subclass: a masked array has more to say than its numbers.
    bool is_array(nb::handle x) const { return reinterpret_cast<PyObject*>(Py_TYPE(x.ptr())) == array_type; }

    template <class T>
    PyObject* type_of() const {
        static_assert(std::is_same_v<T, uint8_t> || std::is_same_v<T, int64_t> || std::is_same_v<T, float>,
                      "name others here");
        return std::is_same_v<T, uint8_t> ? uint8 : std::is_same_v<T, int64_t> ? int64 : float32;
    }
};

// A new array of NumPy's, not filled, and where it lies.
template <class T>
struct NewArray {
    NewArray(int64_t rows, int64_t columns) {
        const Numpy& numpy = Numpy::get();
        const nb::tuple shape = nb::make_tuple(rows, columns);
        PyObject* const arguments[] = {shape.ptr(), numpy.type_of<T>()};
        object = nb::steal(PyObject_Vectorcall(numpy.empty, arguments, 2, nullptr));
        if (!object.is_valid()) nb::raise_python_error();
        Matrix<T> matrix;
        expect(matrix.read(object), "numpy.empty: not what was asked for");
        data = matrix.data;
    }
    nb::object object;
    T* data;
};

// Whether the norms of all rows are in range. NaN is not.
inline bool norms_pass(const Matrix<const float>& x, double smallest_norm, double largest_norm) {
    const auto in_range = [&] {
        const auto [smallest, largest] = norm_range(x.data, x.columns, x.rows);
        return smallest >= smallest_norm && largest <= largest_norm;
    };
    // To let other threads run takes longer than to look at a few vectors.
    if (x.rows * x.columns <= 16384) {
        const bool passed = in_range();
        clear_registers();  // its little piece of the stack is used again at once
        return passed;
    }
    Unlocked released;
    return in_range();
}

}  // namespace lethevec
