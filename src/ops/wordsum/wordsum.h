/* SPDX-License-Identifier: Apache-2.0
 * wordsum: a checksum of memory that any number of workers may add up in any order. Word i counts
 * 2 i + 1 times, modulo 2^64: no single wrong word is missed, nor two that change places. */
#ifndef HF_WORDSUM_H
#define HF_WORDSUM_H

#include "core/run.h"

struct hf_wordsum_args {
    const void *data; /* [bytes] aligned to 4, in words of 4 bytes; the last is filled up with 0 */
    int64_t bytes;
    uint64_t *sum; /* out */
};

#endif
