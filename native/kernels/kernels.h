// The contract of the kernels, and the table that each instruction set fills in.
//
// A kernel takes pointers and sizes, allocates nothing and cannot fail. Rows of x are d floats, not padded. `values` is
// (n, bits) and `codes` is (n, ceil(bits/8)); either may be null. `scratch` holds scratch_floats(frame) floats.
#pragma once

#include <cstdint>

#include "kernels/frame_view.h"

namespace lethevec {

struct Output {
    float* values;
    uint8_t* codes;
    int64_t bits;
    // sum_i weights_i <b_i, R_i^T x> (superbit, project: weights 1; usr: of x * entry_gain; progressive: of x/|x|): how
    // far the code points along what it codes. May be null.
    double* alignment = nullptr;
    // |x|, which progressive finds anyway; the others leave it alone. May be null.
    double* norms = nullptr;
};

// A query against the first-stage bits. Weights are whole numbers, so every instruction set finds the same sums however
// it groups the bits: score = sum of w_j over the bits j that agree with the query, at most 255 in each CHUNK of bits.
struct ScanQuery {
    const uint8_t* tables;  // (2 * bytes, 16): the part of the score that four bits give, for each of their 16 patterns
    int64_t bytes;          // bytes of first-stage code of a record
    int32_t half;           // sum of all w_j: 2 score - half estimates <query, record>
    float gain;             // l2: the factor on that estimate; unused otherwise
    // What `widen_tables` made of the tables, or null: whoever can look up six bits at a time then does.
    const uint8_t* wide = nullptr;
};

constexpr int64_t BLOCK = 32;  // records whose first-stage codes are interleaved byte by byte
constexpr int64_t PAIR =
    2 * BLOCK;  // where the codes of all records are scanned, two blocks are: a line of the cache is a byte
constexpr int64_t CHUNK_BYTES = 16;           // bytes whose scores are summed in eight bits
constexpr int64_t CHUNK_WEIGHT = UINT8_MAX;   // to which the weights of their bits add up at most,
constexpr int64_t FIRST_WEIGHT = UINT16_MAX;  // and those of all first bits
constexpr double TAIL_WEIGHT = 127.0;         // the largest weight of a bit after those
constexpr double SCALE_STEP = 0.99;           // by which a scale comes down until rounded weights are light enough

// Bytes of the tables of 64 for so many bytes of code: one for six bits of each, and for the bits that are left of each
// three of a chunk. With a multiple of CHUNK_BYTES it is where the next chunk's tables begin.
constexpr int64_t wide_tables(int64_t bytes) {
    const int64_t left = bytes % CHUNK_BYTES;
    return 64 * (bytes + bytes / CHUNK_BYTES * ((CHUNK_BYTES + 2) / 3) + (left + 2) / 3);
}

// Where the codes of a block begin, in pairs of blocks: byte g of its first record is g * PAIR further on.
constexpr int64_t place_in_pairs(int64_t block, int64_t bytes) { return block / 2 * bytes * PAIR + block % 2 * BLOCK; }

// A row's norm in a byte: which of 254 intervals it lies in, eight to a doubling, or 0 and 255 for what lies beyond. It
// is the upper bits of the float less NORM_FIRST, so the intervals reach from 2^-10 to about 2^22.
constexpr int NORM_SHIFT = 20;
constexpr uint32_t NORM_FIRST = (127 - 10) * 8 - 1;

// How a first-stage score becomes a key, larger is nearer. KEY_SCORE is the score itself.
enum KeyKind : int32_t { KEY_SCORE, KEY_IP, KEY_L2 };

// Blocks that are scanned: codes in pairs of blocks, norms of all rows (unused for KEY_SCORE), their classes (used
// where there are norms and a code is one chunk), and a word per block with the bits of the rows that may be found,
// null for all.
//
// Where `scores` is not null, it has room for a number of each row, in the order of rows: a byte where a code is one
// chunk, two otherwise. The scan writes the scores there. Where they are `scored` already, it reads them and no codes,
// and leaves zeros: to look for other rows than before takes a small part of the time then.
struct ScannedBlocks {
    const uint8_t* codes;
    const float* norms;
    const uint8_t* classes;
    const uint32_t* masks;
    int64_t blocks;
    void* scores = nullptr;
    bool scored = false;
};

// What a scan found: rows (counted from the first block's), their scores and, unless the score is the key, their norms.
// Has room for all rows that are scanned and FOUND_MORE; what lies past those found is undefined.
constexpr int64_t FOUND_MORE = 16;
struct Found {
    uint32_t* rows;
    uint16_t* scores;
    float* norms;
};

// Up to PAIR rows of a cell of the source "pivots": codes as above, then for each row a word with two numbers, each the
// upper half of a float: in its low half the row's size, in its high half its offset.
struct CellPair {
    const uint8_t* at;
    uint32_t place;  // of its first row
    uint32_t group;  // its cell, counted in the order in which cells are looked into
    uint32_t rows;
};

// Which rows of a cell to keep: those whose key, size * ((score * gain + shift) - offset), reaches `least`.
struct CellLimit {
    float shift, least;
};

// Rows that were kept, in their order. There is room for all rows of all pairs that are looked at, each as if it were
// full.
struct CellFound {
    uint32_t *places, *groups;
    uint16_t* scores;
};

// What the rest of a row's code says of its distance: base + (bias - ((first + rest) + lift) * scale), with
// first = (2 score - half) * first_unit and rest = (whole - 2 differ) * tail_unit. A tail has the bias, the scale, and
// `words` words of 32 bits; `differ` is the sum of weights over the bits in which they and the query's differ. Bases
// and lifts are those of groups.
struct CellTails {
    const uint32_t* signs;
    const uint8_t* weights;
    int64_t words;
    int32_t half, whole;
    float first_unit, tail_unit;
    const float *bases, *lifts;
};

// The means of `count` cells, and a query in whole numbers; see means.h. `small` is (blocks, groups, MEANS, 4).
struct MeanView {
    const int8_t* small;
    const int32_t* shifts;
    const float *steps, *squares;
    int64_t count;
};
struct MeanQuery {
    const uint8_t* numbers;  // at most 127
    int64_t groups;
    float step, share;
};

// Centres of the source "pivots" in whole numbers, and a row likewise; see rounded.h. `small` is (panels, groups,
// MEANS, 4), all others (panels, MEANS).
struct RoundedView {
    const int8_t* small;
    int64_t groups;
    const int32_t* shifts;
    const float *steps, *squares, *norms, *errors;
    int64_t panels;
};
struct RoundedRow {
    const uint8_t* numbers;  // at most 127
    float twice_step, by_norm, by_error;
};

// A run of a bucket of the source "tables": signatures as codes above, in pairs of blocks, or up to BLOCK rows in a
// single block. What lies behind the last row may be anything.
struct BucketRun {
    const uint8_t* signatures;
    const uint32_t* numbers;  // of its rows
    uint32_t rows, table;
    int32_t base;  // the estimate of a row whose signature scores nothing; every point of its score adds two
};

// Rows of runs: where they are, the run times as many rows as runs have room for and then the row in it, and their
// estimates.
struct BucketRows {
    uint32_t* places;
    int32_t* estimates;
};
constexpr int64_t BUCKET_ROOM = 64;  // that may be written behind the last row that is found

// The codes of BLOCK neighbours of a vertex of the source "graph", interleaved byte by byte, and two numbers of each.
struct EdgeBlock {
    const uint8_t* codes;
    const float *adds, *scales;
};

// A query in whole numbers from -127 to 127, for the lower and for the upper halves of the bytes of outlines. An
// outline has `bytes` bytes, a multiple of 16; here there are as many and up to the next multiple of 64, zero where an
// outline has no numbers of its vector.
struct OutlineQuery {
    const int8_t *lower, *upper;
    int64_t bytes;
};

// A query against the rest of codes: `words` words of 32 bits, and a weight for each bit.
struct TailView {
    const uint32_t* signs;
    const uint8_t* weights;
    int64_t words;
};

// Up to HAMMING_QUERIES queries against blocks: codes of `words` words of 32 bits. In a block, word by word, the same
// word of BLOCK codes lies side by side. There is a mask for every block, as in `ScannedBlocks`, and for every query a
// limit of the bits that may differ.
struct HammingTask {
    const uint32_t* queries;
    int64_t n, words;
    const uint32_t *codes, *masks;
    int64_t blocks;
    const uint32_t* limits;
};

// What was found for a query: rows, counted from the first block's, and their differing bits; `count` of them, which
// the kernel adds to. Has room for all rows that are scanned.
struct HammingFound {
    uint32_t* rows;
    uint32_t* bits;
    int64_t count;
};

constexpr int64_t HAMMING_QUERIES = 4;  // that one pass over codes serves
constexpr int64_t CELL_AHEAD = 10;      // pairs after the last that are asked for too, so they must be somewhere
constexpr int64_t PANEL = 16;           // centres whose coordinates lie side by side: (panel, d, PANEL)
constexpr int64_t MEANS = 16;  // cells whose means lie side by side: (block, groups of four coordinates, MEANS, 4)

struct Walk;  // walk.h

struct Kernels {
    const char* name;
    int lanes;

