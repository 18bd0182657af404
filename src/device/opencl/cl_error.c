/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/opencl.h"

#include <stdio.h>

hf_status hf_opencl_check(struct hf_opencl *cl, hf_cl_int error, const char *what) {
    char name[64];
    if (error == HF_CL_SUCCESS)
        return HF_OK;
    const bool memory = error == HF_CL_MEM_OBJECT_ALLOCATION_FAILURE ||
                        error == HF_CL_OUT_OF_HOST_MEMORY || error == HF_CL_INVALID_BUFFER_SIZE ||
                        error == HF_CL_OUT_OF_RESOURCES;
    (void)snprintf(cl->error, sizeof cl->error, "%s: %s%s", what,
                   hf_cl_error_name(error, name, sizeof name),
                   memory ? ": the device has no memory for it; close other programs, or lower "
                            "memory_bytes (--memory)"
                          : "");
    return memory ? HF_E_NOMEM : HF_E_DEVICE;
}
