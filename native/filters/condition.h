// A filter as `lethevec._filters.program` writes it, read into a tree.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "filters/pattern.h"
#include "filters/value.h"
#include "memory/wiped.h"

namespace lethevec::filters {

struct Condition {
    enum Name : uint8_t { all, any, negation, ids, unsure, one_of, bounds, exists, any_of, all_of, text, matches };
    enum Order : uint8_t { above, from, below, up_to };
    struct Bound {
        Order order;
        Value value;
        bool is_date = false;
        Instant instant;
    };

    Name name = all;
    std::vector<Condition> parts;
    WipedVector<int64_t> numbers;  // of ids
    std::string_view field;        // texts are the filter's
    WipedVector<Value> values;
    WipedVector<Bound> limits;
    std::shared_ptr<const Pattern> pattern;
};

// What a person looks for says something of them: by the types of its lists, all of it is wiped when it goes.
class Filter {
public:
    // Throws std::invalid_argument for what is no program.
    explicit Filter(std::string_view program);
    // Of a filter that is a pattern and nothing else: whether that is found in a text.
    bool found_in(std::string_view text) const;
    Filter(const Filter&) = delete;
    Filter& operator=(const Filter&) = delete;
    const Condition& condition() const { return condition_; }

private:
    const WipedVector<char> program_;
    Condition condition_;
};

}  // namespace lethevec::filters
