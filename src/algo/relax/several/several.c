/* SPDX-License-Identifier: Apache-2.0
 * Devices and what each gets of a set-up: its rows of the matrix, whole vectors, and lists of the
 * places of others that it reads. */
#include "algo/relax/several/several.h"

#include "base/mem.h"
#include "ops/sweep/sweep.h"
#include <stdio.h>
#include <string.h>

#define NEAR 4096 /* places between two spans that are sent as one: a copy of its own costs more */

/* ---- threads */

struct errand {
    struct hf_relax_part *part;
    hf_status (*fn)(struct hf_relax_part *);
    pthread_t thread;
    bool started;
    hf_status status;
};

static void *run_errand(void *user) {
    struct errand *e = user;
    e->status = e->fn(e->part);
    return NULL;
}

static hf_status fail_as(struct hf_relax_several *s, const struct hf_relax_part *part,
                         hf_status status) {
    return hf_ctx_fail(s->relax->ctx, status, "%s: %s", hf_context_device(part->ctx),
                       hf_last_error(part->ctx));
}

hf_status hf_relax_each_part(struct hf_relax_several *s, hf_status (*fn)(struct hf_relax_part *)) {
    struct errand errand[HF_RELAX_DEVICES];
    hf_status status = HF_OK;
    for (int g = 0; g < s->count; g++) {
        errand[g] = (struct errand){.part = s->part[g], .fn = fn};
        errand[g].started = pthread_create(&errand[g].thread, NULL, run_errand, &errand[g]) == 0;
        if (!errand[g].started)
            (void)run_errand(&errand[g]);
    }
    for (int g = 0; g < s->count; g++)
        if (errand[g].started)
            (void)pthread_join(errand[g].thread, NULL);
    for (int g = 0; g < s->count && status == HF_OK; g++)
        if (errand[g].status != HF_OK)
            status = fail_as(s, s->part[g], errand[g].status);
    return status;
}

/* ---- what is read of others */

/* Spans of the marked places of `owner`, joined where the gap is at most `gap`. Returns how many;
 * writes those that there is room for. */
static int find_spans(const uint8_t *marked, const struct hf_relax_part *owner, int64_t gap,
                      struct hf_relax_span *span) {
    int count = 0;
    int64_t last = -1; /* end of the span at work, -1: none */
    for (int64_t i = owner->first; i < owner->last; i++) {
        if (!marked[i])
            continue;
        if (last < 0 || i - last > gap) {
            if (count < HF_RELAX_SPANS)
                span[count].first = i;
            count++;
        }
        last = i + 1;
        if (count <= HF_RELAX_SPANS)
            span[count - 1].last = last;
    }
    return count;
}

static hf_status list_readings(struct hf_relax_part *part) {
    const struct hf_relax_several *s = part->several;
    const struct hf_relax_matrix *m = &s->relax->m;
    uint8_t *marked = hf_alloc_zero((size_t)m->n);
    bool there = marked != NULL;
    for (int64_t e = m->row_start[part->first]; there && e < m->row_start[part->last]; e++)
        marked[m->column[e]] = 1;
    for (int g = 0; there && g < s->count; g++) {
        struct hf_relax_reading *reading = &part->reads[g];
        if (g == part->number)
            continue;
        reading->span = hf_alloc(HF_RELAX_SPANS * sizeof *reading->span);
        there = reading->span != NULL;
        if (!there)
            break;
        reading->count = find_spans(marked, s->part[g], NEAR, reading->span);
        if (reading->count > HF_RELAX_SPANS)
            reading->count = find_spans(marked, s->part[g], m->n, reading->span);
    }
    hf_free(marked);
    return there ? HF_OK
                 : hf_ctx_fail(part->ctx, HF_E_NOMEM,
                               "no memory to find what the part of a device reads of the others");
}

/* ---- arrays of a part */

static void *copy_there(struct hf_relax_part *part, const void *p, size_t bytes,
                        hf_status *status) {
    if (*status != HF_OK || (p != NULL && hf_ctx_is_host(part->ctx)))
        return *status == HF_OK ? (void *)(uintptr_t)p : NULL;
    void *there = hf_ctx_alloc(part->ctx, bytes > 0 ? bytes : 1);
    if (there == NULL) {
        *status = hf_ctx_fail(part->ctx, HF_E_NOMEM,
                              "no memory for %llu bytes of its part of the matrix and of vectors",
                              (unsigned long long)bytes);
        return NULL;
    }
    part->held.p[part->held.count++] = there;
    if (p != NULL)
        *status = hf_ctx_copy(part->ctx, there, p, bytes);
    return there;
}

