/* SPDX-License-Identifier: Apache-2.0
 * The filter of u8 rows but for its kernel: rows, centroids, whether it pays. */
#include "ops/assign/cuda/i8.h"
#include "base/mem.h"
#include "ops/assign/cuda/filter_schedule.cuh"

#include <math.h>

#define MIDDLE 127.5
#define STEP (255.0 / 254.0)
#define LEAST_WORK 2e10 /* rows times centroids times columns from which on it pays */
#define FEW 0.4         /* a longer list costs as much as all rows */
#define MOST_SMS 256
#define THREADS 256
#define PADDING (-(1 << 30)) /* bias of places without a centroid */

bool hf_i8_supports(const struct hf_assign_problem *p) {
    return p->x.dtype == HF_U8 && p->metric == HF_EUCLIDEAN && p->exact && p->batch == 1 &&
           p->x.cols <= HF_I8_SLAB * HF_I8_SLABS && p->x.rows < INT32_MAX - 1024 && p->k <= 1 << 24;
}

/* Can the rows stay where they are? */
static bool in_place(const struct hf_assign_problem *p) {
    const int64_t stride = p->x.row_stride != 0 ? p->x.row_stride : p->x.cols;
    return stride % 16 == 0 && (uintptr_t)p->x.data % 16 == 0;
}

/* For one step rows are brought into place; a loop takes those that lie well, so that it needs no
 * memory for them. */
static bool packs_itself(const struct hf_assign_problem *p) {
    return p->kind == HF_ASSIGN_I8 && p->once;
}

bool hf_i8_wanted(const struct hf_assign_problem *p) {
    const double work = (double)p->x.rows * (double)p->k * (double)p->x.cols;
    if (!hf_i8_supports(p) || p->kind == HF_ASSIGN_I8)
        return p->kind == HF_ASSIGN_I8 && hf_i8_supports(p);
    return p->kind == HF_ASSIGN_AUTO && p->x.cols >= 384 && p->k >= 512 && work >= LEAST_WORK;
}

bool hf_i8_chosen(const struct hf_cuda *cuda, const struct hf_assign_problem *p) {
    return cuda->sm == 90 && hf_i8_wanted(p) && (packs_itself(p) || in_place(p));
}

static void *take(hf_carve *carve, size_t bytes) {
    carve->used = (carve->used + 255) / 256 * 256;
    return hf_carve_take(carve, bytes);
}

size_t hf_i8_rows_carve(const struct hf_assign_problem *p, void *memory, struct hf_i8_rows *rows) {
    hf_carve carve = {(char *)memory, 0};
    const size_t n = (size_t)p->x.rows;
    const int64_t stride = p->x.row_stride != 0 ? p->x.row_stride : p->x.cols;
    rows->state = (struct hf_i8_state *)take(&carve, sizeof(struct hf_i8_state));
    rows->fact = (const int32_t *)take(&carve, sizeof(int32_t) * n);
    rows->ld = stride;
    rows->x = (const uint8_t *)p->x.data;
    /* Where the rows will lie is not known when memory is measured. */
    if (packs_itself(p) && (memory == NULL || !in_place(p))) {
        rows->ld = (p->x.cols + 15) / 16 * 16;
        rows->x = (const uint8_t *)take(&carve, n * (size_t)rows->ld);
    }
    return (carve.used + 255) / 256 * 256;
}

static struct filter_tile tile_of(int64_t d) {
    const int slabs = (int)((d + HF_I8_SLAB - 1) / HF_I8_SLAB);
    return {slabs * HF_I8_SLAB, HF_I8_TILE, 128, false, HF_I8_TILE * (slabs * HF_I8_SLAB + 4)};
}

static int tiles_of(int64_t k) { return (int)((k + HF_I8_TILE - 1) / HF_I8_TILE); }

size_t hf_i8_carve(const struct hf_assign_problem *p, void *ws, struct hf_i8_memory *m) {
    hf_carve carve = {(char *)ws, 0};
    const size_t n = (size_t)p->x.rows, tiles = (size_t)tiles_of(p->k);
    m->tiles = (uint8_t *)take(&carve, tiles * (size_t)tile_of(p->x.cols).bytes);
    m->eps = (float *)take(&carve, tiles * HF_I8_TILE * sizeof(float));
    m->parts = (float *)take(&carve, (size_t)MOST_SMS * 2 * FILTER_MAX_WG * FILTER_WG_ROWS *
                                         FILTER_PART * sizeof(float));
    m->counters = (int *)take(&carve, (size_t)MOST_SMS * FILTER_MAX_WG * sizeof(int));
    m->list = (int32_t *)take(&carve, sizeof(int32_t) * n);
    m->threshold = (float *)take(&carve, sizeof(float) * n);
    return (carve.used + 255) / 256 * 256;
}

