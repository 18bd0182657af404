/* SPDX-License-Identifier: Apache-2.0
 * The arrays of the ops that faults in memory can strike, by name. */
#include "base/dtype.h"
#include "harness/inject/device_door.h"
#include "harness/inject/fault.h"
#include "ops/assign/assign.h"
#include "ops/audit/audit.h"
#include "ops/inertia/inertia.h"
#include "ops/lloyd/lloyd.h"
#include "ops/means/means.h"
#include "ops/moments/moments.h"
#include "ops/range/range.h"
#include "ops/rowhash/rowhash.h"
#include "ops/seed/seed.h"
#include "ops/update/update.h"
#include <string.h>

#define OF(p, count)                                                                               \
    (struct hf_place_array) {                                                                      \
        (void *)(uintptr_t)(p), (size_t)(count) * sizeof *(p), (int)sizeof *(p), false             \
    }
#define REALS(p, count)                                                                            \
    (struct hf_place_array) {                                                                      \
        (void *)(uintptr_t)(p), (size_t)(count) * sizeof *(p), (int)sizeof *(p), true              \
    }

/* An array of any type; gaps between rows belong to nobody, but are struck as well. */
static struct hf_place_array of_array(const hf_array *a) {
    const int word = (int)hf_dtype_bytes(a->dtype);
    const int64_t stride = a->row_stride ? a->row_stride : a->cols;
    const int64_t count = a->rows > 0 ? (a->rows - 1) * stride + a->cols : 0;
    return (struct hf_place_array){(void *)(uintptr_t)a->data, (size_t)count * (size_t)word, word,
                                   a->dtype != HF_U8};
}

static struct hf_place_array of_centers(const void *centers, hf_dtype type, int64_t count) {
    const int word = (int)hf_dtype_bytes(type);
    return (struct hf_place_array){(void *)(uintptr_t)centers, (size_t)count * (size_t)word, word,
                                   true};
}

static void of_sums(const struct hf_sums *s, struct hf_place_array out[3]) {
    if (!s)
        return;
    out[0] = OF(s->sum, s->limbs * s->k * s->d);
    out[1] = OF(s->count, s->k);
    out[2] = OF(s->weight, s->limbs * s->k);
}

static void assign_arrays(const void *args, struct hf_place_array *out) {
    const struct hf_assign_args *a = args;
    const struct hf_assign_bounds *b = a->bounds;
    const int64_t n = a->x.rows, k = a->c.rows, d = a->x.cols;
    out[0] = of_array(&a->x);
    out[1] = of_array(&a->c);
    out[2] = OF(a->labels, n);
    out[3] = OF(a->old_labels, n);
    of_sums(a->sums, out + 4);
    out[7] = REALS(a->weights, n);
    out[8] = REALS(a->filter.shift, d);
    out[9] = OF((int64_t *)a->stats, sizeof *a->stats / sizeof(int64_t));
    if (a->packed)
        out[10] = (struct hf_place_array){a->packed->data,
                                          hf_assign_packed_bytes(a->packed->rows, d), 4, false};
    if (!b)
        return;
    out[11] = REALS(b->upper, n);
    out[12] = REALS(b->lower, n);
    out[13] = REALS(b->drift, k);
    out[14] = REALS(b->half, k);
    out[15] = OF(b->moved, b->n_moved);
}

static void update_arrays(const void *args, struct hf_place_array *out) {
    const struct hf_update_args *a = args;
    out[0] = of_array(&a->x);
    out[1] = OF(a->labels, a->x.rows);
    out[2] = OF(a->old_labels, a->x.rows);
    of_sums(a->sums, out + 3);
    out[6] = REALS(a->weights, a->x.rows);
}

static void inertia_arrays(const void *args, struct hf_place_array *out) {
    const struct hf_inertia_args *a = args;
    out[0] = of_array(&a->x);
    out[1] = of_array(&a->c);
    out[2] = OF(a->labels, a->x.rows);
    out[3] = REALS(a->distances, a->x.rows);
    out[4] = OF((int64_t *)(void *)a->sum, sizeof *a->sum / sizeof(int64_t));
    out[5] = REALS(a->weights, a->x.rows);
}

static void means_arrays(const void *args, struct hf_place_array *out) {
    const struct hf_means_args *a = args;
    const int64_t k = a->sums->k, d = a->sums->d;
    of_sums(a->sums, out);
    out[3] = of_centers(a->now, a->rule.type, k * d);
    out[4] = of_centers(a->next, a->rule.type, k * d);
    out[5] = REALS(a->moved, k);
    out[6] = REALS(a->shift, 1);
    out[7] = REALS(a->inertia, 1);
    out[8] = REALS(a->rule.unit, d);
}