/* Rows first .. last of m, the others empty. starts [n + 1]. */
static struct hf_sparse matrix_there(struct hf_relax_part *part, const struct hf_relax_matrix *m,
                                     const int64_t *starts, hf_status *status) {
    struct hf_sparse a = hf_relax_sparse(m);
    if (hf_ctx_is_host(part->ctx)) /* rows of others do no harm there */
        return a;
    const int64_t begin = m->row_start[part->first];
    const size_t size = hf_dtype_bytes(m->dtype);
    a.elements = m->row_start[part->last] - begin;
    a.row_start = starts;
    a.column = copy_there(part, m->column + begin, (size_t)a.elements * sizeof *a.column, status);
    a.value = copy_there(part, (const char *)m->value + (size_t)begin * size,
                         (size_t)a.elements * size, status);
    return a;
}

static void *copy_of_part(void *part, const void *p, size_t bytes, hf_status *status) {
    return p != NULL ? copy_there(part, p, bytes, status) : NULL;
}

/* The stencils of its rows. */
static void stencils_there(struct hf_relax_part *part, hf_status *status) {
    const struct hf_relax_matrix *m = &part->several->relax->m;
    const struct hf_sparse a = hf_relax_sparse(m);
    struct hf_stencils made, *seen = &part->a.stencils;
    if (*status != HF_OK || hf_ctx_is_host(part->ctx))
        return;
    if (hf_stencils_make(&a, m->inverse, part->first, part->last, &made) != HF_OK) {
        *status = hf_ctx_fail(part->ctx, HF_E_NOMEM, "no memory for the stencils of the rows");
        return;
    }
    if (made.count > 0)
        *seen = hf_relax_stencils_there(&made, m->n, copy_of_part, part, status);
    hf_stencils_clear(&made);
}

static const int64_t *starts_there(struct hf_relax_part *part, hf_status *status) {
    const struct hf_relax_matrix *m = &part->several->relax->m;
    const int64_t begin = m->row_start[part->first], end = m->row_start[part->last];
    const size_t bytes = ((size_t)m->n + 1) * sizeof(int64_t);
    if (hf_ctx_is_host(part->ctx))
        return NULL;
    int64_t *own = hf_alloc(bytes);
    if (own == NULL) {
        *status = hf_ctx_fail(part->ctx, HF_E_NOMEM, "no memory for row starts");
        return NULL;
    }
    for (int64_t i = 0; i <= m->n; i++)
        own[i] = (m->row_start[i] < begin ? begin
                  : m->row_start[i] > end ? end
                                          : m->row_start[i]) -
                 begin;
    const int64_t *there = copy_there(part, own, bytes, status);
    hf_free(own);
    return there;
}

static void vectors_there(struct hf_relax_part *part, hf_status *status) {
    const struct hf_relax_several *s = part->several;
    const size_t bytes = (size_t)s->relax->m.n * sizeof(double);
    const bool master = part->number == 0;
    part->b = copy_there(part, NULL, bytes, status);
    part->rest = copy_there(part, NULL, bytes, status);
    part->square = copy_there(part, NULL, sizeof *part->square, status);
    for (int i = 0; i < 2 && *status == HF_OK; i++) {
        if (s->exchange != HF_EXCHANGE_DK || master)
            part->x[i] = copy_there(part, NULL, bytes, status);
        if (s->exchange == HF_EXCHANGE_DC && master)
            part->board[i] = copy_there(part, NULL, bytes, status);
    }
}

