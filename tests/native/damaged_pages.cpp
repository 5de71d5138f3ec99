// Stand-alone: tables of an SQLite file, written here page by page, are read, and then copies of it that are damaged in
// every way that a page can be. A copy is refused or read; under AddressSanitizer nothing outside of a page is.
//
//     damaged_pages [rounds]
//
// Whoever waits for ever is ended by an alarm. A page whose cells lie over each other takes no more memory than it has.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sqlite/stored_vectors.h"

namespace {

using lethevec::sqlite::Damaged;
using lethevec::sqlite::StoredVectors;
using Bytes = std::vector<uint8_t>;

constexpr int64_t ROWS = 700;
constexpr unsigned SECONDS = 900;

struct Shape {
    int64_t page_size, dim;
};
// Rows of which a page holds many, few, and none whole.
constexpr Shape SHAPES[] = {{512, 4}, {512, 100}, {512, 700}, {4096, 100}, {4096, 1100}, {65536, 33}};

void put(Bytes& to, uint64_t number, int64_t bytes) {
    for (int64_t i = bytes - 1; i >= 0; --i) to.push_back(static_cast<uint8_t>(number >> (8 * i)));
}

void put_varint(Bytes& to, uint64_t number) {
    Bytes turned = {static_cast<uint8_t>(number & 0x7f)};
    for (number >>= 7; number; number >>= 7) turned.push_back(static_cast<uint8_t>(number & 0x7f) | 0x80);
    to.insert(to.end(), turned.rbegin(), turned.rend());
}

// A row of a table whose key is the rowid: its second column alone matters.
Bytes record(uint64_t type, const Bytes& value) {
    Bytes types;
    put_varint(types, 0);
    put_varint(types, type);
    Bytes row;
    put_varint(row, types.size() + 1);
    row.insert(row.end(), types.begin(), types.end());
    row.insert(row.end(), value.begin(), value.end());
    return row;
}

class Writer {
public:
    explicit Writer(int64_t page_size) : size_(static_cast<size_t>(page_size)), file_(size_, 0) {}

    // Returns the root.
    uint32_t table(const std::vector<std::pair<int64_t, Bytes>>& rows) {
        std::vector<std::pair<int64_t, uint32_t>> level;  // the last key, the page
        Bytes cells;
        std::vector<size_t> starts;
        int64_t last = 0;
        const auto leaf = [&] {
            if (!starts.empty()) level.emplace_back(last, node(13, starts, cells, 0));
            starts.clear();
            cells.clear();
        };
        for (const auto& [key, row] : rows) {
            const Bytes own = cell(key, row);
            if (8 + 2 * (starts.size() + 1) + cells.size() + own.size() > size_) leaf();
            starts.push_back(cells.size());
            cells.insert(cells.end(), own.begin(), own.end());
            last = key;
        }
        leaf();
        while (level.size() > 1) {
            std::vector<std::pair<int64_t, uint32_t>> above;
            const size_t most = std::min<size_t>(9, (size_ - 12) / 15);
            for (size_t from = 0; from < level.size();) {
                size_t to = std::min(level.size(), from + most + 1);
                if (level.size() - to == 1) --to;  // not one alone
                for (size_t i = from; i + 1 < to; ++i) {
                    starts.push_back(cells.size());
                    put(cells, level[i].second, 4);
                    put_varint(cells, static_cast<uint64_t>(level[i].first));
                }
                above.emplace_back(level[to - 1].first, node(5, starts, cells, level[to - 1].second));
                starts.clear();
                cells.clear();
                from = to;
            }
            level = above;
        }
        return level[0].second;
    }

    const Bytes& file() const { return file_; }

private:
    uint32_t page(const Bytes& bytes) {
        file_.insert(file_.end(), bytes.begin(), bytes.end());
        file_.resize((file_.size() + size_ - 1) / size_ * size_, 0);
        return static_cast<uint32_t>(file_.size() / size_);
    }

    uint32_t node(uint8_t type, const std::vector<size_t>& starts, const Bytes& cells, uint32_t right) {
        Bytes bytes = {type, 0, 0};
        const size_t from = size_ - cells.size();
        put(bytes, starts.size(), 2);
        put(bytes, from, 2);
        bytes.push_back(0);
        if (type == 5) put(bytes, right, 4);
        for (size_t start : starts) put(bytes, from + start, 2);
        bytes.resize(from, 0);
        bytes.insert(bytes.end(), cells.begin(), cells.end());
        return page(bytes);
    }

