/* SPDX-License-Identifier: Apache-2.0
 * gemm in SIMD. Groups of rows and columns of C are worked on one after the other. For each, a
 * range of products is packed into panels, by all workers, then the tiles of the group are summed,
 * then the next range; after the last one the tiles are stored. What is packed stays in the caches:
 * a panel of B, as deep as a block, in the first, a band of panels of A in the second (Goto and van
 * de Geijn, Anatomy of high-performance matrix multiplication, 2008; Van Zee and van de Geijn,
 * BLIS, 2015). Which group, tile or worker an element is in never changes the order of its sum. */
#include "base/dtype.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/gemm/gemm.h"

#if HF_ISA_TILES
#include "ops/gemm/host/amx_pack.h"
#include "ops/gemm/host/amx_tile.h"
#else
#include "ops/gemm/host/pack.h"
#include "ops/gemm/host/tile.h"
#endif
#include "ops/gemm/host/sign.h"
#include "ops/gemm/host/store.h"

#define GROUP 1024 /* rows and columns of a group; with many workers twice as many */
#define MANY_WORKERS 8
#define BAND_BYTES (256 << 10) /* of panels of A that a worker goes through for each panel of B */
/* AMX multiplies 16 times as fast, and memory does not. The panels of A of an area stay in the
 * second cache, of 2 MiB, while those of B pass, by shares of 32 KiB that stay in the first. */
#define TILES_GROUP 4096
#define TILES_RANGE 2048       /* units of depth */
#define TILES_PASS 256         /* of a share */
#define NEAR_BYTES (3 << 19)   /* of A, */
#define NEAR_EACH (1 << 20)    /* and of each of several workers: two of them may share a core */
#define TILES_LEAST 8          /* of an area, down and across */
#define AREAS_EACH 2           /* of a worker, where there are several, at least */
#define FAR_ELEMENTS (1 << 19) /* a C of as many does not stay in the caches */
#define FEW 128 /* rows or columns: what is packed of the other matrix is hardly used */
#define FEW_BYTES (512 << 10) /* again, so it must not leave the second cache */
#define SLICE 4               /* tiles of columns of one range of a loop */
#define ALONE_FLOPS 4e6       /* a product of less is not worth waking other threads */
#define TOGETHER_FLOPS 1e9    /* products of a batch of more are computed one after the other */

/* The widest group of a product, and how it is cut up. */
struct cut {
    int64_t rows, cols, depth; /* of a group: whole tiles, whole blocks */
    int64_t pass, area[2];     /* as in struct gemm_job */
    bool own_a;
    size_t a_bytes, b_bytes, total_bytes, own_bytes, sign_bytes;
};

static struct gemm_job make_job(const hf_gemm_args *args) {
    struct gemm_job job = {.args = args, .in = hf_gemm_compute(args->dtype)};
    job.tile_n = job.in == HF_F64 ? TILE_N64 : TILE_N32;
    if (args->signatures != NULL)
        job.checksum = hf_gemm_checksum_id(args);
    return job;
}

static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/* Products of a range, for groups of so many rows and columns together: as deep as makes the panels
 * of small matrices as large as those of large ones. */
static int64_t depth_of(const struct gemm_job *job, int64_t lines) {
    const int64_t k = hf_gemm_reads_ab(job->args) ? job->args->k : 0;
#if HF_ISA_TILES
    const bool few = job->args->m <= FEW || job->args->n <= FEW;
    (void)lines;
    return hf_min64(k, (few ? TILES_PASS : TILES_RANGE) * unit_products(job));
#else
    const int64_t blocks = hf_min64(ceil_div(k, HF_GEMM_BLOCK), 1 + 2 * GROUP / lines);
    return hf_min64(k, blocks * HF_GEMM_BLOCK);
#endif
}

#if HF_ISA_TILES
/* A share of so many tiles. */
static int64_t share_of(int64_t tiles, int64_t shares) {
    const int64_t each = ceil_div(tiles, shares);
    return each > TILES_LEAST ? each : TILES_LEAST;
}

