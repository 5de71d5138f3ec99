// Texts that Python passes: lists of strings or None, as views into its own objects.
#pragma once

#include <string_view>
#include <vector>

#include "bind/bind.h"
#include "filters/filters.h"

namespace lethevec {

// Valid as long as the list is, and nobody changes it.
class TextList {
public:
    // None for a list of nothing; otherwise of n.
    TextList(nb::handle given, int64_t n) {
        if (given.is_none()) return;
        expect(PyList_CheckExact(given.ptr()) && PyList_GET_SIZE(given.ptr()) == n, "texts: expected a list of n");
        views_.reserve(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) {
            PyObject* text = PyList_GET_ITEM(given.ptr(), i);
            if (text == Py_None) {
                views_.emplace_back();
                continue;
            }
            Py_ssize_t size = 0;
            const char* data = PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &size) : nullptr;
            if (!data) {
                PyErr_Clear();
                expect(false, "texts: expected strings that UTF-8 can hold, or None");
            }
            views_.emplace_back(data, static_cast<size_t>(size));
        }
    }
    const std::string_view* data() const { return views_.empty() ? nullptr : views_.data(); }

private:
    std::vector<std::string_view> views_;
};

}  // namespace lethevec
