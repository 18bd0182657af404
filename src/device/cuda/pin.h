/* SPDX-License-Identifier: Apache-2.0
 * Work on a few multiprocessors of a GPU alone, to learn which of them computes wrongly. */
#ifndef HF_CUDA_PIN_H
#define HF_CUDA_PIN_H

#include "base/status.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hf_pin;

/* For a stream of a CUDA context, on a device that nobody else uses. */
hf_status hf_cuda_pin_open(void *stream, struct hf_pin **pin);
void hf_cuda_pin_close(struct hf_pin *pin);

/* From here to pin_end() only multiprocessors first .. first + count - 1 take what the stream
 * launches, which finds that the device has `count` of them. All kernels of it must have run once
 * before, or the driver may wait for the whole device to load them; nothing may free memory of the
 * device. */
hf_status hf_cuda_pin_begin(void *stream, struct hf_pin *pin, int first, int count, double limit_s);

/* kept: the others were held all the time. They are let go after limit_s, since a launch may need
 * more multiprocessors than there were. */
hf_status hf_cuda_pin_end(void *stream, struct hf_pin *pin, bool *kept);

/* The highest clock of the multiprocessors, 1/s; 0: not known. */
double hf_cuda_clock(void *stream);

#ifdef __cplusplus
}
#endif
#endif