/* The passes of a range, and the tiles of an area. */
static void cut_areas(const struct gemm_job *job, int workers, struct cut *cut) {
    const int64_t down = ceil_div(cut->rows, TILE_M), across = ceil_div(cut->cols, job->tile_n);
    const int64_t panel = units_of(job, cut->depth) * TILE_M * unit_bytes(job);
    const int64_t bytes = workers > 1 ? NEAR_EACH : NEAR_BYTES;
    const int64_t near = panel > 0 ? bytes / panel : down + 1;
    const int64_t areas = workers > 1 ? AREAS_EACH * workers : 1;
    const int64_t bands = ceil_div(down, hf_min64(near, share_of(down, areas))) + (down == 0);
    cut->pass = hf_min64(cut->depth, TILES_PASS * unit_products(job));
    cut->area[0] = ceil_div(down, bands);
    cut->area[1] = hf_min64(across, share_of(across, ceil_div(areas, bands)));
    cut->own_a = job->args->signatures == NULL && cut->area[1] == across && cut->depth > 0;
    if (cut->depth > cut->pass)
        cut->own_bytes = (size_t)workers * (size_t)(cut->area[0] * tile_bytes(job));
}
#else
static void cut_areas(const struct gemm_job *job, int workers, struct cut *cut) {
    (void)workers;
    cut->pass = cut->depth;
    cut->area[0] = BAND_BYTES / (units_of(job, HF_GEMM_BLOCK) * TILE_M * unit_bytes(job));
    cut->area[1] = SLICE;
}
#endif

static struct cut make_cut(const struct gemm_job *job, int workers) {
    const hf_gemm_args *const args = job->args;
    const int64_t group = HF_ISA_TILES ? TILES_GROUP : workers > MANY_WORKERS ? 2 * GROUP : GROUP;
    const int64_t few = FEW_BYTES / (HF_GEMM_BLOCK * (job->in == HF_I32 ? 2 : unit_bytes(job)));
    struct cut cut = {.own_bytes = 0};
    cut.rows = round_up(hf_min64(args->m, args->n <= FEW ? few : group), TILE_M);
    cut.cols = round_up(hf_min64(args->n, args->m <= FEW ? few : group), job->tile_n);
    const int64_t k = hf_gemm_reads_ab(args) ? args->k : 0;
    cut.depth = depth_of(job, cut.rows + cut.cols);
    const int64_t units = units_of(job, cut.depth) * unit_bytes(job);
    cut.b_bytes = hf_align_up((size_t)(cut.cols * units));
    cut.total_bytes =
        k > cut.depth ? hf_align_up((size_t)(cut.rows * cut.cols * unit_bytes(job))) : 0;
    cut_areas(job, workers, &cut);
    const int64_t lines = cut.own_a ? workers * cut.area[0] * TILE_M : cut.rows;
    cut.a_bytes = hf_align_up((size_t)(lines * units));
    const bool signs = args->signatures != NULL && args->signatures->release;
    cut.sign_bytes =
        signs ? hf_align_up((size_t)(cut.rows / TILE_M + cut.cols / job->tile_n) * 8) : 0;
    return cut;
}

static size_t cut_bytes(const struct cut *cut) {
    return cut->a_bytes + cut->b_bytes + cut->total_bytes + cut->own_bytes + cut->sign_bytes;
}

/* The control word of the caller's thread says how to round and what to flush: not here. */
static unsigned enter(void) {
    const unsigned before = _mm_getcsr();
    _mm_setcsr(0x1f80);
    return before;
}

/* Panels of A that all workers pack before. */
static int64_t panels_of_a(const struct gemm_job *job) { return job->own_a ? 0 : tiles_down(job); }

static void pack_range(void *job_, int worker, int64_t begin, int64_t end) {
    const struct gemm_job *const job = job_;
    const int64_t down = panels_of_a(job);
    const unsigned before = enter();
    struct signed_sum sum = {0};
    (void)worker;
    for (int64_t i = begin, count; i < end; i += count) {
        const bool of_a = i < down;
        const int64_t tile = of_a ? i : i - down;
        count = hf_min64(PACK_RUN, (of_a ? hf_min64(end, down) : end) - i);
        char *const to = of_a ? job->pack_a + tile * panel_bytes(job, TILE_M)
                              : job->pack_b + tile * panel_bytes(job, job->tile_n);
        pack_panels(job, of_a, tile, count, to);
        for (int64_t t = 0; t < count; t++)
            sign_panel(job, of_a, tile + t, i + t, &sum);
    }
    add_signed(job, &sum);
    _mm_setcsr(before);
}

static void release_range(void *job_, int worker, int64_t begin, int64_t end) {
    const struct gemm_job *const job = job_;
    const int64_t down = tiles_down(job);
    for (int64_t i = begin; i < end; i++)
        release_panel(job, i < down, i < down ? i : i - down, i, worker);
}

