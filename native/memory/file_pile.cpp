#include "memory/file_pile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace lethevec {

#if defined(__linux__)

namespace {

constexpr int64_t PAGE = 65536;       // no system has larger ones
constexpr int64_t REGION = 64 << 20;  // about as many bytes are mapped at a time
constexpr int64_t MANY_PIECES = 16;   // more of them are written out in one call, with the rest of the file
constexpr int64_t ZEROS = 1 << 20;

std::string message(const std::string& path, const char* what, int error) {
    return path + ": " + what + ": " + std::strerror(error);
}

}  // namespace

FilePile::FilePile(const FileOfVectors& file, int64_t bytes)
    : bytes_(bytes), path_(file.path), at_end_(file.at_end), process_(getpid()) {
    descriptor_ = fcntl(file.descriptor, F_DUPFD_CLOEXEC, 3);
    if (descriptor_ < 0) throw FileFull(message(path_, "the file of vectors cannot be used", errno));
}

FilePile::~FilePile() {
    if (process_ == getpid()) {
        const auto end = [this] {
            for (uint8_t* region : regions_) munmap(region, static_cast<size_t>(region_bytes()));
            overwrite();
        };
        if (at_end_ && descriptor_ >= 0)
            at_end_(end);
        else
            end();
    }
    let_go();
}

int64_t FilePile::in_region() const { return std::max<int64_t>(1, REGION / bytes_); }
int64_t FilePile::region_bytes() const { return (in_region() * bytes_ + PAGE - 1) / PAGE * PAGE; }

int64_t FilePile::offset(int64_t piece) const {
    return piece / in_region() * region_bytes() + piece % in_region() * bytes_;
}

uint8_t* FilePile::at(int64_t piece) const {
    return regions_[static_cast<size_t>(piece / in_region())] + piece % in_region() * bytes_;
}

uint8_t* FilePile::push() {
    if (size_ == made_) {
        const int64_t from = file_end(made_);
        touched_.emplace_back(NOT);
        const bool new_region = made_ % in_region() == 0;
        try {
            if (new_region) regions_.reserve(regions_.size() + 1);
            int error = 0;
            do {
                error = posix_fallocate(descriptor_, from, bytes_);
            } while (error == EINTR);
            if (error) throw FileFull(message(path_, "no room for more vectors, and nothing was changed", error));
            if (new_region) {
                void* region = mmap(nullptr, static_cast<size_t>(region_bytes()), PROT_READ | PROT_WRITE, MAP_SHARED,
                                    descriptor_, from);
                if (region == MAP_FAILED) throw std::bad_alloc();
                // A child would see vectors change under rows that do not. Without this it is refused all the same.
                madvise(region, static_cast<size_t>(region_bytes()), MADV_DONTFORK);
                // A search reads one vector here and one there, and not what lies around them.
                madvise(region, static_cast<size_t>(region_bytes()), MADV_RANDOM);
                regions_.push_back(static_cast<uint8_t*>(region));
            }
        } catch (...) {
            touched_.pop_back();
            (void)!ftruncate(descriptor_, file_end(made_));  // as much of it as there was room for
            throw;
        }
        ++made_;
    }
    return at(size_++);
}

void FilePile::pop() {
    --size_;
    if (made_ > size_ + 1) any_touched_.store(true, std::memory_order_relaxed);
}

// Asks for no memory: what it is called for has been done, and cannot fail any more for want of some.
void FilePile::write_out() {
    const char* what = "the disk does not confirm that what was forgotten is overwritten; the next change tries again";
    const auto waits = [&](int64_t piece) {
        return touched_[static_cast<size_t>(piece)].load(std::memory_order_relaxed) == WAITS;
    };
    int64_t waiting = 0;
    for (int64_t piece = 0; piece < made_; ++piece) waiting += waits(piece);
    if (waiting > MANY_PIECES && fdatasync(descriptor_)) throw FileUnsettled(message(path_, what, errno));
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    for (int64_t piece = 0; piece < made_ && waiting > 0; ++piece) {
        if (!waits(piece)) continue;
        const uintptr_t begin = reinterpret_cast<uintptr_t>(at(piece)), from = begin / page * page;
        const auto count = static_cast<size_t>(begin + static_cast<uintptr_t>(bytes_) - from);
        if (waiting <= MANY_PIECES && msync(reinterpret_cast<void*>(from), count, MS_SYNC))
            throw FileUnsettled(message(path_, what, errno));
    }
    for (int64_t piece = 0; piece < made_ && waiting > 0; ++piece)
        if (waits(piece)) touched_[static_cast<size_t>(piece)].store(WRITTEN, std::memory_order_relaxed);
}

