/* SPDX-License-Identifier: Apache-2.0
 * assign with OpenCL, the filter in 16 bits: matrix.cl. First one float16 product; rows that it
 * leaves open meet a second one whose factors are sums of two float16, of float32's accuracy. */
#include "ops/assign/opencl/filters.h"

#include <stdio.h>

#define COLUMNS 512   /* at most */
#define STAGE 8192    /* float16 of centroids at once in local memory */
#define WAVES 256     /* groups for each compute unit: a tile each, but of very many rows */
#define FEW_WAVES 8   /* of a list, which is short as a rule */
#define LOCAL 47000   /* bytes of local memory that a group takes at most */
#define LEAST_HELD 32 /* centroids; a kernel for each power of two */
#define HELD_TILES 8  /* of rows, that a group takes one after the other */
#define FEW 128       /* centroids: more warps with fewer rows */
#define FAR 0x1p13    /* beyond, centroids that are not held may be near */
#define SMALL 0x1p-13

#define WARPS 4                           /* of a group with NVIDIA's unit; */
#define TEAMS 8                           /* where four work together, */
#define TEAM_WORK ((int64_t)1 << 18)      /* with so many numbers of centroids at least */
#define MOST_CENTROIDS ((int64_t)1 << 28) /* chunks of them are counted in float */

/* How a product is compiled for d columns. */
struct form {
    int parts, blocks, tall, strip, chunk; /* options PARTS, BLOCKS, MT, STRIP, CHUNK */
    int hold;                              /* and HOLD */
    int warps;                             /* and WARPS */
};

/* One product keeps 128 registers' worth of rows, as many as fit: what is read of centroids serves
 * them all, and those reads are what it waits for. With few centroids it waits for rows. */
static struct form form_of(int64_t d, int parts, int64_t k) {
    struct form f = {.parts = parts, .blocks = 1, .warps = WARPS};
    while (32 * f.blocks < d)
        f.blocks *= 2;
    if (d > 64 && d <= 96)
        f.blocks = 3;
    if (parts == 1)
        f.tall = f.blocks <= 4 ? 4 : 16 / f.blocks;
    else
        f.tall = f.blocks <= 2 ? 2 : 1;
    if (parts == 1 && k <= FEW && f.tall > 2)
        f.tall = 2;
    f.strip = f.tall > 1 || parts * f.blocks > 8 ? 2 : 4;
    f.chunk = 2 * f.strip;
    return f;
}

/* The same for a team, which takes 64 centroids at once, whose scores need the other registers.
 * With less than TEAM_WORK it is slower: there is one group a multiprocessor, which multiplies
 * nothing while it takes rows in and ends them. */
static struct form team_form(int64_t d, int parts, int64_t k) {
    struct form f = form_of(d, parts, k);
    if (parts > 1 || f.blocks > 4 || 32 * f.blocks * k < TEAM_WORK)
        return f;
    f.tall = 2;
    f.strip = f.chunk = 8;
    f.warps = TEAMS;
    return f;
}

/* Centroids that stay in local memory; 0: that cannot hold them. */
static int hold_of(const struct form *f, int64_t k) {
    const int64_t facts = INT64_C(80) * f->warps * 16 * f->tall;
    int64_t hold = LEAST_HELD;
    while (hold < k)
        hold *= 2;
    return hold * (64 * f->blocks + 4) + facts <= LOCAL ? (int)hold : 0;
}

static struct form form_for(const struct hf_cl_assign *job, int parts) {
    const int64_t d = job->a.x.cols, k = job->a.c.rows;
    struct form f = job->cl->team ? team_form(d, parts, k) : form_of(d, parts, k);
    if (!job->cl->unit)
        f.warps = 1;
    return f;
}

/* That in which all centroids stay in local memory, or `passing` if they do not fit there. */
static struct form held_form(const struct hf_cl_assign *job, struct form passing) {
    struct form f = form_of(job->a.x.cols, passing.parts, job->a.c.rows);
    f.warps = job->cl->unit ? WARPS : 1;
    f.hold = hold_of(&f, job->a.c.rows);
    return f.hold > 0 ? f : passing;
}

static int64_t slots_of(const struct form *f, int64_t k) {
    if (f->hold > 0)
        return f->hold;
    const int64_t strip = 8 * f->strip;
    const int64_t tile = STAGE / (32 * f->blocks * f->parts) / strip * strip;
    return (k + tile - 1) / tile * tile;
}

/* Two float16 of more columns do not fit in registers. */
bool hf_cl_matrix_once(const struct hf_assign_args *a) { return a->x.cols > 256; }

bool hf_cl_matrix_supports(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    return call->device->matrix && a->x.rows < INT32_MAX && a->c.rows < MOST_CENTROIDS &&
           a->x.cols <= COLUMNS;
}

/* As that of the tiles. */
double hf_cl_matrix_estimate(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    const struct form f = form_of(a->x.cols, 1, a->c.rows);
    const double n = (double)a->x.rows, slots = (double)slots_of(&f, a->c.rows);
    const double without = call->device->wide ? 1000 : 1;
    return n * (slots * (32.0 * f.blocks + 32) * 0.002 * without + 16.0 * f.blocks) + 100000;
}

