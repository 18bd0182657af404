/* SPDX-License-Identifier: Apache-2.0
 * The *.cl files of the tree as the build embeds them (cmake/OpenCL.cmake). */
#ifndef HF_CL_SOURCES_H
#define HF_CL_SOURCES_H

#include <stddef.h>

struct hf_cl_source {
    const char *name; /* "update" for update.cl; NULL after the last */
    const char *text;
    size_t bytes;
};

extern const struct hf_cl_source hf_cl_sources[];

/* What each of them begins with: float64.cl or, without float64, float64_soft.cl; prelude.cl. */
#define HF_CL_FLOAT64 "float64"
#define HF_CL_FLOAT64_SOFT "float64_soft"
#define HF_CL_PRELUDE "prelude"

#endif
