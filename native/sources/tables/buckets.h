// One hash table: for every key, the rows that have it, each with a signature. A bucket is a list of runs, and the runs
// of all buckets lie side by side without gaps. A run has room for 32 rows or, where buckets are large, a power of two
// times as many: memory is read faster in long pieces than in short ones.
//
// Within a run, signatures lie in pairs of blocks, byte by byte, as `scan_buckets` of the kernels reads them: byte g of
// the pair's row r is at 64 g + r; in runs of 32 rows there are no pairs, and it is at 32 g + r. Rows, which are read
// only where a signature is worth it, and links lie elsewhere: so a search reads little more than heads and signatures,
// and knows where the next run lies before it has come from memory. A head has the number of rows too, so that a search
// can plan by heads alone.
//
// All runs of a bucket but the first are full, and a run that empties is given back: the last run of all takes its
// place. So the number of runs follows from the sizes of the buckets alone, however they came about, and a bucket that
// empties leaves nothing but its head, which every key has from the start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace lethevec {

class Buckets {
public:
    // A place in a table, by which a row is taken out of it in constant time. Never 0.
    using Place = uint32_t;
    using Run = uint32_t;
    static constexpr Run NONE = UINT32_MAX;
    static constexpr int64_t MAX_KEY_BITS = 20;

    // How many rows a run has, when buckets have so many on average: as many as can be without most of it being empty.
    static constexpr int64_t MAX_RUN = 1024;
    static int64_t run_for(int64_t rows) {
        int64_t run = BLOCK;
        while (run < MAX_RUN && 2 * run <= rows) run *= 2;
        return run;
    }

    Buckets(int64_t key_bits, int64_t signature_bits, int64_t run)
        : signature_bytes_((signature_bits + 7) / 8),
          run_shift_(__builtin_ctzll(static_cast<uint64_t>(run))),
          apart_(run < PAIR ? BLOCK : PAIR),
          heads_(static_cast<std::size_t>(int64_t{1} << key_bits), Head{NONE, 0}) {}
    ~Buckets();
    Buckets(const Buckets&) = delete;
    Buckets& operator=(const Buckets&) = delete;
    Buckets(Buckets&&) = default;

    // May throw std::bad_alloc, changing nothing.
    Place insert(uint32_t key, uint32_t row, const uint8_t* signature);
    // Takes out what is at a place. Calls moved(row, place) for every row whose place is another now. Cannot fail.
    template <class Moved>
    void remove(Place place, Moved moved);
    // The row at a place has another number.
    void renumber(Place place, uint32_t row) { rows_of(run_of(place))[slot_of(place)] = row; }

    Place place(Run b, uint32_t slot) const { return (b << run_shift_) + slot + 1; }
    uint32_t key_at(Place place) const { return link(run_of(place)).key; }
    uint32_t row_at(Place place) const { return rows_of(run_of(place))[slot_of(place)]; }

    // A bucket's runs one by one, so that a caller can have many on their way from memory at once. The first run holds
    // what the others, which are full, do not.
    struct Head {
        Run first;
        uint32_t rows;  // of all runs
    };
    void prefetch_head(uint32_t key) const { __builtin_prefetch(&heads_[key]); }
    const Head& head(uint32_t key) const { return heads_[key]; }
    uint32_t rows_in_first(const Head& head) const { return ((head.rows - 1) & static_cast<uint32_t>(run() - 1)) + 1; }
    void prefetch_next(Run b) const { __builtin_prefetch(&next(b)); }
    Run next_run(Run b) const { return next(b); }
    struct View {
        const uint8_t* signatures;
        const uint32_t* rows;
    };
    View view(Run b) const { return {signatures_of(b), rows_of(b)}; }
    // Where the next row of a bucket will lie.
    void prefetch_end(uint32_t key) const {
        const Head& head = heads_[key];
        const uint32_t slot = head.rows & static_cast<uint32_t>(run() - 1);
        if (slot == 0) return;  // in a run that is not there yet
        __builtin_prefetch(rows_of(head.first) + slot);
        const uint8_t* at = signature(head.first, slot);
        for (int64_t g = 0; g < signature_bytes_; ++g) __builtin_prefetch(at + g * apart_);
    }
    uint32_t* rows_of(Run b) const {
        const Part part = part_of(b);
        return reinterpret_cast<uint32_t*>(part.piece + part.runs * signature_bytes_ * run()) + part.at * run();
    }
    uint8_t* signatures_of(Run b) const {
        const Part part = part_of(b);
        return part.piece + part.at * signature_bytes_ * run();
    }
    // Calls visit(row, place) for each row of a bucket.
    template <class Visit>
    void each(uint32_t key, Visit visit) const {
        for (Run b = heads_[key].first; b != NONE; b = next_run(b))
            for (uint32_t slot = 0; slot < rows_in(b); ++slot) visit(rows_of(b)[slot], place(b, slot));
    }
    int64_t run() const { return int64_t{1} << run_shift_; }
    int64_t apart() const { return apart_; }  // the bytes of a signature
    int64_t signature_bytes() const { return signature_bytes_; }
    void read_signature(Place place, uint8_t* to) const {
        const uint8_t* at = signature(run_of(place), slot_of(place));
        for (int64_t g = 0; g < signature_bytes_; ++g) to[g] = at[g * apart_];
    }

