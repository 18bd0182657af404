/* SPDX-License-Identifier: Apache-2.0
 * Greedy k-means++ (Arthur, Vassilvitskii: k-means++: the advantages of careful seeding, SODA
 * 2007). A step draws a few candidates with chances in proportion to the potential of their rows
 * and keeps the one that lowers the sum of the potentials most. Potentials are integers, so neither
 * the order of the rows nor the kernel decides anything.
 *
 * Two things keep a step cheap. The pass over the data that evaluates the candidates also lists the
 * rows that each would bring nearer, so that the winner is committed without another pass (unless
 * the list overflows, as in the first steps). And rows whose centroid is far from all candidates
 * are skipped by the triangle inequality (Raff: Exact acceleration of k-means++ and k-means||,
 * IJCAI 2021). */
#include "algo/kmeans/init/init_state.h"
#include "base/fixed.h"
#include "base/rng.h"
#include "rows/resident.h"
#include "ops/distance/distance.h"
#include "ops/greedy/greedy.h"
#include <math.h>
#include <string.h>

#define DEVICE_STEPS 1024
#define LOGGED_STEPS 128 /* the same where each may be saved */

struct pass {
    const struct hf_init_state *s;
    struct hf_seed_args args; /* of the whole problem */
};

static hf_status pass_chunk(void *job, const hf_array *chunk, int64_t first) {
    const struct pass *pass = job;
    struct hf_seed_args a = pass->args;
    a.x = *chunk;
    a.first = first;
    a.nearest += first;
    a.label += first;
    a.weights = a.weights ? a.weights + first : NULL;
    return hf_seed(pass->s->rows->ctx, &a);
}

static struct pass new_pass(const struct hf_init_state *s, double *candidates, int64_t count) {
    const struct hf_init_args *a = s->args;
    struct pass pass = {.s = s};
    pass.args = (struct hf_seed_args){.candidates = hf_array_view(candidates, HF_F64, count, s->d),
                                      .metric = a->metric,
                                      .weights = a->weights,
                                      .filter = a->filter,
                                      .unit = s->unit,
                                      .limit = s->limit,
                                      .nearest = s->nearest,
                                      .label = s->label};
    return pass;
}

static void sum_blocks(struct hf_init_state *s) {
    s->total = 0;
    for (int64_t b = 0; b < s->blocks; b++)
        s->total += s->block[b];
}

static void sum_potentials(struct hf_init_state *s) {
    memset(s->block, 0, (size_t)s->blocks * sizeof *s->block);
    for (int64_t i = 0; i < s->n; i++)
        s->block[i / HF_SEED_BLOCK] += hf_init_potential(s, i);
    sum_blocks(s);
}

/* Potentials on a scale that uses the whole range of the integers. Later ones are smaller. */
static void rescale(struct hf_init_state *s) {
    s->unit = hf_seed_scale_of(s->nearest, s->args->weights, s->n);
    s->limit = ldexp(1, hf_fixed_bits(s->n));
    sum_potentials(s);
}

void hf_init_take(struct hf_init_state *s, int64_t row) {
    const uint64_t q = hf_init_potential(s, row);
    s->block[row / HF_SEED_BLOCK] -= q;
    s->total -= q;
    s->nearest[row] = 0;
}

void hf_init_refine(struct hf_init_state *s) {
    if ((double)s->total < s->limit * 0x1p-8)
        rescale(s);
}

hf_status hf_init_commit(struct hf_init_state *s, double *candidates, int64_t count,
                         int32_t first_label) {
    struct pass pass = new_pass(s, candidates, count);
    memset(s->block, 0, (size_t)s->blocks * sizeof *s->block);
    pass.args.commit = true;
    pass.args.first_label = first_label;
    pass.args.block = s->block;
    if (hf_init_is_many(s, count))
        HF_TRY(hf_init_commit_many(s, candidates, count, first_label));
    else
        HF_TRY(hf_rows_each(s->rows, pass_chunk, &pass));
    sum_blocks(s);
    return HF_OK;
}

