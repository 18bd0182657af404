/* SPDX-License-Identifier: Apache-2.0
 * Problems whose buffers lie between canaries. */
#include "base/dtype.h"
#include "base/mem.h"
#include "harness/harness.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HF_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HF_ASAN 1
#endif
#if defined(HF_ASAN)
#include <sanitizer/asan_interface.h>
#endif

/* Never a byte that zeroing, NaN filling or a neighbour would leave behind. */
static char canary_byte(int i) { return (char)(0xC3 ^ (i * 29)); }

static void canary_fill(char *p) {
    for (int i = 0; i < HF_CANARY_BYTES; i++)
        p[i] = canary_byte(i);
}

/* Offset of the first byte that was overwritten, or -1. */
static int canary_broken(const char *p) {
    for (int i = 0; i < HF_CANARY_BYTES; i++)
        if (p[i] != canary_byte(i))
            return i;
    return -1;
}

/* canary | bytes | canary; NULL when out of memory */
static char *guarded_alloc(size_t bytes, char **ptr) {
    char *block = bytes > SIZE_MAX - 2 * (size_t)HF_CANARY_BYTES
                      ? NULL
                      : hf_alloc_zero(bytes + 2 * (size_t)HF_CANARY_BYTES);
    if (!block)
        return NULL;
    *ptr = block + HF_CANARY_BYTES;
    canary_fill(block);
    canary_fill(*ptr + bytes);
    return block;
}

void *hf_case_alloc(struct hf_case *c, size_t bytes, bool out) {
    char *ptr = NULL;
    char *block = c->bufs < HF_CASE_BUFS ? guarded_alloc(bytes, &ptr) : NULL;
    if (!block) {
        c->failed = true;
        return NULL;
    }
    c->buf[c->bufs++] =
        (struct hf_case_buf){.ptr = ptr, .bytes = bytes, .out = out, .block = block};
    return ptr;
}

void *hf_case_alloc_output(struct hf_case *c, hf_dtype dtype, int64_t count, int output) {
    void *ptr = hf_case_alloc(c, (size_t)count * hf_dtype_bytes(dtype), true);
    if (ptr) {
        c->buf[c->bufs - 1].dtype = dtype;
        c->buf[c->bufs - 1].output = output;
    }
    return ptr;
}

void *hf_case_alloc_state(struct hf_case *c, size_t bytes) {
    void *ptr = hf_case_alloc(c, bytes, false);
    if (ptr)
        c->buf[c->bufs - 1].state = true;
    return ptr;
}

bool hf_case_init(struct hf_case *c, const struct hf_op *op) {
    memset(c, 0, sizeof *c);
    c->args = hf_alloc_zero(op->args_size);
    return c->args != NULL;
}

void hf_case_clear(struct hf_case *c) {
    for (int i = 0; i < c->bufs; i++) {
        hf_free(c->buf[i].block);
        hf_free(c->buf[i].saved);
    }
    hf_free(c->args);
    memset(c, 0, sizeof *c);
}

bool hf_case_seal(struct hf_case *c, bool inputs) {
    for (int i = 0; i < c->bufs; i++) {
        struct hf_case_buf *b = &c->buf[i];
        if (!b->out && !b->state && !inputs)
            continue;
        b->saved = hf_alloc(b->bytes);
        if (!b->saved)
            return false;
        memcpy(b->saved, b->ptr, b->bytes);
    }
    return true;
}

void hf_case_restore(struct hf_case *c) {
    for (int i = 0; i < c->bufs; i++)
        if (c->buf[i].out)
            memcpy(c->buf[i].ptr, c->buf[i].saved, c->buf[i].bytes);
}

void hf_case_forget(struct hf_case *c) {
    for (int i = 0; i < c->bufs; i++)
        if (c->buf[i].state)
            memcpy(c->buf[i].ptr, c->buf[i].saved, c->buf[i].bytes);
}

int hf_case_outs(const struct hf_case *c, void *outs[HF_CASE_BUFS]) {
    int count = 0;
    for (int i = 0; i < c->bufs; i++)
        if (c->buf[i].out)
            outs[count++] = c->buf[i].ptr;
    return count;
}

void hf_case_copies_free(const struct hf_case *c, void **copies) {
    if (!copies)
        return;
    void *outs[HF_CASE_BUFS];
    const int count = hf_case_outs(c, outs);
    for (int i = 0; i < count; i++)
        hf_free(copies[i]);
    hf_free(copies);
}

void **hf_case_copy_outs(const struct hf_case *c) {
    void **copies = hf_alloc_zero(HF_CASE_BUFS * sizeof *copies);
    int count = 0;
    for (int i = 0; copies && i < c->bufs; i++) {
        const struct hf_case_buf *b = &c->buf[i];
        if (!b->out)
            continue;
        copies[count] = hf_alloc(b->bytes);
        if (!copies[count]) {
            hf_case_copies_free(c, copies);
            return NULL;
        }
        memcpy(copies[count++], b->ptr, b->bytes);
    }
    return copies;
}

void hf_case_fence(const struct hf_case *c, bool on) {
#if defined(HF_ASAN)
    for (int i = 0; i < c->bufs; i++) {
        const struct hf_case_buf *b = &c->buf[i];
        if (on) {
            ASAN_POISON_MEMORY_REGION(b->block, HF_CANARY_BYTES);
            ASAN_POISON_MEMORY_REGION(b->ptr + b->bytes, HF_CANARY_BYTES);
        } else {
            ASAN_UNPOISON_MEMORY_REGION(b->block, b->bytes + 2 * (size_t)HF_CANARY_BYTES);
        }
    }
#else
    (void)c;
    (void)on;
#endif
}

