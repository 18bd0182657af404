/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/cl_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *const loaders[] = {"libOpenCL.so.1", "libOpenCL.so"};

/* Container tools put NVIDIA's libraries into the second folder, which the linker may not know. */
static const char *const drivers[] = {
    "libnvidia-opencl.so.1", "/usr/local/nvidia/lib64/libnvidia-opencl.so.1",
    "libamdocl64.so",        "libigdrcl.so",
    "libRusticlOpenCL.so.1", "libpocl.so.2",
};

typedef void (*any_function)(void);
typedef any_function (*address_function)(const char *name);
typedef hf_cl_int (*platforms_function)(hf_cl_uint, hf_cl_platform *, hf_cl_uint *);

/* Of a platform as its driver lays it out. */
struct driver_object {
    const any_function *table;
};

/* The address of a function as a function: ISO C has no cast for it. */
static bool find(void *library, const char *name, void *function, size_t bytes) {
    void *address = dlsym(library, name);
    memcpy(function, &address, bytes);
    return address != NULL;
}

/* Of a library that exports the functions. *missing: the first that it has not. */
static bool take_all(void *library, struct hf_cl_api *api, const char **missing) {
    *missing = NULL;
#define FUNCTION(place, result, name, arguments)                                                   \
    if (*missing == NULL && !find(library, "cl" #name, &api->name, sizeof api->name))              \
        *missing = "cl" #name;
#include "device/opencl/cl_functions.def"
#undef FUNCTION
    return *missing == NULL;
}

/* Of a driver. All its platforms have the same table. */
static bool take_table(void *library, struct hf_cl_api *api) {
    address_function address_of = NULL;
    platforms_function platforms = NULL;
    hf_cl_platform first = NULL;
    hf_cl_uint count = 0;
    if (find(library, "clGetExtensionFunctionAddress", &address_of, sizeof address_of)) {
        const any_function found = address_of("clIcdGetPlatformIDsKHR");
        memcpy(&platforms, &found, sizeof platforms);
    }
    if (platforms == NULL && !find(library, "clIcdGetPlatformIDsKHR", &platforms, sizeof platforms))
        return false;
    if (platforms(1, &first, &count) != HF_CL_SUCCESS || count == 0 || first == NULL)
        return false;
    const any_function *table = ((const struct driver_object *)first)->table;
    if (table == NULL)
        return false;
#define FUNCTION(place, result, name, arguments)                                                   \
    memcpy(&api->name, &table[place], sizeof api->name);
#include "device/opencl/cl_functions.def"
#undef FUNCTION
    api->GetPlatformIDs = platforms;
    return true;
}

bool hf_cl_open_loader(struct hf_cl_api *api, char *why, size_t why_bytes) {
    void *library = NULL;
    const char *missing = NULL;
    for (size_t i = 0; library == NULL && i < sizeof loaders / sizeof *loaders; i++)
        library = dlopen(loaders[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        (void)snprintf(why, why_bytes,
                       "there is no OpenCL loader (libOpenCL.so.1); Debian has it in "
                       "ocl-icd-libopencl1; HF_OPENCL_LIBRARY names the library of a driver");
    else if (!take_all(library, api, &missing))
        (void)snprintf(why, why_bytes, "the OpenCL loader has no %s: it is older than OpenCL 1.2",
                       missing);
    return library != NULL && missing == NULL;
}

bool hf_cl_open_library(const char *name, struct hf_cl_api *api, char *why, size_t why_bytes) {
    const char *missing = NULL;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *text = dlerror();
        (void)snprintf(why, why_bytes, "HF_OPENCL_LIBRARY cannot be opened: %.160s",
                       text != NULL ? text : name);
        return false;
    }
    if (take_all(library, api, &missing) || take_table(library, api))
        return true;
    (void)snprintf(why, why_bytes,
                   "HF_OPENCL_LIBRARY (%.100s) is neither an OpenCL loader (it has no %s) nor a "
                   "driver with a platform",
                   name, missing);
    return false;
}

bool hf_cl_open_driver(struct hf_cl_api *api) {
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++) {
        void *library = dlopen(drivers[i], RTLD_NOW | RTLD_LOCAL);
        if (library != NULL && take_table(library, api))
            return true;
    }
    return false;
}
