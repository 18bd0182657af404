/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/guard/device_copies.h"
#include "algo/kmeans/loop/labels.h"
#include "algo/kmeans/loop/mirror.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "core/array.h"
#include "guard/guard.h"
#include "ops/audit/audit.h"
#include <string.h>

#define FEW 3 /* copies whose labels are signed on the device; those of more come to the host */

/* An array of the problem, and where those of all copies lie one behind the other. */
struct piece {
    void *own, *all;
    size_t bytes;
};

#define IN 8  /* pieces that a call begins with, */
#define OUT 7 /* and those that it ends with */

static size_t center_bytes(const struct hf_lloyd_args *a) {
    return (size_t)(a->sums->k * a->sums->d) * hf_dtype_bytes(a->rule.type);
}

static size_t label_bytes(const struct hf_lloyd_args *a) {
    return (size_t)a->x.rows * sizeof(int32_t);
}

static size_t row_bytes(const struct hf_lloyd_args *a) {
    return (size_t)(a->x.rows * a->x.cols) * hf_dtype_bytes(a->x.dtype);
}

static void *writable(const void *p) { return (void *)(uintptr_t)p; }

static void list_in(const struct hf_copies *c, struct piece p[IN]) {
    const struct hf_lloyd_args *a = c->asked;
    const struct hf_lloyd_args *all = &c->args;
    const struct hf_sums *s = a->sums;
    const size_t clusters = (size_t)(s->limbs * s->k) * sizeof(int64_t);
    const size_t columns = (size_t)s->d * sizeof(double);
    p[0] = (struct piece){s->sum, c->sums.sum, clusters * (size_t)s->d};
    p[1] = (struct piece){s->count, c->sums.count, (size_t)s->k * sizeof(int64_t)};
    p[2] = (struct piece){s->weight, c->sums.weight, s->weight ? clusters : 0};
    p[3] = (struct piece){a->current, all->current, center_bytes(a)};
    p[4] = (struct piece){writable(s->mult), writable(c->sums.mult), columns};
    p[5] = (struct piece){writable(a->rule.unit), writable(all->rule.unit), columns};
    p[6] = (struct piece){writable(a->weights), writable(all->weights),
                          a->weights ? (size_t)a->x.rows * sizeof(double) : 0};
    p[7] = (struct piece){writable(&c->state), all->state, sizeof c->state};
}

/* Centroids before the last move are there only where there was one. */
static bool has_moved(const struct hf_lloyd_state *state) {
    const bool last = state->stop == HF_STOP_NONE || state->stop == HF_STOP_TOL;
    return state->iterations > 1 || (state->iterations == 1 && last);
}

/* Of copy i, which says what there is. */
static void list_out(const struct hf_copies *c, int i, struct piece p[OUT]) {
    const struct hf_lloyd_args *a = c->asked;
    const struct hf_lloyd_args *all = &c->args;
    struct piece in[IN];
    list_in(c, in);
    memcpy(p, in, 4 * sizeof *p);
    p[4] =
        (struct piece){a->previous, all->previous, has_moved(&all->state[i]) ? center_bytes(a) : 0};
    p[5] = (struct piece){a->state, all->state, sizeof *a->state};
    p[6] = (struct piece){a->history, all->history, (size_t)a->count * sizeof *a->history};
}

void hf_copies_describe(struct hf_copies *c, struct hf_fit *fit, const struct hf_lloyd_args *asked,
                        int count) {
    *c = (struct hf_copies){.fit = fit, .asked = asked, .count = count, .args = *asked};
    c->sums = *asked->sums;
    c->args.x = hf_array_view(asked->x.data, asked->x.dtype, count * asked->x.rows, asked->x.cols);
    c->args.batch = count;
    c->args.sums = &c->sums;
}

/* ---- memory */

static void carve_device(const struct hf_lloyd_args *asked, int count, hf_carve *carve, void **rows,
                         int32_t **labels) {
    *rows = hf_mirror_take(carve, (size_t)count * row_bytes(asked));
    *labels = hf_mirror_take(carve, (size_t)count * label_bytes(asked));
}

size_t hf_copies_device_bytes(const struct hf_lloyd_args *asked, int count) {
    hf_carve carve = {0};
    void *rows;
    int32_t *labels;
    carve_device(asked, count, &carve, &rows, &labels);
    return carve.used;
}

hf_status hf_copies_take_rows(hf_context *ctx, const struct hf_lloyd_args *asked, int count,
                              void *device) {
    for (int i = 0; i < count; i++)
        HF_TRY(hf_ctx_copy_rows(ctx, (char *)device + (size_t)i * row_bytes(asked), &asked->x));
    return HF_OK;
}

