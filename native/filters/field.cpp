#include "filters/field.h"

#include <algorithm>
#include <new>

#include "kernels/dispatch.h"

namespace lethevec::filters {

namespace {

bool holds(Condition::Order order, int comparison) {
    switch (order) {
        case Condition::above: return comparison > 0;
        case Condition::from: return comparison >= 0;
        case Condition::below: return comparison < 0;
        case Condition::up_to: return comparison <= 0;
    }
    return false;
}

bool is_low(Condition::Order order) { return order == Condition::above || order == Condition::from; }

}  // namespace

void Field::reserve(int64_t rows, int64_t more) {
    column_.reserve(rows, more, values_.codes());
    if (keyed_) keys_.reserve(words_for(rows) * 64);
}

void Field::set_rows(int64_t rows) noexcept {
    column_.set_rows(rows);
    if (keyed_) keys_.resize(words_for(rows) * 64);
}

void Field::set(uint32_t row, uint32_t code) noexcept {
    const uint32_t before = column_.get(row);
    column_.set(row, code);
    if (keyed_) keys_[row] = code ? values_.key(code) : 0;
    if (before) values_.release(before);
}

void Field::remove(uint32_t row) noexcept {
    const uint32_t before = column_.get(row);
    if (keyed_) {
        const int64_t last = keys_.size() ? column_.rows() - 1 : 0;
        keys_[row] = keys_[last];
        keys_[last] = 0;
        keys_.resize(words_for(last) * 64);
    }
    column_.remove(row);
    if (before) values_.release(before);
}

void Field::adapt() noexcept {
    try {
        if (values_.sparse()) {
            std::vector<uint32_t> moved;
            values_.compact(moved);
            column_.recode(moved, values_.codes());
        }
        column_.adapt();
        const bool wanted = column_.dense() && values_.numbers() > (keyed_ ? KEYED_FROM / 2 : KEYED_FROM);
        if (wanted && !keyed_) {
            keys_.resize(words_for(column_.rows()) * 64);
            for (int64_t row = 0; row < column_.rows(); ++row) {
                const uint32_t code = column_.get(static_cast<uint32_t>(row));
                keys_[row] = code ? values_.key(code) : 0;
            }
        } else if (!wanted && keyed_) {
            keys_.resize(0);
        }
        keyed_ = wanted;
    } catch (const std::bad_alloc&) {  // then it stays as it is, which answers as well
    }
}

bool Field::within(uint32_t code, const Condition& condition) const {
    const Value value = values_.value(code);
    Instant instant;
    bool known = false, is_date = false;
    for (const Condition::Bound& bound : condition.limits) {
        int comparison = 0;
        if (bound.value.is_number()) {
            if (!value.is_number()) return false;
            comparison = compare_numbers(value, bound.value);
        } else {
            if (value.kind != Kind::text) return false;
            if (bound.is_date && !known) {
                is_date = read_instant(value.text, instant);
                known = true;
            }
            comparison = bound.is_date && is_date ? compare_instants(instant, bound.instant)
                                                  : compare_texts(value.text, bound.value.text);
        }
        if (!holds(bound.order, comparison)) return false;
    }
    return true;
}

// Whether keys tell most rows: all bounds are numbers, or all are dates and so is every text.
bool Field::by_keys(const Condition& condition) const {
    if (condition.name != Condition::bounds || !keyed_) return false;
    const auto all = [&](auto test) { return std::all_of(condition.limits.begin(), condition.limits.end(), test); };
    return all([](const Condition::Bound& bound) { return bound.value.is_number(); }) ||
           (values_.plain_texts() == 0 && all([](const Condition::Bound& bound) { return bound.is_date; }));
}

void Field::keep_by_keys(const Condition& condition, uint64_t* mask) const {
    const bool dates = condition.limits[0].is_date;
    uint32_t low = dates ? FIRST_DATE : 1, high = dates ? UINT32_MAX : FIRST_DATE - 1;
    for (const Condition::Bound& bound : condition.limits) {
        const uint32_t key = dates ? order_key(bound.instant) : order_key(bound.value.as_double());
        if (is_low(bound.order))
            low = std::max(low, key);
        else
            high = std::min(high, key);
    }
    const int64_t rows = column_.rows(), words = words_for(rows);
    if (low > high) {
        std::fill_n(mask, words, uint64_t{0});
        return;
    }
    // Values with the key of a bound may lie on either side of it.
    std::vector<uint64_t> close(static_cast<size_t>(words));
    active().keep_between32(keys_.at(0), words, low, high, mask, close.data());
    constexpr size_t REMEMBERED = 256;
    uint32_t codes[REMEMBERED] = {};
    bool results[REMEMBERED] = {};
    for (int64_t w = 0; w < words; ++w)
        for (uint64_t left = close[static_cast<size_t>(w)]; left; left &= left - 1) {
            const uint32_t code = column_.get(static_cast<uint32_t>(64 * w + __builtin_ctzll(left)));
            const size_t at = code % REMEMBERED;
            if (codes[at] != code) {
                codes[at] = code;
                results[at] = within(code, condition);
            }
            if (!results[at]) mask[w] &= ~(left & (~left + 1));
        }
}

// The values that pass.
Choice Field::choose(const Condition& condition) const {
    Choice choice(values_.codes());
    const auto each = [&](auto passes) {
        for (uint32_t code = 1; code < values_.codes(); ++code)
            if (values_.uses(code) && passes(code)) choice.add(code);
    };
    switch (condition.name) {
        case Condition::one_of:
            for (const Value& value : condition.values)
                if (const uint32_t code = values_.find(value)) choice.add(code);
            break;
        case Condition::bounds: each([&](uint32_t code) { return within(code, condition); }); break;
        case Condition::any_of:
            for (const Value& value : condition.values) {
                const uint32_t code = values_.find(value);
                const Growing<uint32_t>* arrays = code ? values_.arrays_with(code) : nullptr;
                for (int64_t a = 0; arrays && a < arrays->size(); ++a) choice.add((*arrays)[a]);
            }
            break;
        case Condition::all_of: {
            std::vector<uint32_t> wanted;
            const Growing<uint32_t>* fewest = nullptr;
            for (const Value& value : condition.values) {
                const uint32_t code = values_.find(value);
                const Growing<uint32_t>* arrays = code ? values_.arrays_with(code) : nullptr;
                if (!arrays) return choice;
                if (!fewest || arrays->size() < fewest->size()) fewest = arrays;
                wanted.push_back(code);
            }
            if (!fewest) {  // all of nothing: every array
                each([&](uint32_t code) { return values_.kind(code) == Kind::array; });
                break;
            }
            for (int64_t a = 0; a < fewest->size(); ++a) {
                const Value array = values_.value((*fewest)[a]);
                if (std::all_of(wanted.begin(), wanted.end(), [&](uint32_t code) {
                        return std::binary_search(array.elements, array.elements + array.count, code);
                    }))
                    choice.add((*fewest)[a]);
            }
            break;
        }
        case Condition::text:
            each([&](uint32_t code) {
                return values_.kind(code) == Kind::text &&
                       values_.value(code).text.find(condition.values[0].text) != std::string_view::npos;
            });
            break;
        case Condition::matches: {
            Pattern::Matcher matcher(*condition.pattern);
            each([&](uint32_t code) {
                return values_.kind(code) == Kind::text && matcher.found_in(values_.value(code).text);
            });
            break;
        }
        default: break;
    }
    return choice;
}

int64_t Field::estimate(const Condition& condition) const {
    if (condition.name == Condition::one_of) {
        int64_t rows = 0;
        for (const Value& value : condition.values)
            if (const uint32_t code = values_.find(value)) rows += values_.uses(code);
        return std::min(rows, count());
    }
    return condition.name == Condition::exists ? count() : count() / 2;
}

bool Field::keep(const Condition& condition, uint64_t* mask, std::vector<uint64_t>& unsure) const {
    const int64_t words = words_for(column_.rows());
    bool any = false;
    if (values_.uncertain()) {
        // What is not kept in full may pass where its content counts.
        Choice open(values_.codes());
        const auto too_long = [&](const Value& value) {
            return value.kind == Kind::text && value.text.size() > longest_text_;
        };
        bool text = condition.name == Condition::text || condition.name == Condition::matches;
        text |= condition.name == Condition::one_of &&
                std::any_of(condition.values.begin(), condition.values.end(), too_long);
        text |= condition.name == Condition::bounds &&
                std::any_of(condition.limits.begin(), condition.limits.end(),
                            [](const Condition::Bound& bound) { return bound.value.kind == Kind::text; });
        const bool array = condition.name == Condition::any_of || condition.name == Condition::all_of;
        if (const uint32_t code = text ? values_.find(Value::of(Kind::long_text)) : 0) open.add(code);
        if (const uint32_t code = array ? values_.find(Value::of(Kind::long_array)) : 0) open.add(code);
        any = !open.empty();
        if (any) {
            unsure.assign(mask, mask + words);
            column_.keep(open, unsure.data());
        }
    }
    if (condition.name == Condition::exists)
        column_.keep_present(mask);
    else if (by_keys(condition))
        keep_by_keys(condition, mask);
    else
        column_.keep(choose(condition), mask);
    return any;
}

int64_t Field::bytes(int64_t rows) const {
    const bool dense = 8 * column_.count() >= rows;
    const int64_t keys = dense && values_.numbers() > KEYED_FROM ? 4 * rows : 0;
    return values_.bytes() + Column::bytes(rows, column_.count(), values_.live()) + keys;
}

void Field::raw_memory(std::vector<uint8_t>& all) const {
    values_.raw_memory(all);
    column_.raw_memory(all);
    keys_.raw_memory(all);
}

}  // namespace lethevec::filters
