/* SPDX-License-Identifier: Apache-2.0
 * What the OpenCL kernels of the ops share. */
#ifndef HF_OPS_OPENCL_H
#define HF_OPS_OPENCL_H

#include "base/mem.h"
#include "core/kernel.h"
#include "device/opencl/opencl.h"

#define HF_OPENCL_GROUP 64 /* work-items of a group; 1 on a CPU */
#define HF_OPENCL_WAVES 32 /* groups for each compute unit */

/* A kernel that takes items with FOR_MINE() of prelude.cl, whatever their number. The size of a
 * group is always one of these two: a driver may compile anew for each that it sees. */
static inline struct hf_cl_job hf_opencl_job(const struct hf_device_props *device,
                                             const char *source, const char *kernel,
                                             int64_t items) {
    const int64_t group = device->wide ? 1 : HF_OPENCL_GROUP;
    const int64_t groups = (items + group - 1) / group;
    const int64_t most = (int64_t)device->units * (device->wide ? 4 : HF_OPENCL_WAVES);
    return (struct hf_cl_job){.source = source,
                              .kernel = kernel,
                              .global = (size_t)((groups < most ? groups : most) * group),
                              .group = (size_t)group};
}

/* A kernel of which a group takes one item. */
static inline struct hf_cl_job hf_opencl_group_job(const struct hf_device_props *device,
                                                   const char *source, const char *kernel,
                                                   int64_t items) {
    const size_t group = device->wide ? 1 : HF_OPENCL_GROUP;
    return (struct hf_cl_job){
        .source = source, .kernel = kernel, .global = (size_t)items * group, .group = group};
}

/* Centroids as panels.cl packs them. */
struct hf_opencl_panels {
    double *panel; /* [slots / 8, d, 8] */
    double *norm;  /* [slots] */
};

static inline void hf_opencl_panels_carve(hf_carve *carve, int64_t k, int64_t d,
                                          struct hf_opencl_panels *p) {
    const size_t slots = (size_t)((k + 7) / 8 * 8);
    p->panel = hf_carve_take(carve, slots * (size_t)d * sizeof(double));
    p->norm = hf_carve_take(carve, slots * sizeof(double));
}

/* c: on the device. */
static inline hf_status hf_opencl_pack(const struct hf_call *call, const hf_array *c,
                                       const struct hf_opencl_panels *p) {
    const struct hf_cl_job job = hf_opencl_job(call->device, "panels", "panels_pack",
                                               call->device->wide ? c->rows : c->rows * c->cols);
    return hf_opencl_run(call->stream, &job, "pniiipp", c->data, (int32_t)c->dtype, c->row_stride,
                         c->rows, c->cols, p->panel, p->norm);
}

/* A kernel of the host that needs neither threads nor workspace, on arguments that the host can
 * read. */
static inline hf_status hf_opencl_on_host(const struct hf_call *call,
                                          const struct hf_kernel_table *table, const void *args) {
    const struct hf_device_props host = {.workers = 1};
    struct hf_call part = hf_call_part(call, args);
    part.device = &host;
    part.stream = NULL;
    part.ws = NULL;
    return table->kernels->run(&part);
}

#endif
