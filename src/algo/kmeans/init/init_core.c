/* SPDX-License-Identifier: Apache-2.0
 * Starting from a few rows that stand for all: a lightweight coreset (Bachem, Lucic, Krause:
 * Scalable k-means clustering via lightweight coresets, KDD 2018). One pass gives the distances to
 * a random row; half of the core is drawn in proportion to the weights, so that every region is
 * there, half in proportion to weight * distance, so that far rows are not missed. Drawn rows weigh
 * what makes sums over the core unbiased. k-means++ or k-means|| then runs on the core: its cost no
 * longer depends on how many rows there are. */
#include "algo/kmeans/init/init_state.h"
#include "base/mem.h"
#include "core/array.h"
#include "ops/sample/sample.h"
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define CORE_LEAST 16384               /* rows, however few the centroids are, ... */
#define CORE_ROWS 64                   /* ... and for each centroid, ... */
#define CORE_BYTES ((int64_t)64 << 20) /* ... unless their values take more than this, ... */
#define CORE_FEW 16                    /* ... but so many for each centroid in any case */
#define CORE_WORTH 4                   /* data that are larger than the core by less are used */

struct core {
    struct hf_init_state *outer;
    int64_t rows;     /* of the core: two halves */
    double *distance; /* [n] to the first row; memory of the device */
    void *x;          /* [rows, d] memory of the device */
    int64_t *index;   /* [rows] ascending in each half */
    double *weights;  /* [rows] */
    double
        *device_weights; /* [rows] the same in the memory of the device; the host's weights there */
    double *nearest;     /* [rows] scratch of the nested initialisation */
    int32_t *labels;     /* [rows] likewise */
    double sums[2];      /* of the weights, and of weight * distance */
    bool in_place;       /* op sample can read the rows itself */
    char *gathered;      /* else: [rows, d] on the host, */
    int64_t next[2];     /* and the first draw of each half that is not there yet */
};

int64_t hf_init_core_rows(int64_t n, int64_t d, int64_t k, hf_dtype dtype) {
    const int64_t fit = CORE_BYTES / (d * (int64_t)hf_dtype_bytes(dtype));
    int64_t rows = k < CORE_LEAST / CORE_ROWS ? CORE_LEAST : k * CORE_ROWS;
    rows = rows < fit ? rows : fit;
    rows = rows > k * CORE_FEW ? rows : k * CORE_FEW;
    rows += rows & 1;
    return n / CORE_WORTH >= rows ? rows : 0;
}

uint64_t hf_init_core_bytes(const struct hf_rows *rows, int64_t k) {
    const uint64_t core = (uint64_t)hf_init_core_rows(rows->n, rows->d, k, rows->dtype);
    const uint64_t row = (uint64_t)rows->d * hf_dtype_bytes(rows->dtype);
    if (core == 0)
        return 0;
    return core * (row + 28) + hf_init_state_bytes((int64_t)core, rows->d, k);
}

/* Its rows, their weights, and the distances of all rows. */
uint64_t hf_init_core_device_bytes(const struct hf_rows *rows, int64_t k) {
    const uint64_t core = (uint64_t)hf_init_core_rows(rows->n, rows->d, k, rows->dtype);
    const uint64_t row = (uint64_t)rows->d * hf_dtype_bytes(rows->dtype);
    return core == 0 ? 0 : core * (row + sizeof(double)) + (uint64_t)rows->n * sizeof(double);
}

static hf_status core_alloc(struct core *c) {
    const struct hf_rows *rows = c->outer->rows;
    const size_t count = (size_t)c->rows;
    const size_t bytes = count * (size_t)rows->d * hf_dtype_bytes(rows->dtype);
    c->x = hf_ctx_alloc(rows->ctx, bytes);
    const bool on_device = c->outer->on_device;
    c->distance =
        on_device ? hf_ctx_alloc(rows->ctx, (size_t)rows->n * sizeof(double)) : c->outer->nearest;
    c->index = hf_alloc(count * sizeof *c->index);
    c->weights = hf_alloc(count * sizeof *c->weights);
    c->device_weights =
        on_device ? hf_ctx_alloc(rows->ctx, count * sizeof *c->device_weights) : c->weights;
    c->nearest = hf_alloc(count * sizeof *c->nearest);
    c->labels = hf_alloc(count * sizeof *c->labels);
    if (c->x && c->distance && c->index && c->weights && c->device_weights && c->nearest &&
        c->labels)
        return HF_OK;
    return hf_ctx_fail(rows->ctx, HF_E_NOMEM,
                       "no memory for %" PRId64 " rows to choose the initial centroids from: %zu "
                       "bytes are needed",
                       c->rows, bytes);
}

static void core_free(struct core *c) {
    hf_context *ctx = c->outer->rows->ctx;
    hf_ctx_release(ctx, c->x);
    if (c->distance != c->outer->nearest)
        hf_ctx_release(ctx, c->distance);
    if (c->device_weights != c->weights)
        hf_ctx_release(ctx, c->device_weights);
    hf_free(c->index);
    hf_free(c->weights);
    hf_free(c->nearest);
    hf_free(c->labels);
}

static hf_status distance_chunk(void *job, const hf_array *chunk, int64_t first) {
    const struct core *c = job;
    const struct hf_init_state *s = c->outer;
    const struct hf_seed_args args = {.x = *chunk,
                                      .candidates = hf_array_view(s->centroids, HF_F64, 1, s->d),
                                      .metric = s->args->metric,
                                      .filter = s->args->filter,
                                      .unit = 1,
                                      .limit = 1,
                                      .first = first,
                                      .nearest = c->distance + first,
                                      .commit = true};
    return hf_seed(s->rows->ctx, &args);
}

