#include "filters/filters.h"

#include <algorithm>
#include <new>

#include "filters/payload.h"

namespace lethevec::filters {

namespace {

constexpr std::string_view SUBJECT = "$subject";

}  // namespace

Filters::Filters(std::optional<std::vector<std::string>> only) : only_(std::move(only)) {
    if (only_) std::sort(only_->begin(), only_->end());
}

Filters::~Filters() = default;

Filters::Change::~Change() {
    for (const Item& item : items_) filters_.fields_[item.field]->values().release(item.code);
    for (const Item& item : items_) filters_.drop_if_empty(item.field);
}

bool Filters::wants(std::string_view path) const {
    return !only_ || path == SUBJECT || std::binary_search(only_->begin(), only_->end(), path, std::less<>());
}

uint32_t Filters::field_of(std::string_view path) {
    const Value name = Value::of(path);
    if (const uint32_t known = names_.find(name)) return known;
    auto field = std::make_unique<Field>(rows_, only_ || path == SUBJECT ? LONGEST_NAMED_TEXT : LONGEST_TEXT);
    fields_.reserve(std::max<size_t>(names_.codes() + 1, fields_.size()));
    const uint32_t number = names_.take(name);
    if (fields_.size() <= number) fields_.resize(number + 1);
    fields_[number] = std::move(field);
    return number;
}

const Field* Filters::find_field(std::string_view path) const {
    const uint32_t number = names_.find(Value::of(path));
    return number ? fields_[number].get() : nullptr;
}

void Filters::drop_if_empty(uint32_t field) noexcept {
    if (!fields_[field] || !fields_[field]->empty()) return;
    fields_[field].reset();
    names_.release(field);
}

// Takes the values of one record after the other. Those of a record are looked up together, so that they wait for the
// memory at the same time.
class Taking final : public Visitor {
public:
    Taking(Filters& filters, Filters::Change& change) : filters_(filters), items_(change.items_) {}

    void field(std::string_view path, const Value& value) override {
        if (!filters_.wants(path)) return;
        const uint32_t number = number_of(path);
        const Field& field = *filters_.fields_[number];
        const bool too_long = value.kind == Kind::text && value.text.size() > field.longest_text();
        wait(number, too_long ? Value::of(Kind::long_text) : value);
    }

    void array(std::string_view path, const WipedVector<Value>& elements, bool too_long) override {
        if (!filters_.wants(path)) return;
        const uint32_t number = number_of(path);
        const Field& field = *filters_.fields_[number];
        for (const Value& element : elements)
            too_long |= element.kind == Kind::text && element.text.size() > field.longest_text();
        if (too_long) return wait(number, Value::of(Kind::long_array));
        Value array = Value::of(Kind::array);
        array.count = static_cast<uint32_t>(elements.size());
        wait(number, array);
        for (const Value& element : elements) wait(number, element);
    }

    // All of a record were visited.
    void finish(uint32_t record) {
        try {
            for (const Waiting& one : waiting_)
                if (one.value.kind != Kind::array) values_of(one).ask_for_entry(one.hash);
            for (size_t i = 0; i < waiting_.size(); i += 1 + elements_of(waiting_[i])) {
                const Waiting& one = waiting_[i];
                if (items_.size() == items_.capacity())
                    items_.reserve(2 * items_.size() + 64);  // what is taken is put down
                items_.push_back(
                    {record, one.number,
                     one.value.kind == Kind::array ? take_array(i) : values_of(one).take(one.value, one.hash)});
            }
        } catch (...) {
            for (const Waiting& one : waiting_) filters_.drop_if_empty(one.number);
            throw;
        }
        waiting_.clear();
        std::swap(before_, now_);
        now_.clear();
    }

private:
    struct Waiting {
        uint32_t number, hash;
        Value value;
    };

    Dictionary& values_of(const Waiting& one) { return filters_.fields_[one.number]->values(); }
    static uint32_t elements_of(const Waiting& one) { return one.value.kind == Kind::array ? one.value.count : 0; }

    void wait(uint32_t number, const Value& value) {
        const Dictionary& values = filters_.fields_[number]->values();
        const uint32_t hash = value.kind == Kind::array ? 0 : values.hash(value);
        waiting_.push_back({number, hash, value});
        values.ask_for_slot(hash);
    }