/* The row where the running sum of the potentials passes `target` < total; the last one where these
 * contradict each other, which is a fault in memory. */
static int64_t locate(const struct hf_init_state *s, uint64_t target) {
    int64_t b = 0;
    while (b < s->blocks && target >= s->block[b])
        target -= s->block[b++];
    int64_t i = b * HF_SEED_BLOCK;
    for (; i < s->n - 1; i++) {
        const uint64_t q = hf_init_potential(s, i);
        if (target < q)
            return i;
        target -= q;
    }
    return s->n - 1;
}

static double largest_of(const double *v, int64_t n) {
    double most[8] = {0}; /* chains of comparisons that need not wait for each other */
    for (int64_t i = 0; i + 8 <= n; i += 8)
        for (int e = 0; e < 8; e++)
            most[e] = v[i + e] > most[e] ? v[i + e] : most[e];
    for (int64_t i = n / 8 * 8; i < n; i++)
        most[0] = fmax(most[0], v[i]);
    for (int e = 1; e < 8; e++)
        most[0] = fmax(most[0], most[e]);
    return most[0];
}

int64_t hf_init_draw_first(const struct hf_init_state *s) {
    const uint64_t stream = hf_init_stream(s, HF_DRAW_FIRST);
    const double *w = s->args->weights;
    if (!w)
        return (int64_t)hf_rng_below(s->args->seed, stream, 0, (uint64_t)s->n);
    const int bits = hf_fixed_bits(s->n);
    const double unit = hf_fixed_mult(bits, hf_fixed_exponent(largest_of(w, s->n)));
    const double limit = ldexp(1, bits);
    uint64_t total = 0;
    for (int64_t b = 0; b < s->blocks; b++) {
        const int64_t end = b + 1 < s->blocks ? (b + 1) * HF_SEED_BLOCK : s->n;
        s->block[b] = 0;
        for (int64_t i = b * HF_SEED_BLOCK; i < end; i++)
            s->block[b] += hf_seed_quantum(w[i], 1, unit, limit);
        total += s->block[b];
    }
    uint64_t target = hf_rng_below(s->args->seed, stream, 0, total > 0 ? total : 1);
    int64_t b = 0;
    for (; b < s->blocks && target >= s->block[b]; b++)
        target -= s->block[b];
    for (int64_t i = b * HF_SEED_BLOCK; i < s->n; i++) {
        const uint64_t q = hf_seed_quantum(w[i], 1, unit, limit);
        if (target < q)
            return i;
        target -= q;
    }
    return 0;
}

hf_status hf_init_resume(struct hf_init_state *s) {
    for (int64_t i = 0; i < s->n; i++) {
        s->nearest[i] = INFINITY;
        s->label[i] = -1;
    }
    s->unit = 1; /* no scale yet */
    s->limit = 1;
    HF_TRY(hf_init_commit(s, s->centroids, s->count, 0));
    for (int64_t t = 0; t < s->count; t++)
        s->nearest[s->chosen[t]] = 0;
    rescale(s);
    return HF_OK;
}

hf_status hf_init_first(struct hf_init_state *s) {
    s->chosen[0] = hf_init_draw_first(s);
    HF_TRY(hf_init_gather(s, s->chosen, 1, s->centroids));
    s->count = 1;
    HF_TRY(hf_init_resume(s));
    return hf_init_progress(s, 1);
}

