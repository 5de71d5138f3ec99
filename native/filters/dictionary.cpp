#include "filters/dictionary.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>

#include "memory/wipe.h"

namespace lethevec::filters {

namespace {

constexpr int64_t MIN_SLOTS = 16;

// Drawn once per process, so that nobody can choose values that collide.
uint64_t process_key() {
    static const uint64_t key = [] {
        std::random_device device;
        return (static_cast<uint64_t>(device()) << 32) ^ device();
    }();
    return key;
}

uint64_t mix(uint64_t a, uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t hash_bytes(const void* from, size_t size, uint64_t seed) {
    constexpr uint64_t FIRST = 0xA0761D6478BD642Full, SECOND = 0xE7037ED1A0B428DBull;
    const auto* bytes = static_cast<const char*>(from);
    uint64_t state = seed ^ process_key();
    for (; size >= 8; size -= 8, bytes += 8) {
        uint64_t word = 0;
        std::memcpy(&word, bytes, 8);
        state = mix(state ^ word, FIRST ^ process_key());
    }
    uint64_t word = 0;
    std::memcpy(&word, bytes, size);
    return mix(mix(state ^ word, FIRST ^ process_key()) ^ size, SECOND);
}

int64_t slots_for(int64_t live) {
    int64_t slots = MIN_SLOTS;
    while (slots < 2 * live) slots *= 2;
    return slots;
}

}  // namespace

Dictionary::Dictionary() : memory_(PIECE * static_cast<int64_t>(sizeof(Entry)), 1 << 20) {
    static_assert(PIECE * sizeof(Entry) % 64 == 0, "pieces are whole lines of the cache");
    resize_slots(MIN_SLOTS);
}

Dictionary::~Dictionary() {
    for (uint32_t code = 1; code < next_; ++code) clear(at(code));
    for (Entry* piece : pieces_) wipe(piece, PIECE * sizeof(Entry));
    while (memory_.size()) memory_.pop();
}

uint32_t Dictionary::hash(const Value& value) const {
    const auto seed = static_cast<uint64_t>(value.kind) << 56;
    switch (value.kind) {
        case Kind::integer: return static_cast<uint32_t>(hash_bytes(&value.integer, 8, seed));
        case Kind::real: return static_cast<uint32_t>(hash_bytes(&value.real, 8, seed));
        case Kind::text: return static_cast<uint32_t>(hash_bytes(value.text.data(), value.text.size(), seed));
        case Kind::array: return static_cast<uint32_t>(hash_bytes(value.elements, 4 * size_t{value.count}, seed));
        default: return static_cast<uint32_t>(hash_bytes(nullptr, 0, seed));
    }
}

bool Dictionary::equal(const Entry& entry, const Value& value) const {
    if (entry.kind != value.kind) return false;
    switch (value.kind) {
        case Kind::integer: return entry.integer == value.integer;
        case Kind::real: return std::memcmp(&entry.real, &value.real, 8) == 0;
        case Kind::text:
            return entry.size == value.text.size() &&
                   std::memcmp(entry.size > INSIDE ? entry.text : entry.inside, value.text.data(), entry.size) == 0;
        case Kind::array:
            return entry.size == value.count &&
                   std::equal(value.elements, value.elements + value.count, entry.elements);
        default: return true;
    }
}

Value Dictionary::value(uint32_t code) const {
    const Entry& entry = at(code);
    Value value = Value::of(entry.kind);
    switch (entry.kind) {
        case Kind::integer: value.integer = entry.integer; break;
        case Kind::real: value.real = entry.real; break;
        case Kind::text: value.text = {entry.size > INSIDE ? entry.text : entry.inside, entry.size}; break;
        case Kind::array:
            value.elements = entry.elements;
            value.count = entry.size;
            break;
        default: break;
    }
    return value;
}

uint32_t Dictionary::find(const Value& value, uint32_t hashed) const {
    for (uint32_t s = hashed & mask(); slots_[s].code; s = (s + 1) & mask())
        if (slots_[s].hash == hashed && equal(at(slots_[s].code), value)) return slots_[s].code;
    return NONE;
}

// There is room.
void Dictionary::place(Slot slot) {
    uint32_t s = slot.hash & mask();
    while (slots_[s].code) s = (s + 1) & mask();
    slots_[s] = slot;
}

// What follows moves up, so that nothing is left of it.
void Dictionary::unplace(const Entry& entry, uint32_t code) noexcept {
    const uint32_t mask = this->mask();
    uint32_t s = entry.hash & mask;
    while (slots_[s].code != code) s = (s + 1) & mask;
    for (uint32_t next = (s + 1) & mask; slots_[next].code; next = (next + 1) & mask) {
        // May it lie before where it is?
        if (((next - slots_[next].hash) & mask) < ((next - s) & mask)) continue;
        slots_[s] = slots_[next];
        s = next;
    }
    wipe(&slots_[s], sizeof(Slot));
}

void Dictionary::resize_slots(int64_t slots) {
    Growing<Slot> before;
    before.resize(slots);  // the new ones, until they are swapped
    before.swap(slots_);
    for (int64_t s = 0; s < before.size(); ++s)
        if (before[s].code) place(before[s]);
}

uint32_t Dictionary::fresh() {
    if (free_) return free_;
    if (next_ / PIECE == pieces_.size()) {
        pieces_.reserve(pieces_.size() + 1);
        pieces_.push_back(reinterpret_cast<Entry*>(memory_.push()));
    }
    return next_;
}

void Dictionary::fill(Entry& entry, const Value& value) {
    switch (value.kind) {
        case Kind::integer:
        case Kind::real:
            if (value.kind == Kind::integer)
                entry.integer = value.integer;
            else
                entry.real = value.real;
            entry.key = order_key(value.as_double());
            ++numbers_;
            break;
        case Kind::text: {
            Instant instant;
            entry.size = static_cast<uint32_t>(value.text.size());
            if (value.text.size() > INSIDE) {
                entry.text = new char[value.text.size()];
                outside_ += static_cast<int64_t>(entry.size);
            }
            std::memcpy(entry.size > INSIDE ? entry.text : entry.inside, value.text.data(), entry.size);
            entry.is_date = read_instant(value.text, instant);
            if (entry.is_date)
                entry.key = order_key(instant);
            else
                ++plain_texts_;
            numbers_ += entry.is_date;
            break;
        }
        case Kind::array: {
            std::unique_ptr<uint32_t[]> elements(new uint32_t[std::max<uint32_t>(value.count, 1)]);
            std::copy_n(value.elements, value.count, elements.get());
            for (uint32_t i = 0; i < value.count; ++i) {  // room first: nothing can go wrong after it
                Entry& element = at(value.elements[i]);
                if (!element.arrays) element.arrays = new Growing<uint32_t>();
                element.arrays->reserve(element.arrays->size() + 1);
            }
            entry.elements = elements.release();
            entry.size = value.count;
            outside_ += 8 * static_cast<int64_t>(value.count);
            break;
        }
        default: break;
    }
    uncertain_ += value.kind == Kind::long_text || value.kind == Kind::long_array;
}

uint32_t Dictionary::take(const Value& value, uint32_t hashed) {
    const uint32_t known = find(value, hashed);
    if (known) {
        ++at(known).uses;
        if (value.kind == Kind::array)
            for (uint32_t i = 0; i < value.count; ++i) release(value.elements[i]);
        return known;
    }
    uint32_t code = 0;
    try {
        if (slots_for(live_ + 1) > slots_.size()) resize_slots(slots_for(live_ + 1));
        code = fresh();
        Entry& entry = at(code);
        const uint32_t following = entry.size;
        entry.size = 0;
        try {
            fill(entry, value);
        } catch (...) {
            wipe(&entry, sizeof entry);
            entry.size = following;
            throw;
        }
        if (code == free_) {
            free_ = following;
            --free_count_;
        } else {
            ++next_;
        }
        entry.uses = 1;
        entry.kind = value.kind;
        entry.hash = hashed;
        place({entry.hash, code});
        ++live_;
    } catch (...) {
        if (value.kind == Kind::array)
            for (uint32_t i = 0; i < value.count; ++i) release(value.elements[i]);
        throw;
    }
    if (value.kind == Kind::array)
        for (uint32_t i = 0; i < value.count; ++i) {
            Growing<uint32_t>& arrays = *at(value.elements[i]).arrays;
            arrays.grow(arrays.size() + 1);
            arrays[arrays.size() - 1] = code;
        }
    return code;
}

// Its memory outside; counts are the caller's.
void Dictionary::clear(Entry& entry) noexcept {
    if (entry.kind == Kind::text && entry.size > INSIDE && entry.text) {
        wipe(entry.text, entry.size);
        delete[] entry.text;
    }
    if (entry.kind == Kind::array && entry.elements) {
        wipe(entry.elements, 4 * size_t{entry.size});
        delete[] entry.elements;
    }
    delete entry.arrays;
    wipe(&entry, sizeof entry);
}

void Dictionary::release(uint32_t code) noexcept {
    Entry& entry = at(code);
    if (--entry.uses) return;
    unplace(entry, code);
    --live_;
    const Kind kind = entry.kind;
    numbers_ -= entry.key != 0;
    plain_texts_ -= kind == Kind::text && !entry.is_date;
    uncertain_ -= kind == Kind::long_text || kind == Kind::long_array;
    if (kind == Kind::text && entry.size > INSIDE) outside_ -= static_cast<int64_t>(entry.size);
    if (kind == Kind::array) {
        outside_ -= 8 * static_cast<int64_t>(entry.size);
        for (uint32_t i = 0; i < entry.size; ++i) {
            const uint32_t element = entry.elements[i];
            Growing<uint32_t>& arrays = *at(element).arrays;
            for (int64_t a = arrays.size() - 1; a >= 0; --a)
                if (arrays[a] == code) {
                    arrays.remove(a);
                    break;
                }
            if (arrays.size() == 0) {
                delete at(element).arrays;
                at(element).arrays = nullptr;
            }
            release(element);
        }
    }
    clear(entry);
    entry.size = free_;
    free_ = code;
    ++free_count_;
    if (slots_for(4 * live_) < slots_.size()) {
        try {
            resize_slots(slots_for(live_));
        } catch (const std::bad_alloc&) {  // then it stays larger
        }
    }
}

void Dictionary::compact(std::vector<uint32_t>& moved) {
    moved.assign(next_, NONE);
    Growing<Slot> slots;
    slots.resize(slots_for(live_));
    // From here on nothing can fail: entries move down into free ones.
    uint32_t to = 1;
    for (uint32_t code = 1; code < next_; ++code) {
        if (!at(code).uses) {
            wipe(&at(code), sizeof(Entry));
            continue;
        }
        moved[code] = to;
        if (code != to) {
            std::memcpy(static_cast<void*>(&at(to)), &at(code), sizeof(Entry));
            wipe(&at(code), sizeof(Entry));
        }
        ++to;
    }
    slots_.swap(slots);
    next_ = to;
    free_ = 0;
    free_count_ = 0;
    for (uint32_t code = 1; code < next_; ++code) {
        Entry& entry = at(code);
        if (entry.arrays)
            for (int64_t a = 0; a < entry.arrays->size(); ++a) (*entry.arrays)[a] = moved[(*entry.arrays)[a]];
        if (entry.kind == Kind::array) {  // ascending codes stay ascending
            for (uint32_t i = 0; i < entry.size; ++i) entry.elements[i] = moved[entry.elements[i]];
            entry.hash = hash(value(code));
        }
        place({entry.hash, code});
    }
    while (pieces_.size() > next_ / PIECE + 1) {
        pieces_.pop_back();
        memory_.pop();
    }
}

int64_t Dictionary::bytes() const {
    return live_ * static_cast<int64_t>(sizeof(Entry)) + slots_for(live_) * static_cast<int64_t>(sizeof(Slot)) +
           outside_;
}

void Dictionary::raw_memory(std::vector<uint8_t>& all) const {
    memory_.raw_memory(all);
    slots_.raw_memory(all);
    for (uint32_t code = 1; code < next_; ++code) {
        const Entry& entry = at(code);
        const auto append = [&](const void* from, size_t bytes) {
            const auto* begin = static_cast<const uint8_t*>(from);
            all.insert(all.end(), begin, begin + bytes);
        };
        if (entry.kind == Kind::text && entry.size > INSIDE) append(entry.text, entry.size);
        if (entry.kind == Kind::array) append(entry.elements, 4 * size_t{entry.size});
        if (entry.arrays) entry.arrays->raw_memory(all);
    }
}

}  // namespace lethevec::filters