/* Tile (i, j) of the group in the pass from product p of the range on. */
static void tile(const struct gemm_job *job, struct area *area, const int64_t at[3],
                 struct signed_sum *sum, int worker) {
    struct pass pass = {.i = at[0], .j = at[1], .first = at[2]};
    const int64_t bytes = tile_bytes(job);
    char *const near = area->own + (job->own != NULL ? pass.i - area->top : 0) * bytes;
    char *const total =
        job->totals != NULL ? job->totals + (pass.i * tiles_across(job) + pass.j) * bytes : near;
    char *const own = job->own != NULL ? near : total;
    pass.from = pass.first > 0 ? own : total;
    pass.to = ends_range(job, &pass) && !is_last(job) ? total : own;
    if (job->depth > 0) {
        tile_blocks(job, area, &pass);
    } else {
        store_more(job, &area->before, TILE_M);
        memset(pass.to, 0, (size_t)bytes);
    }
    const int64_t row = job->row + pass.i * TILE_M, col = job->col + pass.j * job->tile_n;
    if (ends_range(job, &pass) && is_last(job) && !is_dropped(job, row, col)) {
        sign_tile(job, pass.to, row, col, sum, worker);
        area->before = (struct unstored){pass.to, row, col, 0};
        if (!HF_ISA_TILES)
            store_more(job, &area->before, TILE_M);
    }
}

/* Ranges are areas. */
static void tile_range(void *job_, int worker, int64_t begin, int64_t end) {
    const struct gemm_job *const job = job_;
    const int64_t broad = ceil_div(tiles_across(job), job->area[1]);
    const int64_t own_bytes = job->area[0] * tile_bytes(job), panel = panel_bytes(job, TILE_M);
    _Alignas(HF_ALIGN) char small[TILE_M * 2 * VW * 4];
    const unsigned before = enter();
    struct signed_sum sum = {0};
    tile_begin();
    for (int64_t s = begin; s < end; s++) {
        struct area area = {.top = s / broad * job->area[0], .left = s % broad * job->area[1]};
        area.bottom = hf_min64(area.top + job->area[0], tiles_down(job));
        area.right = hf_min64(area.left + job->area[1], tiles_across(job));
        area.own = job->own != NULL ? job->own + worker * own_bytes : small;
        area.a = job->pack_a + (job->own_a ? worker * job->area[0] : area.top) * panel;
        if (job->own_a)
            pack_panels(job, true, area.top, area.bottom - area.top, area.a);
        for (int64_t j = area.left; j < area.right; j++) {
            int64_t p = 0;
            do {
                for (int64_t i = area.top; i < area.bottom; i++)
                    tile(job, &area, (const int64_t[3]){i, j, p}, &sum, worker);
                p += job->pass;
            } while (p < job->depth);
        }
        store_more(job, &area.before, TILE_M);
    }
    tile_end();
    if (job->far)
        _mm_sfence();
    add_signed(job, &sum);
    _mm_setcsr(before);
}

static void group(struct gemm_job *job, const struct cut *cut, hf_pool *pool) {
    const int64_t k = hf_gemm_reads_ab(job->args) ? job->args->k : 0;
    job->first = 0;
    do {
        job->depth = hf_min64(cut->depth, k - job->first);
        const int64_t panels = panels_of_a(job) + tiles_across(job);
        job->place = group_place(job);
        if (job->depth > 0)
            hf_parallel_for(pool, panels, PACK_RUN, pack_range, job);
        const int64_t high = ceil_div(tiles_down(job), job->area[0]);
        const int64_t broad = ceil_div(tiles_across(job), job->area[1]);
        hf_parallel_for(pool, high * broad, 1, tile_range, job);
        if (job->staged != NULL && job->depth > 0)
            hf_parallel_for(pool, panels, 1, release_range, job);
        job->first += job->depth;
    } while (job->first < k);
}

/* A C that is not read, of whole cache lines, of which the caches would keep little. */
static bool goes_far(const hf_gemm_args *args, const char *c) {
    return HF_ISA_TILES && args->dtype_c == HF_F32 && args->beta == 0 &&
           args->m * args->n >= FAR_ELEMENTS && args->ldc % 16 == 0 && (uintptr_t)c % 64 == 0;
}

/* Product b of the batch, in this workspace. */
static void product(const struct hf_call *call, int64_t b, const struct cut *cut, char *ws,
                    hf_pool *pool) {
    const hf_gemm_args *const args = call->args;
    struct gemm_job job = make_job(args);
    job.slot = call->slot;
    job.kernel = call->kernel;
    job.batch = b;
    job.a = hf_gemm_view_a(args, b);
    job.b = hf_gemm_view_b(args, b);
    job.c = (char *)args->c + b * args->stride_c * (int64_t)hf_dtype_bytes(args->dtype_c);
    job.pack_a = ws;
    job.pack_b = ws + cut->a_bytes;
    job.totals = cut->total_bytes > 0 ? job.pack_b + cut->b_bytes : NULL;
    job.pass = cut->pass;
    job.own_a = cut->own_a;
    job.far = goes_far(args, job.c);
    job.area[0] = cut->area[0];
    job.area[1] = cut->area[1];
    char *const own = job.pack_b + cut->b_bytes + cut->total_bytes;
    job.own = cut->own_bytes > 0 ? own : NULL;
    char *const staged = own + cut->own_bytes;
    job.staged = cut->sign_bytes > 0 ? (uint64_t *)(void *)staged : NULL;
    for (job.col = 0; job.col < args->n; job.col += job.cols) {
        job.cols = hf_min64(cut->cols, args->n - job.col);
        for (job.row = 0; job.row < args->m; job.row += job.rows) {
            job.rows = hf_min64(cut->rows, args->m - job.row);
            group(&job, cut, pool);
        }
    }
}

