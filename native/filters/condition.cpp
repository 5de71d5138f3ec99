#include "filters/condition.h"

#include <cstring>
#include <stdexcept>

namespace lethevec::filters {

namespace {

constexpr int MAX_DEPTH = 256;

void expect(bool good) {
    if (!good) throw std::invalid_argument("filter: not a program");
}

class Reader {
public:
    explicit Reader(std::string_view program) : at_(program.data()), end_(at_ + program.size()) {}
    bool done() const { return at_ == end_; }

    Condition condition(int depth) {
        expect(depth < MAX_DEPTH);
        Condition made;
        const auto name = take<uint8_t>();
        expect(name <= Condition::matches);
        made.name = static_cast<Condition::Name>(name);
        const auto count = take<uint32_t>();
        expect(count <= static_cast<uint64_t>(end_ - at_));  // each takes a byte at the least
        switch (made.name) {
            case Condition::all:
            case Condition::any:
            case Condition::negation:
                expect(count > 0 && (made.name != Condition::negation || count == 1));
                for (uint32_t i = 0; i < count; ++i) made.parts.push_back(condition(depth + 1));
                return made;
            case Condition::ids:
                for (uint32_t i = 0; i < count; ++i) made.numbers.push_back(take<int64_t>());
                return made;
            case Condition::unsure: return made;
            default: break;
        }
        made.field = text();
        switch (made.name) {
            case Condition::bounds:
                for (uint32_t i = 0; i < count; ++i) {
                    const auto order = take<uint8_t>();
                    expect(order <= Condition::up_to);
                    Condition::Bound bound{static_cast<Condition::Order>(order), value(), false, {}};
                    expect(bound.value.is_number() || bound.value.kind == Kind::text);
                    bound.is_date = bound.value.kind == Kind::text && read_instant(bound.value.text, bound.instant);
                    made.limits.push_back(bound);
                }
                break;
            case Condition::exists: break;
            case Condition::matches: {
                Steps steps;
                for (uint32_t i = 0; i < count; ++i) {
                    Step step;
                    const auto step_name = take<uint8_t>();
                    expect(step_name <= Step::match);
                    step.name = static_cast<Step::Name>(step_name);
                    step.first = take<uint32_t>();
                    step.second = take<uint32_t>();
                    const auto ranges = take<uint32_t>();
                    for (uint32_t r = 0; r < ranges; ++r) {
                        const auto low = take<uint32_t>();
                        step.ranges.emplace_back(low, take<uint32_t>());
                    }
                    steps.push_back(std::move(step));
                }
                made.pattern = std::make_shared<const Pattern>(std::move(steps));
                break;
            }
            default:
                for (uint32_t i = 0; i < count; ++i) made.values.push_back(value());
                expect(made.name != Condition::text || (count == 1 && made.values[0].kind == Kind::text));
        }
        return made;
    }

private:
    template <class T>
    T take() {
        expect(static_cast<size_t>(end_ - at_) >= sizeof(T));
        T taken;
        std::memcpy(&taken, at_, sizeof(T));
        at_ += sizeof(T);
        return taken;
    }
    std::string_view text() {
        const auto size = take<uint32_t>();
        expect(size <= static_cast<uint64_t>(end_ - at_));
        const std::string_view taken(at_, size);
        at_ += size;
        return taken;
    }
    Value value() {
        switch (take<uint8_t>()) {
            case 0: return Value::of(Kind::null);
            case 1: return Value::of(Kind::no);
            case 2: return Value::of(Kind::yes);
            case 3: return Value::of(take<int64_t>());
            case 4: return Value::of(take<double>());
            case 5: return Value::of(text());
            default: expect(false);
        }
        return {};
    }

    const char *at_, *end_;
};

}  // namespace

Filter::Filter(std::string_view program) : program_(program.begin(), program.end()) {
    Reader reader({program_.data(), program_.size()});
    condition_ = reader.condition(0);
    expect(reader.done());
}

bool Filter::found_in(std::string_view text) const {
    expect(condition_.pattern != nullptr);
    return Pattern::Matcher(*condition_.pattern).found_in(text);
}

}  // namespace lethevec::filters
