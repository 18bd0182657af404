/* SPDX-License-Identifier: Apache-2.0
 * What the ways to initialise share: the centroids so far, how far each row is from the nearest of
 * them, and draws. Internal to init*.c. */
#ifndef HF_INIT_STATE_H
#define HF_INIT_STATE_H

#include "algo/kmeans/init/init.h"
#include "ops/seed/seed.h"

/* Uses of random numbers that must not meet. HF_DRAW_NESTED is added while the candidates of
 * k-means|| are clustered. */
enum hf_draw {
    HF_DRAW_FIRST,
    HF_DRAW_TRIAL,
    HF_DRAW_REST,
    HF_DRAW_ACCEPT,    /* one for each round */
    HF_DRAW_CORE = 12, /* and the next: a half each */
    HF_DRAW_NESTED = 16
};

struct hf_init_state {
    const struct hf_rows *rows;
    const struct hf_init_args *args;
    int nested;     /* HF_DRAW_NESTED or 0 */
    bool on_device; /* a device of its own computes, which the host waits for in each call */
    int64_t n, d, k;
    int64_t count;          /* centroids so far */
    double *centroids;      /* [k, d] */
    int64_t *chosen;        /* [k] their rows */
    double *nearest;        /* [n] as in hf_seed_args */
    double *device_nearest; /* [n] the same on the device, owned; NULL: nearest */
    int32_t *label;         /* [n] number of the nearest centroid */
    bool labelled;          /* label counts the centroids as chosen does */
    double unit, limit;     /* of the potentials */
    uint64_t *block;        /* [blocks] potential of each HF_SEED_BLOCK rows */
    int64_t blocks;
    uint64_t total;             /* sum of block */
    int trials;                 /* candidates of a step */
    int64_t *drawn;             /* [trials] rows of the candidates */
    double *candidate;          /* [trials, d] */
    uint64_t *gain;             /* [trials] */
    double *reach;              /* [k] */
    double *between;            /* [HF_REACH_ROWS, trials] distances of centroids to candidates */
    struct hf_seed_pair *pairs; /* [hf_init_pairs_room()] */
    void *memory;               /* owns block, chosen, drawn, ... */
    hf_pool *pool;              /* for loops over rows on the host; NULL: none */
    bool own_pool;
};

#define HF_REACH_ROWS 1024
#define HF_INIT_MANY 64 /* candidates; for fewer op seed is as fast as op assign */
#define HF_PAIRS_ROOM ((int64_t)1 << 17)
#define HF_FAR_BYTE 0x7f /* a float64 of such: 1.4e306, more than any distance not refused */

/* Take memory and start with no centroid. nested: for the candidates of k-means||. */
hf_status hf_init_open(struct hf_init_state *s, const struct hf_rows *rows,
                       const struct hf_init_args *args, int nested, double *centroids);
void hf_init_close(struct hf_init_state *s);
/* Bytes that hf_init_open() takes for n rows. */
size_t hf_init_state_bytes(int64_t n, int64_t d, int64_t k);

/* Small data need room for no more than one pair of each row and candidate. */
static inline int64_t hf_init_pairs_room(const struct hf_init_state *s) {
    return s->n < HF_PAIRS_ROOM / s->trials ? s->n * s->trials : HF_PAIRS_ROOM;
}
/* What kernels are given. */
static inline const double *hf_init_weights(const struct hf_init_state *s) {
    return s->args->device_weights ? s->args->device_weights : s->args->weights;
}
static inline double hf_init_weight(const struct hf_init_state *s, int64_t i) {
    return s->args->weights ? s->args->weights[i] : 1;
}
static inline uint64_t hf_init_potential(const struct hf_init_state *s, int64_t i) {
    return hf_seed_quantum(s->nearest[i], hf_init_weight(s, i), s->unit, s->limit);
}
uint64_t hf_init_stream(const struct hf_init_state *s, int use);
hf_status hf_init_progress(const struct hf_init_state *s, int64_t done);

/* ---- init.c */
/* Can an op take all rows in place, wherever the context computes? */
bool hf_init_in_place(const struct hf_init_state *s);
/* Rows index[0..count) as float64 [count, d]. */
hf_status hf_init_gather(const struct hf_init_state *s, const int64_t *index, int64_t count,
                         double *dst);
