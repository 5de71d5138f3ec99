#include "filters/value.h"

namespace lethevec::filters {

namespace {

constexpr int DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

// Takes one part after the other; a part that is not there makes it fail.
class Scanner {
public:
    explicit Scanner(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}
    bool done() const { return at_ == end_; }
    bool digits(int count, int& number) {
        if (end_ - at_ < count) return false;
        number = 0;
        for (int i = 0; i < count; ++i, ++at_) {
            if (*at_ < '0' || *at_ > '9') return false;
            number = 10 * number + (*at_ - '0');
        }
        return true;
    }
    bool take(char one) {
        if (at_ == end_ || *at_ != one) return false;
        ++at_;
        return true;
    }
    // One to nine digits, as nanoseconds.
    bool fraction(int32_t& nanoseconds) {
        int taken = 0;
        nanoseconds = 0;
        for (; at_ != end_ && *at_ >= '0' && *at_ <= '9'; ++at_, ++taken) {
            if (taken == 9) return false;
            nanoseconds = 10 * nanoseconds + (*at_ - '0');
        }
        for (int i = taken; i < 9; ++i) nanoseconds *= 10;
        return taken > 0;
    }

private:
    const char *at_, *end_;
};

}  // namespace

bool read_instant(std::string_view text, Instant& instant) {
    // The shortest and the longest.
    if (text.size() < 10 || text.size() > 35) return false;
    Scanner scanner(text);
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, offset = 0;
    int32_t nanoseconds = 0;
    if (!scanner.digits(4, year) || !scanner.take('-') || !scanner.digits(2, month) || !scanner.take('-') ||
        !scanner.digits(2, day))
        return false;
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > DAYS[month - 1] + (leap && month == 2)) return false;
    if (!scanner.done()) {
        if (!scanner.take('T') && !scanner.take(' ')) return false;
        if (!scanner.digits(2, hour) || !scanner.take(':') || !scanner.digits(2, minute)) return false;
        if (scanner.take(':')) {
            if (!scanner.digits(2, second)) return false;
            if (scanner.take('.') && !scanner.fraction(nanoseconds)) return false;
        }
        if (!scanner.done() && !scanner.take('Z')) {
            const bool west = scanner.take('-');
            int hours = 0, minutes = 0;
            if ((!west && !scanner.take('+')) || !scanner.digits(2, hours) || !scanner.take(':') ||
                !scanner.digits(2, minutes) || hours > 23 || minutes > 59)
                return false;
            offset = (west ? -1 : 1) * (60 * hours + minutes);
        }
        if (!scanner.done() || hour > 23 || minute > 59 || second > 59) return false;
    }
    const int before = year - 1;
    int64_t days = 365 * before + before / 4 - before / 100 + before / 400 + (leap && month > 2) + day - 1;
    for (int m = 1; m < month; ++m) days += DAYS[m - 1];
    instant.seconds = ((days * 24 + hour) * 60 + minute - offset) * 60 + second;
    instant.nanoseconds = nanoseconds;
    return true;
}

}  // namespace lethevec::filters