/* How far each centroid reaches: see hf_seed_args. */
static hf_status find_reach(struct hf_init_state *s) {
    for (int64_t first = 0; first < s->count; first += HF_REACH_ROWS) {
        const int64_t left = s->count - first;
        const int64_t rows = left < HF_REACH_ROWS ? left : HF_REACH_ROWS;
        const struct hf_distance_args args = {
            .x = hf_array_view(s->centroids + first * s->d, HF_F64, rows, s->d),
            .c = hf_array_view(s->candidate, HF_F64, s->trials, s->d),
            .metric = HF_EUCLIDEAN,
            .out = s->between};
        HF_TRY(hf_distance(s->rows->ctx, &args));
        for (int64_t t = 0; t < rows; t++) {
            double least = INFINITY;
            for (int l = 0; l < s->trials; l++)
                least = fmin(least, s->between[t * s->trials + l]);
            s->reach[first + t] = hf_seed_reach(least, s->d);
        }
    }
    return HF_OK;
}

/* Commit the winner from the list of the rows it brings nearer. */
static void commit_pairs(struct hf_init_state *s, int64_t pairs, int winner) {
    for (int64_t p = 0; p < pairs; p++) {
        const struct hf_seed_pair *pair = s->pairs + p;
        const int64_t i = pair->row;
        if (pair->candidate != winner || (uint64_t)i >= (uint64_t)s->n)
            continue;
        const uint64_t before = hf_init_potential(s, i);
        s->nearest[i] = pair->d;
        s->label[i] = (int32_t)s->count;
        const uint64_t drop = before - hf_init_potential(s, i);
        s->block[i / HF_SEED_BLOCK] -= drop;
        s->total -= drop;
    }
}

/* Kernels look up by label how far a centroid reaches. A label that is none is a fault in memory:
 * whatever it becomes, a protected start will not come out like this again. */
static void hold_labels(const struct hf_init_state *s) {
    uint32_t most = 0;
    for (int64_t i = 0; i < s->n; i++)
        most = (uint32_t)s->label[i] > most ? (uint32_t)s->label[i] : most;
    for (int64_t i = 0; most >= (uint32_t)s->count && i < s->n; i++)
        s->label[i] = (uint32_t)s->label[i] < (uint32_t)s->count ? s->label[i] : 0;
}

/* Which candidate lowers the potential most, and the list of pairs. */
static hf_status evaluate(struct hf_init_state *s, bool use_reach, int64_t *pairs, int *winner) {
    struct pass pass = new_pass(s, s->candidate, s->trials);
    memset(s->gain, 0, (size_t)s->trials * sizeof *s->gain);
    *pairs = 0;
    pass.args.reach = use_reach ? s->reach : NULL;
    pass.args.gain = s->gain;
    pass.args.pairs = s->pairs;
    pass.args.pairs_room = hf_init_pairs_room(s);
    pass.args.pairs_count = pairs;
    HF_TRY(hf_rows_each(s->rows, pass_chunk, &pass));
    *winner = 0;
    for (int l = 1; l < s->trials; l++)
        if (s->gain[l] > s->gain[*winner])
            *winner = l;
    return HF_OK;
}

static hf_status step(struct hf_init_state *s) {
    const uint64_t stream = hf_init_stream(s, HF_DRAW_TRIAL);
    for (int l = 0; l < s->trials; l++) {
        const uint64_t counter = (uint64_t)s->count * (uint64_t)s->trials + (uint64_t)l;
        s->drawn[l] = locate(s, hf_rng_below(s->args->seed, stream, counter, s->total));
    }
    HF_TRY(hf_init_gather(s, s->drawn, s->trials, s->candidate));
    /* float64 distances between centroids must cost less than they can save */
    const bool use_reach =
        s->labelled && s->args->metric != HF_COSINE && s->count > 1 && s->count <= s->n / 8;
    if (use_reach) {
        hold_labels(s);
        HF_TRY(find_reach(s));
    }
    int64_t pairs = 0;
    int winner = 0;
    HF_TRY(evaluate(s, use_reach, &pairs, &winner));
    double *c = s->candidate + winner * s->d;
    if (pairs <= hf_init_pairs_room(s))
        commit_pairs(s, pairs, winner);
    else
        HF_TRY(hf_init_commit(s, c, 1, (int32_t)s->count));
    hf_init_take(s, s->drawn[winner]);
    hf_init_refine(s);
    s->chosen[s->count] = s->drawn[winner];
    memcpy(s->centroids + s->count * s->d, c, (size_t)s->d * sizeof *c);
    s->count++;
    HF_TRY(hf_init_log_steps(s, s->count - 1));
    return hf_init_progress(s, s->count);
}

