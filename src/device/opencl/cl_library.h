/* SPDX-License-Identifier: Apache-2.0
 * The functions of OpenCL from a shared library: a loader, which exports them, or a driver, whose
 * platforms begin with a table of them (cl_khr_icd). Libraries stay open. */
#ifndef HF_CL_LIBRARY_H
#define HF_CL_LIBRARY_H

#include "device/opencl/cl_abi.h"
#include <stdbool.h>
#include <stddef.h>

/* libOpenCL.so.1. False: there is none that serves; why says what is wrong. */
bool hf_cl_open_loader(struct hf_cl_api *api, char *why, size_t why_bytes);
/* The library of this name, of either kind. */
bool hf_cl_open_library(const char *name, struct hf_cl_api *api, char *why, size_t why_bytes);
/* The first of the drivers known by name that has a platform. */
bool hf_cl_open_driver(struct hf_cl_api *api);

#endif
