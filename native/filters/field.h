// One field of the payloads: its values, and which row has which.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "filters/column.h"
#include "filters/condition.h"
#include "filters/dictionary.h"
#include "memory/growing.h"

namespace lethevec::filters {

class Field {
public:
    // No row has it yet.
    Field(int64_t rows, size_t longest_text) : longest_text_(longest_text), column_(rows) {}

    Dictionary& values() { return values_; }
    const Dictionary& values() const { return values_; }
    bool empty() const { return values_.live() == 0; }
    int64_t count() const { return column_.count(); }
    size_t longest_text() const { return longest_text_; }

    void reserve(int64_t rows, int64_t more);
    void set_rows(int64_t rows) noexcept;
    // A code that was taken; what the row had before is released.
    void set(uint32_t row, uint32_t code) noexcept;
    // The row has no value any more, and the last row takes its place.
    void remove(uint32_t row) noexcept;
    // After changes: whatever form suits the numbers there are.
    void adapt() noexcept;

    // At most so many rows pass, or a guess at it.
    int64_t estimate(const Condition& condition) const;
    // Rows in `mask` that pass stay. Those of which it cannot be told are put into `unsure`, if there are any; true
    // then.
    bool keep(const Condition& condition, uint64_t* mask, std::vector<uint64_t>& unsure) const;
    void keep_present(uint64_t* mask) const { column_.keep_present(mask); }

    int64_t bytes(int64_t rows) const;
    void raw_memory(std::vector<uint8_t>& all) const;

private:
    static constexpr int64_t KEYED_FROM = 255;  // values that have an order, from which on rows have keys

    Choice choose(const Condition& condition) const;
    bool by_keys(const Condition& condition) const;
    void keep_by_keys(const Condition& condition, uint64_t* mask) const;
    bool within(uint32_t code, const Condition& condition) const;

    size_t longest_text_;
    Dictionary values_;
    Column column_;
    bool keyed_ = false;
    Growing<uint32_t> keys_;  // of the rows' values, where there are many
};

}  // namespace lethevec::filters
