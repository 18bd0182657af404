/* SPDX-License-Identifier: Apache-2.0
 * For LD_PRELOAD: nothing more fits into files below $FULL_FOLDER, and statvfs() says that
 * $FULL_ROOM bytes are free (not set: what it says). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

ssize_t write(int fd, const void *data, size_t bytes) {
    char link[64], path[4096];
    const char *folder = getenv("FULL_FOLDER");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    if (folder && strncmp(path, folder, strlen(folder)) == 0) {
        errno = ENOSPC;
        return -1;
    }
    ssize_t (*next)(int, const void *, size_t);
    *(void **)&next = dlsym(RTLD_NEXT, "write");
    return next(fd, data, bytes);
}

int statvfs(const char *path, struct statvfs *disk) {
    const char *room = getenv("FULL_ROOM");
    int (*next)(const char *, struct statvfs *);
    *(void **)&next = dlsym(RTLD_NEXT, "statvfs");
    const int failed = next(path, disk);
    if (room) {
        disk->f_frsize = 1;
        disk->f_bfree = disk->f_bavail = strtoull(room, NULL, 10);
    }
    return failed;
}