static hf_status load_part(struct hf_relax_part *part) {
    const struct hf_relax_several *s = part->several;
    const hf_relax *relax = s->relax;
    const struct hf_relax_matrix *m = &relax->m;
    const struct hf_relax_matrix *truth = s->full.row_start != NULL ? &s->full : m;
    const size_t n = (size_t)m->n;
    hf_status status = list_readings(part);
    HF_TRY(status);
    const int64_t *starts = starts_there(part, &status);
    part->a = hf_relax_sparse(m);
    stencils_there(part, &status);
    if (part->a.stencils.count == 0 || relax->blocks.largest > HF_SWEEP_STENCIL_ROWS)
        part->a = matrix_there(part, m, starts, &status);
    part->truth = matrix_there(part, truth, starts, &status);
    part->inverse = copy_there(part, m->inverse, n * sizeof *m->inverse, &status);
    if (m->inner != NULL)
        part->inner = copy_there(part, m->inner, 2 * n * sizeof *m->inner, &status);
    part->block_start = copy_there(part, relax->blocks.start + part->block,
                                   ((size_t)part->blocks + 1) * sizeof(int64_t), &status);
    vectors_there(part, &status);
    return status;
}

static void unload_part(struct hf_relax_part *part) {
    for (int i = 0; i < part->held.count; i++)
        hf_ctx_release(part->ctx, part->held.p[i]);
    part->held.count = 0;
    for (int g = 0; g < HF_RELAX_DEVICES; g++) {
        hf_free(part->reads[g].span);
        part->reads[g] = (struct hf_relax_reading){0};
    }
    part->inner = NULL;
    part->sweep = part->spmv = NULL;
    for (int i = 0; i < 2; i++)
        part->x[i] = part->board[i] = NULL;
}

/* ---- the whole */

/* Blocks in order, about as many elements to each part. */
static hf_status split(struct hf_relax_several *s) {
    const hf_relax *relax = s->relax;
    const int64_t *start = relax->blocks.start, *row_start = relax->m.row_start;
    const int64_t blocks = relax->blocks.count;
    if (blocks < s->count)
        return hf_ctx_fail(relax->ctx, HF_E_ARG,
                           "%d devices cannot share %lld blocks of rows: take smaller blocks or "
                           "fewer devices",
                           s->count, (long long)blocks);
    int64_t block = 0;
    for (int g = 0; g < s->count; g++) {
        struct hf_relax_part *part = s->part[g];
        const double until = (double)row_start[relax->m.n] * (g + 1) / s->count;
        part->number = g;
        part->block = block++;
        while (block < blocks - (s->count - 1 - g) &&
               (g == s->count - 1 || (double)row_start[start[block]] < until))
            block++;
        part->blocks = block - part->block;
        part->first = start[part->block];
        part->last = start[block];
    }
    return HF_OK;
}

/* x and the board of the first part, used by all. */
static void share(struct hf_relax_several *s) {
    for (int g = 1; g < s->count; g++)
        for (int i = 0; i < 2; i++) {
            if (s->exchange == HF_EXCHANGE_DK)
                s->part[g]->x[i] = s->part[0]->x[i];
            s->part[g]->board[i] = s->part[0]->board[i];
        }
}

hf_status hf_relax_several_load(struct hf_relax_several *s) {
    hf_relax *relax = s->relax;
    const bool host = hf_ctx_is_host(s->part[0]->ctx);
    for (int g = 0; g < s->count; g++)
        unload_part(s->part[g]);
    HF_TRY(split(s));
    if (host || relax->m.dtype != HF_F64)
        HF_TRY(hf_relax_copy_matrix(relax, relax->perm, HF_F64, &s->full));
    HF_TRY(hf_relax_each_part(s, load_part));
    share(s);
    if (!host)
        hf_relax_matrix_clear(&s->full);
    return HF_OK;
}

/* Every part gets at the memory of the others, if the way of exchange needs that. */
static hf_status reach_all(struct hf_relax_several *s) {
    bool reached = true;
    for (int g = 0; g < s->count; g++)
        for (int h = 0; h < s->count; h++) {
            const struct hf_device *device = s->part[g]->ctx->device;
            if (device->reach != NULL && g != h)
                reached =
                    device->reach(s->part[g]->ctx->stream, s->part[h]->ctx->stream) && reached;
        }
    if (reached || s->exchange == HF_EXCHANGE_AMC)
        return HF_OK;
    if (s->exchange != HF_EXCHANGE_PUSH)
        return hf_ctx_fail(s->relax->ctx, HF_E_UNSUPPORTED,
                           "these devices have no access to each other's memory: leave exchange to "
                           "the library, or take amc");
    s->exchange = HF_EXCHANGE_AMC;
    return HF_OK;
}

