/* SPDX-License-Identifier: Apache-2.0
 * Are numbers in a range, as labels must be? */
#ifndef HF_BELOW_H
#define HF_BELOW_H

#include "base/compiler.h"
#include "base/parallel.h"
#include <stdbool.h>

/* Bit 31 of this: v is outside 0 .. last, last >= 0. No branch, so that compilers take vectors. */
HF_ANYWHERE uint32_t hf_outside(int32_t v, int32_t last) {
    return (uint32_t)v | ((uint32_t)last - (uint32_t)v);
}

/* Are p [count] in 0 .. limit - 1? limit >= 1. */
bool hf_all_below(hf_pool *pool, const int32_t *p, int64_t count, int32_t limit);

#endif