/* A warp to a row: its fact, and a copy with zeros behind column d where one is wanted. */
static __global__ void __launch_bounds__(THREADS)
    i8_rows(const uint8_t *x, int64_t n, int64_t d, int64_t stride, int32_t *fact, uint8_t *copy,
            int64_t ld) {
    const int lane = (int)threadIdx.x % 32;
    for (int64_t row = (blockIdx.x * (int64_t)THREADS + threadIdx.x) / 32; row < n;
         row += gridDim.x * (int64_t)(THREADS / 32)) {
        const uint8_t *const from = x + row * stride;
        unsigned square = 0, sum = 0;
        if (copy) {
            for (int64_t j = lane; j < ld; j += 32) {
                const unsigned v = j < d ? from[j] : 0;
                copy[row * ld + j] = (uint8_t)v;
                square += v * v;
                sum += v;
            }
        } else {
            for (int64_t j = lane * 16; j < d; j += 32 * 16) {
                const uint4 v = *(const uint4 *)(from + j);
                const unsigned word[4] = {v.x, v.y, v.z, v.w};
                for (int i = 0; i < 4; i++) {
                    const int64_t left = d - j - 4 * i;
                    const unsigned part = left >= 4  ? word[i]
                                          : left > 0 ? word[i] & ((1u << (8 * left)) - 1)
                                                     : 0;
                    square = __dp4a(part, part, square);
                    sum = __dp4a(part, 0x01010101u, sum);
                }
            }
        }
        square = __reduce_add_sync(~0u, square);
        sum = __reduce_add_sync(~0u, sum);
        if (lane == 0)
            fact[row] = (int32_t)square - 255 * (int32_t)sum;
    }
}

hf_status hf_i8_prepare(struct hf_cuda *cuda, const struct hf_assign_problem *p,
                        const struct hf_i8_rows *rows) {
    const int64_t stride = p->x.row_stride != 0 ? p->x.row_stride : p->x.cols;
    const int64_t blocks = (p->x.rows + THREADS / 32 - 1) / (THREADS / 32);
    const int64_t most = (int64_t)cuda->sms * 16;
    uint8_t *const copy = rows->x == p->x.data ? NULL : (uint8_t *)(uintptr_t)rows->x;
    HF_TRY(hf_cuda_check(cuda,
                         cudaMemsetAsync(rows->state, 0, sizeof(struct hf_i8_state), cuda->stream),
                         "assign: clear counters"));
    i8_rows<<<(unsigned)(blocks < most ? blocks : most), THREADS, 0, cuda->stream>>>(
        (const uint8_t *)p->x.data, p->x.rows, p->x.cols, stride, (int32_t *)(uintptr_t)rows->fact,
        copy, rows->ld);
    return hf_cuda_launched(cuda, "assign: rows of u8");
}

struct i8_pack_job {
    const void *c; /* [k, d] */
    bool f64;
    int k, d;
    struct filter_tile tile;
    uint8_t *tiles;
    float *eps;
    int *counters;
    int n_counters;
    struct hf_i8_state *state;
    const int32_t *stop;
};

/* Has this step anything to do here? Before all else. */
static __global__ void i8_begin(struct hf_i8_state *state, const int32_t *stop) {
    state->count = 0;
    state->stop = (stop && *stop) || state->rest > 0;
}

/* What the next filter is to look at. */
static __global__ void i8_judge(struct hf_i8_state *state, const int32_t *stop, int64_t n) {
    state->stop_all = state->stop_list = 1;
    if (stop && *stop)
        return;
    if (state->rest > 0) {
        state->rest--;
        state->stop_all = 0;
        return;
    }
    const bool few = (double)state->count <= FEW * (double)n;
    *(few ? &state->stop_list : &state->stop_all) = 0;
    state->penalty = few ? 0 : min(2 * state->penalty + 2, 30);
    state->rest = state->penalty;
}

static __device__ double i8_sum(double v) {
    for (int lane = 16; lane > 0; lane >>= 1)
        v += __shfl_xor_sync(~0u, v, lane);
    return v;
}