static hf_status open_boards(struct hf_relax_several *s) {
    const size_t bytes = (size_t)s->relax->m.n * sizeof(double);
    s->x = hf_alloc_zero(bytes);
    bool there = s->x != NULL;
    for (int i = 0; i < 2 && there && s->exchange == HF_EXCHANGE_AMC; i++) {
        hf_context *ctx = s->part[0]->ctx;
        s->board[i] = hf_alloc_zero(bytes);
        there = s->board[i] != NULL;
        if (there && ctx->device->lock != NULL)
            HF_TRY(hf_ctx_check(ctx, ctx->device->lock(ctx->stream, s->board[i], bytes)));
    }
    return there ? HF_OK : hf_relax_no_memory(s->relax, "vectors of several devices");
}

static hf_status add_device(struct hf_relax_several *s, const char *name, int threads) {
    if (s->count == HF_RELAX_DEVICES)
        return hf_ctx_fail(s->relax->ctx, HF_E_ARG, "more than %d devices are given",
                           HF_RELAX_DEVICES);
    const hf_context_opts opts = {.device = name, .threads = threads};
    struct hf_relax_part *part = hf_alloc_zero(sizeof *part);
    if (part == NULL)
        return hf_relax_no_memory(s->relax, "several devices");
    const hf_status status = hf_context_create(&part->ctx, &opts);
    if (status != HF_OK) {
        hf_free(part);
        return hf_ctx_fail(s->relax->ctx, status, "device %s of devices: %s", name,
                           hf_last_error(NULL));
    }
    part->several = s;
    part->device = s->count;
    s->part[s->count++] = part;
    if (part->ctx->device != s->part[0]->ctx->device || part->ctx->device->id == HF_DEV_OPENCL)
        return hf_ctx_fail(s->relax->ctx, HF_E_ARG,
                           "device %s of devices: give GPUs of CUDA, or the cpu several times",
                           name);
    return HF_OK;
}

static hf_status add_devices(struct hf_relax_several *s, const char *devices) {
    int named = 1;
    for (const char *p = devices; *p != '\0'; p++)
        named += *p == ',';
    const int threads = s->relax->ctx->threads / named;
    while (true) {
        char name[64];
        const size_t length = strcspn(devices, ",");
        if (length == 0 || length >= sizeof name)
            return hf_ctx_fail(s->relax->ctx, HF_E_ARG,
                               "devices has a name that is empty or too long; give names with "
                               "commas between them, such as cuda:0,cuda:1");
        (void)snprintf(name, sizeof name, "%.*s", (int)length, devices);
        HF_TRY(add_device(s, name, threads > 0 ? threads : 1));
        if (devices[length] == '\0')
            return HF_OK;
        devices += length + 1;
    }
}

hf_status hf_relax_several_open(hf_relax *relax, const char *devices) {
    struct hf_relax_several *s = hf_alloc_zero(sizeof *s);
    if (s == NULL)
        return hf_relax_no_memory(relax, "several devices");
    relax->several = s;
    s->relax = relax;
    s->exchange = relax->opts.exchange;
    (void)pthread_mutex_init(&s->team.mutex, NULL);
    (void)pthread_cond_init(&s->team.all, NULL);
    (void)pthread_cond_init(&s->team.news, NULL);
    HF_TRY(add_devices(s, devices));
    HF_TRY(reach_all(s));
    HF_TRY(open_boards(s));
    return hf_relax_several_load(s);
}

void hf_relax_several_close(struct hf_relax_several *s) {
    if (s == NULL)
        return;
    for (int i = 0; i < 2 && s->board[i] != NULL; i++) {
        hf_context *ctx = s->part[0]->ctx;
        if (ctx->device->unlock != NULL)
            ctx->device->unlock(ctx->stream, s->board[i]);
        hf_free(s->board[i]);
    }
    for (int g = 0; g < s->count + s->lost; g++) {
        struct hf_relax_part *part = g < s->count ? s->part[g] : s->gone[g - s->count];
        unload_part(part);
        hf_context_destroy(part->ctx);
        hf_free(part);
    }
    (void)pthread_mutex_destroy(&s->team.mutex);
    (void)pthread_cond_destroy(&s->team.all);
    (void)pthread_cond_destroy(&s->team.news);
    hf_relax_matrix_clear(&s->full);
    hf_free(s->x);
    hf_free(s);
}