/* What holds for a problem alone: tol, total_square, slack, weight_mult of all copies. */
static void fill_each(struct hf_copies *c, double *each) {
    const struct hf_lloyd_args *a = c->asked;
    const double one[4] = {*a->tol, *a->total_square, *a->slack, *a->weight_mult};
    for (int i = 0; each && i < 4 * c->count; i++)
        each[i] = one[i / c->count];
    c->args.tol = each;
    c->args.total_square = each ? each + c->count : NULL;
    c->args.slack = each ? each + 2 * (size_t)c->count : NULL;
    c->args.weight_mult = each ? each + 3 * (size_t)c->count : NULL;
}

/* carve->base NULL: measure. */
static void carve_host(struct hf_copies *c, hf_carve *carve) {
    const struct hf_lloyd_args *a = c->asked;
    const struct hf_sums *s = a->sums;
    const size_t count = (size_t)c->count;
    const size_t words = count * (size_t)(s->limbs * s->k) * sizeof(int64_t);
    const size_t columns = count * (size_t)s->d * sizeof(double);
    c->sums.sum = hf_carve_take(carve, words * (size_t)s->d);
    c->sums.count = hf_carve_take(carve, count * (size_t)s->k * sizeof(int64_t));
    c->sums.weight = s->weight ? hf_carve_take(carve, words) : NULL;
    c->sums.mult = hf_carve_take(carve, columns);
    c->args.rule.unit = hf_carve_take(carve, columns);
    c->args.weights =
        a->weights ? hf_carve_take(carve, count * (size_t)a->x.rows * sizeof(double)) : NULL;
    c->args.current = hf_carve_take(carve, count * center_bytes(a));
    c->args.previous = hf_carve_take(carve, count * center_bytes(a));
    c->args.state = hf_carve_take(carve, count * sizeof *a->state);
    c->args.history = hf_carve_take(carve, count * (size_t)a->count * sizeof *a->history);
    fill_each(c, hf_carve_take(carve, 4 * count * sizeof(double)));
    c->sign = hf_carve_take(carve, count * sizeof *c->sign);
    c->unit = hf_carve_take(carve, count * sizeof *c->unit);
    c->args.unit = c->unit;
}

static hf_status take_device(struct hf_copies *c, void *device) {
    hf_context *ctx = c->fit->problem.ctx;
    const size_t bytes = hf_copies_device_bytes(c->asked, c->count);
    hf_carve carve = {.base = device};
    if (!device) {
        c->device = bytes <= hf_ctx_room(ctx) ? hf_ctx_alloc(ctx, bytes) : NULL;
        if (!c->device)
            return HF_E_NOMEM;
        carve.base = c->device;
        HF_TRY(hf_copies_take_rows(ctx, c->asked, c->count, c->device));
    }
    carve_device(c->asked, c->count, &carve, &c->args.x.data, &c->args.labels);
    return HF_OK;
}

hf_status hf_copies_open(struct hf_copies *c, struct hf_fit *fit, const struct hf_lloyd_args *asked,
                         int count, void *device) {
    hf_carve carve = {0};
    hf_copies_describe(c, fit, asked, count);
    c->state = *asked->state;
    carve_host(c, &carve);
    c->host = hf_alloc(carve.used);
    if (!c->host)
        return hf_ctx_fail(fit->problem.ctx, HF_E_NOMEM, "no memory for %d copies of %lld clusters",
                           count, (long long)asked->sums->k);
    carve = (hf_carve){.base = c->host};
    carve_host(c, &carve);
    const hf_status status = take_device(c, device);
    if (status != HF_OK)
        hf_copies_close(c);
    return status;
}

void hf_copies_close(struct hf_copies *c) {
    hf_ctx_release(c->fit->problem.ctx, c->device);
    hf_free(c->host);
    c->device = c->host = NULL;
}

/* ---- a call */

/* All as they came in. */
static hf_status begin(const struct hf_copies *c) {
    const struct hf_lloyd_args *a = c->asked;
    hf_context *ctx = c->fit->problem.ctx;
    struct piece p[IN];
    list_in(c, p);
    for (int i = 0; i < IN; i++)
        for (int at = 0; at < c->count && p[i].bytes > 0; at++)
            memcpy((char *)p[i].all + (size_t)at * p[i].bytes, p[i].own, p[i].bytes);
    memset(c->unit, 0xff, (size_t)c->count * sizeof *c->unit);
    memset(c->args.history, 0, (size_t)(c->count * a->count) * sizeof *a->history);
    if (a->first == 0) /* no row is in a cluster */
        return hf_ctx_fill(ctx, c->args.labels, 0xff, (size_t)c->count * label_bytes(a));
    for (int at = 0; at < c->count; at++)
        HF_TRY(hf_ctx_copy(ctx, c->args.labels + at * a->x.rows, a->labels, label_bytes(a)));
    return HF_OK;
}

static hf_status sign(hf_context *ctx, bool joint, const void *words, size_t bytes,
                      struct hf_audit_found *found) {
    const struct hf_audit_args args = {
        .words = words, .n_words = (int64_t)(bytes / sizeof(uint32_t)), .found = found};
    const struct hf_kernel *kernel = NULL;
    return joint ? hf_queue(ctx, HF_OP_AUDIT, &args, &kernel) : hf_run(ctx, HF_OP_AUDIT, &args);
}