static void range_arrays(const void *args, struct hf_place_array *out) {
    const struct hf_range_args *a = args;
    const int64_t batch = hf_range_batch(a);
    out[0] = of_array(&a->x);
    out[1] = REALS(a->min, batch * a->x.cols);
    out[2] = REALS(a->max, batch * a->x.cols);
    out[3] = OF(a->row_bad, a->x.rows);
}

static void moments_arrays(const void *args, struct hf_place_array *out) {
    const struct hf_moments_args *a = args;
    const int64_t batch = hf_moments_batch(a);
    out[0] = of_array(&a->x);
    out[1] = OF(a->sum, batch * 2 * a->x.cols);
    out[2] = OF(a->sum_square, batch * 2 * a->x.cols);
}

static void seed_arrays(const void *args, struct hf_place_array *out) {
    const struct hf_seed_args *a = args;
    out[0] = of_array(&a->x);
    out[1] = of_array(&a->candidates);
    out[2] = REALS(a->nearest, a->x.rows);
    out[3] = OF(a->label, a->x.rows);
    out[4] = OF(a->gain, a->commit ? 0 : a->candidates.rows);
}

/* On a GPU, in memory of its own between two iterations. */
static void lloyd_arrays(const void *args, struct hf_place_array *out) {
    const struct hf_lloyd_args *a = args;
    const struct hf_lloyd_book *b = a->book;
    const int64_t n = a->x.rows, values = a->batch * a->sums->k * a->sums->d;
    out[0] = of_array(&a->x);
    out[1] = OF(a->labels, n);
    of_sums(a->sums, out + 2);
    out[5] = of_centers(a->current, a->rule.type, values);
    out[6] = of_centers(a->previous, a->rule.type, values);
    out[7] = hf_device_workspace_place();
    if (!b)
        return;
    out[8] = OF(b->hash, n);
    out[9] = OF(b->factor, a->sums->limbs * (a->sums->d + 1));
    out[10] = OF(b->labels, n);
    out[11] = OF(b->word, a->sums->k);
    out[12] = OF(b->count, a->sums->k);
}

static void rowhash_arrays(const void *args, struct hf_place_array *out) {
    const struct hf_rowhash_args *a = args;
    out[0] = of_array(&a->x);
    out[1] = OF(a->hash, a->x.rows);
    out[2] = OF(a->factor, a->sums->limbs * (a->x.cols + 1));
}

static void audit_arrays(const void *args, struct hf_place_array *out) {
    const struct hf_audit_args *a = args;
    out[0] = OF(a->labels, a->n);
    out[1] = OF(a->booked, a->n);
    out[2] = OF(a->hash, a->n);
    out[3] = OF(a->word, a->k);
    out[4] = OF(a->rows, a->k);
}

static const struct hf_op_places places[HF_OP_COUNT] = {
    [HF_OP_ASSIGN] = {{"rows", "centroids", "labels", "old_labels", "sums", "counts",
                       "cluster_weights", "weights", "shift", "counters", "packed", "upper",
                       "lower", "drift", "half", "moved"},
                      assign_arrays},
    [HF_OP_UPDATE] = {{"rows", "labels", "old_labels", "sums", "counts", "cluster_weights",
                       "weights"},
                      update_arrays},
    [HF_OP_INERTIA] = {{"rows", "centroids", "labels", "distances", "total", "weights"},
                       inertia_arrays},
    [HF_OP_MEANS] = {{"sums", "counts", "cluster_weights", "now", "next", "moves", "shift",
                      "inertia", "unit"},
                     means_arrays},
    [HF_OP_RANGE] = {{"rows", "min", "max", "bad"}, range_arrays},
    [HF_OP_MOMENTS] = {{"rows", "sums", "squares"}, moments_arrays},
    [HF_OP_SEED] = {{"rows", "candidates", "nearest", "labels", "gain"}, seed_arrays},
    [HF_OP_LLOYD] = {{"rows", "labels", "sums", "counts", "cluster_weights", "current", "previous",
                      "workspace", "hash", "factor", "booked_labels", "booked_words",
                      "booked_counts"},
                     lloyd_arrays},
    [HF_OP_ROWHASH] = {{"rows", "hash", "factor"}, rowhash_arrays},
    [HF_OP_AUDIT] = {{"labels", "booked_labels", "hash", "booked_words", "booked_counts"},
                     audit_arrays},
};

const struct hf_op_places *hf_op_places_at(int op) { return &places[op]; }

bool hf_place_is_workspace(int op, int place) {
    return strcmp(places[op].name[place], "workspace") == 0;
}

const hf_array *hf_place_rows(int op, const void *args) {
    switch (op) {
    case HF_OP_ASSIGN:
        return &((const struct hf_assign_args *)args)->x;
    case HF_OP_UPDATE:
        return &((const struct hf_update_args *)args)->x;
    default:
        return NULL;
    }
}
