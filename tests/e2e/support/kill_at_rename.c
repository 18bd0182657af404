/* SPDX-License-Identifier: Apache-2.0
 * For LD_PRELOAD: the program is killed when it is about to rename its n-th file to a name with the
 * ending $KILL_ENDING, n = $KILL_AT counted from 1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rename(const char *from, const char *to) {
    static int seen;
    const char *ending = getenv("KILL_ENDING");
    const char *at = getenv("KILL_AT");
    const size_t length = strlen(to);
    const size_t tail = ending ? strlen(ending) : 0;
    if (at && length >= tail && strcmp(to + length - tail, ending ? ending : "") == 0 &&
        ++seen == atoi(at))
        raise(SIGKILL);
    int (*next)(const char *, const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "rename");
    return next(from, to);
}
