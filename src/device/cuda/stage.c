/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/stage.h"

#include "base/mem.h"
#include "device/cuda/own.h"
#include "device/cuda/stage_direct.h"

#include <assert.h>
#include <string.h>

#define GAP ((size_t)16 << 10) /* bytes between two pieces that are still copied as one */

static struct hf_cuda_own *own_of(const struct hf_stage *stage) {
    return (struct hf_cuda_own *)(void *)stage->cuda;
}

/* The stage that does the work of a call's. */
static struct hf_stage *joint_of(struct hf_stage *stage) {
    struct hf_stage *joint = own_of(stage)->joint;
    return joint != NULL ? joint : stage;
}

void hf_stage_begin(struct hf_stage *stage, void *stream) {
    memset(stage, 0, sizeof *stage);
    stage->cuda = stream;
    stage->slab_before = own_of(stage)->slab_used;
    stage->before = hf_cuda_enter(stage->cuda);
    joint_of(stage)->ready = false;
}

/* What an earlier one of joint calls has brought or written, else NULL. */
static struct hf_stage_item *known(struct hf_stage *stage, const void *p, size_t bytes) {
    for (int i = 0; i < stage->count; i++)
        if (stage->item[i].host == p && stage->item[i].bytes == bytes && !stage->item[i].fetched)
            return &stage->item[i];
    return NULL;
}

/* What a piece of the slab occupies. */
static size_t padded(size_t bytes) { return (bytes + 255) / 256 * 256; }

char *hf_cuda_take_slab(struct hf_cuda_own *own, size_t bytes) {
    const size_t whole = padded(bytes);
    if (own->slab_device == NULL || bytes > HF_CUDA_SLAB || whole > HF_CUDA_SLAB - own->slab_used)
        return NULL;
    char *piece = own->slab_host + own->slab_used;
    own->slab_used += whole;
    return piece;
}

/* Device memory for what lies at host; NULL when there is none. */
static struct hf_stage_item *add(struct hf_stage *stage, void *host, size_t bytes, bool back) {
    assert(stage->count < HF_STAGE_ITEMS);
    struct hf_cuda_own *own = own_of(stage);
    char *slab = hf_cuda_take_slab(own, bytes);
    void *device = slab != NULL ? own->slab_device + (slab - own->slab_host)
                                : hf_cuda_alloc(stage->cuda, bytes);
    if (device == NULL) {
        stage->status = HF_E_NOMEM;
        return NULL;
    }
    struct hf_stage_item *item = &stage->item[stage->count++];
    *item = (struct hf_stage_item){host, device, slab, bytes, back, false, false};
    return item;
}

static void queue(struct hf_stage *stage, cudaError_t error, const char *what) {
    if (stage->status == HF_OK)
        stage->status = hf_cuda_check(stage->cuda, error, what);
}

/* Rows of `row` bytes that lie `step` bytes apart at p; what is in the slab waits for
 * hf_stage_ready(). */
static void upload(struct hf_stage *stage, struct hf_stage_item *item, const void *p, size_t row,
                   size_t step, size_t rows) {
    if (row == 0 || rows == 0)
        return;
    if (item->slab != NULL) {
        item->in = true;
        if (step == row)
            memcpy(item->slab, p, row * rows);
        for (size_t i = 0; step != row && i < rows; i++)
            memcpy(item->slab + i * row, (const char *)p + i * step, row);
        return;
    }
    queue(stage,
          step == row
              ? cudaMemcpyAsync(item->device, p, row * rows, cudaMemcpyDefault, stage->cuda->stream)
              : cudaMemcpy2DAsync(item->device, row, p, step, row, rows, cudaMemcpyDefault,
                                  stage->cuda->stream),
          "copy to the device");
}

/* Pieces of the slab that are to go to the device, or to come back, a few at a time. */
static void copy_slab(struct hf_stage *stage, bool in) {
    const struct hf_stage_item *first = NULL;
    size_t bytes = 0; /* from the first on */
    for (int i = 0; i <= stage->count; i++) {
        const struct hf_stage_item *item = i < stage->count ? &stage->item[i] : NULL;
        if (item != NULL && (item->slab == NULL || item->bytes == 0))
            continue;
        const bool wanted = item != NULL && !item->fetched && (in ? item->in : item->back);
        if (item != NULL && !wanted && !item->fetched)
            continue;
        if (first != NULL && wanted && item->slab <= first->slab + bytes + GAP) {
            bytes = (size_t)(item->slab - first->slab) + item->bytes;
            continue;
        }
        if (first != NULL)
            queue(stage,
                  hf_cuda_carry(stage->cuda->stream, in ? first->device : (void *)first->slab,
                                in ? (const void *)first->slab : first->device, padded(bytes)),
                  in ? "copy to the device" : "copy from the device");
        first = wanted ? item : NULL;
        bytes = wanted ? item->bytes : 0;
    }
}

static void *view(struct hf_stage *stage, void *p, size_t bytes, bool in, bool back) {
    struct hf_stage *joint = joint_of(stage);
    assert(!joint->ready);
    if (p == NULL || joint->status != HF_OK)
        return NULL;
    if (hf_cuda_sees(own_of(stage), p))
        return p;
    struct hf_stage_item *item = joint != stage ? known(joint, p, bytes) : NULL;
    if (item != NULL) {
        item->back |= back;
        return item->device;
    }
    item = add(joint, p, bytes, back);
    if (item == NULL)
        return NULL;
    if (in)
        upload(joint, item, p, bytes, bytes, 1);
    return item->device;
}

