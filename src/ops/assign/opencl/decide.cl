/* SPDX-License-Identifier: Apache-2.0
 * assign, the end of a row in a filter: is the nearest centroid known? What is written then.
 * docs/numerics/filter.md, gpu-filter.md. */

#define EXCLUDED (-0x1.c2p127f) /* the score of a centroid that the filter cannot hold */
#define REACH_ROUNDS 6

/* Arrays that a function gets stay in registers. */
#define INLINED static inline __attribute__((always_inline))

#if HF_FMA
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

/* Column j of a row of float64 as a filter sees it, rounded once. */
static float single_of(__global const uchar *row, long j, float off, float scale) {
    return f64_to_float(f64_mul(f64_sub(load(row, j, F64), f64_of(off)), f64_of(scale)));
}

/* Centroids as a filter sees them: c' = (c - shift) * factor, rounded once to float32. factor: that
 * of all, or 1 / |c| where there are norms. */
struct centroids {
    __global const uchar *data;
    int type;
    long stride, k, d;
    __global const float *shift;
    f64 factor;
    __global const f64 *norms, *lengths; /* lengths: |c'|, NULL: not known yet */
};

#define PACKERS 64 /* HF_OPENCL_GROUP */

static f64 centroid_factor(const struct centroids *c, long slot) {
    if (c->norms && slot < c->k)
        return is_above_zero(c->norms[slot]) ? f64_div(f64_of(1), c->norms[slot]) : f64_of(0);
    return c->factor;
}

/* Component j of c' before it is rounded. */
static f64 centroid_at(const struct centroids *c, long slot, f64 factor, long j) {
    __global const uchar *row =
        row_of(c->data, slot < c->k ? slot : c->k - 1, c->stride, c->type);
    return f64_mul(f64_sub(load(row, j, c->type), f64_of(c->shift ? c->shift[j] : 0)), factor);
}

/* |c'| before it is rounded, infinite behind the last one, for all work-items of a group; `longest`
 * gets at least that if it is below `lost`. */
static f64 centroid_length(const struct centroids *c, long slot, float lost,
                           __local f64 *part, __global volatile uint *longest) {
    const f64 factor = centroid_factor(c, slot);
    const int known = c->lengths != 0;
    f64 sum = f64_of(0);
    for (long j = get_local_id(0); !known && j < c->d; j += get_local_size(0)) {
        const f64 t = centroid_at(c, slot, factor, j);
        sum = add_product(sum, t, t);
    }
    sum = sum_of_group(sum, part);
    if (get_local_id(0) == 0)
        part[0] = slot >= c->k ? f64_of(INFINITY) : known ? c->lengths[slot] : f64_sqrt(sum);
    barrier(CLK_LOCAL_MEM_FENCE);
    const f64 length = part[0];
    if (get_local_id(0) == 0 && f64_less(length, f64_of(lost)))
        atomic_max(longest, as_uint(f64_to_float(f64_mul(length, f64_of(1 + 0x1p-19f)))));
    return length;
}

static float minus_half(f64 square) { return f64_to_float(f64_mul(f64_of(-0.5f), square)); }

/* Into place `slot` of [k / tile, d, tile]; the places behind k are padding. By a group of
 * work-items. */
static void pack_centroid(const struct centroids *c, long slot, int half_norm, int tile,
                          __local f64 *part, __global volatile uint *longest,
                          __global float *packed, __global float *start,
                          __global float *length) {
    __global float *to = packed + slot / tile * tile * c->d + slot % tile;
    const int lost =
        !f64_less(centroid_length(c, slot, 0x1p60f, part, longest), f64_of(0x1p60f));
    const f64 factor = centroid_factor(c, slot);
    f64 square = f64_of(0);
    for (long j = get_local_id(0); j < c->d; j += get_local_size(0)) {
        const float v = lost ? 0 : f64_to_float(centroid_at(c, slot, factor, j));
        to[j * tile] = v;
        square = add_product(square, f64_of(v), f64_of(v));
    }
    square = sum_of_group(square, part);
    if (get_local_id(0) > 0)
        return;
    start[slot] = lost ? EXCLUDED : half_norm ? minus_half(square) : 0.0f;
    length[slot] = lost ? 0 : f64_to_float(f64_sqrt(square)) * (1 + 0x1p-20f);
}

/* What is known of errors: ops/assign/host/bound.h. */
struct bound {
    float eps, delta, tiny, flush, qerr, cmax;
    float half_norm;    /* 0.5, or 0 for cosine and dot */
    float least;        /* |x'|^2 at or below which nothing is known */
    float unit;         /* 1 / scale */
    float moved, share; /* how far storing moved a centroid: at most, and of its length */
    float small;        /* what a unit of 16 bits may take a small factor for */
    float far;          /* centroids that are not held are longer than four times this; rows and
                           reaches must be shorter than it */
};

