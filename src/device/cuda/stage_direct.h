/* SPDX-License-Identifier: Apache-2.0
 * A few bytes that a kernel writes once, past the copy, or the wait, at the end of a call. */
#ifndef HF_STAGE_DIRECT_H
#define HF_STAGE_DIRECT_H

#include "device/cuda/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As hf_stage_inout(), but the device writes into locked memory of the host, over the bus: for what
 * is written once and never read there. */
void *hf_stage_direct(struct hf_stage *stage, void *p, size_t bytes);

/* Locked memory of the host, which the device has at the same address, with what an earlier call
 * left there; NULL: there is none. It stays as the device leaves it until the next stage begins,
 * and hf_stage_end() does not wait for it. */
void *hf_stage_locked(struct hf_stage *stage, size_t bytes);

/* The host has seen by what the device wrote there that all that was queued is done. If nothing is
 * queued before, the next wait for the stream ends at once. */
void hf_cuda_seen(struct hf_cuda *cuda);

#ifdef __cplusplus
}
#endif
#endif
