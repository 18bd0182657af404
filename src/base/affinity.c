/* SPDX-License-Identifier: Apache-2.0 */
#include "base/affinity.h"

#include <sched.h>
#include <string.h>

#define BITS 64

static bool take_mask(struct hf_affinity *now) {
    memset(now, 0, sizeof *now);
    return sched_getaffinity(0, sizeof now->mask, (cpu_set_t *)(void *)now->mask) == 0;
}

int hf_affinity_cores(int *core, int most) {
    struct hf_affinity now;
    int count = 0;
    if (!take_mask(&now))
        return 0;
    for (int c = 0; c < HF_AFFINITY_WORDS * BITS; c++)
        if (now.mask[c / BITS] >> c % BITS & 1) {
            if (count < most)
                core[count] = c;
            count++;
        }
    return count;
}

bool hf_affinity_enter(int core, struct hf_affinity *before) {
    struct hf_affinity one = {{0}};
    if (core < 0 || core >= HF_AFFINITY_WORDS * BITS || !take_mask(before))
        return false;
    one.mask[core / BITS] = 1ull << core % BITS;
    return sched_setaffinity(0, sizeof one.mask, (cpu_set_t *)(void *)one.mask) == 0 &&
           sched_getcpu() == core;
}

void hf_affinity_leave(const struct hf_affinity *before) {
    (void)sched_setaffinity(0, sizeof before->mask, (const cpu_set_t *)(const void *)before->mask);
}
