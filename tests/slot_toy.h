/* SPDX-License-Identifier: Apache-2.0
 * A kernel that tells findings in the guard slot, or breaks, for tests of what happens then. */
#ifndef SLOT_TOY_H
#define SLOT_TOY_H

#include "core/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "Checks" n rows, and finds row `wrong` (-1: none), or all, to be so. On a GPU `breaks` ends the
 * kernel with a trap, which makes the device useless to the process. */
struct toy_args {
    int64_t n, wrong;
    bool all_wrong, breaks;
    int column;
};

/* The one of slot_toy.cu; NULL in builds without CUDA. */
extern const struct hf_kernel *const hf_toy_cuda;

#ifdef __cplusplus
}
#endif

#endif
