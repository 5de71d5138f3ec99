// The records in memory: rows in chunks, without gaps, and a map from id to row.
//
// Row numbers are ours and depend on history; nothing that a caller can see does. Forgetting moves the last row into
// the gap and overwrites the place it came from, so there are no tombstones, and memory follows from the number of
// records alone: chunks are given back when they empty (all but one, kept zeroed, so that a boundary is not paid for
// again and again). What a scan reads of every record, norms, their classes and first-stage codes, lies side by side
// for many chunks: spread over the chunks, the same places of each would compete for the same sets of the cache.
//
// Vectors may lie in a file of their own, which is mapped (memory/file_pile.h). What was in a place there and is
// overwritten is on the disk once `settle` has returned.
//
// The map is a linear hash table. It grows and shrinks one bucket at a time, so no single call ever pays for a rehash,
// and the number of buckets is a function of the number of records. A bucket is a line of the cache, so that to find a
// record, or to find that there is none, is to wait for memory once; the few rows that do not fit are a chain through
// the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/file_pile.h"
#include "memory/pile.h"

#include "kernels/kernels.h"
#include "rows/vector_form.h"

namespace lethevec {

// What is kept for each record besides its id, its norm and its place in the map. Zero where a part is not kept. Its
// source says how codes are kept.
struct Layout {
    int64_t dim = 0;  // numbers of the vector
    VectorForm form = VectorForm::none;
    int64_t bits = 0;           // of the code
    int64_t first_bits = 0;     // those of them that are scanned, in the asymmetric ranking
    int64_t scan_bytes = 0;     // which lie in blocks
    bool norm_classes = false;  // the norm in a byte, beside the float; see kernels.h
    int64_t tail_words = 0;     // the rest of the code, words of 32 bits
    bool has_factor = false;    // the scale of the estimate, in the asymmetric ranking
    // The whole code, for Hamming ranking: words of 64 bits where a source says which codes to look at, or words of 32
    // bits, in blocks, where all are scanned.
    int64_t hamming_words = 0;
    int64_t block_words = 0;

    bool has_codes() const { return bits > 0; }
    int64_t code_bytes() const { return (bits + 7) / 8; }
    // Words of a factor and the tail after it.
    int64_t tail_stride() const { return (has_factor ? 1 : 0) + tail_words; }
    // What a search reads of a record whose code it looks at after the first stage, and of one whose vector it does.
    int64_t rest_bytes() const { return 4 * tail_stride() + 8 * hamming_words; }
    int64_t vector_bytes() const { return form_bytes(form, dim); }
};

// A row in the map: what is needed to find it and to sort it into another bucket, without a look at its id.
struct MapEntry {
    uint32_t row;
    uint32_t hash;  // of the id, as many bits as any bucket's number has
};

// What is not in use is zero. There is a chain only where all places are taken.
struct alignas(64) MapBucket {
    static constexpr uint32_t PLACES = 7;
    MapEntry entries[PLACES];
    uint32_t count;
    uint32_t chain;  // one more than the first row that did not fit, 0 if there is none
};
static_assert(sizeof(MapBucket) == 64, "a bucket is a line of the cache");

// A row in its bucket's chain; all zero for others.
struct MapLink {
    uint32_t next;  // one more than the next row, 0 at the end
    uint32_t hash;
};

struct Chunk {
    int64_t* ids;
    float* norms;
    uint8_t* classes;  // of norms
    MapLink* links;
    uint8_t* vectors;   // (rows, vector_bytes)
    uint8_t* scan;      // (rows / 64, scan_bytes, 64)
    uint32_t* tail;     // the factor, then the words of each row, in groups that no line of the cache cuts
    uint64_t* hamming;  // (rows, hamming_words)
    uint32_t* blocks;   // (rows / 32, block_words, 32)
};

class Rows {
public:
    static constexpr uint32_t NONE = UINT32_MAX;

    // With the descriptor of a file, vectors lie in it.
    explicit Rows(Layout layout, const FileOfVectors& file = {});
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;

    int64_t size() const { return size_; }
    const Layout& layout() const { return layout_; }
    int64_t tail_stride() const { return layout_.tail_stride(); }

    int64_t chunk_rows() const { return int64_t{1} << shift_; }
    int64_t chunks() const { return static_cast<int64_t>(chunks_.size()); }
    // Norms and first-stage codes of as many chunks, from a multiple of it on, lie side by side.
    int64_t chunks_together() const { return chunks_together_; }
    const Chunk& chunk(int64_t c) const { return chunks_[static_cast<size_t>(c)]; }
    const Chunk& chunk_of(uint32_t row) const { return chunks_[row >> shift_]; }
    int64_t place(uint32_t row) const { return row & ((uint32_t{1} << shift_) - 1); }
    // Rows in use in chunk c.
    int64_t used(int64_t c) const { return c + 1 < chunks() ? chunk_rows() : size_ - c * chunk_rows(); }

