/* Writes down, in order, what a process does to the files of one folder and of the folders in it: loaded with
 * LD_PRELOAD, see power_disk.py.
 *
 * POWER_FOLDER is the folder and POWER_TRACE the file that the events are added to. What is said on stdout is an event
 * too, so that it is known what had been acknowledged when the power goes. A call that changes files in a way that is
 * not understood here ends the process: a trace with a gap would show nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct event {
    uint32_t kind;
    uint32_t length; /* of the bytes that follow */
    uint64_t file;   /* the inode */
    uint64_t offset;
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX];
static size_t folder_length;
static int trace = -1;

static void fail(const char* why) {
    fprintf(stderr, "power_trace: %s\n", why);
    _exit(99);
}

__attribute__((constructor)) static void start(void) {
    const char* name = getenv("POWER_FOLDER");
    const char* to = getenv("POWER_TRACE");
    if (name == NULL || to == NULL || realpath(name, folder) == NULL) fail("POWER_FOLDER and POWER_TRACE are needed");
    folder_length = strlen(folder);
    trace = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (trace < 0) fail("the trace cannot be opened");
}

#define REAL(name) ((__typeof__(&name))real(#name))
static void* real(const char* name) {
    void* found = dlsym(RTLD_NEXT, name);
    if (found == NULL) fail(name);
    return found;
}

static void put(const void* data, size_t length) {
    const char* at = data;
    while (length > 0) {
        long written = syscall(SYS_write, trace, at, length);
        if (written <= 0) fail("the trace cannot be written");
        at += written;
        length -= (size_t)written;
    }
}

static void note(char kind, uint64_t file, uint64_t offset, const void* data, size_t length) {
    struct event event = {(uint32_t)kind, (uint32_t)length, file, offset};
    put(&event, sizeof event);
    put(data, length);
}

static int below(const char* path) {
    return strncmp(path, folder, folder_length) == 0 && (path[folder_length] == '/' || path[folder_length] == 0);
}

/* The path below the folder of what is behind a descriptor, "" for the folder itself, or NULL if it is elsewhere. */
static const char* path_of(int fd, char* space) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, space, PATH_MAX - 1);
    if (length <= 0) return NULL;
    space[length] = 0;
    if (!below(space)) return NULL;
    return space + folder_length + ((size_t)length > folder_length);
}

/* The inode behind a descriptor if it is a file below the folder, and otherwise 0. SQLite's shared memory is no part of
 * what a disk holds. */
static uint64_t known(int fd) {
    char space[PATH_MAX];
    struct stat found;
    const char* path = path_of(fd, space);
    if (path == NULL) return 0;
    size_t length = strlen(path);
    if (length > 4 && strcmp(path + length - 4, "-shm") == 0) return 0;
    return fstat(fd, &found) == 0 && S_ISREG(found.st_mode) ? found.st_ino : 0;
}

/* A path as it is below the folder, or NULL if it is elsewhere. */
static const char* name_of(int at, const char* path, char* space) {
    char parent[PATH_MAX];
    const char* name = strrchr(path, '/');
    if (at != AT_FDCWD && path[0] != '/') return NULL;
    if (name == NULL) {
        if (getcwd(parent, sizeof parent) == NULL) return NULL;
        name = path;
    } else {
        snprintf(space, PATH_MAX, "%.*s", (int)(name - path), path);
        if (realpath(space, parent) == NULL) return NULL;
        name++;
    }
    if (!below(parent)) return NULL;
    const char* inside = parent + folder_length + (parent[folder_length] == '/');
    snprintf(space, PATH_MAX, "%s%s%s", inside, *inside ? "/" : "", name);
    return space;
}

static int open_noted(int at, const char* path, int flags, mode_t mode) {
    char space[PATH_MAX];
    struct stat found;
    pthread_mutex_lock(&guard);
    const char* name = flags & (O_CREAT | O_TRUNC) ? name_of(at, path, space) : NULL;
    int there = name != NULL && fstatat(at, path, &found, AT_SYMLINK_NOFOLLOW) == 0;
    int fd = (int)syscall(SYS_openat, at, path, flags, mode);
    int error = errno;
    if (fd >= 0 && name != NULL) {
        uint64_t file = known(fd);
        if (file && !there) note('C', file, 0, name, strlen(name));
        if (file && there && (flags & O_TRUNC)) note('T', file, 0, NULL, 0);
    }
    pthread_mutex_unlock(&guard);
    errno = error;
    return fd;
}

#define MODE                                  \
    mode_t mode = 0;                          \
    if (flags & (O_CREAT | O_TMPFILE)) {      \
        va_list rest;                         \
        va_start(rest, flags);                \
        mode = (mode_t)va_arg(rest, int);     \
        va_end(rest);                         \
    }
