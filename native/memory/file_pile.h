// Pieces of memory of one size that are mapped from a file, so that the system can write them out when it needs the
// memory for something else. As in a `Pile`, the last one taken is the first to be given back.
//
// The file is working memory and no format: nobody ever reads what another process has left in it. Its blocks are
// reserved before they are used, so that a full disk is an error and not a signal. Who overwrites something in a piece
// says so (`touch`), and `settle` waits until the disk has it; only then is the end of the file cut off. A child that
// is forked has no part of the mapping.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lethevec {

// Whether there are such files here.
#if defined(__linux__)
constexpr bool FILES_OF_VECTORS = true;
#else
constexpr bool FILES_OF_VECTORS = false;
#endif

// What is before the first piece: room for the mark of whoever makes the file.
constexpr int64_t FILE_HEAD = 1 << 16;

struct FileOfVectors {
    int descriptor = -1;  // stays the caller's
    std::string path;     // of a file of FILE_HEAD bytes at most, which is removed in the end
    // Calls what it is given, which waits for the disk, and lets others go on meanwhile. May be empty.
    std::function<void(const std::function<void()>&)> at_end = nullptr;
};

// No space for another piece: nothing has changed.
struct FileFull : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The disk has not confirmed what was overwritten. Whoever calls `settle` next tries again.
struct FileUnsettled : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The file has been overwritten: vectors are zeros.
struct FileGone : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class FilePile {
public:
    // Pieces of `bytes`, which is a multiple of 64.
    FilePile(const FileOfVectors& file, int64_t bytes);
    // Overwrites the file, waits for the disk, and removes it.
    ~FilePile();
    FilePile(const FilePile&) = delete;
    FilePile& operator=(const FilePile&) = delete;

    int64_t bytes() const { return size_ * bytes_; }
    const std::string& path() const { return path_; }

    // A new last piece: zeroed, on a cache line's boundary. Throws std::bad_alloc or FileFull, changing nothing.
    uint8_t* push();
    // The last piece must be zero by now. It goes back to the system with `settle`, but for one that is kept.
    void pop();

    // Something that was in this piece is overwritten now. From any thread.
    void touch(int64_t piece) {
        touched_[static_cast<size_t>(piece)].store(WAITS, std::memory_order_relaxed);
        any_touched_.store(true, std::memory_order_relaxed);
    }
    // Waits until the disk has what was overwritten. Throws FileUnsettled.
    void settle();
    // Whether `settle` has failed, and `write_again` has to be called before it is tried again: the system reports once
    // that it could not write something, and takes it for written from then on.
    bool failed() const { return failed_; }
    // Nobody may read meanwhile.
    void write_again();
    // The parts of the file, (offset, bytes): all that are in use, or those of which `settle` has written something
    // since this was last asked.
    std::vector<std::pair<int64_t, int64_t>> parts(bool rewritten);
    // The piece that a place of the file is in, and where in it.
    std::pair<int64_t, int64_t> piece_at(int64_t in_file) const;

    // Overwrites and removes the file, as the destructor does; what is mapped stays, and is zero. For the end of the
    // process, where others may still hold the index. Nobody may read meanwhile.
    void overwrite() noexcept;
    // Throws FileGone once `overwrite` was called.
    void expect_there() const;
    // In a forked child: lets go of what it shares with its parent.
    void let_go() noexcept;

    void raw_memory(std::vector<uint8_t>& all) const;

private:
    enum Touched : uint8_t { NOT, WRITTEN, WAITS };
    int64_t in_region() const;
    int64_t region_bytes() const;
    int64_t file_end(int64_t pieces) const { return FILE_HEAD + offset(pieces); }
    int64_t offset(int64_t piece) const;
    uint8_t* at(int64_t piece) const;
    void write_out();

    const int64_t bytes_;
    const std::string path_;
    const std::function<void(const std::function<void()>&)> at_end_;
    int64_t process_ = 0;  // that made it
    int descriptor_ = -1;
    int64_t size_ = 0, made_ = 0;  // in use; that the file has room for
    std::vector<uint8_t*> regions_;
    std::deque<std::atomic<uint8_t>> touched_;  // of each piece that was made
    std::atomic<bool> any_touched_{false};
    bool failed_ = false, gone_ = false;
};

}  // namespace lethevec