    int64_t id(uint32_t row) const { return chunk_of(row).ids[place(row)]; }
    float norm(uint32_t row) const { return chunk_of(row).norms[place(row)]; }
    void set_norm(uint32_t row, float norm);
    // Whether vectors are kept in a smaller form than that of the numbers they stand for.
    bool packs() const { return layout_.form == VectorForm::float16 || layout_.form == VectorForm::int8; }
    // A row's vector, or those of some rows that follow each other in a chunk: where it is, or written to `room`, which
    // is not looked at unless vectors are packed.
    const float* vector(uint32_t row, float* room) const { return vectors(row, 1, room); }
    const float* vectors(uint32_t row, int64_t count, float* room) const;
    // The number of floats that such a room has to have for `count` vectors.
    int64_t room(int64_t count) const { return packs() ? count * layout_.dim : 0; }
    // A vector of the rows' form; see vector_form.h.
    void set_vector(uint32_t row, const float* x);
    // As it is kept.
    uint8_t* packed(uint32_t row) const { return chunk_of(row).vectors + place(row) * vector_bytes_; }
    // Into the second cache: more can be on their way there than to the first.
    void ask_for_vector(uint32_t row) const {
        const uint8_t* at = packed(row);
        for (int64_t byte = 0; byte < vector_bytes_; byte += 64) __builtin_prefetch(at + byte, 0, 2);
    }
    uint32_t* tail(uint32_t row) const {
        const auto at = static_cast<uint64_t>(place(row)), group = (at * tail_reciprocal_) >> 32;
        return chunk_of(row).tail + group * tail_group_words_ +
               (at - group * tail_group_) * static_cast<uint64_t>(tail_stride());
    }
    uint64_t* hamming(uint32_t row) const { return chunk_of(row).hamming + place(row) * layout_.hamming_words; }
    uint32_t* block_word(uint32_t row, int64_t w) const {
        const int64_t at = place(row);
        return chunk_of(row).blocks + ((at / BLOCK) * layout_.block_words + w) * BLOCK + at % BLOCK;
    }
    uint8_t* scan_byte(uint32_t row, int64_t g) const {
        const int64_t at = place(row);
        return chunk_of(row).scan + ((at / PAIR) * layout_.scan_bytes + g) * PAIR + at % PAIR;
    }

    // The row of an id, or NONE.
    uint32_t find(int64_t id) const;
    // Asks the memory early for what `find` will read of the ids that follow ids[i] in a list of n.
    void ask_for(const int64_t* ids, int64_t i, int64_t n) const;
    // A new row with this id, everything else zero. The id must not be present. May throw std::bad_alloc, changing
    // nothing.
    uint32_t append(int64_t id);
    // Removes a row: the last row takes its number, and its old place is overwritten.
    void remove(uint32_t row);

    // The file that vectors lie in; null where there is none.
    FilePile* file() const { return file_.get(); }
    // What was overwritten is on the disk. Throws FileUnsettled.
    void settle() {
        if (file_) file_->settle();
    }

    // Bytes by part, for `size()` records.
    int64_t bytes_of_vectors() const;
    int64_t bytes_of_codes() const;
    int64_t bytes_of_map() const;
    int64_t bytes_allocated() const;
    // A copy of all of it, in use or not, the spare chunk included. For tests that look for what should be gone.
    std::vector<uint8_t> raw_memory() const;

private:
    static constexpr int64_t BUCKETS_PER_PIECE = 1024;
    Chunk carve(uint8_t* memory, uint8_t* scanned, uint8_t* in_file, int64_t c) const;
    // Of a row's vector, if it is in a file and not zero: it is about to be overwritten.
    void note_overwritten(uint32_t row);
    int64_t tail_bytes() const;
    int64_t chunk_bytes(bool with_vectors) const;
    int64_t scanned_bytes() const;
    void add_chunk();
    void drop_chunk();
    uint32_t hash(int64_t id) const {
        uint64_t z = static_cast<uint64_t>(id) ^ key_;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return static_cast<uint32_t>(z ^ (z >> 31));
    }
    // With B buckets, 2^k <= B < 2^(k+1): the low k + 1 bits where there is such a bucket already, else the low k.
    int64_t number(uint32_t hash) const {
        const int high = 63 - __builtin_clzll(static_cast<unsigned long long>(buckets_));
        const auto wide = static_cast<int64_t>(hash & ((uint64_t{2} << high) - 1));
        return wide < buckets_ ? wide : wide - (int64_t{1} << high);
    }
    MapBucket& bucket(int64_t number) const {
        return pieces_[static_cast<size_t>(number / BUCKETS_PER_PIECE)][number % BUCKETS_PER_PIECE];
    }
    MapLink& link_of(uint32_t row) const { return chunk_of(row).links[place(row)]; }
    void put(MapBucket& bucket, MapEntry entry);
    void put_chain(uint32_t chain);
    void take_out(MapBucket& bucket, uint32_t place);
    void unlink(uint32_t row);
    void rename(uint32_t from, uint32_t to);
    void grow_map();
    void shrink_map();
    void move_row(uint32_t from, uint32_t to);
    void wipe_row(uint32_t row);

    Layout layout_;
    int64_t vector_bytes_;
    int64_t size_ = 0;
    uint64_t key_;  // of the map's hash; drawn once per process, so that nobody can choose ids that collide
    int shift_;
    int64_t chunks_together_;
    // Tails in a group and words that it takes: as many as a line of the cache holds, or one by one where they are
    // long. A place times the reciprocal, over 2^32, is the number of its group: exact, since a chunk has few places.
    uint64_t tail_group_, tail_group_words_, tail_reciprocal_;
    std::vector<Chunk> chunks_;
    Pile memory_;                     // of chunks
    std::unique_ptr<FilePile> file_;  // their vectors, where these are not with the rest
    Pile scanned_;                    // norms, classes and first-stage codes of chunks_together_ chunks each
    uint8_t* together_ = nullptr;     // the last of those
    int64_t buckets_ = 0;
    std::vector<MapBucket*> pieces_;
    Pile map_;  // what they point to
};

}  // namespace lethevec
