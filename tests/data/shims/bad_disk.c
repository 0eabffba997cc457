/* A disk that fails, loaded into a program by LD_PRELOAD.
 *
 * Whatever would need the disk below WB_DISK_ROOT fails as the file WB_DISK_FAULT says: "ENOSPC 7"
 * fails from the seventh such call after the word was written on, "EROFS 0" from the first one.
 * "ROOM 4096" fails nothing, and says that so many bytes are free.
 * Without the file all is well; removing it heals the disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long passed;
static atomic_long armed_at;

/* Reads what the disk is to do: a word and a number. */
static int told(char word[16], long *number) {
    const char *file = getenv("WB_DISK_FAULT");
    struct stat it;
    if (!file || stat(file, &it)) return 0;
    long when = it.st_mtim.tv_sec * 1000000000L + it.st_mtim.tv_nsec;
    if (atomic_exchange(&armed_at, when) != when) atomic_store(&passed, 0);
    int fd = syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC, 0);
    char text[64] = "";
    ssize_t length = fd < 0 ? 0 : syscall(SYS_read, fd, text, sizeof text - 1);
    if (fd >= 0) syscall(SYS_close, fd);
    return length > 0 && sscanf(text, "%15s %ld", word, number) >= 1;
}

/* Returns the error that this call is to fail with; 0 for none. */
static int fault(void) {
    char word[16] = "";
    long after = 0;
    if (!told(word, &after) || !strcmp(word, "ROOM")) return 0;
    if (atomic_fetch_add(&passed, 1) < after) return 0;
    return !strcmp(word, "EROFS") ? EROFS : !strcmp(word, "EIO") ? EIO : ENOSPC;
}

static int is_below(const char *path) {
    const char *root = getenv("WB_DISK_ROOT");
    size_t n = root ? strlen(root) : 0;
    return n && strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static int is_fd_below(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return is_below(path);
}

#define FAIL_IF(hit) \
    do { int error = (hit) ? fault() : 0; if (error) { errno = error; return -1; } } while (0)
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t count) {
    FAIL_IF(is_fd_below(fd));
    return NEXT(write)(fd, bytes, count);
}
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    FAIL_IF(is_fd_below(fd));
    return NEXT(pwrite)(fd, bytes, count, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    FAIL_IF(is_fd_below(fd));
    return NEXT(pwrite64)(fd, bytes, count, at);
}
int fsync(int fd) {
    FAIL_IF(is_fd_below(fd));
    return NEXT(fsync)(fd);
}
int fdatasync(int fd) {
    FAIL_IF(is_fd_below(fd));
    return NEXT(fdatasync)(fd);
}
static void leave(const char *path, fsblkcnt_t *available, unsigned long unit) {
    char word[16] = "";
    long bytes = 0;
    if (is_below(path) && told(word, &bytes) && !strcmp(word, "ROOM")) *available = bytes / unit;
}
int statvfs(const char *path, struct statvfs *it) {
    int done = NEXT(statvfs)(path, it);
    if (!done) leave(path, &it->f_bavail, it->f_frsize);
    return done;
}
int statvfs64(const char *path, struct statvfs64 *it) {
    int done = NEXT(statvfs64)(path, it);
    if (!done) leave(path, (fsblkcnt_t *)&it->f_bavail, it->f_frsize);
    return done;
}
int mkdir(const char *path, mode_t mode) {
    FAIL_IF(is_below(path));
    return NEXT(mkdir)(path, mode);
}
int rename(const char *from, const char *to) {
    FAIL_IF(is_below(to));
    return NEXT(rename)(from, to);
}
static int opens(int (*next)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    FAIL_IF((flags & O_CREAT) && is_below(path) && access(path, F_OK));
    return next(path, flags, mode);
}
int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return opens(NEXT(open), path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return opens(NEXT(open64), path, flags, mode);
}
