/* SPDX-License-Identifier: Apache-2.0
 * A few bytes that a kernel writes once, past the copy at the end of a call. */
#ifndef HF_STAGE_DIRECT_H
#define HF_STAGE_DIRECT_H

#include "device/cuda/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As hf_stage_inout(), but the device writes into locked memory of the host, over the bus: for what
 * is written once and never read there. */
void *hf_stage_direct(struct hf_stage *stage, void *p, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