    // Records of one kind have the same fields in the same order: what came here the last time is likely to come again.
    uint32_t number_of(std::string_view path) {
        const size_t at = now_.size();
        uint32_t number = 0;
        if (at < before_.size() && filters_.names_.value(before_[at]).text == path)
            number = before_[at];
        else
            number = filters_.field_of(path);
        now_.push_back(number);
        return number;
    }

    uint32_t take_array(size_t at) {
        Dictionary& values = values_of(waiting_[at]);
        const uint32_t count = waiting_[at].value.count;
        codes_.clear();
        codes_.reserve(count);
        try {
            for (size_t i = at + 1; i <= at + count; ++i)
                codes_.push_back(values.take(waiting_[i].value, waiting_[i].hash));
        } catch (...) {
            for (uint32_t code : codes_) values.release(code);
            throw;
        }
        std::sort(codes_.begin(), codes_.end());
        // Each once: the others are given back.
        size_t kept = 0;
        for (size_t i = 0; i < codes_.size(); ++i) {
            if (kept > 0 && codes_[i] == codes_[kept - 1])
                values.release(codes_[i]);
            else
                codes_[kept++] = codes_[i];
        }
        Value array = Value::of(Kind::array);
        array.elements = codes_.data();
        array.count = static_cast<uint32_t>(kept);
        return values.take(array);
    }

    Filters& filters_;
    WipedVector<Filters::Change::Item>& items_;
    WipedVector<Waiting> waiting_;
    std::vector<uint32_t> before_, now_;  // numbers of fields
    WipedVector<uint32_t> codes_;
};

void Filters::prepare(const Texts& texts, int64_t n, Change& change, As as) {
    change.records_ = n;
    Taking taking(*this, change);
    PayloadReader reader;
    for (int64_t i = 0; i < n; ++i) {
        const auto record = static_cast<uint32_t>(i);
        if (texts.subjects && texts.subjects[i].data()) taking.field(SUBJECT, Value::of(texts.subjects[i]));
        const bool any_field = !only_ || !only_->empty();
        if (texts.payloads && texts.payloads[i].data() && any_field && !reader.read(texts.payloads[i], taking))
            change.incomplete_.push_back(record);
        taking.finish(record);
    }
    std::vector<int64_t> more(fields_.size(), 0);
    for (const Change::Item& item : change.items_) ++more[item.field];
    // Room for rows that do not come would be made and given back with every call.
    const int64_t rows = rows_ + (as == As::new_rows ? n : 0);
    for (size_t f = 0; f < fields_.size(); ++f)
        if (fields_[f]) fields_[f]->reserve(rows, more[f]);
    incomplete_.reserve(words_for(rows));
}

void Filters::append(Change& change) noexcept {
    const auto first = static_cast<uint32_t>(rows_);
    rows_ += change.records_;
    for (const auto& field : fields_)
        if (field) field->set_rows(rows_);
    incomplete_.resize(words_for(rows_));
    for (const Change::Item& item : change.items_) fields_[item.field]->set(first + item.record, item.code);
    for (uint32_t record : change.incomplete_) set_incomplete(first + record, true);
    change.items_.clear();
    adapt();
}

void Filters::replace(Change& change, const uint32_t* rows) noexcept {
    // What stays is set again; what is left of the old record goes.
    auto item = change.items_.begin();
    for (int64_t i = 0; i < change.records_; ++i) {
        const uint32_t row = rows[i];
        const auto begin = item;
        while (item != change.items_.end() && item->record == i) ++item;
        for (size_t f = 0; f < fields_.size(); ++f) {
            if (!fields_[f]) continue;
            const auto given = std::find_if(begin, item, [&](const Change::Item& one) { return one.field == f; });
            if (given == item) fields_[f]->set(row, 0);
        }
        for (auto one = begin; one != item; ++one) fields_[one->field]->set(row, one->code);
        set_incomplete(row, false);
    }
    for (uint32_t record : change.incomplete_) set_incomplete(rows[record], true);
    change.items_.clear();
    adapt();
}

void Filters::set_incomplete(uint32_t row, bool is) noexcept {
    if (incomplete(row) == is) return;
    incomplete_[row / 64] ^= uint64_t{1} << (row % 64);
    incomplete_count_ += is ? 1 : -1;
}

void Filters::remove(uint32_t row) noexcept {
    const auto last = static_cast<uint32_t>(rows_ - 1);
    for (const auto& field : fields_)
        if (field) field->remove(row);
    const bool moved = incomplete(last);
    set_incomplete(last, false);
    set_incomplete(row, row != last && moved);
    rows_ = last;
    incomplete_.resize(words_for(rows_));
    adapt();
}

void Filters::adapt() noexcept {
    for (size_t f = 0; f < fields_.size(); ++f) {
        if (!fields_[f]) continue;
        drop_if_empty(static_cast<uint32_t>(f));
        if (fields_[f]) fields_[f]->adapt();
    }
    if (!names_.sparse()) return;
    try {
        std::vector<uint32_t> moved;
        std::vector<std::unique_ptr<Field>> fields(static_cast<size_t>(names_.live()) + 1);
        names_.compact(moved);
        for (size_t f = 0; f < fields_.size(); ++f)
            if (fields_[f]) fields[moved[f]] = std::move(fields_[f]);
        fields_.swap(fields);
    } catch (const std::bad_alloc&) {
    }
}

// --- Answers ---------------------------------------------------------------------------------------------------------

class Filters::Evaluation {
public:
    Evaluation(const Filters& filters, const std::function<uint32_t(int64_t)>& find, int64_t unsure_from)
        : filters_(filters),
          find_(find),
          unsure_from_(unsure_from),
          words_(static_cast<size_t>(words_for(filters.rows_))) {}