/* Steps that the device makes by itself, DEVICE_STEPS between two words to the caller. */
static hf_status device_steps(struct hf_init_state *s, int64_t upto) {
    const struct hf_init_args *a = s->args;
    const uint64_t held = s->rows->ctx->workspace_bytes, left = hf_ctx_room(s->rows->ctx);
    const struct hf_greedy_args args = {.x = *s->rows->array,
                                        .weights = hf_init_weights(s),
                                        .metric = a->metric,
                                        .filter = a->filter,
                                        .seed = a->seed,
                                        .stream = hf_init_stream(s, HF_DRAW_TRIAL),
                                        .trials = s->trials,
                                        .room = (held > left ? held : left) + 1,
                                        .upto = upto,
                                        .limit = s->limit,
                                        .unit = &s->unit,
                                        .nearest =
                                            s->device_nearest ? s->device_nearest : s->nearest,
                                        .chosen = s->chosen,
                                        .centroids = s->centroids,
                                        .count = &s->count};
    const int64_t before = s->count;
    HF_TRY(hf_greedy(s->rows->ctx, &args));
    s->labelled = false; /* label is not kept up */
    HF_TRY(hf_init_log_steps(s, before));
    return hf_init_progress(s, s->count);
}

/* Can op greedy make the steps? On the CPU the loop below is faster, for it skips rows. */
static bool on_device(const struct hf_init_state *s) {
    return s->on_device && hf_init_in_place(s) && s->trials <= HF_GREEDY_TRIALS;
}

/* All steps there are to make. */
static hf_status device_greedy(struct hf_init_state *s) {
    const int64_t most = s->args->log ? LOGGED_STEPS : DEVICE_STEPS;
    for (int64_t before = -1; s->count < s->k && s->count != before;) {
        before = s->count;
        const int64_t left = s->k - before;
        HF_TRY(device_steps(s, before + (left < most ? left : most)));
    }
    return HF_OK;
}

/* Distances to the centroids from number `before` on, where the device keeps them. */
static hf_status rejoin_on_device(struct hf_init_state *s, int64_t before) {
    hf_context *ctx = s->rows->ctx;
    double *const nearest = s->device_nearest ? s->device_nearest : s->nearest;
    const double zero = 0;
    const struct hf_seed_args args = {
        .x = *s->rows->array,
        .candidates = hf_array_view(s->centroids + before * s->d, HF_F64, s->count - before, s->d),
        .metric = s->args->metric,
        .filter = s->args->filter,
        .unit = 1,
        .limit = 1,
        .nearest = nearest,
        .commit = true};
    HF_TRY(hf_seed(ctx, &args));
    for (int64_t t = before; t < s->count; t++)
        HF_TRY(hf_ctx_copy(ctx, nearest + s->chosen[t], &zero, sizeof zero));
    return HF_OK;
}

/* The potentials are to be summed after that. Steps skip rows by the triangle inequality, which a
 * commit does not: op assign makes up for that, where it has the memory. */
static hf_status commit_fast(struct hf_init_state *s, double *c, int64_t count, int32_t first) {
    const bool many = s->args->metric != HF_COSINE && count >= HF_INIT_MANY;
    const hf_status status = many ? hf_init_commit_many(s, c, count, first) : HF_E_NOMEM;
    return status == HF_E_NOMEM ? hf_init_commit(s, c, count, first) : status;
}

