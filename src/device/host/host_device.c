/* SPDX-License-Identifier: Apache-2.0
 * The CPU. Its stream is a pool of threads, and every call is done when it returns. */
#include "base/below.h"
#include "base/clock.h"
#include "base/cpuid.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "device/device.h"
#include "device/host/isa.h"

#include <stdio.h>
#include <string.h>

extern const struct hf_device hf_host_device;

static int host_count(void) { return 1; }

static hf_status host_probe(int index, char *text, size_t text_bytes) {
    if (index != 0) {
        (void)snprintf(text, text_bytes, "there is one CPU device, number 0");
        return HF_E_UNSUPPORTED;
    }
    (void)snprintf(text, text_bytes, "%s", hf_cpu_name());
    return HF_OK;
}

static hf_status host_open(const struct hf_device_opts *opts, void **stream, hf_error *err) {
    if (opts->stream != NULL)
        return hf_fail(err, HF_E_ARG, "the CPU takes no stream; leave it NULL");
    /* asks for the tile registers, which threads started later inherit */
    (void)hf_cpu_isas();
    hf_pool *pool = hf_pool_create(opts->threads);
    if (pool == NULL)
        return hf_fail(err, HF_E_NOMEM,
                       "cannot start %d threads; ask for fewer, or raise the limit (ulimit -u)",
                       opts->threads);
    *stream = pool;
    return HF_OK;
}

static void host_close(void *stream) { hf_pool_destroy(stream); }

static struct hf_device_props host_props(const void *stream) {
    return (struct hf_device_props){.workers = hf_pool_workers(stream)};
}

static uint64_t host_memory(void *stream) {
    (void)stream;
    return hf_mem_available();
}

static void *host_alloc(void *stream, size_t bytes) {
    (void)stream;
    return hf_alloc(bytes);
}

static void host_release(void *stream, void *p) {
    (void)stream;
    hf_free(p);
}

static bool host_owns(const void *stream, const void *p) {
    (void)stream;
    (void)p;
    return false; /* nothing that the host cannot read */
}

static hf_status host_copy(void *stream, void *dst, const void *src, size_t bytes) {
    (void)stream;
    if (bytes > 0)
        memcpy(dst, src, bytes);
    return HF_OK;
}

static hf_status host_end_fetch(void *stream) {
    (void)stream;
    return HF_OK;
}

static hf_status host_copy_rows(void *stream, const struct hf_row_copy *c) {
    (void)stream;
    for (int64_t i = 0; i < c->rows; i++)
        memcpy((char *)c->dst + (size_t)i * c->dst_step,
               (const char *)c->src + (size_t)i * c->src_step, c->row_bytes);
    return HF_OK;
}

static hf_status host_fill(void *stream, void *dst, int byte, size_t bytes) {
    (void)stream;
    if (bytes > 0)
        memset(dst, byte, bytes);
    return HF_OK;
}

static hf_status host_is_zero(void *stream, const void *p, size_t bytes, bool *zero) {
    const uint64_t *word = p;
    uint64_t any = 0;
    (void)stream;
    for (size_t i = 0; i < bytes / sizeof *word; i++)
        any |= word[i];
    *zero = any == 0;
    return HF_OK;
}

static _Thread_local bool below;

static hf_status host_start_below(void *stream, const int32_t *p, size_t count, int32_t limit) {
    below = hf_all_below(stream, p, (int64_t)count, limit);
    return HF_OK;
}

static bool host_end_below(void *stream) {
    (void)stream;
    return below;
}

static hf_status host_sync(void *stream) {
    (void)stream;
    return HF_OK;
}

static _Thread_local double marks[2];

static hf_status host_mark(void *stream, int which) {
    (void)stream;
    marks[which] = hf_now_s();
    return HF_OK;
}

static double host_span(void *stream) {
    (void)stream;
    return marks[1] - marks[0];
}

static const char *host_error_text(const void *stream) {
    (void)stream;
    return "";
}

const struct hf_device hf_host_device = {
    .name = "cpu",
    .id = HF_DEV_HOST,
    .count = host_count,
    .probe = host_probe,
    .open = host_open,
    .close = host_close,
    .props = host_props,
    .memory = host_memory,
    .alloc = host_alloc,
    .release = host_release,
    .owns = host_owns,
    .copy = host_copy,
    .start_fetch = host_copy,
    .end_fetch = host_end_fetch,
    .copy_rows = host_copy_rows,
    .fill = host_fill,
    .is_zero = host_is_zero,
    .start_below = host_start_below,
    .end_below = host_end_below,
    .sync = host_sync,
    .mark = host_mark,
    .span = host_span,
    .error_text = host_error_text,
};
