/* SPDX-License-Identifier: Apache-2.0
 * A case on a device: its arrays are copied there and every pointer to them is replaced. */
#include "harness/harness.h"
#include <stdint.h>
#include <string.h>

/* The buffer that p points into, or NULL. */
static struct hf_case_buf *buffer_of(struct hf_case *c, uintptr_t p) {
    for (int i = 0; i < c->bufs; i++)
        if (p >= (uintptr_t)c->buf[i].ptr && p < (uintptr_t)c->buf[i].ptr + c->buf[i].bytes)
            return &c->buf[i];
    return NULL;
}

/* Does memory hold a pointer into a buffer? Pointers are aligned in structs; numbers that look like
 * one do not occur in data. */
static bool holds_pointers(struct hf_case *c, const char *memory, size_t bytes) {
    for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t)) {
        uintptr_t p;
        memcpy(&p, memory + at, sizeof p);
        if (buffer_of(c, p))
            return true;
    }
    return false;
}

static void redirect(struct hf_case *c, char *memory, size_t bytes) {
    for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t)) {
        uintptr_t p;
        memcpy(&p, memory + at, sizeof p);
        const struct hf_case_buf *b = buffer_of(c, p);
        if (!b || !b->device)
            continue;
        p = (uintptr_t)b->device + (p - (uintptr_t)b->ptr);
        memcpy(memory + at, &p, sizeof p);
    }
}

hf_status hf_case_move(struct hf_case *c, size_t args_size, hf_context *ctx) {
    if (hf_ctx_is_host(ctx))
        return HF_OK;
    bool struct_like[HF_CASE_BUFS] = {false};
    for (int i = 0; i < c->bufs; i++)
        struct_like[i] = holds_pointers(c, c->buf[i].ptr, c->buf[i].bytes);
    for (int i = 0; i < c->bufs; i++) {
        struct hf_case_buf *b = &c->buf[i];
        if (struct_like[i])
            continue;
        b->device = hf_ctx_alloc(ctx, b->bytes);
        if (!b->device)
            return hf_ctx_fail(ctx, HF_E_NOMEM, "%s has no memory for %zu bytes of the problem",
                               ctx->name, b->bytes);
        HF_TRY(hf_ctx_copy(ctx, b->device, b->ptr, b->bytes));
    }
    for (int i = 0; i < c->bufs; i++)
        if (struct_like[i])
            redirect(c, c->buf[i].ptr, c->buf[i].bytes);
    redirect(c, c->args, args_size);
    return HF_OK;
}

void hf_case_unmove(struct hf_case *c, hf_context *ctx) {
    for (int i = 0; i < c->bufs; i++) {
        hf_ctx_release(ctx, c->buf[i].device);
        c->buf[i].device = NULL;
    }
}

hf_status hf_case_restore_on(struct hf_case *c, hf_context *ctx) {
    for (int i = 0; i < c->bufs; i++) {
        const struct hf_case_buf *b = &c->buf[i];
        if (!b->out)
            continue;
        if (b->device)
            HF_TRY(hf_ctx_copy(ctx, b->device, b->saved, b->bytes));
        else if (hf_ctx_is_host(ctx))
            memcpy(b->ptr, b->saved, b->bytes);
    }
    return HF_OK;
}