/* Threads for long loops over rows on the host. */
void hf_init_open_pool(struct hf_init_state *s);
/* Centroids by k-means++ or k-means|| on the rows as they are; fewer than k where they lie on fewer
 * points. */
hf_status hf_init_seeds(struct hf_init_state *s);

/* ---- init_core.c */
/* How many rows stand for n of them; 0: they are few enough as they are. Nothing but these numbers
 * decides, so that it is the same everywhere. */
int64_t hf_init_core_rows(int64_t n, int64_t d, int64_t k, hf_dtype dtype);
/* The same as hf_init_seeds(), from hf_init_core_rows() rows. */
hf_status hf_init_core(struct hf_init_state *s);
/* Bytes it holds beside the state, and those of a device's memory. */
uint64_t hf_init_core_bytes(const struct hf_rows *rows, int64_t k);
uint64_t hf_init_core_device_bytes(const struct hf_rows *rows, int64_t k);

/* ---- init_log.c */
/* Note the centroids from number `before` on, and that these were the last of this run of steps. */
hf_status hf_init_log_steps(const struct hf_init_state *s, int64_t before);
hf_status hf_init_log_over(const struct hf_init_state *s);
/* Numbers of the rows that this run of steps chose when it was made before, into s->chosen; over:
 * there are no more steps to make. HF_E_CORRUPT: they cannot be. */
hf_status hf_init_recall(struct hf_init_state *s, bool *over);

/* ---- init_greedy.c */
/* A row with a chance in proportion to its weight. */
int64_t hf_init_draw_first(const struct hf_init_state *s);
/* Potentials of all rows for the s->count centroids there are, from nothing. */
hf_status hf_init_resume(struct hf_init_state *s);
/* The first centroid: a row with a chance in proportion to its weight. */
hf_status hf_init_first(struct hf_init_state *s);
/* Bring `count` candidates [count, d] into nearest, label and the potentials. */
hf_status hf_init_commit(struct hf_init_state *s, double *candidates, int64_t count,
                         int32_t first_label);
/* Row `row` is a centroid now: its own distance is 0, also where the metric's rounding, or a row of
 * zeros with HF_COSINE, says otherwise. */
void hf_init_take(struct hf_init_state *s, int64_t row);
/* The first centroid, and the distances to it into nearest [n], memory of the device. label [n]:
 * likewise, all -1 before, 0 where that is nearest; or NULL. */
hf_status hf_init_first_on_device(struct hf_init_state *s, double *nearest, int32_t *label);
/* A finer scale when the potentials have become so small that they lose digits. */
void hf_init_refine(struct hf_init_state *s);
/* Steps of greedy k-means++ until there are k centroids or no row is away from all of them. */
hf_status hf_init_greedy(struct hf_init_state *s);
/* hf_init_first() and hf_init_greedy(); where a device can do both, nearest and label are left as
 * they were. */
hf_status hf_init_plus(struct hf_init_state *s);

/* ---- init_many.c: what hf_init_commit() does where there are many candidates, in host or device
 * memory, and a GPU; the potentials are added to s->block */
bool hf_init_is_many(const struct hf_init_state *s, int64_t count);
hf_status hf_init_commit_many(struct hf_init_state *s, double *candidates, int64_t count,
                              int32_t first_label);

/* ---- init_rounds.c: the first centroid and the rounds of k-means|| where hf_init_rounds_can() */
bool hf_init_rounds_can(const struct hf_init_state *s);
/* `wanted` candidates are expected a round. *row: the rows of all of them, the first centroid in
 * front, *count in number, to be freed by the caller also after a failure. Leaves s->label, the
 * nearest of them, and s->device_nearest, the distance to it. */
hf_status hf_init_rounds(struct hf_init_state *s, int rounds, int64_t wanted, int64_t **row,
                         int64_t *count);

/* ---- init_parallel.c: k-means||, from the first centroid on */
hf_status hf_init_parallel(struct hf_init_state *s);
/* Bytes it is expected to hold beside the state, and those of a device's memory. */
uint64_t hf_init_parallel_bytes(const struct hf_rows *rows, int64_t k);
uint64_t hf_init_parallel_device_bytes(int64_t d, int64_t k);

#endif
