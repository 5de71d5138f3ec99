// Bodies of requests to a server: the vectors in a JSON text without a Python object for each number, and the end of
// texts that nobody may read again.
#include <charconv>
#include <cstring>
#include <string_view>

#include "bind/bind.h"
#include "bind/numpy.h"
#include "memory/wipe.h"
#include "memory/wiped.h"

namespace lethevec {

namespace {

constexpr double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                             1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr uint64_t EXACT = uint64_t{1} << 53;  // whole numbers up to here are doubles

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr uint64_t TENS[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
// How many of eight characters are digits before the first one that is none, and the number that they are. A digit's
// upper half is 3, and still is when 6 is added; a carry goes to characters behind one that is no digit alone.
int first_digits(const char* at, uint64_t& number) {
    constexpr uint64_t UPPER = 0xF0F0F0F0F0F0F0F0, ALL = 0x0101010101010101;
    uint64_t text = 0;
    std::memcpy(&text, at, sizeof text);
    const uint64_t others = ((text & UPPER) ^ (ALL * 0x30)) | (((text + ALL * 6) & UPPER) ^ (ALL * 0x30));
    const int count = others ? __builtin_ctzll(others) / 8 : 8;
    number = 0;
    if (count == 0) return 0;
    text = (text << 8 * (8 - count)) & (ALL * 0x0F);  // zeros before them
    text = text * 10 + (text >> 8);                   // pairs, then fours, then all
    constexpr uint64_t PAIRS = 0x000000FF000000FF;
    number =
        ((text & PAIRS) * (100 + (uint64_t{1000000} << 32)) + (text >> 16 & PAIRS) * (1 + (uint64_t{10000} << 32))) >>
        32;
    return count;
}
constexpr bool EIGHT_AT_A_TIME = true;
#else
int first_digits(const char*, uint64_t&) { return 0; }
constexpr bool EIGHT_AT_A_TIME = false;
#endif

// The float nearest to the double nearest to digits * 10^exponent, where a short calculation can tell. The whole number
// and the power are rounded once at most, and so is the result: it is next to the right double, or that one. Both give
// the same float unless they are about half-way between two.
bool nearly(uint64_t digits, int64_t exponent, float& into) {
    const double whole = static_cast<double>(digits);
    const double value = exponent < 0 ? whole / POWERS[-exponent] : whole * POWERS[exponent];
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    constexpr uint64_t PAST = (uint64_t{1} << 29) - 1, HALF = uint64_t{1} << 28, CLOSE = 4;
    if (digits > EXACT && (bits & PAST) + CLOSE >= HALF && (bits & PAST) <= HALF + CLOSE) return false;
    if (value > 1e38) return false;
    into = static_cast<float>(value);
    return true;
}

// The nearest double to a number that has more digits than the short way takes. The text has the form of JSON.
double slowly(const char* begin, const char* end) {
#if defined(__cpp_lib_to_chars)
    double value = 0;
    const auto done = std::from_chars(begin, end, value);
    if (done.ec == std::errc() && done.ptr == end) return value;
#endif
    // Out of range, or a library without it: Python knows both. It reads up to a zero.
    WipedVector<char> text(begin, end);
    text.push_back('\0');
    const double read = PyOS_string_to_double(text.data(), nullptr, nullptr);  // infinite where it is too large
    if (PyErr_Occurred()) nb::raise_python_error();
    return read;
}

// Reads JSON as far as it must: what it does not know, or is wrong, it leaves to whoever reads all of it.
class Reader {
public:
    Reader(const char* begin, const char* end) : at_(begin), end_(end) {}

    const char* at() const { return at_; }

    void skip_space() {
        while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
    }

    bool take(char c) {
        skip_space();
        if (at_ >= end_ || *at_ != c) return false;
        ++at_;
        return true;
    }

    bool next_is(char c) {
        skip_space();
        return at_ < end_ && *at_ == c;
    }

    // A string without escapes, as it stands between its quotes.
    bool take_name(std::string_view& name) {
        if (!take('"')) return false;
        const char* const begin = at_;
        while (at_ < end_ && *at_ != '"' && *at_ != '\\') ++at_;
        if (at_ >= end_ || *at_ != '"') return false;
        name = {begin, static_cast<size_t>(at_ - begin)};
        ++at_;
        return true;
    }

    // Past one value, whatever it is; whether it is well formed is for others to say.
    bool skip_value() {
        skip_space();
        int64_t depth = 0;
        while (at_ < end_) {
            const char c = *at_;
            if (c == '"') {
                if (!skip_string()) return false;
            } else if (c == '[' || c == '{') {
                ++depth;
                ++at_;
            } else if (c == ']' || c == '}') {
                if (depth == 0) return true;  // the end of what the value is in
                --depth;
                ++at_;
            } else if (c == ',' && depth == 0) {
                return true;
            } else {
                ++at_;
                continue;
            }
            if (depth == 0) return true;
        }
        return depth == 0;
    }

    // Numbers in brackets, exactly so many.
    bool take_row(int64_t dim, WipedVector<float>& into) {
        if (!take('[')) return false;
        for (int64_t i = 0; i < dim; ++i) {
            float value = 0;
            if ((i > 0 && !take(',')) || !take_number(value)) return false;
            into.push_back(value);
        }
        return take(']');
    }

private:
    bool skip_string() {
        ++at_;
        while (at_ < end_ && *at_ != '"') at_ += *at_ == '\\' ? 2 : 1;
        if (at_ >= end_) return false;
        ++at_;
        return true;
    }

    // Past the digits from here on. They are added to those of the number, as if it had no point.
    void take_digits(uint64_t& digits) {
        const char* at = at_;
        while (EIGHT_AT_A_TIME && end_ - at >= 8) {
            uint64_t some = 0;
            const int count = first_digits(at, some);
            digits = digits * TENS[count] + some;
            at += count;
            if (count < 8) {
                at_ = at;
                return;
            }
        }
        for (; at < end_ && is_digit(*at); ++at) digits = digits * 10 + static_cast<uint64_t>(*at - '0');
        at_ = at;
    }

    bool take_number(float& into) {
        skip_space();
        const char* const begin = at_;
        const bool negative = at_ < end_ && *at_ == '-';
        if (negative) ++at_;
        if (at_ >= end_ || !is_digit(*at_)) return false;
        uint64_t digits = 0;
        int64_t exponent = 0, count = 0;  // of digits after the zeros that it begins with
        if (*at_ == '0') {
            ++at_;
        } else {
            const char* const first = at_;
            take_digits(digits);
            count = at_ - first;
        }
        if (at_ < end_ && *at_ == '.') {
            const char* first = ++at_;
            if (at_ >= end_ || !is_digit(*at_)) return false;
            if (count == 0)
                while (at_ < end_ && *at_ == '0') ++at_;
            const char* const counted = at_;
            take_digits(digits);
            count += at_ - counted;
            exponent = first - at_;
        }
        if (at_ < end_ && (*at_ == 'e' || *at_ == 'E')) {
            ++at_;
            const bool down = at_ < end_ && *at_ == '-';
            if (at_ < end_ && (*at_ == '-' || *at_ == '+')) ++at_;
            if (at_ >= end_ || !is_digit(*at_)) return false;
            int64_t given = 0;
            for (; at_ < end_ && is_digit(*at_); ++at_)
                if (given < 100000) given = given * 10 + (*at_ - '0');
            exponent += down ? -given : given;
        }
        if (count > 19 || exponent < -22 || exponent > 22 || !nearly(digits, exponent, into))
            into = static_cast<float>(slowly(begin, at_));
        else if (negative)
            into = -into;
        return true;
    }

    const char *at_, *end_;
};

// The rows of a list of lists of numbers, or of one list of numbers.
bool take_rows(Reader& reader, int64_t dim, WipedVector<float>& into) {
    Reader ahead = reader;
    ahead.take('[');
    if (!ahead.next_is('[')) return reader.take_row(dim, into);
    if (!reader.take('[')) return false;
    do {
        if (!reader.take_row(dim, into)) return false;
    } while (reader.take(','));
    return reader.take(']');
}

// The vectors of a JSON object as an array, and the text without them; None where somebody else has to look.
nb::object take_vectors(nb::bytes body, nb::tuple names, int64_t dim) {
    const char* const text = body.c_str();
    const char* const end = text + body.size();
    const ClearedRegisters cleared(STACK);
    Reader reader(text, end);
    if (dim < 1 || !reader.take('{')) return nb::none();
    WipedVector<float> numbers;
    const char *cut = nullptr, *rest = nullptr;
    if (!reader.take('}')) {
        do {
            std::string_view name;
            if (!reader.take_name(name) || !reader.take(':')) return nb::none();
            bool wanted = false;
            for (const nb::handle one : names) {
                Py_ssize_t size = 0;
                const char* const known = PyUnicode_AsUTF8AndSize(one.ptr(), &size);
                if (!known) nb::raise_python_error();
                wanted |= name == std::string_view(known, static_cast<size_t>(size));
            }
            if (wanted && reader.next_is('[')) {
                if (cut) return nb::none();  // twice
                cut = reader.at();
                numbers.reserve(static_cast<size_t>(dim));
                if (!take_rows(reader, dim, numbers)) return nb::none();
                rest = reader.at();
            } else if (wanted || !reader.skip_value()) {
                return nb::none();
            }
        } while (reader.take(','));
        if (!reader.take('}')) return nb::none();
    }
    if (!cut) return nb::none();
    const int64_t rows = static_cast<int64_t>(numbers.size()) / dim;
    const NewArray<float> array(rows, dim);
    std::memcpy(array.data, numbers.data(), numbers.size() * sizeof(float));
    const size_t before = static_cast<size_t>(cut - text), after = static_cast<size_t>(end - rest);
    nb::object left = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(before + 4 + after)));
    if (!left.is_valid()) nb::raise_python_error();
    char* const to = PyBytes_AS_STRING(left.ptr());
    std::memcpy(to, text, before);
    std::memcpy(to + before, "null", 4);
    std::memcpy(to + before + 4, rest, after);
    return nb::make_tuple(array.object, left);
}

// Python shares the bytes of length 0 and 1 with everybody.
void wipe_bytes(nb::bytes data) {
    if (data.size() > 1) wipe(PyBytes_AS_STRING(data.ptr()), data.size());
}

}  // namespace

void bind_bodies(nb::module_& module) {
    module.def(
        "take_vectors", &take_vectors, "body"_a, "names"_a, "dim"_a,
        nb::sig("def take_vectors(body: bytes, names: tuple[str, ...], dim: int) -> "
                "tuple[numpy.typing.NDArray[numpy.float32], bytes] | None"),
        "The vectors that a JSON object has under one of some names, and the text with null in their place; None "
        "where they have to be read in another way, or are wrong.");
    module.def("wipe_bytes", &wipe_bytes, "data"_a,
               "Overwrite bytes that nobody else has and nobody will read again: Python frees them as they are.");
    module.def(
        "clear_stack", [] { const ClearedRegisters cleared(STACK); },
        "Overwrite what the calls that have just ended left on this thread's stack, and in the CPU's registers.");
}

}  // namespace lethevec
