/* SPDX-License-Identifier: Apache-2.0 */
#include "base/below.h"
#include <stdatomic.h>

#define GRAIN 65536 /* numbers that one worker looks at, */
#define BLOCK 128   /* so many at a time, for the compiler to take vectors */

struct look {
    const int32_t *p;
    int32_t last;
    _Atomic bool wrong;
};

static void look_range(void *user, int worker, int64_t begin, int64_t end) {
    struct look *look = user;
    const int32_t *p = look->p;
    const int32_t last = look->last;
    uint32_t wrong = 0;
    (void)worker;
    for (; end - begin >= BLOCK; begin += BLOCK)
        for (int i = 0; i < BLOCK; i++)
            wrong |= hf_outside(p[begin + i], last);
    for (; begin < end; begin++)
        wrong |= hf_outside(p[begin], last);
    if (wrong >> 31)
        atomic_store_explicit(&look->wrong, true, memory_order_relaxed);
}

bool hf_all_below(hf_pool *pool, const int32_t *p, int64_t count, int32_t limit) {
    struct look look = {.p = p, .last = limit - 1};
    hf_parallel_for(pool, count, GRAIN, look_range, &look);
    return !look.wrong;
}