/* As the steps that chose the centroids from number `before` on left things. */
static hf_status rejoin(struct hf_init_state *s, int64_t before) {
    double *const first = s->centroids + before * s->d;
    const int64_t count = s->count - before;
    HF_TRY(hf_init_gather(s, s->chosen + before, count, first));
    if (on_device(s)) {
        HF_TRY(rejoin_on_device(s, before));
        s->unit = s->args->log->unit;
    } else {
        HF_TRY(commit_fast(s, first, count, (int32_t)before));
        for (int64_t t = before; t < s->count; t++)
            s->nearest[s->chosen[t]] = 0;
        s->unit = s->args->log->unit;
        sum_potentials(s);
    }
    return hf_init_progress(s, s->count);
}

hf_status hf_init_greedy(struct hf_init_state *s) {
    const int64_t before = s->count;
    bool over = false;
    if (before == s->k)
        return HF_OK;
    HF_TRY(hf_init_recall(s, &over));
    if (over)
        return hf_init_gather(s, s->chosen + before, s->count - before,
                              s->centroids + before * s->d);
    if (s->count > before)
        HF_TRY(rejoin(s, before));
    if (on_device(s))
        HF_TRY(device_greedy(s));
    while (s->count < s->k && s->total > 0 && !on_device(s))
        HF_TRY(step(s));
    return hf_init_log_over(s);
}

/* Where no distance comes near, every byte 0x7f, 1.4e306, is more than any. */
static hf_status fill_device_nearest(const struct hf_init_state *s, double *nearest) {
    const size_t bytes = (size_t)s->n * sizeof(double);
    const double scale = s->args->filter.scale;
    const double most = s->args->metric == HF_COSINE ? 2 : 4 * (double)s->d / scale / scale;
    if (most < 1e306)
        return hf_ctx_fill(s->rows->ctx, nearest, 0x7f, bytes);
    for (int64_t i = 0; i < s->n; i++)
        s->nearest[i] = INFINITY;
    return hf_ctx_copy(s->rows->ctx, nearest, s->nearest, bytes);
}

hf_status hf_init_first_on_device(struct hf_init_state *s, double *nearest, int32_t *label) {
    hf_context *ctx = s->rows->ctx;
    const double zero = 0;
    s->chosen[0] = hf_init_draw_first(s);
    HF_TRY(hf_init_gather(s, s->chosen, 1, s->centroids));
    HF_TRY(fill_device_nearest(s, nearest));
    const struct hf_seed_args args = {.x = *s->rows->array,
                                      .candidates = hf_array_view(s->centroids, HF_F64, 1, s->d),
                                      .metric = s->args->metric,
                                      .filter = s->args->filter,
                                      .unit = 1,
                                      .limit = 1,
                                      .nearest = nearest,
                                      .label = label,
                                      .commit = true};
    HF_TRY(hf_seed(ctx, &args));
    HF_TRY(hf_ctx_copy(ctx, nearest + s->chosen[0], &zero, sizeof zero));
    s->count = 1;
    s->unit = 0; /* the op of the next step finds one */
    s->limit = ldexp(1, hf_fixed_bits(s->n));
    return hf_init_progress(s, 1);
}

/* The first centroid, the distances to it in s->device_nearest, and the steps from there. */
static hf_status device_plus(struct hf_init_state *s) {
    HF_TRY(hf_init_first_on_device(s, s->device_nearest, NULL));
    return hf_init_greedy(s);
}

hf_status hf_init_plus(struct hf_init_state *s) {
    if (!on_device(s)) {
        HF_TRY(hf_init_first(s));
        return hf_init_greedy(s);
    }
    const size_t bytes = (size_t)s->n * sizeof(double);
    s->device_nearest = hf_ctx_alloc(s->rows->ctx, bytes);
    if (!s->device_nearest)
        return hf_ctx_fail(s->rows->ctx, HF_E_NOMEM,
                           "%s has no memory for the distances of %lld rows", s->rows->ctx->name,
                           (long long)s->n);
    return device_plus(s);
}
