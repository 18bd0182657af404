/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/opencl.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NOTHING UINT64_MAX /* the distance that stands for NULL: VIEW() of prelude.cl */

struct arguments {
    struct hf_opencl *cl;
    hf_cl_kernel kernel;
    hf_cl_uint count;
    hf_cl_int error;
};

static void set(struct arguments *a, size_t bytes, const void *value) {
    const hf_cl_int error = a->cl->api->SetKernelArg(a->kernel, a->count++, bytes, value);
    if (a->error == HF_CL_SUCCESS)
        a->error = error;
}

/* False: p is no memory of the device. */
static bool set_pointer(struct arguments *a, const void *p) {
    size_t offset = 0;
    hf_cl_mem mem = p != NULL ? hf_opencl_mem(a->cl, p, &offset) : a->cl->nothing;
    const hf_cl_ulong at = p != NULL ? offset : NOTHING;
    if (mem == NULL)
        return false;
    set(a, sizeof mem, &mem);
    set(a, sizeof at, &at);
    return true;
}

static hf_status set_all(struct arguments *a, const char *name, const char *types, va_list list) {
    for (const char *t = types; *t != '\0'; t++) {
        if (*t == 'p') {
            if (!set_pointer(a, va_arg(list, const void *))) {
                (void)snprintf(a->cl->error, sizeof a->cl->error,
                               "argument %d of %s is not in memory of the device", (int)(t - types),
                               name);
                return HF_E_DEVICE;
            }
        } else if (*t == 'i') {
            const int64_t v = va_arg(list, int64_t);
            set(a, sizeof v, &v);
        } else if (*t == 'n') {
            const int32_t v = va_arg(list, int32_t);
            set(a, sizeof v, &v);
        } else if (*t == 'd') {
            const double v = va_arg(list, double);
            set(a, sizeof v, &v);
        } else if (*t == 'f') {
            const float v = (float)va_arg(list, double);
            set(a, sizeof v, &v);
        } else {
            assert(*t == 'l');
            set(a, va_arg(list, size_t), NULL);
        }
    }
    return hf_opencl_check(a->cl, a->error, name);
}

hf_status hf_opencl_run(struct hf_opencl *cl, const struct hf_cl_job *job, const char *types, ...) {
    struct arguments a = {.cl = cl};
    va_list list;
    if (job->global == 0)
        return HF_OK;
    HF_TRY(hf_opencl_kernel(cl, job, &a.kernel));
    va_start(list, types);
    const hf_status status = set_all(&a, job->kernel, types, list);
    va_end(list);
    HF_TRY(status);
    return hf_opencl_check(cl,
                           cl->api->EnqueueNDRangeKernel(cl->queue, a.kernel, 1, NULL, &job->global,
                                                         job->group > 0 ? &job->group : NULL, 0,
                                                         NULL, NULL),
                           job->kernel);
}
