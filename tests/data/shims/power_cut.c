/* A disk that forgets what was not synced, loaded into a program by LD_PRELOAD.
 *
 * Below WB_DISK_ROOT, a sync keeps in WB_DISK_KEPT what would survive a power cut from then on:
 * of a file its bytes, of a folder its entries. tests/support/disk.rs makes the disk of it.
 * An inode is named by number and time of birth, because numbers are used again. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_below(int fd, const char *root) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    size_t n = strlen(root);
    return strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static int name_of(int at, const char *path, char *name, unsigned *mode) {
    struct statx it;
    int flags = *path ? AT_SYMLINK_NOFOLLOW : AT_EMPTY_PATH;
    if (statx(at, path, flags, STATX_BASIC_STATS | STATX_BTIME, &it)) return -1;
    sprintf(name, "%llu-%lld-%u", (unsigned long long)it.stx_ino,
            (long long)it.stx_btime.tv_sec, it.stx_btime.tv_nsec);
    *mode = it.stx_mode;
    return 0;
}

static int keep_entries(int fd, int out) {
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = again < 0 ? NULL : fdopendir(again);
    if (!folder) return -1;
    for (struct dirent *it; (it = readdir(folder));) {
        char id[64], target[PATH_MAX] = "";
        unsigned mode;
        if (!strcmp(it->d_name, ".") || !strcmp(it->d_name, "..")) continue;
        if (name_of(fd, it->d_name, id, &mode)) continue;
        char type = S_ISDIR(mode) ? 'd' : S_ISREG(mode) ? 'f' : S_ISLNK(mode) ? 'l' : 'o';
        if (type == 'l') {
            ssize_t length = readlinkat(fd, it->d_name, target, sizeof target - 1);
            target[length < 0 ? 0 : length] = 0;
        }
        dprintf(out, "%c\t%s\t%o\t%s\t%s\n", type, id, mode & 07777, it->d_name, target);
    }
    closedir(folder);
    return 0;
}

static int keep_bytes(int fd, int out) {
    char buffer[1 << 16];
    off_t at = 0;
    /* The descriptor may be open for writing only. */
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int again = open(link, O_RDONLY | O_CLOEXEC);
    if (again < 0) return -1;
    for (ssize_t count; (count = pread(again, buffer, sizeof buffer, at)) > 0; at += count)
        if (write(out, buffer, count) != count) return close(again), -1;
    close(again);
    return 0;
}

static int keep(int fd) {
    const char *root = getenv("WB_DISK_ROOT"), *kept = getenv("WB_DISK_KEPT");
    char id[64], aside[PATH_MAX], path[PATH_MAX];
    unsigned mode;
    if (!root || !kept || !is_below(fd, root)) return syscall(SYS_fsync, fd);
    if (name_of(fd, "", id, &mode)) return -1;
    snprintf(path, sizeof path, "%s/%s", kept, id);
    snprintf(aside, sizeof aside, "%s/.%ld", kept, (long)syscall(SYS_gettid));
    int out = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0) return -1;
    int failed = S_ISDIR(mode) ? keep_entries(fd, out) : keep_bytes(fd, out);
    close(out);
    return failed ? -1 : rename(aside, path);
}

int fsync(int fd) { return keep(fd); }
int fdatasync(int fd) { return keep(fd); }
