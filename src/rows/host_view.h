/* SPDX-License-Identifier: Apache-2.0
 * Arguments that may lie in the memory of the host or of the context's device, seen by the host. On
 * the CPU they are used where they lie. */
#ifndef HF_HOST_VIEW_H
#define HF_HOST_VIEW_H

#include "core/context.h"
#include <holdfast/array.h>

/* `a` lies where the context can read it, in memory of its device or of the host; if not, HF_E_ARG.
 * what: "data", for the message. */
hf_status hf_check_place(hf_context *ctx, const hf_array *a, const char *what);

/* A view of `a` that the host can read: `a` itself, or a copy that *owned points to (hf_free()).
 * what: "weights". NULL gives NULL. */
hf_status hf_host_view(hf_context *ctx, const hf_array **a, const char *what, hf_array *copy,
                       void **owned);

/* Row i of `a`, where the host can read it: in place or in `scratch` [cols]. */
hf_status hf_host_row(hf_context *ctx, const hf_array *a, int64_t i, void *scratch,
                      const void **row);

#endif
