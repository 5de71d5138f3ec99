// A regular expression as instructions, which Python has made (`lethevec._filters.regex`), and whether it is found in a
// text: all ways at once, so that the time is linear in the text.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "memory/wiped.h"

namespace lethevec::filters {

struct Step {
    enum Name : uint8_t { character, split, jump, begin, end, word, no_word, match };
    Name name = match;
    uint32_t first = 0, second = 0;
    std::vector<std::pair<uint32_t, uint32_t>, WipingAllocator<std::pair<uint32_t, uint32_t>>> ranges;
};

// They hold what somebody looks for.
using Steps = std::vector<Step, WipingAllocator<Step>>;

class Pattern {
public:
    // Throws std::invalid_argument where a step leads to nowhere.
    explicit Pattern(Steps steps);
    // Not for two threads at once: it has memory for the ways.
    class Matcher {
    public:
        explicit Matcher(const Pattern& pattern);
        bool found_in(std::string_view text);

    private:
        struct Set {
            std::vector<uint32_t> members, places;
            uint32_t size = 0;
            bool add(uint32_t step);
        };
        bool reach(uint32_t step, Set& set);
        const Pattern& pattern_;
        Set now_, next_;
        std::vector<uint32_t> stack_;
        bool at_begin_ = false, at_end_ = false, at_word_ = false;
    };

private:
    Steps steps_;
};

}  // namespace lethevec::filters