const void *hf_stage_in(struct hf_stage *stage, const void *p, size_t bytes) {
    return view(stage, (void *)(uintptr_t)p, bytes, true, false);
}

void *hf_stage_out(struct hf_stage *stage, void *p, size_t bytes) {
    return view(stage, p, bytes, false, true);
}

void *hf_stage_direct(struct hf_stage *stage, void *p, size_t bytes) {
    char *slab = NULL;
    if (own_of(stage)->joint == NULL && stage->status == HF_OK && p != NULL && !hf_cuda_owns(p))
        slab = hf_cuda_take_slab(own_of(stage), bytes);
    if (slab == NULL)
        return hf_stage_inout(stage, p, bytes);
    memcpy(slab, p, bytes);
    assert(stage->count < HF_STAGE_ITEMS);
    stage->item[stage->count++] = (struct hf_stage_item){p, slab, slab, bytes, true, false, true};
    return slab;
}

void *hf_stage_locked(struct hf_stage *stage, size_t bytes) {
    if (own_of(stage)->joint != NULL || stage->status != HF_OK)
        return NULL;
    return hf_cuda_take_slab(own_of(stage), bytes);
}

void *hf_stage_inout(struct hf_stage *stage, void *p, size_t bytes) {
    return view(stage, p, bytes, true, true);
}

hf_array hf_stage_array(struct hf_stage *stage, const hf_array *a) {
    struct hf_stage *joint = joint_of(stage);
    hf_array seen = *a;
    if (joint->status != HF_OK || hf_cuda_owns(a->data))
        return seen;
    const size_t size = hf_dtype_bytes(a->dtype), row = (size_t)a->cols * size;
    const int64_t stride = a->row_stride != 0 ? a->row_stride : a->cols;
    seen.row_stride = a->cols;
    if (stride == a->cols) {
        seen.data = view(stage, a->data, row * (size_t)a->rows, true, false);
        return seen;
    }
    struct hf_stage_item *item = add(joint, NULL, row * (size_t)a->rows, false);
    seen.data = item != NULL ? item->device : NULL;
    if (item != NULL && a->rows > 0)
        upload(joint, item, a->data, row, (size_t)stride * size, (size_t)a->rows);
    return seen;
}

bool hf_stage_ready(struct hf_stage *stage) {
    struct hf_stage *joint = joint_of(stage);
    assert(!joint->ready);
    joint->ready = true;
    copy_slab(joint, true);
    for (int i = 0; i < joint->count; i++)
        joint->item[i].in = false;
    return joint->status == HF_OK;
}

void hf_stage_fetch(struct hf_stage *stage, void *host, const void *device, size_t bytes) {
    struct hf_stage *joint = joint_of(stage);
    assert(joint->ready && joint->count < HF_STAGE_ITEMS);
    if (joint->status != HF_OK || bytes == 0)
        return;
    char *slab = hf_cuda_take_slab(own_of(joint), bytes);
    cudaStream_t with = joint->cuda->stream;
    queue(joint,
          slab != NULL ? hf_cuda_carry(with, slab, device, bytes)
                       : cudaMemcpyAsync(host, device, bytes, cudaMemcpyDefault, with),
          "copy from the device");
    joint->item[joint->count++] =
        (struct hf_stage_item){host, NULL, slab, bytes, slab != NULL, false, true};
}

/* Start all copies to the host, and give back what is not of the slab. */
static void fetch_all(struct hf_stage *stage) {
    for (int i = 0; i < stage->count; i++) {
        const struct hf_stage_item *item = &stage->item[i];
        if (item->slab != NULL)
            continue;
        if (item->back && item->bytes > 0 && stage->status == HF_OK)
            queue(stage,
                  cudaMemcpyAsync(item->host, item->device, item->bytes, cudaMemcpyDefault,
                                  stage->cuda->stream),
                  "copy from the device");
        hf_cuda_release(stage->cuda, item->device);
    }
    if (stage->status == HF_OK)
        copy_slab(stage, false);
}

hf_status hf_stage_end(struct hf_stage *stage, hf_status launched) {
    struct hf_stage *joint = joint_of(stage);
    if (joint->status == HF_OK)
        joint->status = launched;
    if (joint != stage) {
        hf_cuda_leave(stage->before);
        return joint->status;
    }
    assert(stage->ready || stage->status != HF_OK);
    fetch_all(stage);
    hf_status waited = HF_OK;
    if (stage->count > 0)
        waited =
            hf_cuda_check(stage->cuda, cudaStreamSynchronize(stage->cuda->stream), "the device");
    const hf_status status = stage->status != HF_OK ? stage->status : waited;
    for (int i = 0; i < stage->count && status == HF_OK; i++) {
        const struct hf_stage_item *item = &stage->item[i];
        if (item->back && item->slab != NULL)
            memcpy(item->host, item->slab, item->bytes);
    }
    own_of(stage)->slab_used = stage->slab_before;
    hf_cuda_leave(stage->before);
    return status;
}

bool hf_cuda_begin_calls(void *stream) {
    struct hf_cuda_own *own = stream;
    struct hf_stage *stage = own->joint == NULL ? hf_alloc(sizeof *stage) : NULL;
    if (stage == NULL)
        return false;
    hf_stage_begin(stage, stream);
    own->joint = stage;
    return true;
}

hf_status hf_cuda_end_calls(void *stream, hf_status status) {
    struct hf_cuda_own *own = stream;
    struct hf_stage *stage = own->joint;
    own->joint = NULL;
    stage->ready = true;
    status = hf_stage_end(stage, status);
    hf_free(stage);
    return status;
}
