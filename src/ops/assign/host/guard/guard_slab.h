/* SPDX-License-Identifier: Apache-2.0
 * Centroids of few columns in the order of one of them. The label of a row is the nearest if no
 * other centroid is nearer, and such a one differs from the row by no more than the distance to the
 * label in this column, too: of 40,000 centroids in two columns some 200 do. So a second look at a
 * label costs a small part of what it cost to find it, in other lanes: a lane is a centroid. */
#ifndef HF_ASSIGN_GUARD_SLAB_H
#define HF_ASSIGN_GUARD_SLAB_H

#include "device/host/isa_load.h"
#include "ops/assign/host/job.h"
#include <math.h>
#include <string.h>

#define SLAB_COLUMNS 4 /* with more of them most centroids differ little in one */
#define SLAB_CENTROIDS 48
#define SLAB_ROWS 8         /* rows that pay for the order of so many centroids */
#define SLAB_BITS 8         /* of a digit */
#define SLAB_PAD 16         /* lanes behind the last centroid */
#define SLAB_MOST 0x1p127   /* of a component: keys are float32, */
#define SLAB_LEAST 0x1p-100 /* and if all are smaller, they are the same */

/* Does a call sort its centroids? */
static inline int slab_serves(const struct job *job) {
    return guard_checks(&job->guard, HF_FAULT_SETTLE) && job->a->metric == HF_EUCLIDEAN &&
           job->d <= SLAB_COLUMNS && job->k >= SLAB_CENTROIDS && job->n * SLAB_ROWS >= job->k;
}

static void slab_carve(hf_carve *carve, const struct job *job, struct guard_slab *s) {
    const size_t k = (size_t)job->k + SLAB_PAD;
    const int few = job->d <= SLAB_COLUMNS;
    s->key = few ? hf_carve_take(carve, sizeof(float) * k) : NULL;
    s->index = few ? hf_carve_take(carve, sizeof(int32_t) * k) : NULL;
    s->value = few ? hf_carve_take(carve, sizeof(double) * k * (size_t)job->d) : NULL;
    s->spare = few ? hf_carve_take(carve, 2 * sizeof(uint32_t) * k) : NULL;
}

static double slab_component(const struct job *job, int32_t k, int64_t j) {
    const void *c = hf_array_row(&job->a->c, k);
    return job->a->c.dtype == HF_F32 ? (double)((const float *)c)[j] : ((const double *)c)[j];
}

/* Can keys tell the centroids apart? */
static int slab_in_range(const struct job *job) {
    double most = 0;
    for (int64_t k = 0; k < job->k; k++)
        for (int64_t j = 0; j < job->d; j++) {
            const double v = fabs(slab_component(job, (int32_t)k, j));
            most = v > most ? v : most;
        }
    return most > SLAB_LEAST && most < SLAB_MOST;
}

/* The column in which centroids differ most. */
static int slab_column(const struct job *job) {
    double most = -1;
    int column = 0;
    for (int64_t j = 0; j < job->d; j++) {
        double sum = 0;
        double square = 0;
        for (int i = 0; i < job->n_live; i++) {
            const double v = slab_component(job, job->live[i], j);
            sum += v;
            square += v * v;
        }
        const double spread = square - sum * sum / job->n_live;
        column = spread > most ? (int)j : column;
        most = spread > most ? spread : most;
    }
    return column;
}

/* Bits that order as floats do. */
static uint32_t slab_bits(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits >> 31 ? ~bits : bits | 1u << 31;
}

static float slab_float(uint32_t bits) {
    float v;
    bits = bits >> 31 ? bits & ~(1u << 31) : ~bits;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Sort by one digit of the keys. */
static void slab_sort_digit(const uint32_t *key, const int32_t *index, int n, int shift,
                            uint32_t *to_key, int32_t *to_index) {
    int at[(1 << SLAB_BITS) + 1] = {0};
    for (int i = 0; i < n; i++)
        at[(key[i] >> shift & ((1 << SLAB_BITS) - 1)) + 1]++;
    for (int v = 0; v < 1 << SLAB_BITS; v++)
        at[v + 1] += at[v];
    for (int i = 0; i < n; i++) {
        const int to = at[key[i] >> shift & ((1 << SLAB_BITS) - 1)]++;
        to_key[to] = key[i];
        to_index[to] = index[i];
    }
}

/* Sort the centroids, once a call. */
static void slab_make(struct job *job) {
    struct guard_slab *s = &job->guard.slab;
    const int64_t room = job->k + SLAB_PAD;
    const int n = job->n_live;
    uint32_t *key = (uint32_t *)(void *)s->key;
    uint32_t *spare_key = s->spare;
    int32_t *spare_index = (int32_t *)(void *)(s->spare + room);
    s->column = slab_column(job);
    s->count = 0;
    for (int i = 0; i < n; i++) {
        const double v = slab_component(job, job->live[i], s->column);
        if (!(fabs(v) < SLAB_MOST))
            return; /* keys would be infinite, and their order nobody's */
        key[i] = slab_bits((float)v);
        s->index[i] = job->live[i];
    }
    for (int shift = 0; shift < 32; shift += 2 * SLAB_BITS) {
        slab_sort_digit(key, s->index, n, shift, spare_key, spare_index);
        slab_sort_digit(spare_key, spare_index, n, shift + SLAB_BITS, key, s->index);
    }
    for (int i = 0; i < n; i++)
        s->key[i] = slab_float(key[i]);
    for (int64_t j = 0; j < job->d; j++)
        for (int64_t i = 0; i < n + SLAB_PAD; i++) {
            const double v = i < n ? slab_component(job, s->index[i], j) : INFINITY;
            if (job->difference == DIFFERENCE_F32)
                ((float *)s->value)[j * room + i] = (float)v;
            else
                ((double *)s->value)[j * room + i] = v;
        }
    s->count = n;
}

/* The first centroid whose key is not below v. */
static int slab_find(const struct guard_slab *s, double v) {
    const float *key = s->key;
    int first = 0;
    for (int left = s->count; left > 0;) {
        const int half = left / 2;
        const int below = (double)key[first + half] < v;
        first = below ? first + half + 1 : first;
        left = below ? left - half - 1 : half;
    }
    return first;
}

#define REAL_BITS 32
#include "device/host/isa_real.h"
#include "ops/assign/host/guard/guard_slab_scan.h"
#undef REAL_BITS
#define REAL_BITS 64
#include "device/host/isa_real.h"
#include "ops/assign/host/guard/guard_slab_scan.h"
#undef REAL_BITS

/* Centroids whose squared distance from the row in x64 is not above `cut`: to list, `most` at most;
 * returns how many they are. The scan begins at the first place that counts, or (-1) before it. */
static int slab_list_from(const struct job *job, const struct worker *w, double cut, int begin,
                          int32_t *list, int most) {
    const struct guard_slab *s = &job->guard.slab;
    const double at = w->x64[s->column];
    const double radius = sqrt(cut) * (1 + 0x1p-40);
    const double slack = (fabs(at) + radius) * 0x1p-22 + 0x1p-149; /* keys are rounded */
    const int found = slab_find(s, at - radius - slack);
    const int first = found + begin > 0 ? found + begin : 0;
    const struct slab_scan scan = {first, cut, at + radius + slack, list, most};
    return job->difference == DIFFERENCE_F32 ? slab_scan_f32(job, w->x64, &scan)
                                             : slab_scan_f64(job, w->x64, &scan);
}

static inline int slab_list(const struct job *job, const struct worker *w, double cut,
                            int32_t *list, int most) {
    return slab_list_from(job, w, cut, 0, list, most);
}

#endif