    Bytes cell(int64_t key, const Bytes& row) {
        const auto usable = static_cast<int64_t>(size_), length = static_cast<int64_t>(row.size());
        const int64_t most = usable - 35, least = (usable - 12) * 32 / 255 - 23;
        int64_t local = length;
        if (length > most) {
            local = least + (length - least) % (usable - 4);
            if (local > most) local = least;
        }
        Bytes cell;
        put_varint(cell, static_cast<uint64_t>(length));
        put_varint(cell, static_cast<uint64_t>(key));
        cell.insert(cell.end(), row.begin(), row.begin() + local);
        if (local == length) return cell;
        // The chain, from its end.
        std::vector<Bytes> parts;
        for (int64_t at = local; at < length; at += usable - 4)
            parts.emplace_back(row.begin() + at, row.begin() + std::min(length, at + usable - 4));
        uint32_t next = 0;
        for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
            Bytes bytes;
            put(bytes, next, 4);
            bytes.insert(bytes.end(), part->begin(), part->end());
            next = page(bytes);
        }
        put(cell, next, 4);
        return cell;
    }

    size_t size_;
    Bytes file_;
};

struct Made {
    Bytes file;
    uint32_t vectors, records;
};

float value_of(int64_t row, int64_t j) { return static_cast<float>(row * 1000 + j); }
int64_t number_of(int64_t row) { return row * row * 7919 - 12345; }

Made make(const Shape& shape) {
    std::vector<std::pair<int64_t, Bytes>> vectors, records;
    for (int64_t row = 0; row < ROWS; ++row) {
        Bytes vector(static_cast<size_t>(4 * shape.dim));
        for (int64_t j = 0; j < shape.dim; ++j) {
            const float value = value_of(row, j);
            std::memcpy(vector.data() + 4 * j, &value, 4);
        }
        const uint64_t bytes = vector.size();
        vectors.emplace_back(3 * row + 1, row % 10 == 9 ? record(12, {}) : record(12 + 2 * bytes, vector));
        Bytes number;
        put(number, static_cast<uint64_t>(number_of(row)), 8);
        records.emplace_back(3 * row + 1, record(6, number));
    }
    Writer writer(shape.page_size);
    const uint32_t first = writer.table(vectors), second = writer.table(records);
    return {writer.file(), first, second};
}

class Reading {
public:
    explicit Reading(const Shape& shape) : shape_(shape) {
        std::snprintf(path_, sizeof path_, "/tmp/damaged-pages-XXXXXX");
        descriptor_ = mkstemp(path_);
        if (descriptor_ < 0) std::perror("mkstemp"), std::exit(2);
        unlink(path_);
    }
    ~Reading() { close(descriptor_); }

    // How many rows it gives, or -1 where it is refused. `right` says whether all of them are as they were written.
    int64_t read(const Made& made, const Bytes& file, int64_t together, bool& right) const {
        if (pwrite(descriptor_, file.data(), file.size(), 0) < 0) std::exit(2);
        right = true;
        int64_t rows = 0, last = -1;
        try {
            const auto pages = static_cast<int64_t>(file.size()) / shape_.page_size;
            StoredVectors stored({descriptor_, shape_.page_size, pages}, made.vectors, made.records, shape_.dim);
            for (int64_t n; (n = stored.read(together, 2)) > 0; rows += n) {
                for (size_t i = 0; i < stored.slots().size(); ++i) {
                    const int64_t slot = stored.slots()[i], row = slot / 3;
                    if (slot <= last) std::printf("slots are out of order and nobody said so\n"), std::exit(1);
                    last = slot;
                    right = right && slot % 3 == 1 && row < ROWS && stored.numbers()[i] == number_of(row);
                    for (int64_t j = 0; j < shape_.dim && right; ++j)
                        right = stored.vectors().data()[static_cast<int64_t>(i) * shape_.dim + j] == value_of(row, j);
                }
                if (rows > 1000 * ROWS) std::printf("rows without end\n"), std::exit(1);
            }
        } catch (const Damaged&) {
            return -1;
        }
        return rows;
    }

private:
    const Shape shape_;
    int descriptor_;
    char path_[64];
};

