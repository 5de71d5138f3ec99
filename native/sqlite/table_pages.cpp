#include "sqlite/table_pages.h"

#if !defined(_WIN32)
#include <unistd.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "parallel.h"

namespace lethevec::sqlite {

namespace {

constexpr uint8_t INTERIOR = 5, LEAF = 13;
constexpr int64_t LEAF_HEAD = 8, INTERIOR_HEAD = 12;
constexpr int64_t TOGETHER = 1 << 20;  // bytes of leaves that are read by one call, where they lie side by side
constexpr int64_t ROWS_A_LEAF = 4;     // at least; for a first guess of how many leaves to read
constexpr int64_t FEW_LEAVES = 16;     // that are worth a thread

[[noreturn]] void refuse(const char* what) { throw Damaged(what); }

uint32_t big16(const uint8_t* at) { return static_cast<uint32_t>(at[0] << 8 | at[1]); }
uint32_t big32(const uint8_t* at) { return big16(at) << 16 | big16(at + 2); }

// Seven bits a byte, the highest first; the ninth byte is whole.
uint64_t varint(const uint8_t*& at, const uint8_t* end) {
    uint64_t value = 0;
    for (int i = 0; i < 9; ++i) {
        if (at >= end) refuse("a number is cut off");  // where `end` comes from the file, it may lie before
        const uint8_t byte = *at++;
        if (i == 8) return value << 8 | byte;
        value = value << 7 | (byte & 0x7f);
        if (byte < 0x80) return value;
    }
    return value;
}

// How many bytes of a file from some place on; negative when it fails.
#if !defined(_WIN32)
int64_t read_at(int descriptor, uint8_t* to, int64_t bytes, int64_t at) {
    return pread(descriptor, to, static_cast<size_t>(bytes), at);
}
#else
int64_t read_at(int, uint8_t*, int64_t, int64_t) {
    return -1;
}  // stores are for POSIX systems; without pages SQLite reads
#endif

}  // namespace

TablePages::TablePages(File file, uint32_t root) : file_(file) {
    if (file.page_size < 512 || file.page_size > 65536) refuse("no such page size");
    find_leaves(root);
}

void TablePages::load(uint32_t page, int64_t count, uint8_t* to) const {
    int64_t left = count * file_.page_size, at = (static_cast<int64_t>(page) - 1) * file_.page_size;
    while (left > 0) {
        const int64_t got = read_at(file_.descriptor, to, left, at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) refuse("a page cannot be read");
        left -= got;
        at += got;
        to += got;
    }
}

// Depth first, so that leaves come in the order of keys. A page that is met more often than there are pages is a loop.
void TablePages::find_leaves(uint32_t root) {
    std::vector<uint32_t> waiting = {root};
    WipedVector<uint8_t> bytes(static_cast<size_t>(file_.page_size));
    int64_t seen = 0;
    bool above_leaves = false;  // the page that was read last, so its children need not be looked at
    while (!waiting.empty()) {
        const uint32_t number = waiting.back();
        waiting.pop_back();
        if (number < 2 || number > file_.pages || ++seen > file_.pages) refuse("no such page");
        load(number, 1, bytes.data());
        if (bytes[0] == LEAF) {
            leaves_.push_back(number);
            continue;
        }
        if (bytes[0] != INTERIOR) refuse("not a page of a table");
        const int64_t cells = big16(bytes.data() + 3);
        if (INTERIOR_HEAD + 2 * cells > file_.page_size) refuse("too many cells");
        std::vector<uint32_t> children;
        for (int64_t i = 0; i < cells; ++i) {
            const int64_t place = big16(bytes.data() + INTERIOR_HEAD + 2 * i);
            if (place + 4 > file_.page_size) refuse("a cell outside of its page");
            children.push_back(big32(bytes.data() + place));
        }
        children.push_back(big32(bytes.data() + 8));
        // All leaves are at the same depth.
        const uint32_t first = children[0];
        if (first < 2 || first > file_.pages) refuse("no such page");
        load(first, 1, bytes.data());
        above_leaves = bytes[0] == LEAF;
        if (above_leaves) {
            seen += static_cast<int64_t>(children.size());
            if (seen > file_.pages) refuse("pages in a loop");
            for (uint32_t child : children)
                if (child < 2 || child > file_.pages) refuse("no such page");
            leaves_.insert(leaves_.end(), children.begin(), children.end());
        } else {
            waiting.insert(waiting.end(), children.rbegin(), children.rend());
        }
    }
}

void TablePages::read(int64_t rows, int64_t threads) {
    starts_.assign(1, 0);
    bytes_.clear();
    while (!ended() && this->rows() < rows) {
        const int64_t had = leaves(), left = rows - this->rows();
        const int64_t each = had ? std::max<int64_t>(1, this->rows() / had) : ROWS_A_LEAF;
        const int64_t more = std::min(static_cast<int64_t>(leaves_.size() - next_), (left + each - 1) / each);
        bytes_.resize_unfilled(static_cast<size_t>((had + more) * file_.page_size));
        const uint32_t* numbers = leaves_.data() + next_;
        parallel_for(more, threads, FEW_LEAVES, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end;) {
                int64_t run = 1;
                while (i + run < end && (run + 1) * file_.page_size <= TOGETHER &&
                       numbers[i + run] == numbers[i] + static_cast<uint32_t>(run))
                    ++run;
                load(numbers[i], run, bytes_.data() + (had + i) * file_.page_size);
                i += run;
            }
        });
        for (int64_t i = had; i < had + more; ++i) {
            const int64_t cells = big16(page(i) + 3);
            if (page(i)[0] != LEAF || LEAF_HEAD + 2 * cells > file_.page_size) refuse("not a leaf of a table");
            starts_.push_back(this->rows() + cells);
        }
        next_ += static_cast<size_t>(more);
    }
}

