/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/opencl.h"

#include <stdio.h>
#include <string.h>

/* Drivers say "out of resources" of memory that is not there, but also when the device failed. */
hf_status hf_opencl_check(struct hf_opencl *cl, hf_cl_int error, const char *what) {
    char name[64];
    if (error == HF_CL_SUCCESS)
        return HF_OK;
    const bool out = error == HF_CL_OUT_OF_RESOURCES;
    const bool memory = error == HF_CL_MEM_OBJECT_ALLOCATION_FAILURE ||
                        error == HF_CL_OUT_OF_HOST_MEMORY || error == HF_CL_INVALID_BUFFER_SIZE ||
                        (out && strcmp(what, "memory") == 0);
    const char *advice = "";
    if (memory)
        advice = ": the device has no memory for it; close other programs, or lower memory_bytes "
                 "(--memory)";
    else if (out)
        advice = ": the device failed, or was lost, or has no memory left; the driver's log (on "
                 "Linux: dmesg) may say which";
    (void)snprintf(cl->error, sizeof cl->error, "%s: %s%s", what,
                   hf_cl_error_name(error, name, sizeof name), advice);
    return memory ? HF_E_NOMEM : HF_E_DEVICE;
}