int open(const char* path, int flags, ...) {
    MODE return open_noted(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
    MODE return open_noted(AT_FDCWD, path, flags, mode);
}
int openat(int at, const char* path, int flags, ...) {
    MODE return open_noted(at, path, flags, mode);
}
int openat64(int at, const char* path, int flags, ...) {
    MODE return open_noted(at, path, flags, mode);
}

ssize_t pwrite64(int fd, const void* data, size_t length, off64_t offset) {
    pthread_mutex_lock(&guard);
    ssize_t written = syscall(SYS_pwrite64, fd, data, length, offset);
    int error = errno;
    uint64_t file = written > 0 ? known(fd) : 0;
    if (file) note('W', file, (uint64_t)offset, data, (size_t)written);
    pthread_mutex_unlock(&guard);
    errno = error;
    return written;
}
ssize_t pwrite(int fd, const void* data, size_t length, off_t offset) { return pwrite64(fd, data, length, offset); }

ssize_t write(int fd, const void* data, size_t length) {
    pthread_mutex_lock(&guard);
    ssize_t written = syscall(SYS_write, fd, data, length);
    int error = errno;
    uint64_t file = written > 0 ? known(fd) : 0;
    if (file) note('W', file, (uint64_t)(lseek(fd, 0, SEEK_CUR) - written), data, (size_t)written);
    if (fd == 1 && written > 0) note('S', 0, 0, data, (size_t)written);
    pthread_mutex_unlock(&guard);
    errno = error;
    return written;
}

int ftruncate64(int fd, off64_t length) {
    pthread_mutex_lock(&guard);
    int result = (int)syscall(SYS_ftruncate, fd, length);
    int error = errno;
    uint64_t file = result == 0 ? known(fd) : 0;
    if (file) note('T', file, (uint64_t)length, NULL, 0);
    pthread_mutex_unlock(&guard);
    errno = error;
    return result;
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int synced(int fd, long call) {
    pthread_mutex_lock(&guard);
    char space[PATH_MAX];
    struct stat found;
    uint64_t file = known(fd);
    const char* place = file ? NULL : path_of(fd, space);
    if (place != NULL && (fstat(fd, &found) != 0 || !S_ISDIR(found.st_mode))) place = NULL;
    /* What the trace calls synced need not be: this process is not going to lose its power. */
    int result = file || place ? 0 : (int)syscall(call, fd);
    int error = errno;
    if (file) note('F', file, 0, NULL, 0);
    if (place) note('N', 0, 0, place, strlen(place));
    pthread_mutex_unlock(&guard);
    errno = error;
    return result;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

int mkdir(const char* path, mode_t mode) {
    char space[PATH_MAX];
    pthread_mutex_lock(&guard);
    const char* name = name_of(AT_FDCWD, path, space);
    int result = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    int error = errno;
    if (result == 0 && name != NULL) note('D', 0, 0, name, strlen(name));
    pthread_mutex_unlock(&guard);
    errno = error;
    return result;
}

/* The length of what precedes the last name of a path. */
static size_t parent_length(const char* path) {
    const char* last = strrchr(path, '/');
    return last == NULL ? 0 : (size_t)(last - path);
}

int rename(const char* from, const char* to) {
    char space[PATH_MAX], other[PATH_MAX], both[2 * PATH_MAX];
    struct stat found;
    pthread_mutex_lock(&guard);
    const char* old = name_of(AT_FDCWD, from, space);
    const char* new = name_of(AT_FDCWD, to, other);
    if ((old == NULL) != (new == NULL)) fail("a rename into the folder or out of it");
    if (old != NULL && (parent_length(old) != parent_length(new) || strncmp(old, new, parent_length(old)) != 0))
        fail("a rename from one folder to another");
    int result = REAL(rename)(from, to);
    int error = errno;
    if (result == 0 && old != NULL) {
        if (stat(to, &found) != 0 || !S_ISREG(found.st_mode)) fail("what was renamed is not a file");
        int length = snprintf(both, sizeof both, "%s%c%s", old, '\n', new);
        note('R', found.st_ino, 0, both, (size_t)length);
    }
    pthread_mutex_unlock(&guard);
    errno = error;
    return result;
}

static int unlink_noted(const char* path) {
    char space[PATH_MAX];
    pthread_mutex_lock(&guard);
    const char* name = name_of(AT_FDCWD, path, space);
    int result = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    int error = errno;
    if (result == 0 && name != NULL) note('U', 0, 0, name, strlen(name));
    pthread_mutex_unlock(&guard);
    errno = error;
    return result;
}
int unlink(const char* path) { return unlink_noted(path); }

/* None of these is used on the files of a store today. */
int rmdir(const char* path) {
    char space[PATH_MAX];
    if (name_of(AT_FDCWD, path, space) != NULL) fail("rmdir in the folder");
    return REAL(rmdir)(path);
}
int unlinkat(int at, const char* path, int flags) {
    char space[PATH_MAX];
    if (at != AT_FDCWD || name_of(at, path, space) != NULL) fail("unlinkat, perhaps in the folder");
    return REAL(unlinkat)(at, path, flags);
}
#define REFUSE_FD(name, parameters, arguments, fd)                     \
    parameters {                                                       \
        if (known(fd)) fail(#name " on a file of the folder");         \
        return REAL(name) arguments;                                   \
    }
REFUSE_FD(writev, ssize_t writev(int fd, const struct iovec* parts, int count), (fd, parts, count), fd)
REFUSE_FD(pwritev, ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t at), (fd, parts, count, at), fd)
REFUSE_FD(pwritev64, ssize_t pwritev64(int fd, const struct iovec* parts, int count, off64_t at),
          (fd, parts, count, at), fd)
REFUSE_FD(fallocate, int fallocate(int fd, int mode, off_t at, off_t length), (fd, mode, at, length), fd)
REFUSE_FD(posix_fallocate, int posix_fallocate(int fd, off_t at, off_t length), (fd, at, length), fd)
REFUSE_FD(posix_fallocate64, int posix_fallocate64(int fd, off64_t at, off64_t length), (fd, at, length), fd)
REFUSE_FD(copy_file_range,
          ssize_t copy_file_range(int from, off64_t* a, int fd, off64_t* b, size_t length, unsigned flags),
          (from, a, fd, b, length, flags), fd)
