// A C-contiguous NumPy array of two dimensions, as the calls take it that a single vector waits for.
//
// nanobind's ndarray asks for a DLPack capsule, by a call to Python with arguments. A single vector is encoded, or
// looked for, in a few microseconds and would wait for three of them, so this one reads `__array_struct__`, which costs
// about half.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <type_traits>

namespace lethevec {

// What `__array_struct__` holds: version 3 of NumPy's array interface, which fixes these fields and flags.
struct ArrayStruct {
    int two;
    int dimensions;
    char kind;
    int itemsize;
    int flags;
    Py_ssize_t* shape;
    Py_ssize_t* strides;
    void* data;
    PyObject* description;
};
constexpr int C_CONTIGUOUS = 0x1, NATIVE_ORDER = 0x200, WRITEABLE = 0x400;

// T is const where the array may be one that must not be written to.
template <class T>
struct Matrix {
    T* data = nullptr;
    int64_t rows = 0, columns = 0;

    // False, with no error set, for anything else: nothing is converted. With `least_dimensions` 1, an array of one
    // dimension is one row.
    bool read(nanobind::handle array, int least_dimensions = 2) {
        // An object's capsule keeps it alive, and an array from being resized.
        owner_ = nanobind::steal(PyObject_GetAttr(array.ptr(), attribute()));
        const ArrayStruct* found = nullptr;
        if (owner_.is_valid() && PyCapsule_CheckExact(owner_.ptr()))
            found = static_cast<const ArrayStruct*>(PyCapsule_GetPointer(owner_.ptr(), nullptr));
        if (!found) {
            PyErr_Clear();
            return false;
        }
        constexpr int wanted = C_CONTIGUOUS | NATIVE_ORDER | (std::is_const_v<T> ? 0 : WRITEABLE);
        constexpr char kind = std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u';
        if (found->two != 2 || found->dimensions < least_dimensions || found->dimensions > 2 ||
            (found->flags & wanted) != wanted || found->kind != kind || found->itemsize != static_cast<int>(sizeof(T)))
            return false;
        data = static_cast<T*>(found->data);
        rows = found->dimensions == 2 ? found->shape[0] : 1;
        columns = found->shape[found->dimensions - 1];
        return true;
    }

private:
    // Interned once: a look-up by a name that is made again would cost more than the rest.
    static PyObject* attribute() {
        static PyObject* const name = PyUnicode_InternFromString("__array_struct__");
        return name;
    }
    nanobind::object owner_;
};

}  // namespace lethevec

namespace nanobind::detail {

template <class T>
struct type_caster<lethevec::Matrix<T>> {
    using Matrix = lethevec::Matrix<T>;
    using Plain = std::remove_const_t<T>;
    static_assert(std::is_same_v<Plain, float> || std::is_same_v<Plain, uint8_t> || std::is_same_v<Plain, int64_t>,
                  "name others below");
    NB_TYPE_CASTER(Matrix,
                   const_name("numpy.typing.NDArray[numpy.") +
                       const_name<std::is_floating_point_v<T>>(const_name("float32]"),
                                                               const_name<sizeof(T) == 8>(const_name("int64]"),
                                                                                          const_name("uint8]"))))

    bool from_python(handle source, uint32_t, cleanup_list*) noexcept { return value.read(source); }
    static handle from_cpp(const Matrix&, rv_policy, cleanup_list*) noexcept { return {}; }
};

}  // namespace nanobind::detail
