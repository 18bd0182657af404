/* SPDX-License-Identifier: Apache-2.0
 * What kernels read of a set-up. On the CPU those are its own arrays. A device gets copies, the
 * matrix twice: what iterations read, and what the true residual is taken from. */
#include "algo/relax/setup.h"

#include "base/parallel.h"
#include "core/array.h"
#include "core/run.h"
#include "ops/gather/gather.h"
#include "ops/wordsum/wordsum.h"
#include <assert.h>
#include <string.h>

/* Memory there, which `held` notes. NULL after a failure. */
static void *take_there(hf_relax *relax, struct hf_relax_held *held, size_t bytes,
                        hf_status *status) {
    void *there = hf_ctx_alloc(relax->ctx, bytes);
    if (there == NULL) {
        *status = hf_ctx_fail(relax->ctx, HF_E_NOMEM,
                              "%s has no memory for %llu bytes of the matrix that is set up",
                              hf_context_device(relax->ctx), (unsigned long long)bytes);
        return NULL;
    }
    assert(held->count < HF_RELAX_HELD);
    held->bytes[held->count] = 0;
    held->p[held->count++] = there;
    relax->bytes += bytes;
    return there;
}

/* The checksum of piece i of what is held, to row `when` of the sums. */
static hf_status sum_there(hf_relax *relax, struct hf_relax_held *held, int i, int64_t when) {
    const struct hf_wordsum_args args = {.data = held->p[i],
                                         .bytes = (int64_t)held->bytes[i],
                                         .sum = held->sums + when * HF_RELAX_HELD + i};
    return hf_queue(relax->ctx, HF_OP_WORDSUM, &args, &relax->kernel[HF_CALL_WORDSUM]);
}

void *hf_relax_copy_there(hf_relax *relax, struct hf_relax_held *held, const void *p, size_t bytes,
                          hf_status *status) {
    if (*status != HF_OK || bytes == 0)
        return NULL;
    if (held->sums == NULL)
        held->sums = take_there(relax, held, sizeof(uint64_t[2][HF_RELAX_HELD]), status);
    void *there = *status == HF_OK ? take_there(relax, held, bytes, status) : NULL;
    if (there == NULL || p == NULL)
        return there;
    const int i = held->count - 1;
    held->bytes[i] = bytes;
    *status = hf_ctx_copy(relax->ctx, there, p, bytes);
    if (*status == HF_OK)
        *status = sum_there(relax, held, i, 0);
    return there;
}

hf_status hf_relax_compare_there(hf_relax *relax, struct hf_relax_held *held, bool *same) {
    uint64_t sums[2][HF_RELAX_HELD];
    *same = true;
    if (held->sums == NULL)
        return HF_OK;
    for (int i = 0; i < held->count; i++)
        if (held->bytes[i] > 0)
            HF_TRY(sum_there(relax, held, i, 1));
    HF_TRY(hf_ctx_copy(relax->ctx, sums, held->sums, sizeof sums));
    for (int i = 0; i < held->count; i++)
        *same = *same && (held->bytes[i] == 0 || sums[0][i] == sums[1][i]);
    return HF_OK;
}

void hf_relax_release_there(hf_relax *relax, struct hf_relax_held *held) {
    for (int i = 0; i < held->count; i++)
        hf_ctx_release(relax->ctx, held->p[i]);
    held->count = 0;
    held->sums = NULL;
}

/* The same for an array that there may not be. */
static void *copy_there(hf_relax *relax, const void *p, size_t bytes, hf_status *status) {
    return p != NULL ? hf_relax_copy_there(relax, &relax->seen.held, p, bytes, status) : NULL;
}

static struct hf_sparse matrix_there(hf_relax *relax, const struct hf_relax_matrix *m,
                                     hf_status *status) {
    struct hf_sparse a = hf_relax_sparse(m);
    const size_t elements = (size_t)a.elements, rows = (size_t)a.rows;
    a.row_start = copy_there(relax, a.row_start, (rows + 1) * sizeof *a.row_start, status);
    a.column = copy_there(relax, a.column, elements * sizeof *a.column, status);
    a.value = copy_there(relax, a.value, elements * hf_dtype_bytes(a.dtype), status);
    return a;
}