/* First byte of a that differs from b, or -1 */
static int64_t first_difference(const char *a, const char *b, size_t bytes) {
    if (memcmp(a, b, bytes) == 0)
        return -1;
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i])
            return (int64_t)i;
    return -1;
}

bool hf_case_intact(const struct hf_case *c, char *why, size_t why_bytes) {
    for (int i = 0; i < c->bufs; i++) {
        const struct hf_case_buf *b = &c->buf[i];
        const char *kind = b->out ? "out" : b->state ? "state" : "in";
        const int before = canary_broken(b->block);
        const int after = canary_broken(b->ptr + b->bytes);
        if (before >= 0 || after >= 0) {
            const int off = before >= 0 ? before - HF_CANARY_BYTES : after;
            snprintf(why, why_bytes, "wrote out of bounds: buffer %d (%s, %zu bytes), %d bytes %s",
                     i, kind, b->bytes, off < 0 ? -off : off,
                     off < 0 ? "before it" : "past its end");
            return false;
        }
        if (b->out || b->state || !b->saved)
            continue;
        const int64_t at = first_difference(b->ptr, b->saved, b->bytes);
        if (at >= 0) {
            snprintf(why, why_bytes, "wrote to an input: buffer %d, byte %lld of %zu", i,
                     (long long)at, b->bytes);
            return false;
        }
    }
    return true;
}

/* Says where buffer b, output number `out` of the case, differs from `ref`; false: nowhere. */
static bool differs(const struct hf_case_buf *b, int out, const void *ref, char *why,
                    size_t why_bytes) {
    const int64_t at = first_difference(b->ptr, ref, b->bytes);
    if (at >= 0)
        snprintf(why, why_bytes, "output %d differs at byte %lld of %zu", out, (long long)at,
                 b->bytes);
    return at >= 0;
}

bool hf_case_same(const struct hf_case *c, void *const *copies, char *why, size_t why_bytes) {
    int out = 0;
    for (int i = 0; i < c->bufs; i++) {
        if (c->buf[i].out && differs(&c->buf[i], out, copies[out], why, why_bytes))
            return false;
        out += c->buf[i].out;
    }
    return true;
}

/* Is a value that is NaN in one and not in the other too far away? Yes. */
static bool too_far(double got, double want, double bound) {
    return got != want && !(isnan(got) && isnan(want)) && !(fabs(got - want) <= 2 * bound) &&
           bound < INFINITY;
}

static bool elements_near(const struct hf_case *c, const struct hf_op *op,
                          const struct hf_case_buf *b, const void *ref, char *why,
                          size_t why_bytes) {
    const int64_t count = (int64_t)(b->bytes / hf_dtype_bytes(b->dtype));
    for (int64_t i = 0; i < count; i++) {
        const double got = hf_load_f64(b->ptr, b->dtype, i);
        const double want = hf_load_f64(ref, b->dtype, i);
        const double bound = op->bound(c->args, b->output, i);
        if (!too_far(got, want, bound))
            continue;
        snprintf(why, why_bytes,
                 "element %lld of output %d is %.17g, the reference's %.17g: they may differ by %g",
                 (long long)i, b->output, got, want, 2 * bound);
        return false;
    }
    return true;
}

bool hf_case_near(const struct hf_case *c, const struct hf_op *op, void *const *copies, char *why,
                  size_t why_bytes) {
    int out = 0;
    for (int i = 0; i < c->bufs; i++) {
        const struct hf_case_buf *b = &c->buf[i];
        if (!b->out)
            continue;
        const bool near = b->dtype != HF_DTYPE_NONE
                              ? elements_near(c, op, b, copies[out], why, why_bytes)
                              : !differs(b, out, copies[out], why, why_bytes);
        if (!near)
            return false;
        out++;
    }
    return true;
}

bool hf_bench_ws_init(struct hf_bench_ws *ws, const struct hf_device *device, void *stream,
                      size_t bytes, int poison) {
    char canary[HF_CANARY_BYTES];
    canary_fill(canary);
    *ws = (struct hf_bench_ws){.device = device, .stream = stream, .bytes = bytes};
    ws->block = device->alloc(stream, bytes + (size_t)2 * HF_CANARY_BYTES);
    if (!ws->block)
        return false;
    ws->ptr = ws->block + HF_CANARY_BYTES;
    return device->copy(stream, ws->block, canary, HF_CANARY_BYTES) == HF_OK &&
           (poison < 0 || device->fill(stream, ws->ptr, poison, bytes) == HF_OK) &&
           device->copy(stream, ws->ptr + bytes, canary, HF_CANARY_BYTES) == HF_OK;
}

int hf_bench_ws_broken(const struct hf_bench_ws *ws) {
    for (int side = -1; side <= 1; side += 2) {
        char canary[HF_CANARY_BYTES];
        const char *from = side < 0 ? ws->block : ws->ptr + ws->bytes;
        if (ws->device->copy(ws->stream, canary, from, HF_CANARY_BYTES) != HF_OK ||
            canary_broken(canary) >= 0)
            return side;
    }
    return 0;
}

void hf_bench_ws_clear(struct hf_bench_ws *ws) {
    if (ws->block)
        ws->device->release(ws->stream, ws->block);
    memset(ws, 0, sizeof *ws);
}