// One place of one page is damaged; heads of pages, cells and chains more often than what lies in rows.
void damage(Bytes& file, int64_t page_size, std::mt19937& random) {
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    const auto size = static_cast<size_t>(page_size);
    const size_t pages = file.size() / size, page = below(pages) * size;
    const size_t count = static_cast<size_t>(file[page + 3]) << 8 | file[page + 4];
    size_t at = page + below(below(2) ? 64 : size);
    if (below(2) && count > 0 && count < size / 2) {  // in a cell
        const size_t entry = page + (file[page] == 5 ? 12 : 8) + 2 * below(count);
        const size_t place = static_cast<size_t>(file[entry % file.size()]) << 8 | file[(entry + 1) % file.size()];
        at = below(3) ? page + place + below(8) : entry;
    }
    at = std::min(at, file.size() - 10);
    const uint32_t number = static_cast<uint32_t>(below(2) ? below(pages + 2) : random());
    const size_t bytes = 1 + below(9);
    switch (below(7)) {
        case 0: file[at] ^= static_cast<uint8_t>(1u << below(8)); break;
        case 1: std::fill_n(file.begin() + static_cast<std::ptrdiff_t>(at), bytes, uint8_t{0xff}); break;
        case 2: std::fill_n(file.begin() + static_cast<std::ptrdiff_t>(at), bytes, uint8_t{0}); break;
        case 3: file[at] = static_cast<uint8_t>(random()); break;
        case 4:  // the number of some page
            for (size_t i = 0; i < 4; ++i) file[at + i] = static_cast<uint8_t>(number >> (24 - 8 * i));
            break;
        case 5:  // a cell at the very end of its page, or beyond it
            file[at] = static_cast<uint8_t>((size - 1 - below(4)) >> 8);
            file[at + 1] = static_cast<uint8_t>(size - 1 - below(4));
            break;
        default:  // one page in place of another
            std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(page), page_size,
                        file.begin() + static_cast<std::ptrdiff_t>(below(pages) * size));
    }
}

// All cells of a page are one: thousands of long vectors, if that were believed.
bool cells_over_each_other_are_refused() {
    constexpr Shape shape = {65536, 4096};
    Writer writer(shape.page_size);
    const Bytes vector(static_cast<size_t>(4 * shape.dim), 0);
    const uint32_t root = writer.table({{1, record(12 + 8 * static_cast<uint64_t>(shape.dim), vector)}});
    Made made = {writer.file(), root, root};
    const size_t page = (root - 1) * static_cast<size_t>(shape.page_size), count = 20000;
    made.file[page + 3] = count >> 8, made.file[page + 4] = count & 0xff;
    for (size_t i = 2; i < 2 * count; ++i) made.file[page + 8 + i] = made.file[page + 8 + i % 2];
    const auto peak = [] {
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        return usage.ru_maxrss >> 10;  // megabytes
    };
    const long before = peak();
    bool right = false;
    return Reading(shape).read(made, made.file, 100000, right) < 0 && peak() - before < 64;
}

}  // namespace

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 3000;
    alarm(SECONDS);
    if (!cells_over_each_other_are_refused()) {
        std::printf("cells that lie over each other take memory\n");
        return 1;
    }
    int64_t refused = 0, changed = 0, same = 0;
    for (const Shape& shape : SHAPES) {
        const Made made = make(shape);
        const Reading reading(shape);
        for (int64_t together : {int64_t{1}, int64_t{50}, 10 * ROWS}) {
            bool right = false;
            if (reading.read(made, made.file, together, right) != ROWS || !right) {
                std::printf("what is whole is not read: pages of %lld\n", static_cast<long long>(shape.page_size));
                return 1;
            }
        }
        std::mt19937 random(static_cast<uint32_t>(shape.page_size * 1000 + shape.dim));
        for (int round = 0; round < rounds; ++round) {
            Bytes file = made.file;
            for (uint32_t times = random() % 4 ? 1 : 3; times > 0; --times) damage(file, shape.page_size, random);
            bool right = false;
            const int64_t rows = reading.read(made, file, random() % 2 ? 100 : 10 * ROWS, right);
            ++(rows < 0 ? refused : right && rows == ROWS ? same : changed);
        }
    }
    std::printf("damaged pages: %lld refused, %lld read as they were, %lld read as they are\n",
                static_cast<long long>(refused), static_cast<long long>(same), static_cast<long long>(changed));
    return refused > 0 ? 0 : 1;
}