/* The first row. */
static hf_status begin(struct core *c) {
    struct hf_init_state *s = c->outer;
    const int64_t row = hf_init_draw_first(s);
    return hf_init_gather(s, &row, 1, s->centroids);
}

/* Distances of all rows to it. */
static hf_status measure(struct core *c) {
    struct hf_init_state *s = c->outer;
    HF_TRY(hf_ctx_fill(s->rows->ctx, c->distance, HF_FAR_BYTE, (size_t)s->n * sizeof(double)));
    return hf_rows_each(s->rows, distance_chunk, c);
}

static hf_status draw(struct core *c) {
    const struct hf_init_state *s = c->outer;
    const struct hf_rows *rows = s->rows;
    hf_array x = hf_array_view(NULL, rows->dtype, s->n, s->d);
    c->in_place = hf_init_in_place(s);
    if (c->in_place)
        x = *rows->array;
    const struct hf_sample_args args = {.x = x,
                                        .weights = s->args->weights,
                                        .distance = c->distance,
                                        .count = c->rows / 2,
                                        .seed = s->args->seed,
                                        .stream = hf_init_stream(s, HF_DRAW_CORE),
                                        .index = c->index,
                                        .weight = c->device_weights,
                                        .sums = c->sums,
                                        .rows = c->in_place ? c->x : NULL};
    HF_TRY(hf_sample(rows->ctx, &args));
    if (c->device_weights == c->weights)
        return HF_OK;
    return hf_ctx_copy(rows->ctx, c->weights, c->device_weights,
                       (size_t)c->rows * sizeof *c->weights);
}

/* Rows of the core that lie in this chunk. */
static hf_status gather_chunk(void *job, const hf_array *chunk, int64_t first) {
    struct core *c = job;
    const int64_t half = c->rows / 2;
    const size_t row_bytes = (size_t)chunk->cols * hf_dtype_bytes(chunk->dtype);
    for (int h = 0; h < 2; h++)
        for (; c->next[h] < half; c->next[h]++) {
            const int64_t at = h * half + c->next[h];
            if (c->index[at] >= first + chunk->rows)
                break;
            memcpy(c->gathered + (size_t)at * row_bytes, hf_array_row(chunk, c->index[at] - first),
                   row_bytes);
        }
    return HF_OK;
}

/* The rows of the core where op sample cannot read them: they are met in one more pass. */
static hf_status gather(struct core *c) {
    const struct hf_rows *rows = c->outer->rows;
    const size_t bytes = (size_t)c->rows * (size_t)rows->d * hf_dtype_bytes(rows->dtype);
    if (!c->outer->on_device) {
        c->gathered = c->x;
        return hf_rows_each(rows, gather_chunk, c);
    }
    struct hf_rows host = hf_rows_on_host(rows);
    const size_t chunk = (size_t)host.chunk_rows * (size_t)rows->d * hf_dtype_bytes(rows->dtype);
    c->gathered = hf_alloc(bytes);
    host.buffer = hf_alloc(chunk); /* a reader's rows have none on the host */
    hf_status status =
        c->gathered && host.buffer
            ? hf_rows_each(&host, gather_chunk, c)
            : hf_ctx_fail(rows->ctx, HF_E_NOMEM, "no memory for %zu bytes of rows", bytes + chunk);
    if (status == HF_OK)
        status = hf_ctx_copy(rows->ctx, c->x, c->gathered, bytes);
    hf_free(host.buffer);
    hf_free(c->gathered);
    return status;
}

/* The nested initialisation, into the outer one's centroids. */
static hf_status choose(struct core *c) {
    struct hf_init_state *s = c->outer;
    const hf_array x = hf_array_view(c->x, s->rows->dtype, c->rows, s->d);
    const struct hf_rows rows = {.ctx = s->rows->ctx,
                                 .array = &x,
                                 .n = c->rows,
                                 .d = s->d,
                                 .dtype = s->rows->dtype,
                                 .chunk_rows = c->rows};
    struct hf_init_args args = *s->args;
    struct hf_init_state in;
    args.weights = c->weights;
    args.device_weights = c->device_weights;
    args.nearest = c->nearest;
    args.labels = c->labels;
    HF_TRY(hf_init_open(&in, &rows, &args, 0, s->centroids));
    const hf_status status = hf_init_seeds(&in);
    s->count = in.count;
    for (int64_t t = 0; t < s->count && status == HF_OK; t++)
        s->chosen[t] = c->index[in.chosen[t]];
    hf_init_close(&in);
    return status;
}

/* The core lies on fewer points than there are centroids wanted: the others come from all rows. */
static hf_status go_on(struct hf_init_state *s) {
    HF_TRY(hf_init_resume(s));
    return hf_init_greedy(s);
}

static hf_status run(struct core *c) {
    HF_TRY(core_alloc(c));
    HF_TRY(begin(c));
    HF_TRY(measure(c));
    HF_TRY(draw(c));
    if (!c->in_place)
        HF_TRY(gather(c));
    return choose(c);
}

hf_status hf_init_core(struct hf_init_state *s) {
    struct core c = {.outer = s};
    c.rows = hf_init_core_rows(s->n, s->d, s->k, s->rows->dtype);
    const hf_status status = run(&c);
    core_free(&c);
    if (status != HF_OK || s->count == s->k)
        return status;
    return go_on(s);
}
