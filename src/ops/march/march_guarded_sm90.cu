/* SPDX-License-Identifier: Apache-2.0 */
#define GUARDED true
#include "ops/march/march_forms.cuh"
#include "ops/march/march_kernels.cuh"

march_kernel *hf_march_guarded(const struct hf_march_map *map) { return pick(map); }
