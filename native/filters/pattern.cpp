#include "filters/pattern.h"

#include <stdexcept>

namespace lethevec::filters {

namespace {

// One code point of valid UTF-8, and where the next begins.
uint32_t decode(const char*& at, const char* end) {
    const auto byte = [&](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(at[i])); };
    const uint32_t first = byte(0);
    const int length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (end - at < length) {
        at = end;
        return 0xFFFD;
    }
    uint32_t code = first;
    if (length == 2) code = (first & 0x1F) << 6 | (byte(1) & 0x3F);
    if (length == 3) code = (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    if (length == 4) code = (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    at += length;
    return code;
}

bool is_word(uint32_t c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

bool fits(const Step& step, uint32_t c) {
    for (const auto& [low, high] : step.ranges)
        if (c >= low && c <= high) return true;
    return false;
}

}  // namespace

Pattern::Pattern(Steps steps) : steps_(std::move(steps)) {
    const auto n = static_cast<uint32_t>(steps_.size());
    if (n == 0 || steps_.back().name != Step::match) throw std::invalid_argument("pattern: no end");
    for (const Step& step : steps_)
        if (step.name > Step::match || step.first >= n || step.second >= n)
            throw std::invalid_argument("pattern: a step that leads to nowhere");
}

bool Pattern::Matcher::Set::add(uint32_t step) {
    if (places[step] < size && members[places[step]] == step) return false;
    places[step] = size;
    members[size++] = step;
    return true;
}

Pattern::Matcher::Matcher(const Pattern& pattern) : pattern_(pattern) {
    for (Set* set : {&now_, &next_}) {
        set->members.resize(pattern.steps_.size());
        set->places.resize(pattern.steps_.size());
    }
}

// What can be reached from a step without a character; true if that is a match.
bool Pattern::Matcher::reach(uint32_t step, Set& set) {
    stack_.clear();
    stack_.push_back(step);
    while (!stack_.empty()) {
        const uint32_t at = stack_.back();
        stack_.pop_back();
        if (!set.add(at)) continue;
        const Step& one = pattern_.steps_[at];
        bool on = false;
        switch (one.name) {
            case Step::match: return true;
            case Step::split: stack_.push_back(one.second); [[fallthrough]];
            case Step::jump: stack_.push_back(one.first); break;
            case Step::begin: on = at_begin_; break;
            case Step::end: on = at_end_; break;
            case Step::word: on = at_word_; break;
            case Step::no_word: on = !at_word_; break;
            case Step::character: break;
        }
        if (on) stack_.push_back(at + 1);
    }
    return false;
}

bool Pattern::Matcher::found_in(std::string_view text) {
    const char *at = text.data(), *end = at + text.size();
    now_.size = 0;
    bool before = false;  // whether the last character belongs to a word
    at_begin_ = true;
    while (true) {
        const char* following = at;
        const uint32_t c = at == end ? 0 : decode(following, end);
        const bool after = at != end && is_word(c);
        at_end_ = at == end;
        at_word_ = before != after;
        // Those that wait for a character were put down before the place was known: they are reached from here.
        next_.size = 0;
        if (reach(0, next_)) return true;
        for (uint32_t i = 0; i < now_.size; ++i)
            if (reach(now_.members[i], next_)) return true;
        if (at == end) return false;
        now_.size = 0;
        for (uint32_t i = 0; i < next_.size; ++i) {
            const uint32_t step = next_.members[i];
            if (pattern_.steps_[step].name == Step::character && fits(pattern_.steps_[step], c)) now_.add(step + 1);
        }
        at = following;
        before = after;
        at_begin_ = false;
    }
}

}  // namespace lethevec::filters