/* The caller's values in the order of places. */
static hf_status show_truth(hf_relax *relax) {
    struct hf_relax_matrix full = {0};
    hf_status status = HF_OK;
    if (relax->m.dtype == HF_F64) {
        relax->seen.truth = matrix_there(relax, &relax->m, &status);
        return status;
    }
    const uint64_t before = relax->bytes;
    status = hf_relax_copy_matrix(relax, relax->perm, HF_F64, &full);
    relax->bytes = before;
    if (status == HF_OK)
        relax->seen.truth = matrix_there(relax, &full, &status);
    hf_relax_matrix_clear(&full);
    return status;
}

static void show_patches(hf_relax *relax, hf_status *status) {
    const struct hf_relax_patches *own = &relax->patches;
    struct hf_relax_patches *p = &relax->seen.patches;
    const size_t places = (size_t)own->start[own->count], n = (size_t)relax->m.n;
    const size_t factor = (size_t)own->envelope[places] * hf_dtype_bytes(relax->opts.inside);
    *p = *own;
    p->start = copy_there(relax, own->start, ((size_t)own->count + 1) * sizeof *p->start, status);
    p->row = copy_there(relax, own->row, places * sizeof *p->row, status);
    p->envelope = copy_there(relax, own->envelope, (places + 1) * sizeof *p->envelope, status);
    p->inverse = copy_there(relax, own->inverse, (size_t)own->count, status);
    p->factor = copy_there(relax, own->factor, factor, status);
    p->own_start = copy_there(relax, own->own_start, (n + 1) * sizeof *p->own_start, status);
    p->own = copy_there(relax, own->own, (size_t)own->own_start[n] * sizeof *p->own, status);
}

/* perm and its inverse. */
static void show_order(hf_relax *relax, hf_status *status) {
    const size_t bytes = (size_t)relax->m.n * sizeof(int64_t);
    int64_t *order = (int64_t *)(void *)relax->scratch; /* as wide */
    if (relax->perm == NULL)
        return;
    for (int64_t p = 0; p < relax->m.n; p++)
        order[p] = relax->perm[p];
    relax->seen.row_of = copy_there(relax, order, bytes, status);
    for (int64_t p = 0; p < relax->m.n; p++)
        order[relax->perm[p]] = p;
    relax->seen.place_of = copy_there(relax, order, bytes, status);
}

struct hf_stencils hf_relax_stencils_there(const struct hf_stencils *made, int64_t n,
                                           hf_relax_copy *copy, void *user, hf_status *status) {
    const size_t rows = (size_t)n, count = (size_t)made->count, elements = (size_t)made->elements;
    struct hf_stencils seen = *made;
    seen.of_row = copy(user, made->of_row, rows, status);
    seen.start = copy(user, made->start, (count + 1) * sizeof *made->start, status);
    seen.offset = copy(user, made->offset, elements * sizeof *made->offset, status);
    seen.value = copy(user, made->value, elements * sizeof *made->value, status);
    seen.inverse = copy(user, made->inverse, count * sizeof *made->inverse, status);
    seen.diagonal = copy(user, made->diagonal, rows * sizeof *made->diagonal, status);
    return seen;
}

static void *copy_seen(void *relax, const void *p, size_t bytes, hf_status *status) {
    return copy_there(relax, p, bytes, status);
}

/* Rows that are stencils. */
static void show_stencils(hf_relax *relax, hf_status *status) {
    const struct hf_sparse a = hf_relax_sparse(&relax->m);
    struct hf_stencils made;
    if (hf_stencils_make(&a, relax->m.inverse, 0, a.rows, &made) != HF_OK) {
        *status = hf_relax_no_memory(relax, "the stencils of the rows");
        return;
    }
    if (made.count > 0)
        relax->seen.a.stencils = hf_relax_stencils_there(&made, a.rows, copy_seen, relax, status);
    hf_stencils_clear(&made);
}

/* Rows in slices. */
static void show_slices(hf_relax *relax, hf_status *status) {
    struct hf_slices made, *s = &relax->seen.slices;
    *status = hf_relax_slice_for_device(relax, &made);
    if (*status != HF_OK || made.count == 0)
        return;
    const size_t count = (size_t)made.count, places = (size_t)made.slots * SLICE_ROWS;
    const size_t columns = (size_t)made.lists * SLICE_ROWS;
    *s = made;
    s->range_row = NULL;
    s->range_slice = NULL;
    s->slot = copy_there(relax, made.slot, (count + 1) * sizeof *s->slot, status);
    s->list = copy_there(relax, made.list, count * sizeof *s->list, status);
    s->base = copy_there(relax, made.base, (size_t)made.slots * sizeof *s->base, status);
    s->column = copy_there(relax, made.column, columns * sizeof *s->column, status);
    s->value = copy_there(relax, made.value, places * hf_dtype_bytes(relax->m.dtype), status);
    relax->seen.a.slices = s;
    hf_slices_clear(&made);
}

