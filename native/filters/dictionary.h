// The different values of a field, each under a number (its code), with how often it is used.
//
// A value that nobody uses any more is overwritten at once and its code is free for the next. Which code a value has
// depends on history and is never seen; how much memory is reported does not (`bytes`).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "filters/value.h"
#include "memory/growing.h"
#include "memory/pile.h"

namespace lethevec::filters {

class Dictionary {
public:
    static constexpr uint32_t NONE = 0;  // codes begin at 1

    Dictionary();
    ~Dictionary();
    Dictionary(const Dictionary&) = delete;
    Dictionary& operator=(const Dictionary&) = delete;

    // The code of a value, or NONE.
    uint32_t find(const Value& value) const { return find(value, hash(value)); }
    uint32_t hash(const Value& value) const;
    // Asks the memory early for what `take` will read: first where the hash lies, and then what lies there.
    void ask_for_slot(uint32_t hashed) const { __builtin_prefetch(slots_.at(hashed & mask())); }
    void ask_for_entry(uint32_t hashed) const {
        if (const uint32_t code = slots_[hashed & mask()].code) __builtin_prefetch(&at(code), 1);
    }
    // The code of a value with one more use. May throw std::bad_alloc, changing nothing. An array takes over one use of
    // each of its elements, and then they are the dictionary's also when it throws.
    uint32_t take(const Value& value) { return take(value, hash(value)); }
    uint32_t take(const Value& value, uint32_t hashed);
    // One use less.
    void release(uint32_t code) noexcept;

    int64_t live() const { return live_; }                // values
    int64_t numbers() const { return numbers_; }          // of them, that have a key
    int64_t plain_texts() const { return plain_texts_; }  // texts that are no dates
    int64_t uncertain() const { return uncertain_; }      // kinds that are not kept in full
    uint32_t codes() const { return next_; }              // all codes are below
    uint32_t uses(uint32_t code) const { return at(code).uses; }
    Kind kind(uint32_t code) const { return at(code).kind; }
    uint32_t key(uint32_t code) const { return at(code).key; }
    Value value(uint32_t code) const;
    // The arrays that have this value.
    const Growing<uint32_t>* arrays_with(uint32_t code) const { return at(code).arrays; }

    // Whether it is worth giving codes again from 1 on; `moved` then has the new code of each. May throw, changing
    // nothing.
    bool sparse() const { return free_count_ > 256 && free_count_ > live_; }
    void compact(std::vector<uint32_t>& moved);

    int64_t bytes() const;
    void raw_memory(std::vector<uint8_t>& all) const;

private:
    static constexpr size_t INSIDE = 16;
    static constexpr uint32_t PIECE = 256;
    struct Entry {
        uint32_t uses;  // 0: free
        uint32_t size;  // bytes of a text, elements of an array; of a free one, the next free code
        Kind kind;
        bool is_date;
        uint32_t key;  // see order_key; 0 where there is no order
        uint32_t hash;
        union {
            int64_t integer;
            double real;
            char inside[INSIDE];
            char* text;
            uint32_t* elements;
        };
        Growing<uint32_t>* arrays;
    };
    struct Slot {
        uint32_t hash, code;  // code 0: empty
    };

    Entry& at(uint32_t code) const { return pieces_[code / PIECE][code % PIECE]; }
    uint32_t mask() const { return static_cast<uint32_t>(slots_.size() - 1); }
    uint32_t find(const Value& value, uint32_t hashed) const;
    bool equal(const Entry& entry, const Value& value) const;
    void fill(Entry& entry, const Value& value);
    void clear(Entry& entry) noexcept;
    void place(Slot slot);
    void unplace(const Entry& entry, uint32_t code) noexcept;
    void resize_slots(int64_t slots);
    uint32_t fresh();

    std::vector<Entry*> pieces_;
    Pile memory_;
    Growing<Slot> slots_;
    uint32_t next_ = 1, free_ = 0;
    int64_t live_ = 0, free_count_ = 0, numbers_ = 0, plain_texts_ = 0, uncertain_ = 0;
    int64_t outside_ = 0;  // bytes of texts and arrays that do not fit into entries
};

}  // namespace lethevec::filters