/* Is every product of the batch one worker's? */
static bool is_one_each(const hf_gemm_args *args) {
    return args->batch > 1 &&
           2 * (double)args->m * (double)args->n * (double)args->k < TOGETHER_FLOPS;
}

struct batch {
    const struct hf_call *call;
    struct cut cut;
};

static void batch_range(void *batch_, int worker, int64_t begin, int64_t end) {
    const struct batch *const batch = batch_;
    for (int64_t b = begin; b < end; b++)
        product(batch->call, b, &batch->cut,
                (char *)batch->call->ws + (size_t)worker * cut_bytes(&batch->cut), NULL);
}

static size_t gemm_workspace(const struct hf_call *call) {
    const struct gemm_job job = make_job(call->args);
    const int workers = call->device->workers;
    if (is_one_each(job.args)) {
        const struct cut cut = make_cut(&job, 1);
        return cut_bytes(&cut) * (size_t)workers;
    }
    const struct cut cut = make_cut(&job, workers);
    return cut_bytes(&cut);
}

static hf_status gemm_run(const struct hf_call *call) {
    const hf_gemm_args *const args = call->args;
    const struct gemm_job job = make_job(args);
    const int workers = call->device->workers;
    if (args->m == 0 || args->n == 0 || (!hf_gemm_reads_ab(args) && args->beta == 1))
        return HF_OK;
    forget_tiles(&job);
    struct batch batch = {call, make_cut(&job, is_one_each(args) ? 1 : workers)};
    if (is_one_each(args)) {
        hf_parallel_for(call->stream, args->batch, 1, batch_range, &batch);
        return HF_OK;
    }
    const double flops = 2 * (double)args->m * (double)args->n * (double)args->k;
    for (int64_t b = 0; b < args->batch; b++)
        product(call, b, &batch.cut, call->ws, flops < ALONE_FLOPS ? NULL : call->stream);
    return HF_OK;
}

#if HF_ISA_TILES
#define UNIT_RATE 16 /* multiplications of a tile for one of a vector, about */
#else
#define UNIT_RATE 1
#endif

static double gemm_estimate(const struct hf_call *call) {
    const hf_gemm_args *const args = call->args;
    const double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    const int lanes = (args->dtype == HF_F64 ? VDW : VW) * UNIT_RATE;
    return hf_estimate_ns((double)args->batch * m * n * k, lanes,
                          (double)args->batch * 4 * (m * k + k * n + m * n));
}

#define KERNEL(text, types, takes)                                                                 \
    {                                                                                              \
        .name = text HF_ISA_TEXT, .device = HF_DEV_HOST, .dtypes = types, .isa = HF_ISA_ID,        \
        .traits = HF_TRAIT_FIXED_ORDER, .supports = takes, .workspace = gemm_workspace,            \
        .run = gemm_run, .estimate = gemm_estimate                                                 \
    }

#if HF_ISA_TILES
static bool amx_supports(const struct hf_call *call) { return hf_gemm_may_use_tensors(call->args); }

static const struct hf_kernel kernels[] = {
    KERNEL("gemm_bf16_" TILE_32 "_", HF_DT(HF_BF16), amx_supports),
    KERNEL("gemm_i8_" TILE_32 "_", HF_DT(HF_I8), NULL),
};
#else
static const struct hf_kernel kernels[] = {
    KERNEL("gemm_f32_" TILE_32 "_", HF_DT(HF_F32) | HF_DT(HF_F16) | HF_DT(HF_BF16), NULL),
    KERNEL("gemm_f64_" TILE_64 "_", HF_DT(HF_F64), NULL),
    KERNEL("gemm_i8_" TILE_32 "_", HF_DT(HF_I8), NULL),
};
#endif

const struct hf_kernel_table HF_ISA_NAME(hf_gemm_kernels) = {kernels,
                                                             sizeof kernels / sizeof *kernels};
