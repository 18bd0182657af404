/* SPDX-License-Identifier: Apache-2.0
 * The CPU. Its stream is a pool of threads, and every call is done when it returns. */
#include "base/cpuid.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "device/device.h"
#include "device/host/isa.h"

#include <stdio.h>
#include <string.h>

extern const struct hf_device hf_host_device;

static hf_status host_probe(char *text, size_t text_bytes) {
    (void)snprintf(text, text_bytes, "%s", hf_cpu_name());
    return HF_OK;
}

static hf_status host_open(int threads, void **stream, hf_error *err) {
    /* asks for the tile registers, which threads started later inherit */
    (void)hf_cpu_isas();
    hf_pool *pool = hf_pool_create(threads);
    if (pool == NULL)
        return hf_fail(err, HF_E_NOMEM,
                       "cannot start %d threads; ask for fewer, or raise the limit (ulimit -u)",
                       threads);
    *stream = pool;
    return HF_OK;
}

static void host_close(void *stream) { hf_pool_destroy(stream); }

static int host_workers(const void *stream) { return hf_pool_workers(stream); }

static hf_status host_copy(void *stream, void *dst, const void *src, size_t bytes) {
    (void)stream;
    memcpy(dst, src, bytes);
    return HF_OK;
}

static hf_status host_sync(void *stream) {
    (void)stream;
    return HF_OK;
}

const struct hf_device hf_host_device = {
    .name = "cpu",
    .id = HF_DEV_HOST,
    .probe = host_probe,
    .open = host_open,
    .close = host_close,
    .workers = host_workers,
    .alloc = hf_alloc,
    .release = hf_free,
    .copy = host_copy,
    .sync = host_sync,
};