/* A block packs FILTER_CHUNK centroids, a warp one. */
static __global__ void __launch_bounds__(FILTER_CHUNK * 32) i8_pack(const struct i8_pack_job job) {
    if (job.state->stop)
        return;
    const int lane = (int)threadIdx.x % 32;
    const int j = (int)(blockIdx.x * FILTER_CHUNK + threadIdx.x / 32), slot = j % HF_I8_TILE;
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < job.n_counters;
         i += (int)(gridDim.x * blockDim.x))
        job.counters[i] = 0;
    uint8_t *const tile = job.tiles + (int64_t)(j / HF_I8_TILE) * job.tile.bytes;
    double error = 0, square = 0;
    for (int at = lane * 4; at < job.tile.dp; at += 128) {
        unsigned word = 0;
        for (int i = 0; i < 4; i++) {
            const int64_t from = (int64_t)j * job.d + at + i;
            if (j >= job.k || at + i >= job.d)
                continue;
            const double c =
                job.f64 ? ((const double *)job.c)[from] : (double)((const float *)job.c)[from];
            const double steps = rint((c - MIDDLE) / STEP);
            const int whole = (int)fmin(fmax(steps, -127.0), 127.0);
            const double q = MIDDLE + STEP * whole;
            error += (c - q) * (c - q);
            square += q * q;
            word |= (unsigned)(whole & 255) << (8 * i);
        }
        const int piece = at % HF_I8_SLAB / 16 ^ (slot & 7);
        *(unsigned *)(tile + (int64_t)(at / HF_I8_SLAB) * HF_I8_TILE * HF_I8_SLAB +
                      slot * HF_I8_SLAB + piece * 16 + at % 16) = word;
    }
    error = i8_sum(error);
    square = i8_sum(square);
    if (lane == 0) {
        const int in = slot % 16;
        const int place = slot / 16 * 16 + in % 8 / 2 * 4 + in / 8 * 2 + in % 2;
        const int lift = job.d * 40640 + 8; /* no score is negative */
        ((int *)(tile + (int64_t)HF_I8_TILE * job.tile.dp))[place] =
            j < job.k ? (int)rint(-square / (2 * STEP)) + lift : PADDING;
        const double eps = sqrt(error) * (1 + 0x1p-30) + 0x1p-30;
        job.eps[j] = eps < 0x1p60 ? __double2float_ru(eps) : INFINITY;
    }
}

static hf_status pack(struct hf_cuda *cuda, const struct hf_assign_problem *p,
                      const struct hf_assign_step *step, const struct hf_i8_rows *i8,
                      const struct hf_i8_memory *m) {
    struct i8_pack_job job = {};
    job.c = step->c;
    job.f64 = p->c_type == HF_F64;
    job.k = (int)p->k;
    job.d = (int)p->x.cols;
    job.tile = tile_of(p->x.cols);
    job.tiles = m->tiles;
    job.eps = m->eps;
    job.counters = m->counters;
    job.n_counters = MOST_SMS * FILTER_MAX_WG;
    job.state = i8->state;
    i8_begin<<<1, 1, 0, cuda->stream>>>(i8->state, step->stop);
    i8_pack<<<(unsigned)(tiles_of(p->k) * (HF_I8_TILE / FILTER_CHUNK)), FILTER_CHUNK * 32, 0,
              cuda->stream>>>(job);
    return hf_cuda_launched(cuda, "assign: pack centroids for u8");
}

hf_status hf_i8_top2(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                     const struct hf_assign_step *step, const struct hf_i8_rows *i8,
                     const struct hf_i8_memory *m) {
    const struct hf_assign_problem *p = &rows->problem;
    HF_TRY(pack(cuda, p, step, i8, m));
    struct filter_args a = {};
    a.tiles = m->tiles;
    a.parts = m->parts;
    a.counters = m->counters;
    a.rows.x16 = i8->x;
    a.rows.norm = (const float *)i8->fact;
    a.rows.loss = m->eps;
    a.rows.n = rows->n;
    a.rows.ld = i8->ld;
    a.rows.d = (int)p->x.cols;
    a.rows.batch = 1;
    a.rows.stop = &i8->state->stop;
    a.out.label = step->labels;
    a.out.open.count = &i8->state->count;
    a.out.open.row = m->list;
    a.out.open.threshold = m->threshold;
    a.out.open.cap = rows->n;
    a.limit = rows->n;
    a.tiles_per_problem = tiles_of(p->k);
    a.infos_per_problem = a.tiles_per_problem * (HF_I8_TILE / FILTER_CHUNK);
    a.tile_bytes = tile_of(p->x.cols).bytes;
    a.minus_zero = -0.0f;
    HF_TRY(hf_cuda_check(cuda, hf_i8_launch(cuda, &a), "filter of u8"));
    i8_judge<<<1, 1, 0, cuda->stream>>>(i8->state, step->stop, rows->n);
    return hf_cuda_launched(cuda, "filter of u8");
}
