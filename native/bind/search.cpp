// A search in one call: a search of a few records takes less time than to check a query, to make room for its answers
// and to wrap them up, in a call from Python each.
#include <algorithm>
#include <array>
#include <optional>

#include "bind/bind.h"
#include "bind/numpy.h"
#include "index.h"

namespace lethevec {

namespace {

// The value of a plain int in a range; nothing for whatever else, which includes bool and NumPy's integers.
std::optional<int64_t> plain_int(nb::handle given, int64_t low, int64_t high) {
    if (!PyLong_CheckExact(given.ptr())) return std::nullopt;
    int overflow = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(given.ptr(), &overflow);
    if (overflow || value < low || value > high) return std::nullopt;
    return value;
}

std::optional<double> plain_float(nb::handle given, double low, double high) {
    if (!PyFloat_CheckExact(given.ptr())) return std::nullopt;
    const double value = PyFloat_AS_DOUBLE(given.ptr());
    if (!(value >= low && value <= high)) return std::nullopt;
    return value;
}

// What may be asked for, and the types of what is answered with.
struct DirectSearch {
    PyTypeObject *hits, *work;
    double smallest_norm, largest_norm, least_effort, most_effort;
    int64_t most_k, most_threads, most_answers;

    // The hits; None for whatever has to be converted, or refused: there is one place where errors are made.
    nb::object run(const Index& index, nb::handle given, nb::handle given_k, nb::handle given_effort,
                   nb::handle given_threads) const {
        const auto k = plain_int(given_k, 1, most_k), threads = plain_int(given_threads, 1, most_threads);
        const auto effort = plain_float(given_effort, least_effort, most_effort);
        Matrix<const float> queries;
        if (!k || !threads || !effort || !Numpy::get().is_array(given) || !queries.read(given, 1) ||
            queries.columns != index.dim() || queries.rows < 1 || *k > most_answers / queries.rows ||
            !norms_pass(queries, smallest_norm, largest_norm))
            return nb::none();
        const NewArray<int64_t> ids(queries.rows, *k);
        const NewArray<float> distances(queries.rows, *k);
        SearchWork done;
        {
            Unlocked released(STACK);
            done = index.search({queries.data, queries.rows, *k, *effort, {}, *threads}, {ids.data, distances.data});
        }
        return wrapped(ids.object, distances.object,
                       tuple_of({done.scanned, done.refined, done.reranked, done.bytes_read}));
    }

private:
    // A named tuple as its own `__new__` would make it, which is written in Python.
    nb::object tuple_of(const std::array<int64_t, 4>& numbers) const {
        nb::object made = nb::steal(work->tp_alloc(work, static_cast<Py_ssize_t>(numbers.size())));
        if (!made.is_valid()) nb::raise_python_error();
        for (size_t i = 0; i < numbers.size(); ++i)
            PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), nb::int_(numbers[i]).release().ptr());
        return made;
    }

    // The same for an object whose `__init__` only takes over its arguments, of which an index gives three.
    nb::object wrapped(nb::handle ids, nb::handle distances, nb::handle done) const {
        static PyObject* const names[] = {PyUnicode_InternFromString("ids"), PyUnicode_InternFromString("distances"),
                                          PyUnicode_InternFromString("work"), PyUnicode_InternFromString("subjects"),
                                          PyUnicode_InternFromString("payloads")};
        nb::object made = nb::steal(hits->tp_alloc(hits, 0));
        if (!made.is_valid()) nb::raise_python_error();
        const nb::handle values[] = {ids, distances, done, Py_None, Py_None};
        for (size_t i = 0; i < 5; ++i)
            if (PyObject_SetAttr(made.ptr(), names[i], values[i].ptr())) nb::raise_python_error();
        return made;
    }
};

// Types live as long as the interpreter: counting these references would tie them and us into a cycle.
PyTypeObject* kept_type(nb::handle type, bool tuple) {
    expect(PyType_Check(type.ptr()), "expected a type");
    auto* given = reinterpret_cast<PyTypeObject*>(type.ptr());
    expect(PyType_IsSubtype(given, &PyTuple_Type) == tuple, "expected another type");
    return reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
}

}  // namespace

void bind_search(nb::module_& module) {
    nb::class_<DirectSearch>(module, "DirectSearch",
                             "A search in one call, of what needs no conversion and has no filter.")
        .def(
            "__init__",
            [](DirectSearch* self, nb::handle hits, nb::handle work, double smallest_norm, double largest_norm,
               double least_effort, double most_effort, int64_t most_k, int64_t most_threads, int64_t most_answers) {
                new (self) DirectSearch{kept_type(hits, false),
                                        kept_type(work, true),
                                        smallest_norm,
                                        largest_norm,
                                        least_effort,
                                        most_effort,
                                        most_k,
                                        most_threads,
                                        most_answers};
            },
            nb::kw_only(), "hits"_a, "work"_a, "smallest_norm"_a, "largest_norm"_a, "least_effort"_a, "most_effort"_a,
            "most_k"_a, "most_threads"_a, "most_answers"_a)
        .def("run", &DirectSearch::run, "index"_a, "queries"_a.none(), "k"_a.none(), "effort"_a.none(),
             "threads"_a.none(),
             nb::sig("def run(self, index: Index, queries: object, k: object, effort: object, threads: object) -> "
                     "typing.Any"),
             "The hits; None for what has to be converted or refused.");
}

}  // namespace lethevec