/* Places of centroids that a form may need. */
static int64_t most_slots(int64_t d, int parts, int64_t k) {
    struct form team = team_form(d, parts, k), f = form_of(d, parts, k);
    const int64_t passing = slots_of(&f, k), together = slots_of(&team, k);
    const int64_t most = passing > together ? passing : together;
    f.warps = 1;
    const int64_t held = hold_of(&f, k);
    return most > held ? most : held;
}

void hf_cl_matrix_carve(struct hf_cl_assign *job, const struct hf_assign_args *a, hf_carve *carve) {
    const int64_t d = a->x.cols, k = a->c.rows;
    for (int i = 0; i < 2; i++) {
        struct hf_cl_halves *h = &job->halves[i];
        const struct form f = form_of(d, i + 1, k);
        if (i == 1 && hf_cl_matrix_once(a))
            break;
        const size_t slots = (size_t)most_slots(d, i + 1, k);
        h->packed = hf_carve_take(carve, slots * 64 * (size_t)(f.blocks * f.parts));
        h->start = hf_carve_take(carve, slots * sizeof *h->start);
        h->length = hf_carve_take(carve, slots * sizeof *h->length);
    }
    job->nears = a->exact ? a->x.rows : 0; /* which rows come first is not the same in all runs */
    job->told = hf_carve_take(carve, (size_t)job->nears * (HF_CL_NEAR + 2) * sizeof *job->told);
}

static hf_status pack(struct hf_cl_assign *job, const struct hf_cl_halves *h, const struct form *f,
                      struct hf_cl_job run) {
    const hf_array *c = &job->a.c;
    struct form passing = *f; /* those of matrix_near(), too */
    passing.hold = 0;
    const int64_t slots = slots_of(&passing, c->rows);
    const struct hf_cl_job items = hf_opencl_group_job(job->call->device, run.source, "matrix_pack",
                                                       f->hold > slots ? f->hold : slots);
    run.kernel = items.kernel;
    run.global = items.global;
    run.group = items.group;
    return hf_opencl_run(job->cl, &run, "pniiipdppnppppp", c->data, (int32_t)c->dtype,
                         c->row_stride, c->rows, c->cols, job->shift, job->factor,
                         job->a.metric == HF_COSINE ? job->lengths : NULL, hf_cl_lengths(job),
                         (int32_t)(job->a.metric == HF_EUCLIDEAN), job->count->limit, h->packed,
                         h->start, h->length, job->count->moved[f->parts - 1]);
}

/* docs/numerics/gpu-filter.md: a step of the unit is off by 2^-18 of its sum at most. */
static struct filter_bound bound_of(const struct hf_cl_assign *job, const struct form *f) {
    const int64_t d = job->a.x.cols;
    const double steps = (double)((d + 15) / 16);
    const double off = f->parts == 1 ? (steps + 3) * 0x1p-18 : (steps + 1) * 0x1p-18 + 0x1p-20;
    struct filter_bound b = filter_bound_make(off, d, 0);
    b.qerr = (float)((double)(d + 24) * 0x1p-24);
    return b;
}

/* Rows in float16, which this call or an earlier one has packed. NULL: none are kept. */
struct held {
    void *words, *facts;
};

size_t hf_cl_packed_bytes(const struct hf_kernel *kernel, const struct hf_assign_args *a) {
    const struct form f = form_of(a->x.cols, 1, a->c.rows);
    const size_t tiles = ((size_t)a->x.rows + 15) / 16;
    return kernel->supports == hf_cl_matrix_supports ? tiles * 16 * (64 * (size_t)f.blocks + 8) : 0;
}

static struct held held_of(const struct hf_cl_assign *job, const struct form *f) {
    struct hf_assign_packed *p = job->a.packed;
    struct held held = {NULL, NULL};
    if (p == NULL || f->parts > 1)
        return held;
    held.words = p->data;
    held.facts = (char *)p->data + (size_t)(job->a.x.rows + 15) / 16 * 1024 * (size_t)f->blocks;
    return held;
}

/* All rows, if no call before has. */
static hf_status keep_rows(struct hf_cl_assign *job, const struct form *f, struct hf_cl_job run) {
    const struct hf_assign_args *a = &job->a;
    struct hf_assign_packed *p = a->packed;
    const struct held held = held_of(job, f);
    const int64_t tall = INT64_C(16) * f->warps * f->tall;
    const int64_t tiles = (a->x.rows + tall - 1) / tall;
    const int64_t most = (int64_t)job->call->device->units * WAVES;
    if (p == NULL || p->form != 0)
        return HF_OK;
    run.kernel = "matrix_rows";
    run.group = (size_t)f->warps * 32;
    run.global = run.group * (size_t)(tiles < most ? tiles : most);
    p->form = 1;
    p->filled = a->x.rows;
    return hf_opencl_run(job->cl, &run, "pniiipfpp", a->x.data, (int32_t)a->x.dtype,
                         a->x.row_stride, a->x.rows, a->x.cols, job->shift, a->filter.scale,
                         held.words, held.facts);
}

