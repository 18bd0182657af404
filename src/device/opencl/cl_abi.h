/* SPDX-License-Identifier: Apache-2.0
 * What of OpenCL 1.2 the library calls: types and constants of its binary interface, which is
 * frozen. They are declared here and not taken from Khronos' headers, so that a build needs nothing
 * that has to do with OpenCL; tests/test_opencl.c compares them with those headers where they are
 * installed. Names are theirs with hf_ in front. */
#ifndef HF_CL_ABI_H
#define HF_CL_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t hf_cl_int;
typedef uint32_t hf_cl_uint;
typedef uint64_t hf_cl_ulong;
typedef struct hf_cl_platform_object *hf_cl_platform;
typedef struct hf_cl_device_object *hf_cl_device;
typedef struct hf_cl_context_object *hf_cl_context;
typedef struct hf_cl_queue_object *hf_cl_queue;
typedef struct hf_cl_mem_object *hf_cl_mem;
typedef struct hf_cl_program_object *hf_cl_program;
typedef struct hf_cl_kernel_object *hf_cl_kernel;
typedef struct hf_cl_event_object *hf_cl_event;

enum {
    HF_CL_SUCCESS = 0,
    HF_CL_DEVICE_NOT_FOUND = -1,
    HF_CL_DEVICE_NOT_AVAILABLE = -2,
    HF_CL_COMPILER_NOT_AVAILABLE = -3,
    HF_CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
    HF_CL_OUT_OF_RESOURCES = -5,
    HF_CL_OUT_OF_HOST_MEMORY = -6,
    HF_CL_BUILD_PROGRAM_FAILURE = -11,
    HF_CL_INVALID_BUFFER_SIZE = -61,
    HF_CL_PLATFORM_NOT_FOUND_KHR = -1001
};

enum {
    HF_CL_PLATFORM_VERSION = 0x0901,
    HF_CL_PLATFORM_NAME = 0x0902,
    HF_CL_DEVICE_TYPE = 0x1000,
    HF_CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    HF_CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    HF_CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    HF_CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
    HF_CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    HF_CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    HF_CL_DEVICE_AVAILABLE = 0x1027,
    HF_CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
    HF_CL_DEVICE_NAME = 0x102B,
    HF_CL_DRIVER_VERSION = 0x102D,
    HF_CL_DEVICE_PROFILE = 0x102E,
    HF_CL_DEVICE_VERSION = 0x102F,
    HF_CL_DEVICE_EXTENSIONS = 0x1030,
    HF_CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
    HF_CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
    HF_CL_QUEUE_CONTEXT = 0x1090,
    HF_CL_QUEUE_DEVICE = 0x1091,
    HF_CL_QUEUE_PROPERTIES = 0x1093,
    HF_CL_PROGRAM_BINARY_SIZES = 0x1165,
    HF_CL_PROGRAM_BINARIES = 0x1166,
    HF_CL_PROGRAM_BUILD_LOG = 0x1183,
    HF_CL_CONTEXT_PLATFORM = 0x1084,
    HF_CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV = 0x4000
};

#define HF_CL_DEVICE_TYPE_CPU ((hf_cl_ulong)1 << 1)
#define HF_CL_DEVICE_TYPE_GPU ((hf_cl_ulong)1 << 2)
#define HF_CL_DEVICE_TYPE_ALL ((hf_cl_ulong)0xFFFFFFFF)
#define HF_CL_FP_DENORM ((hf_cl_ulong)1 << 0)
#define HF_CL_FP_INF_NAN ((hf_cl_ulong)1 << 1)
#define HF_CL_FP_ROUND_TO_NEAREST ((hf_cl_ulong)1 << 2)
#define HF_CL_FP_FMA ((hf_cl_ulong)1 << 5)
#define HF_CL_QUEUE_OUT_OF_ORDER ((hf_cl_ulong)1 << 0)
#define HF_CL_MEM_READ_WRITE ((hf_cl_ulong)1 << 0)
#define HF_CL_MEM_USE_HOST_PTR ((hf_cl_ulong)1 << 3)
#define HF_CL_MAP_READ ((hf_cl_ulong)1 << 0)
#define HF_CL_MAP_WRITE ((hf_cl_ulong)1 << 1)

/* The functions, as cl_functions.def lists them. */
struct hf_cl_api {
#define FUNCTION(place, result, name, arguments) result(*name) arguments;
#include "device/opencl/cl_functions.def"
#undef FUNCTION
};

#endif
