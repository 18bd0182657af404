/* SPDX-License-Identifier: Apache-2.0
 * Finding OpenCL at run time: the loader library, its platforms, their devices. */
#ifndef HF_CL_LOAD_H
#define HF_CL_LOAD_H

#include "base/status.h"
#include "device/opencl/cl_abi.h"
#include <stdbool.h>

#define HF_CL_DEVICES 32 /* of all platforms together; more are not looked at */

/* What a device is and has. */
struct hf_cl_info {
    hf_cl_platform platform;
    hf_cl_device device;
    char name[96], platform_name[64], driver[64], version[128];
    hf_cl_ulong type; /* HF_CL_DEVICE_TYPE_CPU, ... */
    uint32_t units;
    size_t group_most; /* work-items of a group */
    uint64_t memory, alloc_most, local;
    bool unified;      /* its memory is the host's */
    bool fp64;         /* with all that IEEE 754 asks for; else float64_soft.cl */
    bool int64;        /* integers of 64 bits: all but some of the embedded profile */
    bool fma;          /* of float, in hardware */
    bool denormals;    /* of float */
    bool atomics64;    /* 64-bit integer atomics */
    bool sub_groups;   /* cl_khr_subgroups or cl_intel_subgroups */
    bool dot8;         /* cl_khr_integer_dot_product */
    bool matrix;       /* cl_intel_subgroup_matrix_multiply_accumulate */
    bool ptx;          /* takes inline PTX for matrix units: NVIDIA's, from 8.0 on */
    bool hopper;       /* of compute capability 9.x */
    char missing[160]; /* what kernels need and it has not; "" if it can be used */
};

/* The functions; NULL and a reason if there is no loader. The first call loads it, from any thread;
 * it stays until the process ends. */
const struct hf_cl_api *hf_cl_api(char *why, size_t why_bytes);

/* How many devices all platforms have; 0 and a reason if there are none. why may be NULL. */
int hf_cl_count(char *why, size_t why_bytes);
/* Device i of them, NULL past the last. */
const struct hf_cl_info *hf_cl_at(int i);
/* The first device whose name or platform contains `text`, in any case; -1 if none does, and 0 if
 * there is none at all, so that who asks for it learns why. */
int hf_cl_find(const char *text);

/* "CL_OUT_OF_RESOURCES (-5)", into text. */
const char *hf_cl_error_name(hf_cl_int error, char *text, size_t bytes);

#endif
