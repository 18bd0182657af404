/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/stage.h"

#include "device/cuda/own.h"

#include <assert.h>
#include <string.h>

void hf_stage_begin(struct hf_stage *stage, void *stream) {
    memset(stage, 0, sizeof *stage);
    stage->cuda = stream;
    stage->before = hf_cuda_enter(stage->cuda);
}

/* Device memory for what lies at host; NULL when there is none. */
static void *add(struct hf_stage *stage, void *host, size_t bytes, bool back) {
    assert(stage->count < HF_STAGE_ITEMS);
    void *device = hf_cuda_alloc(stage->cuda, bytes);
    if (device == NULL) {
        stage->status = HF_E_NOMEM;
        return NULL;
    }
    stage->item[stage->count++] = (struct hf_stage_item){host, device, bytes, back};
    return device;
}

static void *view(struct hf_stage *stage, void *p, size_t bytes, bool in, bool back) {
    if (p == NULL || stage->status != HF_OK)
        return NULL;
    if (hf_cuda_owns(p))
        return p;
    void *device = add(stage, p, bytes, back);
    if (device != NULL && in && bytes > 0)
        stage->status = hf_cuda_check(
            stage->cuda, cudaMemcpyAsync(device, p, bytes, cudaMemcpyDefault, stage->cuda->stream),
            "copy to the device");
    return device;
}

const void *hf_stage_in(struct hf_stage *stage, const void *p, size_t bytes) {
    return view(stage, (void *)(uintptr_t)p, bytes, true, false);
}

void *hf_stage_out(struct hf_stage *stage, void *p, size_t bytes) {
    return view(stage, p, bytes, false, true);
}

void *hf_stage_inout(struct hf_stage *stage, void *p, size_t bytes) {
    return view(stage, p, bytes, true, true);
}

hf_array hf_stage_array(struct hf_stage *stage, const hf_array *a) {
    hf_array seen = *a;
    if (stage->status != HF_OK || hf_cuda_owns(a->data) || hf_cuda_lent(stage->cuda, a->data))
        return seen;
    const size_t row = (size_t)a->cols * hf_dtype_bytes(a->dtype);
    const int64_t stride = a->row_stride != 0 ? a->row_stride : a->cols;
    seen.row_stride = a->cols;
    seen.data = add(stage, NULL, row * (size_t)a->rows, false);
    if (seen.data != NULL && row > 0 && a->rows > 0)
        stage->status = hf_cuda_check(
            stage->cuda,
            cudaMemcpy2DAsync(seen.data, row, a->data, (size_t)stride * hf_dtype_bytes(a->dtype),
                              row, (size_t)a->rows, cudaMemcpyDefault, stage->cuda->stream),
            "copy to the device");
    return seen;
}

hf_status hf_stage_end(struct hf_stage *stage, hf_status launched) {
    hf_status status = stage->status != HF_OK ? stage->status : launched;
    for (int i = 0; i < stage->count; i++) {
        const struct hf_stage_item *item = &stage->item[i];
        if (status == HF_OK && item->back && item->bytes > 0)
            status = hf_cuda_check(stage->cuda,
                                   cudaMemcpyAsync(item->host, item->device, item->bytes,
                                                   cudaMemcpyDefault, stage->cuda->stream),
                                   "copy from the device");
        hf_cuda_release(stage->cuda, item->device);
    }
    hf_status waited = HF_OK;
    if (stage->count > 0)
        waited =
            hf_cuda_check(stage->cuda, cudaStreamSynchronize(stage->cuda->stream), "the device");
    hf_cuda_leave(stage->before);
    return status != HF_OK ? status : waited;
}
