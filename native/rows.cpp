#include "rows.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

#include "wipe.h"

namespace lethevec {

namespace {

constexpr int64_t CHUNK_TARGET = 1 << 20;
constexpr int MIN_SHIFT = 6, MAX_SHIFT = 12;
constexpr int64_t SMALL = 8 << 20;  // bytes of chunks that need no large pages
constexpr int64_t ROWS_SCANNED_TOGETHER = 1 << 16;
constexpr int64_t HEADS_PER_PIECE = 4096;
constexpr int64_t MIN_BUCKETS = 16;
constexpr int64_t ROWS_PER_BUCKET = 1;

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

Rows::Rows(Layout layout)
    : layout_(layout),
      key_(process_key()),
      shift_(shift_for(20 + 4 * layout.dim + layout.scan_bytes + 4 * tail_stride() + 8 * layout.hamming_words)),
      chunks_together_(ROWS_SCANNED_TOGETHER >> shift_),
      memory_(chunk_bytes(), SMALL),
      scanned_(aligned(scanned_bytes()), 1) {
    for (int64_t b = 0; b < MIN_BUCKETS; ++b) grow_map();
}

Rows::~Rows() {
    for (auto& piece : heads_) wipe(piece.get(), HEADS_PER_PIECE * sizeof(uint32_t));
}

int64_t Rows::chunk_bytes() const {
    const int64_t n = chunk_rows();
    return aligned(8 * n) + aligned(8 * n) + aligned(4 * n * layout_.dim) + aligned(4 * n * tail_stride()) +
           aligned(8 * n * layout_.hamming_words);
}

int64_t Rows::scanned_bytes() const { return chunk_rows() * chunks_together_ * (4 + layout_.scan_bytes); }

Chunk Rows::carve(uint8_t* memory, uint8_t* scanned, int64_t c) const {
    const int64_t n = chunk_rows(), at = (c % chunks_together_) * n;
    auto take = [&](int64_t bytes) {
        uint8_t* part = memory;
        memory += aligned(bytes);
        return part;
    };
    Chunk chunk;
    chunk.ids = reinterpret_cast<int64_t*>(take(8 * n));
    chunk.links = reinterpret_cast<Link*>(take(8 * n));
    chunk.vectors = reinterpret_cast<float*>(take(4 * n * layout_.dim));
    chunk.tail = reinterpret_cast<uint32_t*>(take(4 * n * tail_stride()));
    chunk.hamming = reinterpret_cast<uint64_t*>(take(8 * n * layout_.hamming_words));
    chunk.norms = reinterpret_cast<float*>(scanned) + at;
    chunk.scan = scanned + 4 * n * chunks_together_ + at * layout_.scan_bytes;
    return chunk;
}

void Rows::add_chunk() {
    chunks_.reserve(chunks_.size() + 1);
    uint8_t* memory = memory_.push();
    if (chunks() % chunks_together_ == 0) {
        try {
            together_ = scanned_.push();
        } catch (...) {
            memory_.pop();
            throw;
        }
    }
    chunks_.push_back(carve(memory, together_, chunks()));
}

// Every row of the last chunk has been wiped by now.
void Rows::drop_chunk() {
    memory_.pop();
    chunks_.pop_back();
    if (chunks() % chunks_together_ == 0) {
        scanned_.pop();
        together_ = chunks_.empty() ? nullptr : reinterpret_cast<uint8_t*>(chunks_[chunks_.size() - static_cast<size_t>(chunks_together_)].norms);
    }
}

uint32_t Rows::hash(int64_t id) const {
    uint64_t z = static_cast<uint64_t>(id) ^ key_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return static_cast<uint32_t>(z ^ (z >> 31));
}

// With B buckets, 2^k <= B < 2^(k+1): the low k + 1 bits where there is such a bucket already, else the low k.
int64_t Rows::bucket(uint32_t hash) const {
    const int high = 63 - __builtin_clzll(static_cast<unsigned long long>(buckets_));
    const auto wide = static_cast<int64_t>(hash & ((uint64_t{2} << high) - 1));
    return wide < buckets_ ? wide : wide - (int64_t{1} << high);
}

uint32_t& Rows::head(int64_t b) { return heads_[static_cast<size_t>(b / HEADS_PER_PIECE)][static_cast<size_t>(b % HEADS_PER_PIECE)]; }
uint32_t Rows::head(int64_t b) const {
    return heads_[static_cast<size_t>(b / HEADS_PER_PIECE)][static_cast<size_t>(b % HEADS_PER_PIECE)];
}

uint32_t Rows::find(int64_t wanted) const {
    const uint32_t hashed = hash(wanted);
    uint32_t row = head(bucket(hashed));
    while (row != NONE) {
        const Link& link = link_of(row);
        if (link.hash == hashed && id(row) == wanted) break;
        row = link.next;
    }
    return row;
}

// A record is found by steps, each of which says where the next one goes: bucket, first row, second row.
void Rows::ask_for(const int64_t* ids, int64_t i, int64_t n) const {
    constexpr int64_t STEP = 8;
    if (i + 3 * STEP < n) {
        const int64_t b = bucket(hash(ids[i + 3 * STEP]));
        __builtin_prefetch(&heads_[static_cast<size_t>(b / HEADS_PER_PIECE)][static_cast<size_t>(b % HEADS_PER_PIECE)]);
    }
    if (i + 2 * STEP < n) ask_for_first(bucket(hash(ids[i + 2 * STEP])));
    if (i + STEP < n) ask_for_second(bucket(hash(ids[i + STEP])));
}

void Rows::ask_for_first(int64_t b) const {
    const uint32_t row = head(b);
    if (row != NONE) __builtin_prefetch(&link_of(row));
}

void Rows::ask_for_second(int64_t b) const {
    const uint32_t row = head(b), second = row == NONE ? NONE : link_of(row).next;
    if (second != NONE) __builtin_prefetch(&link_of(second));
}

void Rows::link(uint32_t row) {
    Link& own = link_of(row);
    uint32_t& first = head(bucket(own.hash));
    own.next = first;
    first = row;
}

void Rows::unlink(uint32_t row) {
    const Link& own = link_of(row);
    uint32_t* at = &head(bucket(own.hash));
    while (*at != row) at = &link_of(*at).next;
    *at = own.next;
}

// The rows of a chain that is no bucket's any more.
void Rows::relink_all(uint32_t row) {
    while (row != NONE) {
        const uint32_t following = link_of(row).next;
        link(row);
        row = following;
    }
}

// One more bucket, which takes its share of the one it was split from. Buckets are split in order, so the rows of those that
// are next are asked for early.
void Rows::grow_map() {
    if (buckets_ % HEADS_PER_PIECE == 0) {
        heads_.reserve(heads_.size() + 1);
        heads_.emplace_back(new uint32_t[HEADS_PER_PIECE]);
        std::fill_n(heads_.back().get(), HEADS_PER_PIECE, NONE);
    }
    const int64_t added = buckets_++;
    if (added == 0) return;
    const int64_t split = added - (int64_t{1} << (63 - __builtin_clzll(static_cast<unsigned long long>(added))));
    ask_for_first(std::min(split + 16, added));
    ask_for_second(std::min(split + 8, added));
    const uint32_t row = head(split);
    head(split) = NONE;
    relink_all(row);
}

void Rows::shrink_map() {
    ask_for_first(std::max<int64_t>(buckets_ - 17, 0));
    ask_for_second(std::max<int64_t>(buckets_ - 9, 0));
    const uint32_t row = head(buckets_ - 1);
    head(buckets_ - 1) = NONE;
    --buckets_;
    relink_all(row);
    if (buckets_ % HEADS_PER_PIECE == 0) heads_.pop_back();
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
    link_of(row).hash = hash(id);
    link(row);
    return row;
}

void Rows::remove(uint32_t row) {
    unlink(row);
    const auto last = static_cast<uint32_t>(size_ - 1);
    if (row != last) {
        unlink(last);
        move_row(last, row);
        link(row);
    }
    wipe_row(last);
    --size_;
    while (buckets_ > buckets_for(size_)) shrink_map();
    if (size_ == (chunks() - 1) * chunk_rows()) drop_chunk();
}

void Rows::move_row(uint32_t from, uint32_t to) {
    const Chunk &a = chunk_of(from), &b = chunk_of(to);
    const int64_t i = place(from), j = place(to);
    b.ids[j] = a.ids[i];
    b.links[j].hash = a.links[i].hash;
    b.norms[j] = a.norms[i];
    if (layout_.dim) std::memcpy(vector(to), vector(from), static_cast<size_t>(4 * layout_.dim));
    for (int64_t g = 0; g < layout_.scan_bytes; ++g) *scan_byte(to, g) = *scan_byte(from, g);
    if (tail_stride()) std::memcpy(tail(to), tail(from), static_cast<size_t>(4 * tail_stride()));
    if (layout_.hamming_words) std::memcpy(hamming(to), hamming(from), static_cast<size_t>(8 * layout_.hamming_words));
}

void Rows::wipe_row(uint32_t row) {
    const Chunk& c = chunk_of(row);
    const int64_t i = place(row);
    if (layout_.dim) wipe(vector(row), static_cast<size_t>(4 * layout_.dim));
    if (tail_stride()) wipe(tail(row), static_cast<size_t>(4 * tail_stride()));
    if (layout_.hamming_words) wipe(hamming(row), static_cast<size_t>(8 * layout_.hamming_words));
    for (int64_t g = 0; g < layout_.scan_bytes; ++g) wipe(scan_byte(row, g), 1);
    c.norms[i] = 0.0f;
    wipe(&c.links[i], sizeof c.links[i]);
    wipe(&c.ids[i], sizeof c.ids[i]);
}

int64_t Rows::bytes_of_vectors() const { return 4 * layout_.dim * size_; }
int64_t Rows::bytes_of_codes() const {
    return (layout_.scan_bytes + 4 * tail_stride() + 8 * layout_.hamming_words + 4) * size_;
}
int64_t Rows::bytes_of_map() const { return 16 * size_ + 4 * buckets_; }
int64_t Rows::bytes_allocated() const {
    return memory_.bytes() + scanned_.bytes() + static_cast<int64_t>(heads_.size()) * HEADS_PER_PIECE * 4;
}

std::vector<uint8_t> Rows::raw_memory() const {
    std::vector<uint8_t> all;
    memory_.raw_memory(all);
    scanned_.raw_memory(all);
    for (const auto& piece : heads_) {
        const auto* at = reinterpret_cast<const uint8_t*>(piece.get());
        all.insert(all.end(), at, at + HEADS_PER_PIECE * sizeof(uint32_t));
    }
    return all;
}

}  // namespace lethevec