static hf_status filter(struct hf_cl_assign *job, const struct hf_cl_halves *h,
                        const struct form *f, struct hf_cl_job run, const struct hf_cl_rows *rows) {
    const struct hf_assign_args *a = &job->a;
    const struct filter_bound b = bound_of(job, f);
    const bool euclidean = a->metric == HF_EUCLIDEAN;
    const int64_t tall = INT64_C(16) * f->warps * f->tall;
    const int64_t tiles = (a->x.rows + tall - 1) / tall;
    const int64_t units = job->call->device->units;
    const int64_t most = units * (rows->list == NULL ? WAVES : FEW_WAVES);
    const int64_t each = f->hold > 0 && tiles > units * HELD_TILES * 4 ? HELD_TILES : 1;
    const int64_t groups = (tiles + each - 1) / each;
    const struct hf_cl_rows open = hf_cl_open_rows(job);
    const struct held held = rows->list == NULL ? held_of(job, f) : (struct held){NULL, NULL};
    run.kernel = "matrix_filter";
    run.group = (size_t)f->warps * 32;
    run.global = run.group * (size_t)(groups < most ? groups : most);
    return hf_opencl_run(
        job->cl, &run, "pniiiipppfppppfffffpfffffnpppppppppi", a->x.data, (int32_t)a->x.dtype,
        a->x.row_stride, a->x.rows, a->c.rows, a->x.cols, rows->list, rows->count, job->shift,
        a->filter.scale, h->packed, h->start, h->length, job->count->moved[f->parts - 1],
        (double)b.eps, (double)b.delta, (double)b.tiny, (double)b.flush, (double)b.qerr,
        job->count->limit, euclidean ? 0.5 : 0.0, euclidean ? -1.0 : 0x1p-90, 1 / a->filter.scale,
        SMALL, FAR, (int32_t)a->exact, a->labels, a->bounds ? a->bounds->upper : NULL,
        a->bounds ? a->bounds->lower : NULL, open.list, open.count, a->stats, held.words,
        held.facts, f->parts == 1 ? job->told : NULL, f->parts == 1 ? job->nears : 0);
}

/* Rows that one product leaves open are compared with the centroids that may be the nearest, if
 * these are few; *rows: in, out, the rows that are open. */
static hf_status find_near(struct hf_cl_assign *job, const struct hf_cl_halves *h,
                           const struct form *f, struct hf_cl_job run, struct hf_cl_rows *rows) {
    const struct hf_assign_args *a = &job->a;
    const struct hf_cl_rows in = *rows;
    run.kernel = "matrix_near";
    run.group = (size_t)f->warps * 32;
    run.global = run.group * (size_t)job->call->device->units * FEW_WAVES;
    HF_TRY(hf_opencl_run(job->cl, &run, "pniiipppfpppi", a->x.data, (int32_t)a->x.dtype,
                         a->x.row_stride, a->c.rows, a->x.cols, in.list, in.count, job->shift,
                         a->filter.scale, h->packed, h->start, job->told, job->nears));
    const struct hf_cl_job settle =
        hf_opencl_job(job->call->device, "assign", "assign_near", a->x.rows);
    hf_cl_passed(job, rows);
    return hf_opencl_run(job->cl, &settle, "pnipniinpppipppppp", a->x.data, (int32_t)a->x.dtype,
                         a->x.row_stride, a->c.data, (int32_t)a->c.dtype, a->c.row_stride,
                         a->x.cols, (int32_t)a->metric, in.list, in.count, job->told, job->nears,
                         a->labels, a->bounds ? a->bounds->upper : NULL,
                         a->bounds ? a->bounds->lower : NULL, rows->list, rows->count, a->stats);
}

static struct hf_cl_job job_of(const struct hf_cl_assign *job, const struct form *f,
                               char options[128]) {
    (void)snprintf(options, 128,
                   "-DPARTS=%d -DBLOCKS=%d -DMT=%d -DSTRIP=%d -DCHUNK=%d -DHOLD=%d -DWARPS=%d",
                   f->parts, f->blocks, f->tall, f->strip, f->chunk, f->hold, f->warps);
    return (struct hf_cl_job){.source = job->cl->matrix, .options = options};
}

hf_status hf_cl_matrix_run(struct hf_cl_assign *job, struct hf_cl_rows *rows) {
    for (int i = 0; i < (hf_cl_matrix_once(&job->a) ? 1 : 2); i++) {
        struct form f = form_for(job, i + 1);
        char options[128];
        if (i == 0 && job->a.packed != NULL) {
            HF_TRY(keep_rows(job, &f, job_of(job, &f, options)));
            f = rows->list == NULL ? held_form(job, f) : f;
        }
        const struct hf_cl_job run = job_of(job, &f, options);
        HF_TRY(pack(job, &job->halves[i], &f, run));
        HF_TRY(filter(job, &job->halves[i], &f, run, rows));
        hf_cl_passed(job, rows);
        f.hold = 0;
        if (i == 0 && job->nears > 0)
            HF_TRY(find_near(job, &job->halves[i], &f, job_of(job, &f, options), rows));
    }
    return HF_OK;
}