void FilePile::settle() {
    if (!any_touched_.load(std::memory_order_relaxed) || descriptor_ < 0) return;
    failed_ = true;
    write_out();
    failed_ = false;
    while (made_ > size_ + 1) {
        --made_;
        touched_.pop_back();
        if (made_ % in_region() == 0) {
            munmap(regions_.back(), static_cast<size_t>(region_bytes()));
            regions_.pop_back();
        }
        if (made_ == size_ + 1) (void)!ftruncate(descriptor_, file_end(made_));  // at worst it stays longer
    }
    any_touched_.store(false, std::memory_order_relaxed);
}

// A byte of each page is enough: it is written as a whole.
void FilePile::write_again() {
    const int64_t page = sysconf(_SC_PAGESIZE);
    for (int64_t piece = 0; piece < made_; ++piece) {
        if (touched_[static_cast<size_t>(piece)].load(std::memory_order_relaxed) != WAITS) continue;
        volatile uint8_t* bytes = at(piece);
        const auto set = [bytes](int64_t i) { bytes[i] = bytes[i]; };
        for (int64_t i = 0; i < bytes_; i += page) set(i);
        set(bytes_ - 1);
    }
}

std::vector<std::pair<int64_t, int64_t>> FilePile::parts(bool rewritten) {
    std::vector<std::pair<int64_t, int64_t>> parts;
    for (int64_t piece = 0; piece < made_; ++piece) {
        uint8_t written = WRITTEN;
        if (touched_[static_cast<size_t>(piece)].compare_exchange_strong(written, NOT) || !rewritten)
            parts.emplace_back(FILE_HEAD + offset(piece), bytes_);
    }
    return parts;
}

std::pair<int64_t, int64_t> FilePile::piece_at(int64_t in_file) const {
    const int64_t at = in_file - FILE_HEAD, in_its_region = at % region_bytes();
    return {at / region_bytes() * in_region() + in_its_region / bytes_, in_its_region % bytes_};
}

// Written and not set in memory: a page that is not there would have to be read first. The mark before the pieces goes
// last: by it others know what is left where the process is killed meanwhile.
void FilePile::overwrite() noexcept {
    if (descriptor_ < 0 || process_ != getpid()) return;
    gone_ = true;
    static const uint8_t zeros[ZEROS] = {};
    const off_t size = lseek(descriptor_, 0, SEEK_END);
    const auto write_zeros = [this](off_t from, off_t end) {
        while (from < end) {
            const auto count = static_cast<size_t>(std::min<off_t>(ZEROS, end - from));
            const ssize_t written = pwrite(descriptor_, zeros, count, from);
            if (written < 0 && errno == EINTR) continue;
            if (written <= 0) break;  // a failing disk: there is nobody to tell
            from += written;
        }
    };
    write_zeros(FILE_HEAD, size);
    fdatasync(descriptor_);
    unlink(path_.c_str());
    write_zeros(0, std::min<off_t>(FILE_HEAD, size));
    let_go();
}

void FilePile::expect_there() const {
    if (gone_) throw FileGone(path_ + ": the file of vectors was overwritten and removed, since the process ends");
}

void FilePile::let_go() noexcept {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
}

void FilePile::raw_memory(std::vector<uint8_t>& all) const {
    for (int64_t piece = 0; piece < made_; ++piece) all.insert(all.end(), at(piece), at(piece) + bytes_);
}

#else

FilePile::FilePile(const FileOfVectors& file, int64_t bytes) : bytes_(bytes), path_(file.path) {
    throw FileFull("vectors can be kept in a file on Linux only");
}
FilePile::~FilePile() = default;
int64_t FilePile::in_region() const { return 1; }
int64_t FilePile::region_bytes() const { return bytes_; }
int64_t FilePile::offset(int64_t) const { return 0; }
uint8_t* FilePile::at(int64_t) const { return nullptr; }
uint8_t* FilePile::push() { throw std::bad_alloc(); }
void FilePile::pop() {}
void FilePile::write_out() {}
void FilePile::settle() {}
std::vector<std::pair<int64_t, int64_t>> FilePile::parts(bool) { return {}; }
std::pair<int64_t, int64_t> FilePile::piece_at(int64_t) const { return {0, 0}; }
void FilePile::write_again() {}
void FilePile::overwrite() noexcept {}
void FilePile::expect_there() const {}
void FilePile::let_go() noexcept {}
void FilePile::raw_memory(std::vector<uint8_t>&) const {}

#endif

}  // namespace lethevec
