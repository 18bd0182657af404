/* SPDX-License-Identifier: Apache-2.0
 * Addresses for memory objects: ranges that are reserved and never backed, so that no other object
 * of the process can have them, pointers can be compared and added to, and a read by the host is
 * found at once. */
#include "base/mem.h"
#include "device/opencl/opencl.h"

#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)

static size_t range_of(size_t bytes) { return (bytes + PAGE) / PAGE * PAGE; }

/* Room for one more; false: no memory. */
static bool grow(struct hf_opencl *cl) {
    if (cl->blocks < cl->room)
        return true;
    const int room = cl->room > 0 ? 2 * cl->room : 64;
    struct hf_cl_block *more = hf_alloc((size_t)room * sizeof *more);
    if (more == NULL)
        return false;
    if (cl->blocks > 0)
        memcpy(more, cl->block, (size_t)cl->blocks * sizeof *more);
    hf_free(cl->block);
    cl->block = more;
    cl->room = room;
    return true;
}

/* Number of the first block that ends behind p. */
static int place_of(const struct hf_opencl *cl, const char *p) {
    int low = 0, high = cl->blocks;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (cl->block[middle].at + range_of(cl->block[middle].bytes) > p)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void insert(struct hf_opencl *cl, const struct hf_cl_block *b) {
    const int at = place_of(cl, b->at);
    memmove(cl->block + at + 1, cl->block + at, (size_t)(cl->blocks - at) * sizeof *b);
    cl->block[at] = *b;
    cl->blocks++;
}

static void *add(struct hf_opencl *cl, hf_cl_mem mem, size_t bytes, bool counts) {
    void *at =
        mmap(NULL, range_of(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    (void)pthread_mutex_lock(&cl->lock);
    const bool ok = at != MAP_FAILED && grow(cl);
    if (ok) {
        const struct hf_cl_block b = {at, bytes, mem, counts};
        insert(cl, &b);
        cl->held += counts ? bytes : 0;
        cl->most = cl->held > cl->most ? cl->held : cl->most;
    }
    (void)pthread_mutex_unlock(&cl->lock);
    if (!ok) {
        if (at != MAP_FAILED)
            (void)munmap(at, range_of(bytes));
        (void)cl->api->ReleaseMemObject(mem);
        return NULL;
    }
    return at;
}

void *hf_opencl_alloc(struct hf_opencl *cl, size_t bytes) {
    hf_cl_int error = HF_CL_SUCCESS;
    bytes = bytes > 0 ? bytes : 1;
    if (bytes > cl->info->alloc_most || cl->held + bytes > cl->info->memory) {
        (void)hf_opencl_check(cl, HF_CL_MEM_OBJECT_ALLOCATION_FAILURE, "memory");
        return NULL;
    }
    hf_cl_mem mem = cl->api->CreateBuffer(cl->context, HF_CL_MEM_READ_WRITE, bytes, NULL, &error);
    if (hf_opencl_check(cl, error, "memory") != HF_OK)
        return NULL;
    return add(cl, mem, bytes, true);
}

void *hf_opencl_alias(struct hf_opencl *cl, void *host, size_t bytes) {
    hf_cl_int error = HF_CL_SUCCESS;
    if (bytes == 0 || !cl->info->unified)
        return NULL;
    hf_cl_mem mem = cl->api->CreateBuffer(
        cl->context, HF_CL_MEM_READ_WRITE | HF_CL_MEM_USE_HOST_PTR, bytes, host, &error);
    return error == HF_CL_SUCCESS ? add(cl, mem, bytes, false) : NULL;
}

/* The driver keeps the object until the device is done with it. */
void hf_opencl_release(struct hf_opencl *cl, void *p) {
    if (p == NULL)
        return;
    struct hf_cl_block gone = {NULL, 0, NULL, false};
    (void)pthread_mutex_lock(&cl->lock);
    const int at = place_of(cl, p);
    if (at < cl->blocks && cl->block[at].at == p) {
        gone = cl->block[at];
        cl->blocks--;
        memmove(cl->block + at, cl->block + at + 1, (size_t)(cl->blocks - at) * sizeof gone);
        cl->held -= gone.counts ? gone.bytes : 0;
    }
    (void)pthread_mutex_unlock(&cl->lock);
    if (gone.mem == NULL)
        return;
    (void)cl->api->ReleaseMemObject(gone.mem);
    (void)munmap(gone.at, range_of(gone.bytes));
}

void hf_opencl_release_all(struct hf_opencl *cl) {
    while (cl->blocks > 0)
        hf_opencl_release(cl, cl->block[cl->blocks - 1].at);
    hf_free(cl->block);
    cl->block = NULL;
    cl->room = 0;
}

hf_cl_mem hf_opencl_mem(const struct hf_opencl *cl, const void *p, size_t *offset) {
    hf_cl_mem mem = NULL;
    (void)pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&cl->lock);
    const int at = place_of(cl, p);
    if (at < cl->blocks && (const char *)p >= cl->block[at].at) {
        mem = cl->block[at].mem;
        *offset = (size_t)((const char *)p - cl->block[at].at);
    }
    (void)pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&cl->lock);
    return mem;
}

hf_status hf_opencl_copy(struct hf_opencl *cl, void *dst, const void *src, size_t bytes) {
    size_t to = 0, from = 0;
    if (bytes == 0)
        return HF_OK;
    hf_cl_mem into = hf_opencl_mem(cl, dst, &to), of = hf_opencl_mem(cl, src, &from);
    if (into != NULL && of != NULL)
        return hf_opencl_check(
            cl, cl->api->EnqueueCopyBuffer(cl->queue, of, into, from, to, bytes, 0, NULL, NULL),
            "copy");
    if (into != NULL)
        return hf_opencl_check(
            cl, cl->api->EnqueueWriteBuffer(cl->queue, into, 1, to, bytes, src, 0, NULL, NULL),
            "copy to the device");
    if (of != NULL)
        return hf_opencl_check(
            cl, cl->api->EnqueueReadBuffer(cl->queue, of, 1, from, bytes, dst, 0, NULL, NULL),
            "copy from the device");
    memcpy(dst, src, bytes);
    return HF_OK;
}

hf_status hf_opencl_fill(struct hf_opencl *cl, void *dst, int byte, size_t bytes) {
    const unsigned char pattern = (unsigned char)byte;
    size_t offset = 0;
    if (bytes == 0)
        return HF_OK;
    hf_cl_mem mem = hf_opencl_mem(cl, dst, &offset);
    return hf_opencl_check(
        cl, cl->api->EnqueueFillBuffer(cl->queue, mem, &pattern, 1, offset, bytes, 0, NULL, NULL),
        "fill");
}

/* One rectangle; or a row after the other where neither side is the device's, and inside an object,
 * where OpenCL wants the same steps on both sides. */
hf_status hf_opencl_copy_rows(struct hf_opencl *cl, const struct hf_row_copy *c) {
    size_t to = 0, from = 0;
    if (c->rows == 0 || c->row_bytes == 0)
        return HF_OK;
    if (c->rows == 1 || (c->dst_step == c->row_bytes && c->src_step == c->row_bytes))
        return hf_opencl_copy(cl, c->dst, c->src, c->row_bytes * (size_t)c->rows);
    hf_cl_mem into = hf_opencl_mem(cl, c->dst, &to), of = hf_opencl_mem(cl, c->src, &from);
    const size_t region[3] = {c->row_bytes, (size_t)c->rows, 1}, zero[3] = {0, 0, 0};
    const size_t at_to[3] = {to, 0, 0}, at_from[3] = {from, 0, 0};
    if (into != NULL && of != NULL && into != of)
        return hf_opencl_check(cl,
                               cl->api->EnqueueCopyBufferRect(cl->queue, of, into, at_from, at_to,
                                                              region, c->src_step, 0, c->dst_step,
                                                              0, 0, NULL, NULL),
                               "copy of rows");
    if (into != NULL && of == NULL)
        return hf_opencl_check(cl,
                               cl->api->EnqueueWriteBufferRect(cl->queue, into, 1, at_to, zero,
                                                               region, c->dst_step, 0, c->src_step,
                                                               0, c->src, 0, NULL, NULL),
                               "copy of rows to the device");
    if (of != NULL && into == NULL)
        return hf_opencl_check(cl,
                               cl->api->EnqueueReadBufferRect(cl->queue, of, 1, at_from, zero,
                                                              region, c->src_step, 0, c->dst_step,
                                                              0, c->dst, 0, NULL, NULL),
                               "copy of rows from the device");
    for (int64_t i = 0; i < c->rows; i++)
        HF_TRY(hf_opencl_copy(cl, (char *)c->dst + (size_t)i * c->dst_step,
                              (const char *)c->src + (size_t)i * c->src_step, c->row_bytes));
    return HF_OK;
}
