/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40 /* as Linux has it */

/* The deepest folder that is there, and the names below it: "jo/labels.npy". */
struct place {
    struct stat folder;
    char *rest;
};

/* path with the links at its end followed, to be freed; NULL when there is no memory or no end. */
static char *follow_links(const char *path) {
    char *now = strdup(path);
    for (int links = 0; now && links < LINKS_MAX; links++) {
        char to[PATH_MAX];
        const ssize_t length = readlink(now, to, sizeof to - 1);
        if (length < 0)
            return now;
        to[length] = '\0';
        const char *slash = strrchr(now, '/');
        const int kept = slash && to[0] != '/' ? (int)(slash - now) + 1 : 0;
        char *next = NULL;
        if (asprintf(&next, "%.*s%s", kept, now, to) < 0)
            next = NULL;
        free(now);
        now = next;
    }
    free(now);
    return NULL;
}

/* Take the last name off path (what is left ends with '/' or is empty) and put it before those in
 * rest, `.` left out. A `..` takes the name before it away: it belongs to a folder that is missing,
 * so no link can lead elsewhere. *up counts those that wait. */
static void move_name(char *path, char *rest, int *up) {
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        path[--end] = '\0';
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    const char *name = path + begin;
    const size_t length = end - begin;
    if (strcmp(name, "..") == 0) {
        ++*up;
    } else if (length > 0 && strcmp(name, ".") != 0 && --*up < 0) {
        *up = 0;
        const size_t gap = rest[0] ? 1 : 0;
        memmove(rest + length + gap, rest, strlen(rest) + 1);
        memcpy(rest, name, length);
        if (gap)
            rest[length] = '/';
    }
    path[begin] = '\0';
}

static bool place_find(struct place *p, const char *name) {
    char *path = follow_links(name);
    int up = 0;
    bool found = false;
    p->rest = path ? calloc(1, strlen(path) + 2) : NULL;
    for (bool more = p->rest != NULL; more && !found;) {
        move_name(path, p->rest, &up);
        found = stat(path[0] ? path : ".", &p->folder) == 0 && S_ISDIR(p->folder.st_mode);
        more = path[0] != '\0';
    }
    free(path);
    return found;
}

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool place_same(const char *a, const char *b) {
    struct stat file_a, file_b;
    if (!a || !b)
        return false;
    if (stat(a, &file_a) == 0 && stat(b, &file_b) == 0)
        return same_file(&file_a, &file_b);
    struct place place_a = {.rest = NULL}, place_b = {.rest = NULL};
    const bool same = place_find(&place_a, a) && place_find(&place_b, b) &&
                      same_file(&place_a.folder, &place_b.folder) &&
                      strcmp(place_a.rest, place_b.rest) == 0;
    free(place_a.rest);
    free(place_b.rest);
    return same;
}
