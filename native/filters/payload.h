// Fields and values out of a payload's canonical JSON, without making anything of it but calls.
#pragma once

#include <cstdint>
#include <string_view>

#include "filters/value.h"
#include "memory/wiped.h"

namespace lethevec::filters {

constexpr size_t MAX_PARTS = 16;            // of a dotted field: what lies deeper has no name in a filter
constexpr size_t MAX_PATH = 1024;           // bytes
constexpr size_t MAX_RECORD_FIELDS = 1000;  // that are looked at of one record
constexpr size_t MAX_ELEMENTS = 1000;       // of an array

// Who is told of fields. Texts are valid during the call only.
class Visitor {
public:
    virtual ~Visitor() = default;
    // A field that holds a scalar or an object.
    virtual void field(std::string_view path, const Value& value) = 0;
    // A field that holds an array: its scalars.
    virtual void array(std::string_view path, const WipedVector<Value>& elements, bool too_long) = 0;
};

// Reads payloads one after the other.
class PayloadReader {
public:
    PayloadReader() = default;
    PayloadReader(const PayloadReader&) = delete;
    PayloadReader& operator=(const PayloadReader&) = delete;
    // Whether all fields that a filter can name were visited: not where there are too many, where a path is too long,
    // or where it is not JSON.
    bool read(std::string_view text, Visitor& visitor);

private:
    bool object(size_t depth);
    bool array();
    bool visit_value(size_t depth);
    bool skip_value();
    bool string(std::string_view& out);
    bool number(Value& out);
    bool scalar(Value& out);
    bool literal(const char* word, Kind kind, Value& out);
    char peek() const { return at_ < end_ ? *at_ : '\0'; }

    const char *at_ = nullptr, *end_ = nullptr;
    Visitor* visitor_ = nullptr;
    size_t fields_ = 0;
    bool complete_ = true;
    WipedVector<char> path_, unescaped_;
    size_t unescaped_size_ = 0;
    WipedVector<Value> elements_;
};

}  // namespace lethevec::filters
