/* SPDX-License-Identifier: Apache-2.0 */
#include "core/context.h"
#include "device/opencl/opencl.h"
#include <holdfast/dev.h>
#include <stdio.h>

hf_status hf_dev_opencl_compile(int device, const char *source, const char *options) {
    char name[24];
    hf_context *ctx = NULL;
    (void)snprintf(name, sizeof name, "opencl:%d", device);
    const hf_context_opts opts = {.device = name};
    HF_TRY(hf_context_create(&ctx, &opts));
    const struct hf_cl_job job = {.source = source, .options = options, .kernel = "none"};
    hf_cl_kernel none = NULL;
    const hf_status status = hf_opencl_kernel(ctx->stream, &job, &none); /* there is no such one */
    hf_context_destroy(ctx);
    return status;
}
