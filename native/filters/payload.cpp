#include "filters/payload.h"

#include <charconv>
#include <clocale>
#include <cstdlib>
#include <string>

#include "memory/wipe.h"

namespace lethevec::filters {

namespace {

void put_utf8(uint32_t code, char*& to) {
    if (code < 0x80) {
        *to++ = static_cast<char>(code);
    } else if (code < 0x800) {
        *to++ = static_cast<char>(0xC0 | code >> 6);
        *to++ = static_cast<char>(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        *to++ = static_cast<char>(0xE0 | code >> 12);
        *to++ = static_cast<char>(0x80 | (code >> 6 & 0x3F));
        *to++ = static_cast<char>(0x80 | (code & 0x3F));
    } else {
        *to++ = static_cast<char>(0xF0 | code >> 18);
        *to++ = static_cast<char>(0x80 | (code >> 12 & 0x3F));
        *to++ = static_cast<char>(0x80 | (code >> 6 & 0x3F));
        *to++ = static_cast<char>(0x80 | (code & 0x3F));
    }
}

bool hexadecimal(const char* from, uint32_t& code) {
    code = 0;
    for (int i = 0; i < 4; ++i) {
        const char c = from[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return false;
        code = code << 4 | static_cast<uint32_t>(digit);
    }
    return true;
}

// The nearest double; infinite beyond their range.
bool read_double(const char* begin, const char* end, double& out) {
#if defined(__cpp_lib_to_chars)
    const auto [stop, error] = std::from_chars(begin, end, out);
    if (stop != end) return false;
    if (error == std::errc()) return true;
    // Out of range: too large, or so small that it is zero.
    if (error != std::errc::result_out_of_range) return false;
#endif
    std::string copy(begin, end);
    const std::string point = std::localeconv()->decimal_point;
    if (const size_t dot = copy.find('.'); dot != std::string::npos) copy.replace(dot, 1, point);
    char* stop_at = nullptr;
    out = std::strtod(copy.c_str(), &stop_at);
    const bool whole = stop_at == copy.c_str() + copy.size();
    wipe(copy.data(), copy.size());
    return whole;
}

}  // namespace

bool PayloadReader::read(std::string_view text, Visitor& visitor) {
    at_ = text.data();
    end_ = at_ + text.size();
    visitor_ = &visitor;
    fields_ = 0;
    complete_ = true;
    // What is unescaped is never longer than what was escaped, so it does not move once there is room.
    if (unescaped_.size() < text.size()) unescaped_.resize(text.size());
    if (path_.size() < MAX_PATH) path_.resize(MAX_PATH);
    unescaped_size_ = 0;
    const bool whole = peek() == '{' && object(0) && at_ == end_;
    visitor_ = nullptr;
    return whole && complete_;
}

// `depth` bytes of the path lead here.
bool PayloadReader::object(size_t depth) {
    ++at_;
    if (peek() == '}') return ++at_, true;
    size_t parts = depth ? 2 : 1;
    for (size_t i = 0; i < depth; ++i) parts += path_[i] == '.';
    while (true) {
        std::string_view key;
        if (!string(key) || peek() != ':') return false;
        ++at_;
        // A key that no filter can name.
        bool named = !key.empty() && key.find('.') == std::string_view::npos && parts <= MAX_PARTS &&
                     (depth > 0 || key[0] != '$');
        const size_t length = depth + (depth ? 1 : 0) + key.size();
        if (named && (length > MAX_PATH || fields_ >= MAX_RECORD_FIELDS)) {
            complete_ = false;
            named = false;
        }
        if (named) {
            size_t to = depth;
            if (depth) path_[to++] = '.';
            std::memcpy(path_.data() + to, key.data(), key.size());
            if (!visit_value(length)) return false;
        } else if (!skip_value()) {
            return false;
        }
        if (peek() == '}') return ++at_, true;
        if (peek() != ',') return false;
        ++at_;
    }
}

bool PayloadReader::visit_value(size_t depth) {
    const std::string_view path(path_.data(), depth);
    if (peek() == '{') {
        ++fields_;
        visitor_->field(path, Value::of(Kind::object));
        return object(depth);
    }
    if (peek() == '[') {
        if (!array()) return false;
        ++fields_;
        visitor_->array(path, elements_, elements_.size() > MAX_ELEMENTS);
        return true;
    }
    Value value;
    if (!scalar(value)) return false;
    ++fields_;
    visitor_->field(path, value);
    return true;
}

bool PayloadReader::array() {
    elements_.clear();
    ++at_;
    if (peek() == ']') return ++at_, true;
    while (true) {
        if (peek() == '{' || peek() == '[') {
            if (!skip_value()) return false;
        } else {
            Value value;
            if (!scalar(value)) return false;
            if (elements_.size() <= MAX_ELEMENTS) elements_.push_back(value);
        }
        if (peek() == ']') return ++at_, true;
        if (peek() != ',') return false;
        ++at_;
    }
}

// Of any depth, without a call for each.
bool PayloadReader::skip_value() {
    int64_t open = 0;
    do {
        const char c = peek();
        if (c == '{' || c == '[') {
            ++open;
            ++at_;
        } else if (c == '}' || c == ']') {
            --open;
            ++at_;
        } else if (c == ',' || c == ':') {
            ++at_;
        } else {
            Value value;
            if (!scalar(value)) return false;
        }
    } while (open > 0 && at_ < end_);
    return open == 0;
}

bool PayloadReader::scalar(Value& out) {
    switch (peek()) {
        case '"': {
            std::string_view text;
            if (!string(text)) return false;
            out = Value::of(text);
            return true;
        }
        case 'n': return literal("null", Kind::null, out);
        case 't': return literal("true", Kind::yes, out);
        case 'f': return literal("false", Kind::no, out);
        default: return number(out);
    }
}

bool PayloadReader::literal(const char* word, Kind kind, Value& out) {
    const size_t length = std::strlen(word);
    if (static_cast<size_t>(end_ - at_) < length || std::memcmp(at_, word, length) != 0) return false;
    at_ += length;
    out = Value::of(kind);
    return true;
}

bool PayloadReader::number(Value& out) {
    const char* begin = at_;
    bool whole = true;
    while (at_ < end_) {
        const char c = *at_;
        if (c == '.' || c == 'e' || c == 'E' || c == '+')
            whole = false;
        else if (!(c >= '0' && c <= '9') && c != '-')
            break;
        ++at_;
    }
    if (at_ == begin) return false;
    if (whole) {
        int64_t integer = 0;
        const auto [stop, error] = std::from_chars(begin, at_, integer);
        if (stop == at_ && error == std::errc()) {
            out = Value::of(integer);
            return true;
        }
        if (error != std::errc::result_out_of_range) return false;
    }
    double real = 0.0;
    if (!read_double(begin, at_, real)) return false;
    out = Value::of(real);
    return true;
}

bool PayloadReader::string(std::string_view& out) {
    if (peek() != '"') return false;
    const char* begin = ++at_;
    while (at_ < end_ && *at_ != '"' && *at_ != '\\') ++at_;
    if (at_ == end_) return false;
    if (*at_ == '"') {
        out = std::string_view(begin, static_cast<size_t>(at_ - begin));
        ++at_;
        return true;
    }
    char* const made = unescaped_.data() + unescaped_size_;
    char* to = made;
    std::memcpy(to, begin, static_cast<size_t>(at_ - begin));
    to += at_ - begin;
    while (at_ < end_ && *at_ != '"') {
        if (*at_ != '\\') {
            *to++ = *at_++;
            continue;
        }
        if (end_ - at_ < 2) return false;
        const char mark = at_[1];
        at_ += 2;
        switch (mark) {
            case 'b': *to++ = '\b'; break;
            case 'f': *to++ = '\f'; break;
            case 'n': *to++ = '\n'; break;
            case 'r': *to++ = '\r'; break;
            case 't': *to++ = '\t'; break;
            case '"':
            case '\\':
            case '/': *to++ = mark; break;
            case 'u': {
                uint32_t code = 0, low = 0;
                if (end_ - at_ < 4 || !hexadecimal(at_, code)) return false;
                at_ += 4;
                if (code >= 0xD800 && code < 0xDC00) {
                    if (end_ - at_ < 6 || at_[0] != '\\' || at_[1] != 'u' || !hexadecimal(at_ + 2, low) ||
                        low < 0xDC00 || low > 0xDFFF)
                        return false;
                    at_ += 6;
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                } else if (code >= 0xDC00 && code < 0xE000) {
                    return false;
                }
                put_utf8(code, to);
                break;
            }
            default: return false;
        }
    }
    if (at_ == end_) return false;
    ++at_;
    unescaped_size_ += static_cast<size_t>(to - made);
    out = std::string_view(made, static_cast<size_t>(to - made));
    return true;
}

}  // namespace lethevec::filters
