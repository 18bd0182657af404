/* SPDX-License-Identifier: Apache-2.0
 * Threads on chosen cores. */
#ifndef HF_AFFINITY_H
#define HF_AFFINITY_H

#include <stdbool.h>

#define HF_AFFINITY_WORDS 512 /* of 64 bits: cores beyond 32,767 are not reached */

/* The cores that a thread might use. */
struct hf_affinity {
    unsigned long long mask[HF_AFFINITY_WORDS];
};

/* Numbers of the cores that the calling thread may use, at most `most`; returns how many there are.
 */
int hf_affinity_cores(int *core, int most);

/* Move the calling thread to a core and keep it there; before: where it might be, for
 * hf_affinity_leave(). False if it cannot be moved, for one because the core is not online. */
bool hf_affinity_enter(int core, struct hf_affinity *before);
void hf_affinity_leave(const struct hf_affinity *before);

#endif
