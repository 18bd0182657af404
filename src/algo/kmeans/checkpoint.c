/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/checkpoint.h"
#include "algo/kmeans/fit.h"
#include "algo/kmeans/loop/clusters.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ops/reference.h"
#include <limits.h>
#include <math.h>
#include <string.h>

#define HEAD_BYTES 24
#define COUNT_FIELD(member, type, text) +1
#define FIELDS (0 HF_CHECKPOINT_FIELDS(COUNT_FIELD))
#define BODY_AT (HEAD_BYTES + 8 * FIELDS)
#define CRC_BYTES 4
#define HISTORY_BYTES 72 /* 9 numbers an iteration */
#define RELOCATION_BYTES 16
#define START_BYTES 8
#define MARK_ROWS 256                  /* that stand for all of them, */
#define MARK_LEAST 16                  /* fewer where they are long */
#define MARK_BYTES ((int64_t)16 << 20) /* as float64 */
#define MARK_STREAM ((uint64_t)0x4d41524b << 32)

static const unsigned char magic[8] = HF_CHECKPOINT_MAGIC; /* without the 0 at its end */

static uint64_t get_u64(const unsigned char *p) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static void put_u64(unsigned char *p, uint64_t v) {
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static uint32_t get_u32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_u32(unsigned char *p, uint32_t v) {
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

/* A field of either type from and to its 8 bytes. */
static void read_field(void *member, const unsigned char *p) {
    const uint64_t v = get_u64(p);
    memcpy(member, &v, 8);
}

static void write_field(unsigned char *p, const void *member) {
    uint64_t v;
    memcpy(&v, member, 8);
    put_u64(p, v);
}

/* ---- reading */

static bool in_range(int64_t v, int64_t low, int64_t high) { return v >= low && v <= high; }

static bool fields_make_sense(const struct hf_checkpoint *c) {
    return in_range(c->n_all, 1, INT64_MAX / 64) && in_range(c->n, 1, c->n_all) &&
           in_range(c->d, 1, INT64_MAX / 64) && in_range(c->k, 1, c->n) &&
           in_range(c->k, 1, INT32_MAX) && in_range(c->n_init, 1, INT_MAX) &&
           in_range(c->restart, 0, c->n_init) && in_range(c->iteration, 0, INT_MAX) &&
           in_range(c->best_restart, -1, c->restart - 1) &&
           in_range(c->best_iterations, 0, INT_MAX) &&
           in_range(c->best_stop, HF_STOP_NONE, HF_STOP_CANCELLED) &&
           in_range(c->relocated, 0, c->iteration > 0 ? c->k : 0) &&
           (c->relocated == 0 || c->empty == HF_EMPTY_RELOCATE) &&
           (c->best_iterations == 0 || c->best_restart >= 0) && !isnan(c->best_inertia) &&
           (c->restart < c->n_init || c->iteration == 0) &&
           in_range(c->start_entries, 0, c->iteration > 0 ? 0 : INT64_MAX / 64) &&
           isfinite(c->start_unit) && c->start_unit >= 0 &&
           (c->restart < c->n_init || c->best_restart >= 0);
}

/* The next part of the body; NULL when it is empty. False when the file is too short for it. */
static bool take_part(const unsigned char *data, uint64_t end, uint64_t *at, int64_t count,
                      int64_t each, const unsigned char **part) {
    size_t bytes;
    if (!hf_mul_size(count, each, &bytes) || bytes > end - *at)
        return false;
    *part = count > 0 ? data + *at : NULL;
    *at += bytes;
    return true;
}

static bool find_parts(const unsigned char *data, uint64_t end, struct hf_checkpoint *c) {
    uint64_t at = BODY_AT;
    size_t elements;
    if (!hf_mul3_size(c->k, c->d, c->element_bytes, &elements) || elements > INT64_MAX)
        return false;
    const int64_t centers = (int64_t)elements;
    const bool all =
        take_part(data, end, &at, c->iteration > 0, centers, &c->current) &&
        take_part(data, end, &at, c->iteration > 0, centers, &c->previous) &&
        take_part(data, end, &at, c->best_restart >= 0, centers, &c->best) &&
        take_part(data, end, &at, c->iteration, HISTORY_BYTES, &c->history) &&
        take_part(data, end, &at, c->best_iterations, HISTORY_BYTES, &c->best_history) &&
        take_part(data, end, &at, c->relocated, RELOCATION_BYTES, &c->relocations) &&
        take_part(data, end, &at, c->start_entries, START_BYTES, &c->start);
    return all && at == end;
}

static bool relocations_make_sense(const struct hf_checkpoint *c) {
    for (int64_t i = 0; i < c->relocated; i++) {
        const unsigned char *p = c->relocations + i * RELOCATION_BYTES;
        if (!in_range((int64_t)get_u64(p), 0, c->n - 1) ||
            !in_range((int64_t)get_u64(p + 8), 0, c->k - 1))
            return false;
    }
    return true;
}

static bool centers_are_finite(const struct hf_checkpoint *c) {
    const unsigned char *const parts[3] = {c->current, c->previous, c->best};
    for (int part = 0; part < 3; part++) {
        const unsigned char *p = parts[part];
        for (int64_t i = 0; p && i < c->k * c->d; i++, p += c->element_bytes) {
            float f = 0;
            double v = 0;
            if (c->element_bytes == 4)
                memcpy(&f, p, sizeof(f));
            else
                memcpy(&v, p, sizeof(v));
            if (!isfinite(f) || !isfinite(v))
                return false;
        }
    }
    return true;
}

hf_status hf_checkpoint_parse(const void *data, size_t bytes, struct hf_checkpoint *out,
                              hf_error *err) {
    const unsigned char *p = data;
    if (bytes == 0 || memcmp(p, magic, bytes < sizeof(magic) ? bytes : sizeof(magic)) != 0)
        return hf_fail(err, HF_E_DATA, "not a k-means checkpoint of holdfast");
    if (bytes < BODY_AT + CRC_BYTES)
        return hf_fail(err, HF_E_CORRUPT, "the checkpoint is damaged: it has only %llu bytes",
                       (unsigned long long)bytes);
    /* A version that the checksum does not vouch for is damage, too. */
    if (get_u32(p + 8) != HF_CHECKPOINT_VERSION &&
        hf_crc32c(0, p, bytes - CRC_BYTES) == get_u32(p + bytes - CRC_BYTES))
        return hf_fail(err, HF_E_DATA, "a checkpoint of version %u; this library reads version %d",
                       get_u32(p + 8), HF_CHECKPOINT_VERSION);
    if (get_u64(p + 16) != bytes)
        return hf_fail(err, HF_E_CORRUPT, "the checkpoint is damaged: it has %llu bytes, not %llu",
                       (unsigned long long)bytes, (unsigned long long)get_u64(p + 16));
    const uint64_t end = bytes - CRC_BYTES;
    if (hf_crc32c(0, p, end) != get_u32(p + end))
        return hf_fail(err, HF_E_CORRUPT, "the checkpoint is damaged: its checksum is wrong");
    struct hf_checkpoint c = {.element_bytes = get_u32(p + 12)};
    const unsigned char *field = p + HEAD_BYTES;
#define FIELD(member, type, text)                                                                  \
    read_field(&c.member, field);                                                                  \
    field += 8;
    HF_CHECKPOINT_FIELDS(FIELD)
#undef FIELD
    if ((c.element_bytes != 4 && c.element_bytes != 8) || !fields_make_sense(&c) ||
        !find_parts(p, end, &c) || !relocations_make_sense(&c) || !centers_are_finite(&c))
        return hf_fail(err, HF_E_CORRUPT, "the checkpoint contradicts itself");
    *out = c;
    return HF_OK;
}

/* ---- what a fit must have in common with its checkpoint */

static uint32_t crc_of_data(const struct hf_fit_problem *problem,
                            const struct hf_columns *columns) {
    const size_t bytes = (size_t)problem->d * sizeof(double);
    uint32_t crc = hf_crc32c(0, columns->min, bytes);
    crc = hf_crc32c(crc, columns->max, bytes);
    crc = hf_crc32c(crc, columns->mean, bytes);
    return hf_crc32c(crc, columns->variance, bytes);
}

/* Ranges and moments know nothing of the order of the rows. One row of each of up to MARK_ROWS
 * equal parts of the data, in float64, which is the same wherever the rows lie. */
hf_status hf_checkpoint_mark(struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    if (!problem->opts.checkpoint && !problem->opts.resume)
        return HF_OK;
    const size_t bytes = (size_t)problem->d * sizeof(double);
    const int64_t fitting = MARK_BYTES / (int64_t)bytes;
    const int64_t most = fitting < MARK_LEAST ? MARK_LEAST : hf_min64(fitting, MARK_ROWS);
    const int64_t parts = hf_min64(problem->n, most);
    const int64_t part = problem->n / parts;
    const int64_t longer = problem->n % parts; /* the first of them have one more */
    uint32_t crc = 0;
    int64_t begin = 0;
    for (int64_t p = 0; p < parts; p++) {
        const int64_t rows = part + (p < longer);
        const int64_t row =
            begin + (int64_t)hf_rng_below(0, MARK_STREAM, (uint64_t)p, (uint64_t)rows);
        HF_TRY(hf_rows_gather(&fit->data.rows, &row, 1, fit->centers.start));
        crc = hf_crc32c(crc, fit->centers.start, bytes);
        begin += rows;
    }
    fit->saves.rows_crc = crc;
    return HF_OK;
}

static uint32_t crc_of_given(const struct hf_fit_problem *problem) {
    const hf_array *c = problem->opts.centroids;
    uint32_t crc = 0;
    if (problem->opts.init != HF_INIT_GIVEN)
        return 0;
    for (int64_t j = 0; j < c->rows; j++)
        crc = hf_crc32c(crc, hf_array_row(c, j), (size_t)c->cols * hf_dtype_bytes(c->dtype));
    return crc;
}

/* 1 where the low byte comes first. */
static int64_t byte_order(void) {
    const uint16_t two_bytes = 1;
    unsigned char first;
    memcpy(&first, &two_bytes, 1);
    return first;
}

static struct hf_checkpoint describe(const struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    const hf_kmeans_opts *o = &problem->opts;
    return (struct hf_checkpoint){
        .byte_order = byte_order(),
        .n_all = problem->n_all,
        .n = problem->n,
        .d = problem->d,
        .dtype = problem->dtype,
        .k = problem->k,
        .metric = o->metric,
        .init = o->init,
        .n_init = o->n_init,
        .seed = (int64_t)o->seed,
        .tol = o->tol,
        .empty = o->empty,
        .precision = o->precision,
        .store = o->store,
        .nan = o->nan,
        .data_crc = crc_of_data(problem, &fit->columns),
        .rows_crc = fit->saves.rows_crc,
        .weights_crc = fit->weights.scaled ? (int64_t)hf_crc32c(0, fit->weights.scaled,
                                                                (size_t)problem->n * sizeof(double))
                                           : -1,
        .given_crc = crc_of_given(problem),
        .element_bytes = (int64_t)hf_dtype_bytes(problem->center_type)};
}

static hf_status compare(const struct hf_fit *fit, const struct hf_checkpoint *found) {
    const struct hf_checkpoint own = describe(fit);
    const char *differs = NULL;
    const char *text;
    unsigned char a[8];
    unsigned char b[8];
#define FIELD(member, type, what)                                                                  \
    text = what;                                                                                   \
    write_field(a, &own.member);                                                                   \
    write_field(b, &found->member);                                                                \
    if (!differs && text && memcmp(a, b, 8) != 0)                                                  \
        differs = text;
    HF_CHECKPOINT_FIELDS(FIELD)
#undef FIELD
    if (!differs && own.element_bytes == found->element_bytes)
        return HF_OK;
    return hf_ctx_fail(
        fit->problem.ctx, HF_E_ARG,
        "%s: the checkpoint was written with another %s: resume with the same data and "
        "options, or start anew without it",
        fit->problem.opts.resume, differs ? differs : "centroid type");
}

/* What is done cannot be undone. */
static hf_status check_iterations(const struct hf_fit_problem *problem,
                                  const struct hf_checkpoint *c) {
    const int64_t done = c->iteration > c->best_iterations ? c->iteration : c->best_iterations;
    if (done <= problem->opts.max_iter)
        return HF_OK;
    return hf_ctx_fail(problem->ctx, HF_E_ARG,
                       "%s: the checkpoint has %lld iterations, more than max_iter (%d): ask for "
                       "%lld or more, or start anew without it",
                       problem->opts.resume, (long long)done, problem->opts.max_iter,
                       (long long)done);
}

/* ---- history: 3 float64 and 6 integers an iteration */

static void put_iteration(unsigned char *p, const hf_kmeans_iteration *it) {
    write_field(p, &it->inertia);
    write_field(p + 8, &it->shift);
    write_field(p + 16, &it->seconds);
    write_field(p + 24, &it->changed);
    write_field(p + 32, &it->rows_skipped);
    write_field(p + 40, &it->rows_partial);
    write_field(p + 48, &it->rows_rechecked);
    write_field(p + 56, &it->empty);
    write_field(p + 64, &it->rows_float64);
}

static void get_iteration(hf_kmeans_iteration *it, const unsigned char *p) {
    read_field(&it->inertia, p);
    read_field(&it->shift, p + 8);
    read_field(&it->seconds, p + 16);
    read_field(&it->changed, p + 24);
    read_field(&it->rows_skipped, p + 32);
    read_field(&it->rows_partial, p + 40);
    read_field(&it->rows_rechecked, p + 48);
    read_field(&it->empty, p + 56);
    read_field(&it->rows_float64, p + 64);
}

static hf_status load_history(const struct hf_fit_problem *problem, struct hf_history *h,
                              const unsigned char *p, int64_t count) {
    if (count == 0)
        return HF_OK;
    h->it = hf_alloc((size_t)count * sizeof(hf_kmeans_iteration));
    if (!h->it)
        return hf_ctx_fail(problem->ctx, HF_E_NOMEM, "no memory for a history of %lld iterations",
                           (long long)count);
    h->room = h->count = (int)count;
    for (int64_t i = 0; i < count; i++)
        get_iteration(&h->it[i], p + i * HISTORY_BYTES);
    return HF_OK;
}

/* ---- writing */

struct writer {
    hf_file *file;
    hf_error *err;
    hf_status status;
    uint32_t crc;
};

static void emit(struct writer *w, const void *data, size_t bytes) {
    if (w->status != HF_OK || bytes == 0)
        return;
    w->crc = hf_crc32c(w->crc, data, bytes);
    w->status = hf_file_write(w->file, data, bytes, w->err);
}

/* Centroids are stored as the machine has them, in the byte order that a field tells. */
static void emit_centers(struct writer *w, const struct hf_fit_problem *problem,
                         const void *centers) {
    emit(w, centers, hf_center_bytes(problem));
}

static void emit_history(struct writer *w, const struct hf_history *h) {
    unsigned char p[HISTORY_BYTES];
    for (int i = 0; i < h->count; i++) {
        put_iteration(p, &h->it[i]);
        emit(w, p, sizeof(p));
    }
}

static void emit_head(struct writer *w, const struct hf_fit_problem *problem,
                      const struct hf_checkpoint *c) {
    unsigned char head[BODY_AT];
    const uint64_t sets = (c->iteration > 0 ? 2u : 0u) + (c->best_restart >= 0 ? 1u : 0u);
    const uint64_t bytes = BODY_AT + sets * (uint64_t)(problem->k * problem->d * c->element_bytes) +
                           (uint64_t)(c->iteration + c->best_iterations) * HISTORY_BYTES +
                           (uint64_t)c->relocated * RELOCATION_BYTES +
                           (uint64_t)c->start_entries * START_BYTES + CRC_BYTES;
    memcpy(head, magic, sizeof(magic));
    put_u32(head + 8, HF_CHECKPOINT_VERSION);
    put_u32(head + 12, (uint32_t)c->element_bytes);
    put_u64(head + 16, bytes);
    unsigned char *field = head + HEAD_BYTES;
#define FIELD(member, type, text)                                                                  \
    write_field(field, &c->member);                                                                \
    field += 8;
    HF_CHECKPOINT_FIELDS(FIELD)
#undef FIELD
    emit(w, head, sizeof(head));
}

static void emit_all(struct writer *w, const struct hf_fit *fit, const struct hf_restart *run,
                     const struct hf_restart *best) {
    struct hf_checkpoint c = describe(fit);
    const bool has_best = best->number >= 0;
    c.restart = run->number;
    c.iteration = run->iteration;
    c.best_restart = best->number;
    c.best_iterations = has_best ? best->history.count : 0;
    c.best_stop = has_best ? best->stop : HF_STOP_NONE;
    c.best_inertia = has_best ? best->inertia : 0;
    c.relocated = run->iteration > 0 ? fit->refill.relocated_count : 0;
    c.start_entries = run->iteration > 0 ? 0 : fit->saves.log.count;
    c.start_unit = c.start_entries > 0 ? fit->saves.log.unit : 0;
    emit_head(w, &fit->problem, &c);
    if (run->iteration > 0) {
        emit_centers(w, &fit->problem, fit->centers.current);
        emit_centers(w, &fit->problem, fit->centers.previous);
    }
    if (has_best)
        emit_centers(w, &fit->problem, fit->centers.best);
    emit_history(w, &run->history);
    if (has_best)
        emit_history(w, &best->history);
    for (int64_t i = 0; i < c.relocated; i++) {
        unsigned char p[RELOCATION_BYTES];
        put_u64(p, (uint64_t)fit->refill.relocated[i].row);
        put_u64(p + 8, (uint64_t)fit->refill.relocated[i].cluster);
        emit(w, p, sizeof(p));
    }
    for (int64_t i = 0; i < c.start_entries; i++) {
        unsigned char p[START_BYTES];
        put_u64(p, (uint64_t)fit->saves.log.entry[i]);
        emit(w, p, sizeof(p));
    }
    unsigned char crc[CRC_BYTES];
    put_u32(crc, w->crc);
    emit(w, crc, sizeof(crc));
}

static hf_status write_file(const struct hf_fit *fit, const struct hf_restart *run,
                            const struct hf_restart *best, hf_error *err) {
    struct writer w = {.err = err};
    HF_TRY(hf_file_create(&w.file, fit->problem.opts.checkpoint, w.err));
    emit_all(&w, fit, run, best);
    if (w.status == HF_OK)
        return hf_file_commit(w.file, w.err);
    hf_file_abort(w.file);
    return w.status;
}

/* Told once: a disk that is full may have room again, so later writes are tried. */
static void count_failure(struct hf_fit *fit, const char *why) {
    const struct hf_fit_problem *problem = &fit->problem;
    const hf_kmeans_opts *o = &problem->opts;
    (void)hf_ctx_fail(problem->ctx, HF_E_IO, "no checkpoint could be written, the fit goes on: %s",
                      why);
    if (fit->saves.failed++ == 0 && o->warn)
        o->warn(o->warn_user, problem->ctx->error.text);
}

void hf_checkpoint_write(struct hf_fit *fit, const struct hf_restart *run,
                         const struct hf_restart *best) {
    hf_error err = {{0}};
    if (!fit->problem.opts.checkpoint ||
        (fit->problem.opts.checkpoint_every == HF_CHECKPOINT_NEVER && !run->cancelled))
        return;
    if (write_file(fit, run, best, &err) != HF_OK)
        count_failure(fit, err.text);
}

/* ---- resuming */

static hf_status load_start(const struct hf_fit_problem *problem, struct hf_saves *saves,
                            const struct hf_checkpoint *c) {
    struct hf_init_log *log = &saves->log;
    if (c->start_entries == 0)
        return HF_OK;
    log->entry = hf_alloc((size_t)c->start_entries * sizeof *log->entry);
    if (!log->entry)
        return hf_ctx_fail(problem->ctx, HF_E_NOMEM, "no memory for %lld first centroids",
                           (long long)c->start_entries);
    log->count = log->room = c->start_entries;
    log->unit = c->start_unit;
    for (int64_t i = 0; i < log->count; i++)
        log->entry[i] = (int64_t)get_u64(c->start + i * START_BYTES);
    return HF_OK;
}

static hf_status load(struct hf_fit *fit, const struct hf_checkpoint *c, struct hf_restart *run,
                      struct hf_restart *best) {
    const size_t centers = (size_t)(c->k * c->d * c->element_bytes);
    run->number = (int)c->restart;
    run->iteration = (int)c->iteration;
    if (c->current && c->previous) {
        memcpy(fit->centers.current, c->current, centers);
        memcpy(fit->centers.previous, c->previous, centers);
    }
    best->number = (int)c->best_restart;
    if (c->best) {
        memcpy(fit->centers.best, c->best, centers);
        best->inertia = c->best_inertia;
        best->stop = (hf_stop)c->best_stop;
        best->iteration = (int)c->best_iterations;
    }
    fit->refill.relocated_count = c->relocated;
    for (int64_t i = 0; i < c->relocated; i++) {
        fit->refill.relocated[i].row = (int64_t)get_u64(c->relocations + i * RELOCATION_BYTES);
        fit->refill.relocated[i].cluster =
            (int64_t)get_u64(c->relocations + i * RELOCATION_BYTES + 8);
    }
    HF_TRY(load_start(&fit->problem, &fit->saves, c));
    HF_TRY(load_history(&fit->problem, &run->history, c->history, c->iteration));
    return load_history(&fit->problem, &best->history, c->best_history, c->best_iterations);
}

hf_status hf_checkpoint_resume(struct hf_fit *fit, struct hf_restart *run,
                               struct hf_restart *best) {
    const struct hf_fit_problem *problem = &fit->problem;
    const char *path = problem->opts.resume;
    void *data = NULL;
    size_t bytes = 0;
    HF_TRY(hf_file_read_all(path, problem->ctx->memory_bytes, &data, &bytes, &problem->ctx->error));
    struct hf_checkpoint c = {0};
    hf_error why = {{0}};
    hf_status status = hf_checkpoint_parse(data, bytes, &c, &why);
    if (status != HF_OK)
        status = hf_ctx_fail(problem->ctx, status, "%s: %s: start anew without it", path, why.text);
    else if ((status = compare(fit, &c)) == HF_OK &&
             (status = check_iterations(problem, &c)) == HF_OK)
        status = load(fit, &c, run, best);
    hf_free(data);
    return status;
}