/* As a rule the copies agree. So the labels of the first are those of the problem already while the
 * device is at work, and the host gets the memory ready that they will come to. Not where the call
 * begins with labels. */
static hf_status give_early(struct hf_copies *c) {
    struct hf_fit *fit = c->fit;
    struct hf_labels *labels = &fit->labels;
    if (!labels->device || c->asked->labels != labels->device || c->asked->first > 0)
        return HF_OK;
    c->given = true;
    HF_TRY(hf_ctx_copy(fit->problem.ctx, c->asked->labels, c->args.labels, label_bytes(c->asked)));
    HF_TRY(hf_labels_start_check(&fit->problem, labels));
    hf_labels_touch(&fit->problem, labels);
    return HF_OK;
}

/* The call, with the signatures of a few copies' labels. */
static hf_status run_signed(struct hf_copies *c, struct hf_audit_found *rows,
                            struct hf_audit_found labels[FEW]) {
    hf_context *ctx = c->fit->problem.ctx;
    const bool joint = hf_ctx_begin_calls(ctx);
    const struct hf_kernel *lloyd = NULL;
    hf_status status =
        c->rows ? sign(ctx, joint, c->args.x.data, row_bytes(c->asked), rows) : HF_OK;
    if (status == HF_OK)
        status = joint ? hf_queue(ctx, HF_OP_LLOYD, &c->args, &lloyd)
                       : hf_run(ctx, HF_OP_LLOYD, &c->args);
    for (int i = 0; status == HF_OK && i < c->count; i++)
        status = sign(ctx, joint, c->args.labels + i * c->asked->x.rows, label_bytes(c->asked),
                      &labels[i]);
    if (status == HF_OK && joint)
        status = give_early(c);
    return joint ? hf_ctx_end_calls(ctx, status) : status;
}

static hf_status run_few(struct hf_copies *c) {
    struct hf_audit_found rows = {0};
    struct hf_audit_found labels[FEW] = {{0}};
    HF_TRY(run_signed(c, &rows, labels));
    for (int i = 0; i < c->count; i++)
        c->sign[i] = labels[i].sign;
    if (c->rows)
        *c->rows = rows.sign;
    return HF_OK;
}

static hf_status run_many(struct hf_copies *c) {
    hf_context *ctx = c->fit->problem.ctx;
    const size_t bytes = label_bytes(c->asked);
    HF_TRY(hf_run(ctx, HF_OP_LLOYD, &c->args));
    char *labels = hf_alloc((size_t)c->count * bytes);
    if (!labels)
        return HF_E_NOMEM;
    const hf_status status = hf_ctx_copy(ctx, labels, c->args.labels, (size_t)c->count * bytes);
    for (int i = 0; i < c->count; i++)
        c->sign[i] = hf_guard_sign(labels + (size_t)i * bytes, bytes);
    hf_free(labels);
    return status;
}

hf_status hf_copies_once(hf_context *ctx, const struct hf_lloyd_state *state) {
    if (state->calls == 1)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_CHECK, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "iterations of the device were made %d times: the machine computes wrongly; "
                       "run it again, and if that fails too, on another machine",
                       (int)state->calls);
}

hf_status hf_copies_run(struct hf_copies *c) {
    HF_TRY(begin(c));
    HF_TRY(c->count <= FEW ? run_few(c) : run_many(c));
    for (int i = 0; i < c->count; i++)
        HF_TRY(hf_copies_once(c->fit->problem.ctx, &c->args.state[i]));
    return HF_OK;
}

bool hf_copies_agree(const struct hf_copies *c, int i, int j) {
    struct piece p[OUT];
    list_out(c, i, p);
    bool same = c->sign[i] == c->sign[j];
    for (int at = 0; at < OUT; at++)
        same &= p[at].bytes == 0 ||
                memcmp((const char *)p[at].all + (size_t)i * p[at].bytes,
                       (const char *)p[at].all + (size_t)j * p[at].bytes, p[at].bytes) == 0;
    return same;
}

hf_status hf_copies_take_back(const struct hf_copies *c) {
    struct hf_fit *fit = c->fit;
    if (!c->given)
        return HF_OK;
    fit->labels.checking = false;
    return hf_labels_clear(&fit->problem, &fit->labels);
}

hf_status hf_copies_give(const struct hf_copies *c, int i) {
    struct piece p[OUT];
    list_out(c, i, p);
    for (int at = 0; at < OUT; at++)
        if (p[at].bytes > 0)
            memcpy(p[at].own, (const char *)p[at].all + (size_t)i * p[at].bytes, p[at].bytes);
    if (c->given && i == 0)
        return HF_OK;
    c->fit->labels.checking = false;
    return hf_ctx_copy(c->fit->problem.ctx, c->asked->labels, c->args.labels + i * c->asked->x.rows,
                       label_bytes(c->asked));
}