    int64_t keys() const { return static_cast<int64_t>(heads_.size()); }
    // Buckets with a row in them.
    int64_t used() const { return used_; }
    int64_t runs() const { return runs_; }
    int64_t bytes() const { return static_cast<int64_t>(sizeof(Head)) * keys() + run_bytes() * runs_; }
    void raw_memory(std::vector<uint8_t>& all) const;

private:
    // The run before this one in its bucket, and the bucket's key.
    struct Link {
        Run previous;
        uint32_t key;
    };
    uint32_t rows_in(Run b) const {
        const Link& known = link(b);
        return known.previous == NONE ? rows_in_first(heads_[known.key]) : static_cast<uint32_t>(run());
    }

    // Runs lie in pieces: signatures of all its runs, then their rows, then for each the run after it in its bucket,
    // close together because these are followed one by one, then the other links. The first SMALL_PIECES are small, for
    // the sake of small tables; later ones are worth a large page each.
    static constexpr int SMALL_SHIFT = 13, LARGE_SHIFT = 16;  // of the rows of a piece
    static constexpr int64_t SMALL_PIECES = 8;
    int64_t runs_in(std::size_t piece) const {
        return int64_t{1} << ((piece < SMALL_PIECES ? SMALL_SHIFT : LARGE_SHIFT) - run_shift_);
    }
    struct Part {
        uint8_t* piece;
        int64_t runs, at;  // how many runs it has, and which of them is meant
    };
    Part part_of(Run b) const {
        const std::size_t piece = piece_of(b);
        const int64_t runs = runs_in(piece);
        return {pieces_[piece], runs, b & (runs - 1)};  // the first large piece begins at a multiple of its size
    }
    std::size_t piece_of(Run b) const {
        const int64_t small = b >> (SMALL_SHIFT - run_shift_);
        if (small < SMALL_PIECES) return static_cast<std::size_t>(small);
        return static_cast<std::size_t>((b >> (LARGE_SHIFT - run_shift_)) - 1 + SMALL_PIECES);
    }
    static_assert(SMALL_PIECES << SMALL_SHIFT == int64_t{1} << LARGE_SHIFT, "so that pieces are found by shifting");
    int64_t piece_bytes(std::size_t piece) const { return run_bytes() * runs_in(piece); }
    int64_t run_bytes() const { return (signature_bytes_ + 4) * run() + 4 + static_cast<int64_t>(sizeof(Link)); }
    Link& link(Run b) const {
        const Part part = part_of(b);
        return reinterpret_cast<Link*>(part.piece + part.runs * ((signature_bytes_ + 4) * run() + 4))[part.at];
    }
    Run& next(Run b) const {
        const Part part = part_of(b);
        return reinterpret_cast<Run*>(part.piece + part.runs * (signature_bytes_ + 4) * run())[part.at];
    }

    Run run_of(Place place) const { return (place - 1) >> run_shift_; }
    uint32_t slot_of(Place place) const { return (place - 1) & static_cast<uint32_t>(run() - 1); }
    uint8_t* signature(Run b, uint32_t slot) const {
        const int64_t in_pair = slot & (apart_ - 1);
        return signatures_of(b) + (slot - in_pair) * signature_bytes_ + in_pair;
    }
    // Byte g of the signature is at signature[g * stride].
    void put(Run b, uint32_t slot, uint32_t row, const uint8_t* signature, int64_t stride);
    void clear(Run b, uint32_t slot);
    void copy(Run from, Run to);
    Run add_run();
    // Both neighbours of a run, or the head of its bucket, are to know it by this number.
    void introduce(Run b);
    void drop_last_run();

    int64_t signature_bytes_;
    int run_shift_;
    int64_t apart_;
    std::vector<Head> heads_;
    std::vector<uint8_t*> pieces_;
    uint32_t runs_ = 0;
    int64_t used_ = 0;
};

template <class Moved>
void Buckets::remove(Place gone, Moved moved) {
    Head& head = heads_[key_at(gone)];
    const Run b = head.first;
    const uint32_t last = rows_in_first(head) - 1;
    // The last row of the first run fills the gap.
    if (place(b, last) != gone) {
        put(run_of(gone), slot_of(gone), rows_of(b)[last], signature(b, last), apart_);
        moved(rows_of(b)[last], gone);
    }
    clear(b, last);
    --head.rows;
    if (last != 0) return;

    const Run second = next(b);
    head.first = second;
    if (second != NONE)
        link(second).previous = NONE;
    else
        --used_;
    // The last run fills this one's place.
    if (b != runs_ - 1) {
        copy(runs_ - 1, b);
        introduce(b);
        for (uint32_t slot = 0; slot < rows_in(b); ++slot) moved(rows_of(b)[slot], place(b, slot));
    }
    drop_last_run();
}

}  // namespace lethevec