struct row {
    float norm, q_up, q_low, best, next, best_length;
    float loss; /* how far storing moved the row */
};

static float score_error(const struct bound *b, const struct row *r, float c) {
    const float norm = r->norm + r->loss;
    const float moved = fmin(b->moved, b->share * fmax(c, 0x1p-60f));
    const float length = c * b->half_norm * c + (norm + b->small) * (c + moved + b->small);
    return b->eps * length + b->flush * (1 + c) * (1 + c) + r->loss * c + norm * moved;
}

static float distance_error(const struct bound *b, float norm, float c) {
    return b->delta * (norm + c) + b->tiny;
}

/* At least the lengths of the nearest centroid and of the best; *reach: at least the distance to
 * the best. */
static float longest(const struct bound *b, const struct row *r, float *reach) {
    const int euclidean = b->half_norm > 0;
    float c = b->cmax;
    if (euclidean)
        c = fmin(c, (2 * r->norm + r->best_length) * (1 + 0x1p-3f) + 8 * b->tiny);
    *reach = 0;
    for (int round = 0; round < REACH_ROUNDS; round++) {
        const float e = score_error(b, r, c);
        const float u = fmax(r->q_up - 2 * (r->best - e), 0.0f);
        *reach = 4 * distance_error(b, r->norm, c) + sqrt(u) * (1 + 0x1p-10f);
        const float less = fmin(c, r->norm + *reach);
        const int halved = less < 0.5f * c;
        c = euclidean ? less : c;
        if (!halved || !euclidean)
            break;
    }
    return c;
}

/* Does the filter know the row's nearest centroid? 0: nothing, 1: the threshold is right but does
 * not decide, 2: it is the best. */
static int decide(const struct bound *b, const struct row *r, float q, float *upper, float *lower,
                  float *threshold) {
    float reach;
    const float c = longest(b, r, &reach);
    const float e = score_error(b, r, c), d = distance_error(b, r->norm, c);
    const float root = sqrt(fmax(r->q_up - 2 * (r->best - e), 0.0f));
    float margin = 2 * (e + root * d + d * d);
    if (!(b->half_norm > 0))
        margin = 2 * (4 * b->delta * r->norm * c + e);
    *threshold = r->best - margin * (1 + 0x1p-10f);
    if (!(reach < b->far && r->norm + r->loss < b->far && b->least < q && EXCLUDED < r->best))
        return 0;
    const float wide = fmin(b->cmax, 4 * reach + r->norm);
    const float we = score_error(b, r, wide), wd = distance_error(b, r->norm, wide);
    const float low = sqrt(fmax(r->q_low - 2 * (r->next + we), 0.0f)) * (1 - 0x1p-20f) - wd;
    float sight = wide < b->cmax ? (wide - r->norm) * (1 - 0x1p-20f) - wd : 0x1p58f;
    sight = fmin(sight, 2 * b->far); /* centroids that are not held are farther than that */
    *upper = (root + d) * (1 + 0x1p-20f) * b->unit;
    *lower = fmin(fmax(fmin(low, sight), 0.0f) * b->unit, FLT_MAX);
    return r->next < *threshold ? 2 : 1;
}

/* Where results go. */
struct outcome {
    __global int *label;
    __global float *upper, *lower; /* NULL: not wanted */
    __global int *open;            /* rows that are left, */
    __global long *opened;         /* how many */
    __global const float *length;  /* of each centroid */
    int exact;
    long nears;           /* of so many of `open` we say, */
    __global float *told; /* [nears] the threshold, then [nears] ints: 0, then [nears, NEAR] ints:
                             room for centroids. If nothing is known NAN and NEAR + 1 */
};

#define NEAR 8 /* filters.h */

/* Row i with its sum of squares q and what the filter found of it; known: its label is `arg` for
 * sure. Returns whether its label changed. */
static int conclude(const struct bound *b, const struct outcome *o, long i, float q, float best,
                    float next, int arg, float loss, int known) {
    int verdict = known ? 2 : 0;
    float threshold = NAN;
    if (o->upper || !known) {
        const float up = q * (1 + b->qerr);
        const struct row r = {sqrt(up) * (1 + 0x1p-10f), up, q * (1 - b->qerr), best, next,
                              o->length[arg], loss};
        float above = 0, below = 0;
        verdict = decide(b, &r, q, &above, &below, &threshold);
        if (o->upper && verdict > 0) {
            o->upper[i] = above;
            o->lower[i] = below;
        }
    }
    if (verdict == 2 || (verdict == 1 && !o->exact)) {
        const int changed = o->label[i] != arg;
        o->label[i] = arg;
        return changed;
    }
    const long place = next_number(o->opened);
    o->open[place] = (int)i;
    if (place < o->nears) {
        o->told[place] = verdict > 0 ? threshold : NAN;
        ((__global int *)o->told)[o->nears + place] = verdict > 0 ? 0 : NEAR + 1;
    }
    return 0;
}
