#include "rows/rows.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

#include "memory/wipe.h"

namespace lethevec {

namespace {

constexpr int64_t CHUNK_TARGET = 1 << 20;
constexpr int MIN_SHIFT = 6, MAX_SHIFT = 12;
constexpr int64_t SMALL = 8 << 20;  // bytes of chunks that need no large pages
constexpr int64_t ROWS_SCANNED_TOGETHER = 1 << 16;
constexpr int64_t MIN_BUCKETS = 16;
// On average; buckets that are still to be split have up to twice as many, and room for seven.
constexpr int64_t ROWS_PER_BUCKET = 3;
constexpr int64_t AHEAD = 16;

constexpr int64_t LINE_WORDS = 16;

// Tails that share a line of the cache, so that to read one, somewhere, is to wait for one line.
int64_t tails_in_line(int64_t stride) { return stride > 0 && 2 * stride <= LINE_WORDS ? LINE_WORDS / stride : 1; }

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

int64_t buckets_for(int64_t rows) { return std::max(MIN_BUCKETS, (rows + ROWS_PER_BUCKET - 1) / ROWS_PER_BUCKET); }

int shift_for(int64_t row_bytes) {
    int shift = MIN_SHIFT;
    while (shift < MAX_SHIFT && (row_bytes << (shift + 1)) <= CHUNK_TARGET) ++shift;
    return shift;
}

uint64_t process_key() {
    static const uint64_t key = [] {
        std::random_device device;
        return (static_cast<uint64_t>(device()) << 32) ^ device();
    }();
    return key;
}

}  // namespace

Rows::Rows(Layout layout, const FileOfVectors& file)
    : layout_(layout),
      vector_bytes_(layout.vector_bytes()),
      key_(process_key()),
      shift_(shift_for(20 + vector_bytes_ + layout.scan_bytes + 4 * tail_stride() + 8 * layout.hamming_words +
                       4 * layout.block_words)),
      chunks_together_(ROWS_SCANNED_TOGETHER >> shift_),
      tail_group_(static_cast<uint64_t>(tails_in_line(tail_stride()))),
      tail_group_words_(static_cast<uint64_t>(tail_group_ > 1 ? LINE_WORDS : tail_stride())),
      tail_reciprocal_(((uint64_t{1} << 32) + tail_group_ - 1) / tail_group_),
      memory_(chunk_bytes(file.descriptor < 0), SMALL),
      file_(file.descriptor < 0 ? nullptr : new FilePile(file, aligned(chunk_rows() * vector_bytes_))),
      scanned_(aligned(scanned_bytes()), 1),
      map_(BUCKETS_PER_PIECE * static_cast<int64_t>(sizeof(MapBucket)), SMALL / 8) {
    for (int64_t b = 0; b < MIN_BUCKETS; ++b) grow_map();
}

int64_t Rows::tail_bytes() const {
    const auto group = static_cast<int64_t>(tail_group_);
    return aligned((chunk_rows() + group - 1) / group * static_cast<int64_t>(tail_group_words_) * 4);
}

int64_t Rows::chunk_bytes(bool with_vectors) const {
    const int64_t n = chunk_rows();
    return aligned(8 * n) + aligned(8 * n) + (with_vectors ? aligned(n * vector_bytes_) : 0) + tail_bytes() +
           aligned(8 * n * layout_.hamming_words) + aligned(4 * n * layout_.block_words);
}

int64_t Rows::scanned_bytes() const {
    return chunk_rows() * chunks_together_ * (4 + layout_.norm_classes + layout_.scan_bytes);
}

Chunk Rows::carve(uint8_t* memory, uint8_t* scanned, uint8_t* in_file, int64_t c) const {
    const int64_t n = chunk_rows(), at = (c % chunks_together_) * n;
    auto take = [&](int64_t bytes) {
        uint8_t* part = memory;
        memory += aligned(bytes);
        return part;
    };
    Chunk chunk;
    chunk.ids = reinterpret_cast<int64_t*>(take(8 * n));
    chunk.links = reinterpret_cast<MapLink*>(take(8 * n));
    chunk.vectors = in_file ? in_file : take(n * vector_bytes_);
    chunk.tail = reinterpret_cast<uint32_t*>(take(tail_bytes()));
    chunk.hamming = reinterpret_cast<uint64_t*>(take(8 * n * layout_.hamming_words));
    chunk.blocks = reinterpret_cast<uint32_t*>(take(4 * n * layout_.block_words));
    chunk.norms = reinterpret_cast<float*>(scanned) + at;
    chunk.classes = scanned + 4 * n * chunks_together_ + at;
    chunk.scan = scanned + (4 + layout_.norm_classes) * n * chunks_together_ + at * layout_.scan_bytes;
    return chunk;
}

void Rows::add_chunk() {
    chunks_.reserve(chunks_.size() + 1);
    uint8_t *memory = memory_.push(), *in_file = nullptr;
    try {
        if (file_) in_file = file_->push();
        if (chunks() % chunks_together_ == 0) together_ = scanned_.push();
    } catch (...) {
        memory_.pop();
        if (in_file) file_->pop();
        throw;
    }
    chunks_.push_back(carve(memory, together_, in_file, chunks()));
}

// Every row of the last chunk has been wiped by now.
void Rows::drop_chunk() {
    memory_.pop();
    if (file_) file_->pop();
    chunks_.pop_back();
    if (chunks() % chunks_together_ == 0) {
        scanned_.pop();
        // Norms come first in what chunks have together.
        const size_t before = chunks_.size() - static_cast<size_t>(chunks_together_);
        together_ = chunks_.empty() ? nullptr : reinterpret_cast<uint8_t*>(chunks_[before].norms);
    }
}

uint32_t Rows::find(int64_t wanted) const {
    const uint32_t hashed = hash(wanted);
    const MapBucket& own = bucket(number(hashed));
    for (uint32_t k = 0; k < own.count; ++k)
        if (own.entries[k].hash == hashed && id(own.entries[k].row) == wanted) return own.entries[k].row;
    for (uint32_t chain = own.chain; chain;) {
        const MapLink& link = link_of(chain - 1);
        if (link.hash == hashed && id(chain - 1) == wanted) return chain - 1;
        chain = link.next;
    }
    return NONE;
}

void Rows::ask_for(const int64_t* ids, int64_t i, int64_t n) const {
    const int64_t end = std::min(n, i + AHEAD + 1);
    for (int64_t j = i == 0 ? 0 : i + AHEAD; j < end; ++j) __builtin_prefetch(&bucket(number(hash(ids[j]))), 1);
}

void Rows::put(MapBucket& bucket, MapEntry entry) {
    if (bucket.count < MapBucket::PLACES) {
        bucket.entries[bucket.count++] = entry;
        return;
    }
    link_of(entry.row) = {bucket.chain, entry.hash};
    bucket.chain = entry.row + 1;
}

// The rows of a chain that is no bucket's any more.
void Rows::put_chain(uint32_t chain) {
    while (chain) {
        const uint32_t row = chain - 1;
        MapLink& link = link_of(row);
        const MapLink was = link;
        wipe(&link, sizeof link);
        put(bucket(number(was.hash)), {row, was.hash});
        chain = was.next;
    }
}

// The first of the chain takes the place, or else the last entry.
void Rows::take_out(MapBucket& bucket, uint32_t place) {
    if (bucket.chain) {
        const uint32_t row = bucket.chain - 1;
        MapLink& link = link_of(row);
        bucket.entries[place] = {row, link.hash};
        bucket.chain = link.next;
        wipe(&link, sizeof link);
        return;
    }
    MapEntry& last = bucket.entries[--bucket.count];
    bucket.entries[place] = last;
    wipe(&last, sizeof last);
}

void Rows::unlink(uint32_t row) {
    MapBucket& own = bucket(number(hash(id(row))));
    for (uint32_t k = 0; k < own.count; ++k)
        if (own.entries[k].row == row) return take_out(own, k);
    uint32_t* at = &own.chain;
    while (*at != row + 1) at = &link_of(*at - 1).next;
    MapLink& link = link_of(row);
    *at = link.next;
    wipe(&link, sizeof link);
}

// The map calls row `from` by the number `to`, which nobody has.
void Rows::rename(uint32_t from, uint32_t to) {
    MapBucket& own = bucket(number(hash(id(from))));
    for (uint32_t k = 0; k < own.count; ++k)
        if (own.entries[k].row == from) {
            own.entries[k].row = to;
            return;
        }
    uint32_t* at = &own.chain;
    while (*at != from + 1) at = &link_of(*at - 1).next;
    *at = to + 1;
    link_of(to) = link_of(from);
}

// One more bucket, which takes its share of the one it was split from. Both are next to those of the last time.
void Rows::grow_map() {
    if (buckets_ % BUCKETS_PER_PIECE == 0) {
        pieces_.reserve(pieces_.size() + 1);
        pieces_.push_back(reinterpret_cast<MapBucket*>(map_.push()));
    }
    const int64_t added = buckets_++;
    if (added == 0) return;
    const int64_t split = added - (int64_t{1} << (63 - __builtin_clzll(static_cast<unsigned long long>(added))));
    MapBucket &from = bucket(split), &to = bucket(added);
    __builtin_prefetch(&bucket(std::min(split + AHEAD, added)), 1);
    const uint32_t chain = from.chain;
    from.chain = 0;
    for (uint32_t k = 0; k < from.count;) {
        if (number(from.entries[k].hash) == split) {
            ++k;
            continue;
        }
        put(to, from.entries[k]);
        take_out(from, k);
    }
    put_chain(chain);
}

void Rows::shrink_map() {
    MapBucket& last = bucket(--buckets_);
    const uint32_t chain = last.chain;
    last.chain = 0;
    for (uint32_t k = 0; k < last.count; ++k) put(bucket(number(last.entries[k].hash)), last.entries[k]);
    wipe(&last, sizeof last);
    put_chain(chain);
    if (buckets_ % BUCKETS_PER_PIECE == 0) {
        pieces_.pop_back();
        map_.pop();
    }
}

uint32_t Rows::append(int64_t id) {
    if (size_ >= static_cast<int64_t>(NONE) - 1) throw std::bad_alloc();
    const bool fresh = size_ == chunks() * chunk_rows();
    if (fresh) add_chunk();
    try {
        while (buckets_ < buckets_for(size_ + 1)) grow_map();
    } catch (...) {
        if (fresh) drop_chunk();
        throw;
    }
    const auto row = static_cast<uint32_t>(size_++);
    chunk_of(row).ids[place(row)] = id;
    const uint32_t hashed = hash(id);
    put(bucket(number(hashed)), {row, hashed});
    return row;
}

void Rows::remove(uint32_t row) {
    unlink(row);
    const auto last = static_cast<uint32_t>(size_ - 1);
    if (row != last) {
        // The row that will be last after some more removals; by then its bucket is here.
        if (last >= AHEAD) __builtin_prefetch(&bucket(number(hash(id(last - AHEAD)))), 1);
        rename(last, row);
        move_row(last, row);
    }
    wipe_row(last);
    --size_;
    while (buckets_ > buckets_for(size_)) shrink_map();
    if (size_ == (chunks() - 1) * chunk_rows()) drop_chunk();
}

const float* Rows::vectors(uint32_t row, int64_t count, float* room) const {
    const uint8_t* at = packed(row);
    if (!packs()) return reinterpret_cast<const float*>(at);
    for (int64_t i = 0; i < count; ++i)
        unpack(layout_.form, at + i * vector_bytes_, layout_.dim, room + i * layout_.dim);
    return room;
}

// A new row is zero, so that an add waits for no disk.
void Rows::note_overwritten(uint32_t row) {
    if (!file_) return;
    const uint8_t* at = packed(row);
    if (at[0] || std::memcmp(at, at + 1, static_cast<size_t>(vector_bytes_ - 1))) file_->touch(row >> shift_);
}

void Rows::set_vector(uint32_t row, const float* x) {
    note_overwritten(row);
    pack(layout_.form, x, layout_.dim, packed(row));
}

void Rows::set_norm(uint32_t row, float norm) {
    chunk_of(row).norms[place(row)] = norm;
    if (!layout_.norm_classes) return;
    uint32_t bits = 0;
    std::memcpy(&bits, &norm, sizeof bits);
    const int64_t number = static_cast<int64_t>(bits >> NORM_SHIFT) - NORM_FIRST;
    chunk_of(row).classes[place(row)] = static_cast<uint8_t>(std::min<int64_t>(std::max<int64_t>(number, 0), 255));
}

void Rows::move_row(uint32_t from, uint32_t to) {
    const Chunk &a = chunk_of(from), &b = chunk_of(to);
    const int64_t i = place(from), j = place(to);
    b.ids[j] = a.ids[i];
    b.norms[j] = a.norms[i];
    if (layout_.norm_classes) b.classes[j] = a.classes[i];
    if (vector_bytes_) {
        note_overwritten(to);
        std::memcpy(packed(to), packed(from), static_cast<size_t>(vector_bytes_));
    }
    for (int64_t g = 0; g < layout_.scan_bytes; ++g) *scan_byte(to, g) = *scan_byte(from, g);
    if (tail_stride()) std::memcpy(tail(to), tail(from), static_cast<size_t>(4 * tail_stride()));
    if (layout_.hamming_words) std::memcpy(hamming(to), hamming(from), static_cast<size_t>(8 * layout_.hamming_words));
    for (int64_t w = 0; w < layout_.block_words; ++w) *block_word(to, w) = *block_word(from, w);
}

void Rows::wipe_row(uint32_t row) {
    const Chunk& c = chunk_of(row);
    const int64_t i = place(row);
    if (vector_bytes_) {
        note_overwritten(row);
        wipe(packed(row), static_cast<size_t>(vector_bytes_));
    }
    if (tail_stride()) wipe(tail(row), static_cast<size_t>(4 * tail_stride()));
    if (layout_.hamming_words) wipe(hamming(row), static_cast<size_t>(8 * layout_.hamming_words));
    for (int64_t w = 0; w < layout_.block_words; ++w) wipe(block_word(row, w), sizeof(uint32_t));
    for (int64_t g = 0; g < layout_.scan_bytes; ++g) wipe(scan_byte(row, g), 1);
    c.norms[i] = 0.0f;
    if (layout_.norm_classes) wipe(&c.classes[i], 1);
    wipe(&c.links[i], sizeof c.links[i]);
    wipe(&c.ids[i], sizeof c.ids[i]);
}

int64_t Rows::bytes_of_vectors() const { return vector_bytes_ * size_; }
int64_t Rows::bytes_of_codes() const {
    return (layout_.scan_bytes + 4 * tail_stride() + 8 * layout_.hamming_words + 4 * layout_.block_words + 4 +
            layout_.norm_classes) *
           size_;
}
int64_t Rows::bytes_of_map() const { return 16 * size_ + static_cast<int64_t>(sizeof(MapBucket)) * buckets_; }
int64_t Rows::bytes_allocated() const { return memory_.bytes() + scanned_.bytes() + map_.bytes(); }

std::vector<uint8_t> Rows::raw_memory() const {
    std::vector<uint8_t> all;
    memory_.raw_memory(all);
    scanned_.raw_memory(all);
    if (file_) file_->raw_memory(all);
    map_.raw_memory(all);
    return all;
}

}  // namespace lethevec
