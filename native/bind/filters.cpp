#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <unordered_map>

#include "bind/bind.h"
#include "bind/texts.h"
#include "filters/filters.h"

namespace lethevec {

namespace {

using filters::Answer;
using filters::Filter;
using filters::Filters;

// The structure by itself, with rows and no index: for records without a vector.
struct FilterRows {
    explicit FilterRows(std::optional<std::vector<std::string>> only) : filters(std::move(only)) {}

    void add(nb::handle payloads, nb::handle subjects, int64_t n) {
        const TextList payload_texts(payloads, n), subject_texts(subjects, n);
        Filters::Change change(filters);
        filters.prepare({payload_texts.data(), subject_texts.data()}, n, change);
        filters.append(change);
    }
    void replace(Array<const uint32_t, 1> which, nb::handle payloads, nb::handle subjects) {
        const TextList payload_texts(payloads, rows(which)), subject_texts(subjects, rows(which));
        for (int64_t i = 0; i < rows(which); ++i) expect(which.data()[i] < filters.rows(), "rows: beyond the last");
        Filters::Change change(filters);
        filters.prepare({payload_texts.data(), subject_texts.data()}, rows(which), change, Filters::As::replacements);
        filters.replace(change, which.data());
    }
    void remove(int64_t row) {
        expect(row >= 0 && row < filters.rows(), "row: beyond the last");
        filters.remove(static_cast<uint32_t>(row));
    }
    // Two lists of bytes, a bit for each row: those that pass, and those of which it cannot be told.
    // `numbers` are those of the rows; without them, a row has its own number.
    std::pair<nb::bytes, nb::bytes> evaluate(const Filter& filter, std::optional<Array<const int64_t, 1>> numbers,
                                             int64_t unsure_from) const {
        expect(!numbers || rows(*numbers) == filters.rows(), "numbers: wrong shape");
        std::unordered_map<int64_t, uint32_t> known;
        for (int64_t row = 0; numbers && row < rows(*numbers); ++row)
            known.emplace(numbers->data()[row], static_cast<uint32_t>(row));
        const auto find = [&](int64_t number) {
            if (!numbers) return static_cast<uint32_t>(number);
            const auto found = known.find(number);
            return found == known.end() ? UINT32_MAX : found->second;
        };
        Answer answer;
        filters.evaluate(filter.condition(), find, unsure_from, answer);
        answer.unsure.resize(answer.yes.size());
        const auto bytes = [](const std::vector<uint64_t>& words) {
            return nb::bytes(reinterpret_cast<const char*>(words.data()), 8 * words.size());
        };
        return {bytes(answer.yes), bytes(answer.unsure)};
    }
    nb::bytes raw_memory() const {
        std::vector<uint8_t> all;
        filters.raw_memory(all);
        return nb::bytes(reinterpret_cast<const char*>(all.data()), all.size());
    }
    std::tuple<int64_t, int64_t, int64_t> size() const {
        const Filters::Size size = filters.size();
        return {size.fields, size.values, size.bytes};
    }

    Filters filters;
};

}  // namespace

void bind_filters(nb::module_& module) {
    nb::class_<Filter>(module, "Filter", "A filter that was read; `lethevec._filters.program` makes its bytes.")
        .def(
            "__init__",
            [](Filter* self, nb::bytes program) {
                new (self) Filter(std::string_view(program.c_str(), program.size()));
            },
            "program"_a)
        .def(
            "found_in",
            [](const Filter& self, nb::str text) {
                Py_ssize_t size = 0;
                const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
                if (!data) throw nb::python_error();
                Unlocked released;
                return self.found_in(std::string_view(data, static_cast<size_t>(size)));
            },
            "text"_a, "Of a filter that is a pattern and nothing else: whether that is found in the text.");
    nb::class_<FilterRows>(module, "FilterRows", "The structure behind filters, without an index.")
        .def(nb::init<std::optional<std::vector<std::string>>>(), "only"_a.none())
        .def("add", &FilterRows::add, "payloads"_a.none(), "subjects"_a.none(), "n"_a)
        .def("replace", &FilterRows::replace, "rows"_a.noconvert(), "payloads"_a.none(), "subjects"_a.none())
        .def("remove", &FilterRows::remove, "row"_a)
        .def("evaluate", &FilterRows::evaluate, "filter"_a, "numbers"_a.none() = nb::none(),
             "unsure_from"_a = INT64_MAX)
        .def("raw_memory", &FilterRows::raw_memory)
        .def("size", &FilterRows::size, "Fields, different values, and bytes.")
        .def("__len__", [](const FilterRows& self) { return self.filters.rows(); });
}

}  // namespace lethevec