    // Of the rows in `within`; a bit for each.
    Answer of(const Condition& condition, std::vector<uint64_t> within) const {
        Answer answer;
        switch (condition.name) {
            case Condition::all: return all(condition, std::move(within));
            case Condition::any: return any(condition, std::move(within));
            case Condition::negation: {
                answer = of(condition.parts[0], within);
                for (size_t w = 0; w < words_; ++w) {
                    const uint64_t other = answer.any_unsure ? answer.unsure[w] : 0;
                    answer.yes[w] = within[w] & ~(answer.yes[w] | other);
                }
                return answer;
            }
            case Condition::ids: return ids(condition, within);
            case Condition::unsure:
                answer.yes.assign(words_, 0);
                answer.unsure = std::move(within);
                answer.any_unsure = true;
                return answer;
            default: return of_field(condition, std::move(within));
        }
    }

    std::vector<uint64_t> everything() const {
        std::vector<uint64_t> bits(words_, ~uint64_t{0});
        if (filters_.rows_ % 64) bits.back() = (uint64_t{1} << (filters_.rows_ % 64)) - 1;
        return bits;
    }

private:
    // The part that lets least pass comes first: the others then look at its rows alone.
    Answer all(const Condition& condition, std::vector<uint64_t> within) const {
        std::vector<std::pair<int64_t, const Condition*>> order;
        for (const Condition& part : condition.parts) order.emplace_back(estimate(part), &part);
        std::sort(order.begin(), order.end());
        Answer answer;
        answer.yes = std::move(within);
        for (const auto& [rows, part] : order) {
            std::vector<uint64_t> open = answer.yes;
            if (answer.any_unsure)
                for (size_t w = 0; w < words_; ++w) open[w] |= answer.unsure[w];
            Answer next = of(*part, std::move(open));
            if (answer.any_unsure || next.any_unsure) {
                answer.unsure.resize(words_);
                next.unsure.resize(words_);
                for (size_t w = 0; w < words_; ++w) {
                    const uint64_t possible = (answer.yes[w] | answer.unsure[w]) & (next.yes[w] | next.unsure[w]);
                    answer.unsure[w] = possible & ~(answer.yes[w] & next.yes[w]);
                }
                answer.any_unsure = true;
            }
            for (size_t w = 0; w < words_; ++w) answer.yes[w] &= next.yes[w];
        }
        return answer;
    }

