// What makes `where=` fast: the fields of all payloads, by row, beside the index and told of every change under its
// write lock. Derived: it answers as `lethevec._filters.spec` does over the records that there are, and what belonged
// to a record that has gone is overwritten.
//
// Nothing has to be declared. Where a record is too large to be looked at in full (payload.h has the limits), or a
// field is not among those that were asked for, the answer is "unsure", and whoever asked looks at the payload.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/condition.h"
#include "filters/dictionary.h"
#include "filters/field.h"
#include "memory/growing.h"
#include "memory/wiped.h"

namespace lethevec::filters {

// Of some records, in their order: canonical JSON and subjects, without data where there is none.
struct Texts {
    const std::string_view* payloads = nullptr;
    const std::string_view* subjects = nullptr;
};

// The rows that pass, and those of which it cannot be told here; no row is in both.
struct Answer {
    std::vector<uint64_t> yes, unsure;
    bool any_unsure = false;
};

class Filters {
public:
    // The fields that are kept: all, or these. The subject always is.
    explicit Filters(std::optional<std::vector<std::string>> only);
    ~Filters();
    Filters(const Filters&) = delete;
    Filters& operator=(const Filters&) = delete;

    // The values of some records, taken but not yet given to rows. What is not made use of is undone when it goes.
    class Change {
    public:
        explicit Change(Filters& filters) : filters_(filters) {}
        ~Change();
        Change(const Change&) = delete;
        Change& operator=(const Change&) = delete;

    private:
        friend class Filters;
        friend class Taking;
        struct Item {
            uint32_t record, field, code;
        };
        Filters& filters_;
        WipedVector<Item> items_;
        std::vector<uint32_t> incomplete_;  // records that were too large to be looked at in full
        int64_t records_ = 0;
    };

    int64_t rows() const { return rows_; }
    // Reads n records and makes room for them, as new rows or in place of others. May throw, changing nothing that can
    // be seen.
    enum class As { new_rows, replacements };
    void prepare(const Texts& texts, int64_t n, Change& change, As as = As::new_rows);
    // The records become the last rows.
    void append(Change& change) noexcept;
    // The records take the place of what these rows had.
    void replace(Change& change, const uint32_t* rows) noexcept;
    // The row goes, and the last row takes its number.
    void remove(uint32_t row) noexcept;

    // `find` gives the row of a number, or something beyond the last row. Strings have numbers from `unsure_from` on,
    // and whether such a number stands for the id that was asked for is for others to see.
    void evaluate(const Condition& condition, const std::function<uint32_t(int64_t)>& find, int64_t unsure_from,
                  Answer& answer) const;

    struct Size {
        int64_t fields, values, bytes;
    };
    Size size() const;
    void raw_memory(std::vector<uint8_t>& all) const;

private:
    friend class Taking;
    class Evaluation;
    static constexpr size_t LONGEST_TEXT = 256;            // bytes of a text, where fields were not named
    static constexpr size_t LONGEST_NAMED_TEXT = 1 << 20;  // where they were

    bool wants(std::string_view path) const;
    // The number of a field; a new one may throw, changing nothing.
    uint32_t field_of(std::string_view path);
    const Field* find_field(std::string_view path) const;
    void drop_if_empty(uint32_t field) noexcept;
    void adapt() noexcept;
    bool incomplete(uint32_t row) const { return incomplete_[row / 64] >> (row % 64) & 1; }
    void set_incomplete(uint32_t row, bool is) noexcept;

    std::optional<std::vector<std::string>> only_;  // ascending
    int64_t rows_ = 0;
    Dictionary names_;                            // of fields; a code is a field's number
    std::vector<std::unique_ptr<Field>> fields_;  // by number
    Growing<uint64_t> incomplete_;                // a bit for each row
    int64_t incomplete_count_ = 0;
};

}  // namespace lethevec::filters
