/* SPDX-License-Identifier: Apache-2.0
 * The two forms of the kernels of op march: with spare blocks of threads that take over, and
 * without. */
#ifndef HF_MARCH_FORMS_CUH
#define HF_MARCH_FORMS_CUH

#include "ops/march/march_job.cuh"

typedef void march_kernel(struct march_job);

march_kernel *hf_march_plain(const struct hf_march_map *map);
march_kernel *hf_march_guarded(const struct hf_march_map *map);

#endif
