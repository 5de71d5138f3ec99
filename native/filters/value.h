// The values that filters compare: JSON's scalars, as they lie in somebody else's memory.
//
// Mirrors `lethevec._filters.spec`: a number is an integer where an int64 holds it, so that 1 and 1.0 are one value;
// whole numbers beyond that are the nearest double. Texts are UTF-8, whose bytes are ordered as its code points are.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace lethevec::filters {

enum class Kind : uint8_t {
    none,
    null,
    no,
    yes,
    integer,
    real,
    text,
    array,       // of scalars; what else it has equals nothing
    object,      // whatever it holds
    long_text,   // longer than is kept here
    long_array,  // likewise
};

struct Value {
    Kind kind = Kind::none;
    int64_t integer = 0;
    double real = 0.0;
    std::string_view text;
    const uint32_t* elements = nullptr;  // of an array: codes, ascending
    uint32_t count = 0;

    static Value of(int64_t integer) {
        Value value;
        value.kind = Kind::integer;
        value.integer = integer;
        return value;
    }
    static Value of(double real) {
        // Both ends are exact: -2^63 is an int64 and 2^63 is not.
        if (real >= -9223372036854775808.0 && real < 9223372036854775808.0) {
            const auto whole = static_cast<int64_t>(real);
            if (static_cast<double>(whole) == real) return of(whole);
        }
        Value value;
        value.kind = Kind::real;
        value.real = real;
        return value;
    }
    static Value of(std::string_view text) {
        Value value;
        value.kind = Kind::text;
        value.text = text;
        return value;
    }
    static Value of(Kind kind) {
        Value value;
        value.kind = kind;
        return value;
    }
    bool is_number() const { return kind == Kind::integer || kind == Kind::real; }
    double as_double() const { return kind == Kind::integer ? static_cast<double>(integer) : real; }
};

// -1, 0 or 1; exact. Two numbers that round to one double are two integers, or an integer below 2^63 and that double.
inline int compare_numbers(const Value& a, const Value& b) {
    const double x = a.as_double(), y = b.as_double();
    if (x != y) return x < y ? -1 : 1;
    if (a.kind != b.kind) return a.kind == Kind::integer ? -1 : 1;
    if (a.kind == Kind::real || a.integer == b.integer) return 0;
    return a.integer < b.integer ? -1 : 1;
}

inline int sign_of(int number) { return (number > 0) - (number < 0); }

inline int compare_texts(std::string_view a, std::string_view b) { return sign_of(a.compare(b)); }

// Seconds from the first day of the year 1, and what is left of a second.
struct Instant {
    int64_t seconds = 0;
    int32_t nanoseconds = 0;
};

inline int compare_instants(const Instant& a, const Instant& b) {
    if (a.seconds != b.seconds) return a.seconds < b.seconds ? -1 : 1;
    return (a.nanoseconds > b.nanoseconds) - (a.nanoseconds < b.nanoseconds);
}

// Whether a text is a date as `lethevec._filters.dates` says, and which instant it stands for.
bool read_instant(std::string_view text, Instant& instant);

// A number that is not smaller for a larger value: of numbers from 1 on, of instants from FIRST_DATE on.
constexpr uint32_t FIRST_DATE = uint32_t{1} << 31;
inline uint32_t order_key(double number) {
    uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    bits = bits >> 63 ? ~bits : bits | (uint64_t{1} << 63);
    return static_cast<uint32_t>(bits >> 33);
}
inline uint32_t order_key(const Instant& instant) {
    constexpr int64_t DAY = 86400;  // an offset can lead to before the first day
    return FIRST_DATE + static_cast<uint32_t>((instant.seconds + DAY) >> 8);
}

}  // namespace lethevec::filters