/* The copy that iterations read: as stencils, as slices, or else as it is. */
static void show_matrix(hf_relax *relax, hf_status *status) {
    const hf_relax_method method = relax->opts.method;
    const bool whole_rows = method == HF_RELAX_ASYNC || method == HF_RELAX_GAUSS_SEIDEL;
    struct hf_sparse *seen = &relax->seen.a;
    *seen = hf_relax_sparse(&relax->m);
    seen->row_start = NULL;
    seen->column = NULL;
    seen->value = NULL;
    show_stencils(relax, status);
    if (*status == HF_OK && !whole_rows && seen->stencils.count == 0)
        show_slices(relax, status);
    const struct hf_stencils stencils = seen->stencils;
    if (*status != HF_OK || (!whole_rows && (stencils.count > 0 || seen->slices != NULL)))
        return;
    *seen = matrix_there(relax, &relax->m, status);
    seen->stencils = stencils;
}

static hf_status look_there(hf_relax *relax) {
    struct hf_relax_seen *seen = &relax->seen;
    const struct hf_relax_matrix *m = &relax->m;
    const size_t n = (size_t)m->n, blocks = (size_t)relax->blocks.count;
    hf_status status = HF_OK;
    hf_relax_look_away(relax);
    show_matrix(relax, &status);
    HF_TRY(status);
    HF_TRY(show_truth(relax));
    seen->inverse = copy_there(relax, m->inverse, n * sizeof *m->inverse, &status);
    seen->inner = copy_there(relax, m->inner, 2 * n * sizeof *m->inner, &status);
    seen->block_start =
        copy_there(relax, relax->blocks.start, (blocks + 1) * sizeof *seen->block_start, &status);
    seen->colour_start =
        copy_there(relax, relax->colours.start,
                   ((size_t)relax->colours.count + 1) * sizeof *seen->colour_start, &status);
    seen->colour_block =
        copy_there(relax, relax->colours.block, blocks * sizeof *seen->colour_block, &status);
    seen->coarse =
        copy_there(relax, relax->coarse, blocks * blocks * sizeof *seen->coarse, &status);
    seen->unread = hf_relax_copy_there(relax, &seen->held, NULL, sizeof *seen->unread, &status);
    if (relax->patched)
        show_patches(relax, &status);
    show_order(relax, &status);
    return status;
}

hf_status hf_relax_look(hf_relax *relax) {
    if (hf_relax_on_device(relax))
        return look_there(relax);
    struct hf_sparse inside = hf_relax_sparse(&relax->m);
    inside.slices = relax->slices.count > 0 ? &relax->slices : NULL;
    relax->seen = (struct hf_relax_seen){.a = inside,
                                         .truth = hf_relax_csr(&relax->a),
                                         .inverse = relax->m.inverse,
                                         .inner = relax->m.inner,
                                         .before = relax->m.before,
                                         .block_start = relax->blocks.start,
                                         .colour_start = relax->colours.start,
                                         .colour_block = relax->colours.block,
                                         .colour_row = relax->colours.row,
                                         .patches = relax->patches,
                                         .coarse = relax->coarse};
    return HF_OK;
}

void hf_relax_look_away(hf_relax *relax) {
    hf_relax_release_there(relax, &relax->seen.held);
    relax->seen = (struct hf_relax_seen){.unread = NULL};
}

hf_status hf_relax_zero(hf_relax *relax, double *v) {
    return hf_ctx_fill(relax->ctx, v, 0, (size_t)relax->a.rows * sizeof *v);
}

hf_status hf_relax_bring(hf_relax *relax, const double *v, double *places) {
    const size_t bytes = (size_t)relax->m.n * sizeof *v;
    if (relax->perm == NULL)
        return hf_ctx_copy(relax->ctx, places, v, bytes);
    for (int64_t p = 0; p < relax->m.n; p++)
        relax->scratch[p] = v[relax->perm[p]];
    return hf_ctx_copy(relax->ctx, places, relax->scratch, bytes);
}