    // Values x W for a (d, bits padded) matrix.
    void (*project)(const float* matrix, int64_t d, const float* x, int64_t n, Output out, float* scratch);
    void (*superbit)(const FrameView& f, const float* x, int64_t n, Output out, float* scratch);
    // `entry_gain` is alpha/sqrt(m).
    void (*usr)(const FrameView& f, float entry_gain, int64_t steps, const float* x, int64_t n, Output out,
                float* scratch);
    // `weights` are the m plane weights.
    void (*progressive)(const FrameView& f, const float* weights, int64_t sweeps, const float* x, int64_t n, Output out,
                        float* scratch);
    // x̂ = scale * sum_i R_i (weights_i b_i).
    void (*decode)(const FrameView& f, const float* weights, float scale, const uint8_t* codes, int64_t n, float* x,
                   float* scratch);
    // |x| of each row.
    void (*norms)(const float* x, int64_t d, int64_t n, double* out);
    // sum_j b_j values_j over the d bits of a code from bit `from` on, as the spec's lane_sum adds.
    double (*code_sum)(const uint8_t* code, int64_t from, const float* values, int64_t d);
    // Rows whose key is >= threshold, ascending; returns how many.
    int64_t (*scan)(const ScanQuery& query, KeyKind kind, const ScannedBlocks& scanned, float threshold, Found found);
    // The keys of all rows of blocks wherever they lie, each in its pair: (blocks, BLOCK) of them.
    void (*block_keys)(const ScanQuery& query, KeyKind kind, const uint8_t* const* codes, const float* const* norms,
                       int64_t blocks, float* keys);
    // The rank-th largest of n numbers, none of them NaN; minus infinity when there are not as many.
    float (*largest)(const float* numbers, int64_t n, int64_t rank);
    // Tables of 64 from those of sixteen, wide_tables(bytes) bytes of them; null where nothing would look at them.
    void (*widen_tables)(const uint8_t* tables, int64_t bytes, uint8_t* wide);
    // Sum of weights over the bits in which each of n codes and the query differ. Tails are where the pointers say,
    // anywhere in memory: a factor, which is copied out, then the words.
    void (*disagreements)(const TailView& query, const uint32_t* const* tails, int64_t n, uint32_t* out,
                          float* factors);
    // sum_j query_j u_j of n outlines, wherever they lie.
    void (*outline_products)(const OutlineQuery& query, const uint8_t* const* outlines, int64_t n, int32_t* out);
    // <a, b> and |a - b|^2 over d floats: sixteen lanes, then pairwise.
    float (*dot)(const float* a, const float* b, int64_t d);
    float (*squared_distance)(const float* a, const float* b, int64_t d);
    // The latter for n vectors, wherever they lie.
    void (*squared_distances)(const float* a, const float* const* others, int64_t n, int64_t d, float* out);
    // Estimates for the BLOCK neighbours of a vertex of the source "graph" at squared distance `base` from the query:
    // (base + adds_r) - scales_r * ((2 score_r - half) * unit). Returns a bit for each that is at most `limit`.
    uint32_t (*edge_estimates)(const ScanQuery& query, const EdgeBlock& block, float base, float unit, float limit,
                               float* out);
    // Puts the neighbours in a block of a vertex at squared distance `base` into the pool of a walk; see walk.h.
    // Returns a bit for each that it has left to the caller, with all estimates in `walk`: those that are as far as
    // others.
    uint32_t (*look_at_edges)(Walk& walk, const uint8_t* block, float base);
    // Bits that differ, for n codes of `words` words of 64 bits.
    void (*hamming)(const uint64_t* query, const uint64_t* codes, int64_t words, int64_t n, uint32_t* out);
    // For each query the rows that differ from it in at most its limit of bits, ascending.
    void (*hamming_scan)(const HammingTask& task, HammingFound* found);
    // <row, centre> of n rows of d floats with `count` panels: out is (n, count * PANEL). Rounding is not the same
    // everywhere: only for choosing what to compute exactly.
    void (*products)(const float* panels, int64_t count, int64_t d, const float* rows, int64_t n, float* out);
    // The same for one other row, rounded likewise: (n).
    void (*dots)(const float* rows, int64_t n, const float* with, int64_t d, float* out);
    // (step * steps_c) * (sum_j query_j mean_cj - shifts_c) of each cell, less share * squares_c where a share counts.
    void (*mean_keys)(const MeanQuery& query, const MeanView& means, float* keys);
    // squares_c - by_norm * norms_c - by_error * errors_c - twice_step * steps_c * (sum_j row_j small_cj - shifts_c) of
    // n rows: out is (n, panels * MEANS). Rounding is not the same everywhere: only for bounds.
    void (*centre_bounds)(const RoundedView& centres, const RoundedRow* rows, int64_t n, float* out);
    // The first number from `from` on that is not greater than `most`; n where there is none.
    int64_t (*first_within)(const float* numbers, int64_t from, int64_t n, float most);
    // The smallest of n numbers; infinity where there are none.
    float (*least)(const float* numbers, int64_t n);
    // At least `wanted` of the cells whose sizes are not zero, those with the largest keys, ascending; returns how
    // many. There must be as many.
    int64_t (*choose_cells)(const float* keys, const uint32_t* sizes, int64_t n, int64_t wanted, uint32_t* out);
    // Numbers that are all different, ascending. For few of them: it takes n * n comparisons.
    void (*sort_numbers)(const uint64_t* numbers, int64_t n, uint64_t* out);
    // Rows of these pairs that are kept; returns how many. `gain` of the query is that of a key; `limits` has one for
    // each group. `masks` has a word per block with the bits of the rows that may be found, or is null for all.
    int64_t (*scan_cells)(const ScanQuery& query, const CellPair* pairs, int64_t n, const CellLimit* limits,
                          const uint32_t* masks, CellFound found);
    // All rows of these pairs that may be found, and how near they are: their key less `least` of their group. Returns
    // how many. There is as much room there.
    int64_t (*score_cells)(const ScanQuery& query, const CellPair* pairs, int64_t n, const CellLimit* limits,
                           const uint32_t* masks, CellFound found, float* near);
    // Keeps those of n rows that are at least so near; returns how many.
    int64_t (*keep_near)(CellFound found, const float* near, int64_t n, float threshold);
    // The distances of n rows by their tails, wherever these lie, and by what scan_cells found.
    void (*refine_cells)(const CellTails& query, const uint32_t* const* tails, const CellFound& found, int64_t n,
                         float* distances);
    // Rows of n runs whose estimate reaches the threshold, in their order; returns how many. `queries` has one for each
    // of the tables, and their scores are eight-bit sums. A run has room for `room` rows. Behind the last run lies
    // another, empty or not, that is asked for while the last is looked at.
    int64_t (*scan_buckets)(const ScanQuery* queries, int64_t tables, const BucketRun* runs, int64_t n, int64_t room,
                            int32_t threshold, BucketRows found);
    // The largest |v| of n numbers; |v| * scale rounded to the nearest of each, which must fit, and their sum; and a
    // bit for each, set where v >= 0, in words of 32.
    float (*greatest_size)(const float* values, int64_t n);
    int32_t (*whole_sizes)(const float* values, int64_t n, double scale, int32_t* out);
    void (*sign_words)(const float* values, int64_t n, uint32_t* words);
    // Sixteen bytes for every four of the bits, two times for a byte: for each pattern the weights of the bits that
    // agree with the signs of the values; a byte holds them. Bits that a byte of a code has too many are worth nothing.
    void (*lookup_tables)(const float* values, const int32_t* weights, int64_t bits, uint8_t* tables);
    // Of `words` words of 64 rows, a bit each: those in `mask` stay whose number lies between two, both included. There
    // are 64 numbers for each word. `edges`, if not null, gets those that stay and have one of the two.
    void (*keep_between8)(const uint8_t* codes, int64_t words, uint32_t low, uint32_t high, uint64_t* mask);
    void (*keep_between16)(const uint16_t* codes, int64_t words, uint32_t low, uint32_t high, uint64_t* mask);
    void (*keep_between32)(const uint32_t* codes, int64_t words, uint32_t low, uint32_t high, uint64_t* mask,
                           uint64_t* edges);
    // Those whose number is chosen: 256 bytes, each 0 or 1.
    void (*keep_chosen8)(const uint8_t* codes, int64_t words, const uint8_t* chosen, uint64_t* mask);
    // Adds the keystream of a 32-byte key to 1024 sums; see expand.cpp for their order.
    void (*expand)(const uint8_t* key, uint16_t* sums);
    // The activation alone, for the test of its error.
    void (*activate)(const float* x, int64_t n, float* out);
};

constexpr int64_t scratch_floats(int64_t m, int64_t dp) { return (m + 4) * dp; }

}  // namespace lethevec