    Answer any(const Condition& condition, std::vector<uint64_t> within) const {
        Answer answer;
        answer.yes.assign(words_, 0);
        for (const Condition& part : condition.parts) {
            Answer next = of(part, within);
            for (size_t w = 0; w < words_; ++w) {
                answer.yes[w] |= next.yes[w];
                within[w] &= ~next.yes[w];
            }
            if (!next.any_unsure) continue;
            answer.unsure.resize(words_);
            for (size_t w = 0; w < words_; ++w) answer.unsure[w] |= next.unsure[w];
            answer.any_unsure = true;
        }
        if (answer.any_unsure)
            for (size_t w = 0; w < words_; ++w) answer.unsure[w] &= ~answer.yes[w];
        return answer;
    }

    Answer ids(const Condition& condition, const std::vector<uint64_t>& within) const {
        Answer answer;
        answer.yes.assign(words_, 0);
        for (int64_t number : condition.numbers) {
            const uint32_t row = find_(number);
            if (row >= filters_.rows_) continue;
            const uint64_t bit = within[row / 64] & (uint64_t{1} << (row % 64));
            if (number < unsure_from_) {
                answer.yes[row / 64] |= bit;
                continue;
            }
            answer.unsure.resize(words_);
            answer.unsure[row / 64] |= bit;
            answer.any_unsure = true;
        }
        return answer;
    }

    Answer of_field(const Condition& condition, std::vector<uint64_t> within) const {
        Answer answer;
        if (!filters_.wants(condition.field)) {
            answer.yes.assign(words_, 0);
            answer.unsure = std::move(within);
            answer.any_unsure = true;
            return answer;
        }
        const Field* field = filters_.find_field(condition.field);
        // Records that were not looked at in full may have the field.
        if (filters_.incomplete_count_ && condition.field != SUBJECT) {
            std::vector<uint64_t> open = within;
            for (size_t w = 0; w < words_; ++w) open[w] &= filters_.incomplete_[static_cast<int64_t>(w)];
            if (field) {
                std::vector<uint64_t> present = open;
                field->keep_present(present.data());
                for (size_t w = 0; w < words_; ++w) open[w] &= ~present[w];
            }
            answer.unsure = std::move(open);
            answer.any_unsure = true;
        }
        answer.yes = std::move(within);
        if (!field) {
            std::fill(answer.yes.begin(), answer.yes.end(), uint64_t{0});
            return answer;
        }
        std::vector<uint64_t> unsure;
        if (field->keep(condition, answer.yes.data(), unsure)) {
            answer.unsure.resize(words_);
            for (size_t w = 0; w < words_; ++w) answer.unsure[w] |= unsure[w];
            answer.any_unsure = true;
        }
        return answer;
    }

    int64_t estimate(const Condition& condition) const {
        const int64_t rows = filters_.rows_;
        switch (condition.name) {
            case Condition::all: {
                int64_t least = rows;
                for (const Condition& part : condition.parts) least = std::min(least, estimate(part));
                return least;
            }
            case Condition::any: {
                int64_t sum = 0;
                for (const Condition& part : condition.parts) sum += estimate(part);
                return std::min(sum, rows);
            }
            case Condition::negation: return rows - estimate(condition.parts[0]);
            case Condition::ids: return static_cast<int64_t>(condition.numbers.size());
            case Condition::unsure: return rows;
            default: {
                const Field* field = filters_.find_field(condition.field);
                return field ? field->estimate(condition) : 0;
            }
        }
    }

    const Filters& filters_;
    const std::function<uint32_t(int64_t)>& find_;
    int64_t unsure_from_;
    size_t words_;
};

void Filters::evaluate(const Condition& condition, const std::function<uint32_t(int64_t)>& find, int64_t unsure_from,
                       Answer& answer) const {
    const Evaluation evaluation(*this, find, unsure_from);
    answer = evaluation.of(condition, evaluation.everything());
}

Filters::Size Filters::size() const {
    Size size{0, 0, names_.bytes() + 8 * words_for(rows_)};
    for (const auto& field : fields_) {
        if (!field) continue;
        ++size.fields;
        size.values += field->values().live();
        size.bytes += field->bytes(rows_);
    }
    return size;
}

void Filters::raw_memory(std::vector<uint8_t>& all) const {
    names_.raw_memory(all);
    incomplete_.raw_memory(all);
    for (const auto& field : fields_)
        if (field) field->raw_memory(all);
}

}  // namespace lethevec::filters
