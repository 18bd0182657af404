/* SPDX-License-Identifier: Apache-2.0
 * Host memory as a kernel sees it. A device that shares the host's memory uses it where it lies;
 * others get a copy. */
#include "device/opencl/opencl.h"

#include <assert.h>
#include <string.h>

void hf_cl_stage_begin(struct hf_cl_stage *stage, void *stream) {
    memset(stage, 0, sizeof *stage);
    stage->cl = stream;
}

static bool is_ours(const struct hf_cl_stage *stage, const void *p) {
    size_t offset = 0;
    return hf_opencl_mem(stage->cl, p, &offset) != NULL;
}

static struct hf_cl_item *add(struct hf_cl_stage *stage, void *host, size_t bytes) {
    assert(stage->count < HF_CL_STAGE_ITEMS);
    struct hf_cl_item *item = &stage->item[stage->count];
    *item = (struct hf_cl_item){.host = host, .bytes = bytes};
    item->device = host != NULL ? hf_opencl_alias(stage->cl, host, bytes) : NULL;
    item->alias = item->device != NULL;
    if (item->device == NULL)
        item->device = hf_opencl_alloc(stage->cl, bytes);
    if (item->device == NULL) {
        stage->status = HF_E_NOMEM;
        return NULL;
    }
    stage->count++;
    return item;
}

static void *view(struct hf_cl_stage *stage, void *p, size_t bytes, bool in, bool back) {
    if (p == NULL || stage->status != HF_OK)
        return NULL;
    if (is_ours(stage, p))
        return p;
    struct hf_cl_item *item = add(stage, p, bytes);
    if (item == NULL)
        return NULL;
    item->back = back;
    if (in && !item->alias)
        stage->status = hf_opencl_copy(stage->cl, item->device, p, bytes);
    return item->device;
}

const void *hf_cl_in(struct hf_cl_stage *stage, const void *p, size_t bytes) {
    return view(stage, (void *)(uintptr_t)p, bytes, true, false);
}

void *hf_cl_out(struct hf_cl_stage *stage, void *p, size_t bytes) {
    return view(stage, p, bytes, false, true);
}

void *hf_cl_inout(struct hf_cl_stage *stage, void *p, size_t bytes) {
    return view(stage, p, bytes, true, true);
}

hf_array hf_cl_array(struct hf_cl_stage *stage, const hf_array *a) {
    hf_array seen = *a;
    const size_t size = hf_dtype_bytes(a->dtype), row = (size_t)a->cols * size;
    const size_t step = (size_t)(a->row_stride != 0 ? a->row_stride : a->cols) * size;
    seen.row_stride = (int64_t)(step / size);
    if (a->rows == 0 || row == 0)
        seen.data = NULL;
    if (stage->status != HF_OK || seen.data == NULL || is_ours(stage, a->data))
        return seen;
    /* Elements that do not lie on a multiple of their size, as C allows on x86, are copied. */
    const bool aligned = (uintptr_t)a->data % size == 0;
    if (stage->cl->info->unified && aligned) {
        seen.data = view(stage, a->data, step * (size_t)(a->rows - 1) + row, true, false);
        return seen;
    }
    struct hf_cl_item *item = add(stage, NULL, row * (size_t)a->rows);
    seen.row_stride = a->cols;
    seen.data = item != NULL ? item->device : NULL;
    if (item != NULL)
        stage->status = hf_opencl_copy_rows(
            stage->cl, &(struct hf_row_copy){item->device, a->data, row, step, row, a->rows});
    return seen;
}

void *hf_cl_host(struct hf_cl_stage *stage, const void *p, size_t bytes, bool write) {
    struct hf_opencl *cl = stage->cl;
    size_t offset = 0;
    hf_cl_int error = HF_CL_SUCCESS;
    hf_cl_mem mem = p != NULL && bytes > 0 ? hf_opencl_mem(cl, p, &offset) : NULL;
    if (mem == NULL || stage->status != HF_OK)
        return (void *)(uintptr_t)p;
    assert(stage->count < HF_CL_STAGE_ITEMS);
    void *at =
        cl->api->EnqueueMapBuffer(cl->queue, mem, 1, HF_CL_MAP_READ | (write ? HF_CL_MAP_WRITE : 0),
                                  offset, bytes, 0, NULL, NULL, &error);
    stage->status = hf_opencl_check(cl, error, "view of the device's memory");
    if (stage->status == HF_OK)
        stage->item[stage->count++] = (struct hf_cl_item){.host = at, .mapped = mem};
    return stage->status == HF_OK ? at : NULL;
}

/* Mapping makes what the device wrote to an alias known to the host. */
static hf_status bring_back(struct hf_opencl *cl, const struct hf_cl_item *item) {
    size_t offset = 0;
    hf_cl_int error = HF_CL_SUCCESS;
    if (!item->alias)
        return hf_opencl_copy(cl, item->host, item->device, item->bytes);
    hf_cl_mem mem = hf_opencl_mem(cl, item->device, &offset);
    void *at = cl->api->EnqueueMapBuffer(cl->queue, mem, 1, HF_CL_MAP_READ, 0, item->bytes, 0, NULL,
                                         NULL, &error);
    HF_TRY(hf_opencl_check(cl, error, "copy from the device"));
    return hf_opencl_check(cl, cl->api->EnqueueUnmapMemObject(cl->queue, mem, at, 0, NULL, NULL),
                           "copy from the device");
}

hf_status hf_cl_stage_end(struct hf_cl_stage *stage, hf_status status) {
    struct hf_opencl *cl = stage->cl;
    if (stage->status == HF_OK)
        stage->status = status;
    for (int i = 0; i < stage->count; i++) {
        const struct hf_cl_item *item = &stage->item[i];
        if (item->mapped != NULL) {
            const hf_cl_int error =
                cl->api->EnqueueUnmapMemObject(cl->queue, item->mapped, item->host, 0, NULL, NULL);
            if (stage->status == HF_OK)
                stage->status = hf_opencl_check(cl, error, "view of the device's memory");
        } else if (item->back && stage->status == HF_OK) {
            stage->status = bring_back(cl, item);
        }
    }
    /* Aliases must outlive what uses them, and nothing of the host's is used after the call. */
    if (stage->count > 0) {
        const hf_cl_int error = cl->api->Finish(cl->queue);
        if (stage->status == HF_OK)
            stage->status = hf_opencl_check(cl, error, "the device");
    }
    for (int i = 0; i < stage->count; i++)
        hf_opencl_release(cl, stage->item[i].device);
    stage->count = 0;
    return stage->status;
}
