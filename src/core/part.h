/* SPDX-License-Identifier: Apache-2.0
 * Work on a part of a GPU: some of its multiprocessors, while all others are held, so that it is
 * known who computed what. */
#ifndef HF_PART_H
#define HF_PART_H

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hf_pin;

/* For a context on a GPU of CUDA that nobody else uses. HF_E_UNSUPPORTED: it is on another one. */
hf_status hf_part_open(hf_context *ctx, struct hf_pin **pin);
void hf_part_close(struct hf_pin *pin);

/* From here to hf_part_end() only multiprocessors first .. first + count - 1 work, and the context
 * seems to have no others. What runs must have run once before on the whole device, since the
 * driver waits for all of it to load a kernel. */
hf_status hf_part_begin(hf_context *ctx, struct hf_pin *pin, int first, int count, double limit_s);

/* kept: the others were held all the time. They are let go after limit_s, as a launch may need more
 * multiprocessors than there were. */
hf_status hf_part_end(hf_context *ctx, struct hf_pin *pin, bool *kept);

/* The highest clock of the multiprocessors, 1/s; 0: not known. */
double hf_part_clock(hf_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