Cell TablePages::cell(int64_t leaf, int64_t row) const {
    const uint8_t *begin = page(leaf), *end = begin + file_.page_size;
    const int64_t place = big16(begin + LEAF_HEAD + 2 * row);
    if (place >= file_.page_size) refuse("a cell outside of its page");
    const uint8_t* at = begin + place;
    Cell found;
    const uint64_t length = varint(at, end);
    if (length > INT32_MAX) refuse("too long a row");
    found.length = static_cast<int64_t>(length);
    found.key = static_cast<int64_t>(varint(at, end));
    // What of a long row lies in its leaf.
    const int64_t usable = file_.page_size, most = usable - 35, least = (usable - 12) * 32 / 255 - 23;
    found.local_length = found.length;
    if (found.length > most) {
        found.local_length = least + (found.length - least) % (usable - 4);
        if (found.local_length > most) found.local_length = least;
    }
    found.local = at;
    found.overflow = 0;
    const int64_t needed = found.local_length + (found.length > most ? 4 : 0);
    if (end - at < needed) refuse("a row outside of its page");
    if (found.length > most) {
        found.overflow = big32(at + found.local_length);
        if (found.overflow < 2 || found.overflow > file_.pages) refuse("no such page");
    }
    return found;
}

Column TablePages::second_column(const Cell& cell) {
    const uint8_t *at = cell.local, *end = cell.local + cell.local_length;
    const uint64_t head = varint(at, end);
    if (head > static_cast<uint64_t>(cell.local_length)) refuse("a head that is too long");
    const uint8_t* end_of_head = cell.local + head;
    if (varint(at, end_of_head) != 0) refuse("a key twice");
    return {varint(at, end_of_head), static_cast<int64_t>(head)};
}

void TablePages::copy(const Cell& cell, int64_t from, int64_t length, uint8_t* to) const {
    if (from < 0 || length < 0 || length > cell.length - from) refuse("a value outside of its row");
    const int64_t here = std::max<int64_t>(0, std::min(length, cell.local_length - from));
    if (here) std::memcpy(to, cell.local + from, static_cast<size_t>(here));
    if (here == length) return;
    WipedVector<uint8_t> bytes(static_cast<size_t>(file_.page_size));
    const int64_t holds = file_.page_size - 4;
    uint32_t number = cell.overflow;
    for (int64_t at = cell.local_length; at < from + length; at += holds) {
        if (number < 2 || number > file_.pages) refuse("a row is cut off");
        load(number, 1, bytes.data());
        const int64_t begin = std::max(from, at), end = std::min(from + length, at + holds);
        if (begin < end)
            std::memcpy(to + (begin - from), bytes.data() + 4 + (begin - at), static_cast<size_t>(end - begin));
        number = big32(bytes.data());
    }
}

int64_t read_integer(const TablePages& table, const Cell& cell, const Column& column) {
    if (column.type == 8 || column.type == 9) return static_cast<int64_t>(column.type) - 8;
    if (column.type < 1 || column.type > 6) refuse("not an integer");
    static constexpr int64_t BYTES[] = {0, 1, 2, 3, 4, 6, 8};
    uint8_t bytes[8];
    const int64_t count = BYTES[column.type];
    table.copy(cell, column.at, count, bytes);
    uint64_t value = bytes[0] & 0x80 ? UINT64_MAX : 0;
    for (int64_t i = 0; i < count; ++i) value = value << 8 | bytes[i];
    return static_cast<int64_t>(value);
}

}  // namespace lethevec::sqlite