hf_status hf_relax_fetch(hf_relax *relax, const double *places, double *v) {
    const size_t bytes = (size_t)relax->m.n * sizeof *v;
    if (relax->perm == NULL)
        return hf_ctx_copy(relax->ctx, v, places, bytes);
    HF_TRY(hf_ctx_copy(relax->ctx, relax->scratch, places, bytes));
    for (int64_t p = 0; p < relax->m.n; p++)
        v[relax->perm[p]] = relax->scratch[p];
    return HF_OK;
}

/* out[i] = v[order[i]], on the device */
static hf_status reorder(hf_relax *relax, const hf_array *v, const int64_t *order, double *out) {
    const struct hf_gather_args args = {
        .x = *v, .index = order, .count = v->rows, .type = HF_F64, .out = out};
    return hf_queue(relax->ctx, HF_OP_GATHER, &args, &relax->kernel[HF_CALL_GATHER]);
}

static hf_array column_view(const hf_array *a, int64_t j) {
    hf_array column = *a;
    column.data = (double *)a->data + j;
    column.cols = 1;
    column.row_stride = hf_array_stride(a);
    return column;
}

static bool is_there(const hf_relax *relax, const hf_array *a) {
    return hf_relax_on_device(relax) && relax->ctx->device->owns(relax->ctx->stream, a->data);
}

double *hf_relax_column_there(const hf_relax *relax, const hf_array *a, int64_t j) {
    const bool dense = a->rows == 1 || hf_array_stride(a) == 1;
    const bool near = !hf_relax_on_device(relax) || is_there(relax, a);
    return near && relax->perm == NULL && dense && a->dtype == HF_F64 ? (double *)a->data + j
                                                                      : NULL;
}

#define MOVE_GRAIN 16384 /* rows of a range of the loops */

struct move {
    const int32_t *perm; /* [n] NULL: places are rows */
    double *row, *place; /* [n, stride], [n] */
    int64_t stride;
};

static void move_in(void *user, int worker, int64_t begin, int64_t end) {
    const struct move *m = user;
    (void)worker;
    for (int64_t p = begin; p < end; p++)
        m->place[p] = m->row[(m->perm != NULL ? m->perm[p] : p) * m->stride];
}

static void move_out(void *user, int worker, int64_t begin, int64_t end) {
    const struct move *m = user;
    (void)worker;
    for (int64_t p = begin; p < end; p++)
        m->row[(m->perm != NULL ? m->perm[p] : p) * m->stride] = m->place[p];
}

hf_status hf_relax_get_column(hf_relax *relax, const hf_array *a, int64_t j, double *v) {
    const hf_array column = column_view(a, j);
    const double *data = column.data;
    if (is_there(relax, a))
        return relax->perm != NULL ? reorder(relax, &column, relax->seen.row_of, v)
                                   : hf_ctx_copy_rows(relax->ctx, v, &column);
    double *places = hf_relax_on_device(relax) ? relax->scratch : v;
    struct move move = {relax->perm, (double *)(uintptr_t)data, places, column.row_stride};
    hf_parallel_for(hf_ctx_pool(relax->ctx), a->rows, MOVE_GRAIN, move_in, &move);
    return places == v ? HF_OK : hf_ctx_copy(relax->ctx, v, places, (size_t)a->rows * sizeof *v);
}

hf_status hf_relax_put_column(hf_relax *relax, const hf_array *a, int64_t j, const double *v) {
    const hf_array column = column_view(a, j);
    double *data = column.data;
    if (is_there(relax, a)) {
        const double *rows = v;
        if (relax->perm != NULL) {
            const hf_array places = hf_array_view((void *)(uintptr_t)v, HF_F64, a->rows, 1);
            HF_TRY(reorder(relax, &places, relax->seen.place_of, relax->vector[9]));
            rows = relax->vector[9];
        }
        const struct hf_row_copy copy = {.dst = data,
                                         .src = rows,
                                         .dst_step = (size_t)column.row_stride * sizeof *v,
                                         .src_step = sizeof *v,
                                         .row_bytes = sizeof *v,
                                         .rows = a->rows};
        return hf_ctx_check(relax->ctx, relax->ctx->device->copy_rows(relax->ctx->stream, &copy));
    }
    const double *places = v;
    if (hf_relax_on_device(relax)) {
        HF_TRY(hf_ctx_copy(relax->ctx, relax->scratch, v, (size_t)a->rows * sizeof *v));
        places = relax->scratch;
    }
    struct move move = {relax->perm, data, (double *)(uintptr_t)places, column.row_stride};
    hf_parallel_for(hf_ctx_pool(relax->ctx), a->rows, MOVE_GRAIN, move_out, &move);
    return HF_OK;
}
