/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/cgroup.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES 4096
#define FRESH_MS 1000 /* that an answer about cores serves for */

/* Value of the group whose files lie in `dir`; UINT64_MAX: no limit. */
typedef uint64_t group_fn(const char *dir, bool v2);

/* The first line of dir/name that starts with key, less the key; false when there is none. */
static bool read_line(const char *dir, const char *name, const char *key, char *line, int bytes) {
    char path[PATH_BYTES + 64];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    const size_t key_len = strlen(key);
    bool found = false;
    while (!found && fgets(line, bytes, f) != NULL)
        found = strncmp(line, key, key_len) == 0;
    (void)fclose(f);
    if (found)
        memmove(line, line + key_len, strlen(line + key_len) + 1);
    return found;
}

uint64_t hf_text_number(const char *dir, const char *name, const char *key) {
    char line[256];
    uint64_t value = 0;
    if (!read_line(dir, name, key, line, sizeof line) || strchr(line, '-') != NULL ||
        sscanf(line, " %" SCNu64, &value) != 1)
        return UINT64_MAX;
    return value;
}

static uint64_t memory_left(const char *dir, bool v2) {
    const uint64_t limit = hf_text_number(dir, v2 ? "memory.max" : "memory.limit_in_bytes", "");
    /* Version 1 says "no limit" with a number near 2^63. */
    if (limit >= (uint64_t)1 << 60)
        return UINT64_MAX;
    uint64_t used = hf_text_number(dir, v2 ? "memory.current" : "memory.usage_in_bytes", "");
    const uint64_t cache =
        hf_text_number(dir, "memory.stat", v2 ? "inactive_file " : "total_inactive_file ");
    if (used == UINT64_MAX)
        used = 0;
    if (cache != UINT64_MAX)
        used = used > cache ? used - cache : 0;
    return limit > used ? limit - used : 0;
}

static uint64_t cores(const char *dir, bool v2) {
    uint64_t quota = 0, period = 0;
    if (v2) {
        /* "quota period", or "max period" where there is no limit */
        char line[64];
        if (!read_line(dir, "cpu.max", "", line, sizeof line) ||
            sscanf(line, "%" SCNu64 " %" SCNu64, &quota, &period) != 2)
            return UINT64_MAX;
    } else {
        quota = hf_text_number(dir, "cpu.cfs_quota_us", "");
        period = hf_text_number(dir, "cpu.cfs_period_us", "");
    }
    if (quota == UINT64_MAX || quota == 0 || period == UINT64_MAX || period == 0)
        return UINT64_MAX;
    return (quota - 1) / period + 1;
}

/* fn over root/path and every folder above it, down to root itself. A container may show us a path
 * that its own mount does not have: such folders give no limit, and the root is asked in the end.
 */
static uint64_t least_upwards(const char *root, char *path, bool v2, group_fn *fn) {
    uint64_t least = UINT64_MAX;
    for (;;) {
        char dir[PATH_BYTES];
        const int len = snprintf(dir, sizeof dir, "%s%s", root, path);
        if (len > 0 && (size_t)len < sizeof dir) {
            const uint64_t value = fn(dir, v2);
            least = value < least ? value : least;
        }
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

/* Is `controller` one of the comma-separated words of list? */
static bool lists_controller(const char *list, const char *controller) {
    const size_t len = strlen(controller);
    for (const char *word = list; word != NULL; word = strchr(word, ',')) {
        word += *word == ',';
        if (strncmp(word, controller, len) == 0 && (word[len] == ',' || word[len] == '\0'))
            return true;
    }
    return false;
}

/* A line of /proc/self/cgroup is id:controllers:path; version 2 has no controllers. */
static uint64_t least_of_line(char *line, const char *controller, group_fn *fn) {
    line[strcspn(line, "\n")] = '\0';
    char *list = strchr(line, ':');
    char *path = list != NULL ? strchr(list + 1, ':') : NULL;
    if (path == NULL)
        return UINT64_MAX;
    list++;
    *path++ = '\0';
    if (*list == '\0')
        return least_upwards("/sys/fs/cgroup", path, true, fn);
    if (!lists_controller(list, controller))
        return UINT64_MAX;
    char root[64];
    (void)snprintf(root, sizeof root, "/sys/fs/cgroup/%s", controller);
    return least_upwards(root, path, false, fn);
}

/* Least value of fn over the groups this process is in, up to the root; `controller` picks the
 * hierarchy of version 1. */
static uint64_t least_of_groups(const char *controller, group_fn *fn) {
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (f == NULL)
        return UINT64_MAX;
    uint64_t least = UINT64_MAX;
    char line[PATH_BYTES];
    while (fgets(line, sizeof line, f) != NULL) {
        const uint64_t value = least_of_line(line, controller, fn);
        least = value < least ? value : least;
    }
    (void)fclose(f);
    return least;
}

uint64_t hf_cgroup_memory_left(void) { return least_of_groups("memory", memory_left); }

/* Files take longer to ask than a small fit does, and groups seldom change. */
uint64_t hf_cgroup_cores(void) {
    static _Atomic uint64_t known, until;
    const uint64_t now = (uint64_t)(hf_now_s() * 1e3);
    if (now < until)
        return known;
    const uint64_t value = least_of_groups("cpu", cores);
    known = value;
    until = now + FRESH_MS;
    return value;
}
