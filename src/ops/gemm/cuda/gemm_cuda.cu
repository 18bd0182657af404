/* SPDX-License-Identifier: Apache-2.0
 * gemm on CUDA: the table of kernels, and what they have in common. */
#include "base/clock.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "core/kernel.h"
#include "device/cuda/stage_direct.h"
#include "ops/gemm/cuda/gemm_sign.cuh"

#include <string.h>

#define LAUNCH_TILES ((int64_t)1 << 30) /* most of one launch */
#define FEW_TILES 512 /* so many write their entries into memory of the host, which adds them up */
#define LOOKS 1024    /* of the host at entries, until it asks the driver, too; some 10 us */
#define MOST_LOOKS (1 << 20)

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static bool no_work(const hf_gemm_args *args) {
    return args->m == 0 || args->n == 0 || args->batch == 0 ||
           (!hf_gemm_reads_ab(args) && args->beta == 1);
}

static int64_t tiles_of(const hf_gemm_args *args, int64_t rows, int64_t cols) {
    return ceil_div(args->m, rows) * ceil_div(args->n, cols) * args->batch;
}

/* Bytes from the first element of a matrix to the last of the batch. */
static size_t span(int64_t batch, int64_t stride, int64_t rows, int64_t ld, int64_t cols,
                   hf_dtype dtype) {
    if (rows == 0 || cols == 0)
        return 0;
    return (size_t)((batch - 1) * stride + (rows - 1) * ld + cols) * hf_dtype_bytes(dtype);
}

static bool is_wide(const void *data, int64_t ld, int64_t stride, int64_t batch, hf_dtype dtype) {
    const uintptr_t all = (uintptr_t)ld | (uintptr_t)(batch > 1 ? stride : 0);
    return ((uintptr_t)data | all * hf_dtype_bytes(dtype)) % 16 == 0;
}

static struct gemm_side side_of(const hf_gemm_args *args, const void *data, bool of_a) {
    const int64_t ld = of_a ? args->lda : args->ldb;
    const bool turned = of_a ? args->trans_a != 0 : args->trans_b == 0;
    struct gemm_side side;
    side.data = data;
    side.stride = of_a ? args->stride_a : args->stride_b;
    side.line = turned ? 1 : ld;
    side.step = turned ? ld : 1;
    side.lines = of_a ? args->m : args->n;
    side.wide = is_wide(data, ld, side.stride, args->batch, args->dtype);
    return side;
}

/* Do blocks sign all their tiles at once: is no tile asked for, and none to be told? */
static bool by_block(const hf_gemm_args *args, const struct gemm_launch *how) {
    const hf_gemm_signatures *s = args->signatures;
    return how->stays && s->tile == NULL && !s->release && s->plant == HF_GEMM_PLANT_NONE &&
           tiles_of(args, how->rows, how->cols) <= LAUNCH_TILES;
}

/* Entries of a signed product on so many multiprocessors, at most FEW_TILES. */
static int64_t entries_of(const hf_gemm_args *args, const struct gemm_launch *how, int64_t sms) {
    const int64_t tiles = tiles_of(args, how->rows, how->cols);
    return by_block(args, how) && tiles > sms ? sms : tiles;
}

static size_t entry_bytes(const hf_gemm_args *args, const struct gemm_launch *how) {
    if (args->signatures == NULL || entries_of(args, how, FEW_TILES) <= FEW_TILES)
        return 0;
    return hf_align_up((size_t)tiles_of(args, how->rows, how->cols) * sizeof(struct gemm_entry) +
                       sizeof(uint64_t));
}

#define CACHE_LINE 128
#define COPY_PAYS 512       /* lines of the other side that read a copy of this one */
#define COPY_LINES_PAY 2048 /* the same, of a copy whose rows begin with lines of the cache */

/* Is this side to be copied, of which the other has so many lines? */
static bool packs(const struct gemm_launch *how, const struct gemm_side *side, int64_t k,
                  int64_t tile, int64_t others) {
    const int64_t ld = side->step == 1 ? side->line : side->step;
    if (how->wide == GEMM_WIDE)
        return !side->wide || (ld % (CACHE_LINE / 2) != 0 && others >= COPY_LINES_PAY &&
                               side->lines >= COPY_PAYS && k >= COPY_PAYS);
    return how->wide == GEMM_WIDE_PAYS && others >= COPY_PAYS && side->lines >= tile &&
           (!side->wide || side->lines % tile != 0);
}

static bool packs_a(const struct gemm_launch *how, const hf_gemm_args *args,
                    const struct gemm_side *side) {
    return packs(how, side, args->k, how->rows, args->n);
}
static bool packs_b(const struct gemm_launch *how, const hf_gemm_args *args,
                    const struct gemm_side *side) {
    return packs(how, side, args->k, how->cols, args->m);
}

/* Where a side will lie is not known yet: no worse than now. */
size_t hf_gemm_cuda_workspace(const hf_gemm_args *args, const struct gemm_launch *how) {
    if (no_work(args))
        return 0;
    size_t bytes = entry_bytes(args, how);
    struct gemm_side a = side_of(args, args->a, true), b = side_of(args, args->b, false);
    const struct gemm_pack_args of_a = {&a, args->dtype, how->rows, args->k, args->batch};
    const struct gemm_pack_args of_b = {&b, args->dtype, how->cols, args->k, args->batch};
    if (hf_gemm_reads_ab(args) && packs_a(how, args, &a))
        bytes += hf_gemm_packed_bytes(&of_a);
    if (hf_gemm_reads_ab(args) && packs_b(how, args, &b))
        bytes += hf_gemm_packed_bytes(&of_b);
    return bytes;
}

/* A staged copy lies at least as well as what it was copied from. */
static hf_status pack_sides(const struct hf_call *call, const struct gemm_launch *how,
                            struct gemm_job *job) {
    const hf_gemm_args *args = (const hf_gemm_args *)call->args;
    struct hf_cuda *cuda = (struct hf_cuda *)call->stream;
    char *to = (char *)call->ws + entry_bytes(args, how);
    const struct gemm_pack_args of_a = {&job->a, args->dtype, how->rows, job->k, args->batch};
    const struct gemm_pack_args of_b = {&job->b, args->dtype, how->cols, job->k, args->batch};
    if (job->k > 0 && packs_a(how, args, &job->a)) {
        const size_t bytes = hf_gemm_packed_bytes(&of_a);
        HF_TRY(hf_gemm_pack(cuda, &of_a, to));
        to += bytes;
    }
    if (job->k > 0 && packs_b(how, args, &job->b))
        HF_TRY(hf_gemm_pack(cuda, &of_b, to));
    return HF_OK;
}

static void stage_sides(struct hf_stage *stage, const hf_gemm_args *args, struct gemm_job *job) {
    const bool ta = args->trans_a != 0, tb = args->trans_b != 0;
    const int64_t a_rows = ta ? args->k : args->m, a_cols = ta ? args->m : args->k;
    const int64_t b_rows = tb ? args->n : args->k, b_cols = tb ? args->k : args->n;
    job->k = hf_gemm_reads_ab(args) ? args->k : 0;
    const void *a = NULL, *b = NULL;
    if (job->k > 0) {
        a = hf_stage_in(stage, args->a,
                        span(args->batch, args->stride_a, a_rows, args->lda, a_cols, args->dtype));
        b = hf_stage_in(stage, args->b,
                        span(args->batch, args->stride_b, b_rows, args->ldb, b_cols, args->dtype));
    }
    job->a = side_of(args, a, true);
    job->b = side_of(args, b, false);
}

/* What lies between the rows of C stays as it is. */
static void stage_c(struct hf_stage *stage, const hf_gemm_args *args, struct gemm_job *job) {
    const size_t bytes =
        span(args->batch, args->stride_c, args->m, args->ldc, args->n, args->dtype_c);
    const bool gaps =
        args->ldc != args->n || (args->batch > 1 && args->stride_c != args->m * args->n);
    job->c = gaps || args->beta != 0 ? hf_stage_inout(stage, args->c, bytes)
                                     : hf_stage_out(stage, args->c, bytes);
    job->stride_c = args->stride_c;
    job->ldc = args->ldc;
    job->dtype_c = args->dtype_c;
    job->c_wide = is_wide(job->c, args->ldc, args->stride_c, args->batch, args->dtype_c);
}

/* Before the launch; sums: where the last block writes them. */
static void set_signatures(const struct hf_call *call, const struct gemm_launch *how,
                           struct gemm_job *job) {
    const hf_gemm_args *args = (const hf_gemm_args *)call->args;
    const hf_gemm_signatures *s = args->signatures;
    job->slot = call->slot;
    job->kernel = call->kernel;
    if (s == NULL)
        return;
    if (job->entries == NULL) {
        job->entries = (struct gemm_entry *)call->ws;
        job->done = (unsigned *)(job->entries + job->tiles);
    }
    job->tile_rows = (int)how->rows;
    job->tile_cols = (int)how->cols;
    job->stamp = (uint64_t)(hf_now_s() * 1e9);
    job->checksum = hf_gemm_checksum_id(args);
    job->release = s->release;
    job->plant = job->k > 0 || s->plant != HF_GEMM_PLANT_A ? s->plant : HF_GEMM_PLANT_NONE;
    job->plant_at = s->plant_at;
    job->plant_step = s->plant_step;
}

static hf_status launch_all(const struct hf_call *call, struct gemm_job *job,
                            const struct gemm_launch *how) {
    struct hf_cuda *cuda = (struct hf_cuda *)call->stream;
    HF_TRY(pack_sides(call, how, job));
    if (job->done != NULL)
        HF_TRY(hf_cuda_check(cuda, cudaMemsetAsync(job->done, 0, sizeof *job->done, cuda->stream),
                             "gemm"));
    for (job->first_tile = 0; job->first_tile < job->tiles; job->first_tile += LAUNCH_TILES) {
        const int64_t left = job->tiles - job->first_tile;
        HF_TRY(how->launch(cuda, job, (unsigned)(left < LAUNCH_TILES ? left : LAUNCH_TILES)));
    }
    return HF_OK;
}

/* Where signatures go; true: entries into locked memory. few: room for FEW_TILES if there is none.
 */
static bool stage_signatures(struct hf_stage *stage, const hf_gemm_args *args,
                             const struct gemm_launch *how, struct gemm_entry *few,
                             struct gemm_job *job) {
    hf_gemm_signatures *const s = args->signatures;
    if (s == NULL)
        return false;
    const size_t tiles = (size_t)entries_of(args, how, stage->cuda->sms);
    job->by_block = by_block(args, how);
    if (tiles <= FEW_TILES) {
        job->entries = (struct gemm_entry *)hf_stage_locked(stage, tiles * sizeof *few);
        if (job->entries != NULL)
            return true;
        memset(few, 0, tiles * sizeof *few);
        job->entries = (struct gemm_entry *)hf_stage_inout(stage, few, tiles * sizeof *few);
        return false;
    }
    job->sums = (uint64_t *)hf_stage_direct(stage, &s->a, 5 * sizeof(uint64_t));
    if (s->tile != NULL)
        job->told = (hf_gemm_tile *)hf_stage_out(stage, s->tile, tiles * sizeof *s->tile);
    return false;
}

/* Has the host got the whole entry? Its parts come in any order. */
static bool is_sealed(const struct gemm_entry *entry, uint64_t stamp) {
    const uint64_t seal = __atomic_load_n(&entry->seal, __ATOMIC_ACQUIRE);
    return seal == gemm_seal(*entry, stamp);
}

static bool is_busy(const struct hf_cuda *cuda) {
    const cudaError_t now = cudaStreamQuery(cuda->stream);
    (void)cudaGetLastError(); /* "not ready" is no failure of what comes next */
    return now == cudaErrorNotReady;
}

/* The device writes entries when their tiles are in its memory: whoever has all of them need not
 * wait for the end of the kernel, which takes some us more. False: the kernel ended before, or is
 * not to be waited for in this way any more. */
static bool see_entries(const struct hf_cuda *cuda, const struct gemm_job *job, int64_t entries) {
    int64_t looks = 0;
    for (int64_t i = 0; i < entries; i++)
        while (!is_sealed(&job->entries[i], job->stamp))
            if (++looks % LOOKS == 0 && (looks == MOST_LOOKS || !is_busy(cuda)))
                return false;
    return true;
}

/* Until entries in locked memory are all that they will be. With L a word about a fault may still
 * be on its way when its entry is there. */
static hf_status wait_entries(struct hf_cuda *cuda, const struct gemm_job *job, int64_t entries) {
    if (job->release || !see_entries(cuda, job, entries))
        return hf_cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "gemm");
    hf_cuda_seen(cuda);
    return HF_OK;
}

static void tell_tile(const struct gemm_job *job, int64_t i, const struct gemm_entry *e,
                      hf_gemm_signatures *s) {
    const struct gemm_place at = gemm_place_of(*job, i);
    const bool done = is_sealed(e, job->stamp);
    s->tile[(at.batch * job->tiles_m + at.row) * job->tiles_n + at.col] = {
        done ? e->c : 0,
        at.batch,
        (int64_t)at.row * job->tile_rows,
        (int64_t)at.col * job->tile_cols,
        done ? e->unit : -1,
        e->changed[0] == job->stamp,
        done ? e->a : 0,
        done ? e->b : 0};
}

/* The signatures of few entries; no tiles if one was not computed. */
static void add_entries(const struct gemm_job *job, const struct gemm_entry *few, int64_t entries,
                        hf_gemm_signatures *s) {
    s->a = s->b = s->c = 0;
    s->panels = s->tiles = 0;
    for (int64_t i = 0; i < entries; i++) {
        if (is_sealed(&few[i], job->stamp)) {
            s->a += few[i].a;
            s->b += few[i].b;
            s->c += few[i].c;
            s->panels += few[i].panels;
            s->tiles += few[i].tiles;
        }
        if (s->tile != NULL)
            tell_tile(job, i, &few[i], s);
    }
    if (s->tiles != job->tiles)
        s->tiles = 0;
}

hf_status hf_gemm_cuda_run(const struct hf_call *call, const struct gemm_launch *how) {
    const hf_gemm_args *args = (const hf_gemm_args *)call->args;
    struct gemm_entry few[FEW_TILES];
    struct hf_stage stage;
    struct gemm_job job = {};
    if (no_work(args))
        return HF_OK;
    hf_stage_begin(&stage, call->stream);
    stage_sides(&stage, args, &job);
    stage_c(&stage, args, &job);
    const bool locked = stage_signatures(&stage, args, how, few, &job);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    job.m = args->m;
    job.n = args->n;
    job.tiles_m = ceil_div(args->m, how->rows);
    job.tiles_n = ceil_div(args->n, how->cols);
    job.tiles = tiles_of(args, how->rows, how->cols);
    job.alpha = args->alpha;
    job.beta = args->beta;
    job.beside = hf_sums_beside_of(args);
    set_signatures(call, how, &job);
    HF_TRY(hf_stage_end(&stage, launch_all(call, &job, how)));
    if (job.entries == NULL || job.sums != NULL)
        return HF_OK;
    const int64_t entries = entries_of(args, how, stage.cuda->sms);
    if (locked)
        HF_TRY(wait_entries(stage.cuda, &job, entries));
    add_entries(&job, locked ? job.entries : few, entries, args->signatures);
    return HF_OK;
}

bool hf_gemm_cuda_supports(const struct hf_call *call) {
    const hf_gemm_args *args = (const hf_gemm_args *)call->args;
    return args->signatures == NULL || hf_gemm_checksum_id(args) != HF_CHECKSUM_CRC_COLUMNS;
}

/* Tiles of 128 x 128; those of 64 x 64 for float64 and small products. */
#define TILE 128
#define TILE_SMALL 64
#define WGMMA_COLS 256

static struct gemm_launch simt_how(const hf_gemm_args *args) {
    struct gemm_launch how = {TILE, TILE, GEMM_AS_IT_IS, false, hf_gemm_simt_f32};
    if (args->dtype == HF_F64)
        how = {TILE_SMALL, TILE_SMALL, GEMM_AS_IT_IS, false, hf_gemm_simt_f64};
    else if (args->dtype == HF_F16)
        how.launch = hf_gemm_simt_f16;
    else if (args->dtype == HF_BF16)
        how.launch = hf_gemm_simt_bf16;
    else if (args->dtype == HF_I8)
        how.launch = hf_gemm_simt_i8;
    else
        how.wide = GEMM_WIDE_PAYS;
    return how;
}

static size_t simt_workspace(const struct hf_call *call) {
    const hf_gemm_args *args = (const hf_gemm_args *)call->args;
    const struct gemm_launch how = simt_how(args);
    return hf_gemm_cuda_workspace(args, &how);
}

static hf_status simt_run(const struct hf_call *call) {
    const struct gemm_launch how = simt_how((const hf_gemm_args *)call->args);
    return hf_gemm_cuda_run(call, &how);
}

static const struct gemm_launch small_how = {TILE_SMALL, TILE_SMALL, GEMM_AS_IT_IS, false,
                                             hf_gemm_simt_f32_small};

static size_t small_workspace(const struct hf_call *call) {
    return hf_gemm_cuda_workspace((const hf_gemm_args *)call->args, &small_how);
}

static hf_status small_run(const struct hf_call *call) {
    return hf_gemm_cuda_run(call, &small_how);
}

static struct gemm_launch mma_how(const hf_gemm_args *args) {
    return {TILE, TILE, GEMM_WIDE, false,
            args->dtype == HF_F16 ? hf_gemm_mma_f16 : hf_gemm_mma_bf16};
}

static size_t mma_workspace(const struct hf_call *call) {
    const hf_gemm_args *args = (const hf_gemm_args *)call->args;
    const struct gemm_launch how = mma_how(args);
    return hf_gemm_cuda_workspace(args, &how);
}

static hf_status mma_run(const struct hf_call *call) {
    const struct gemm_launch how = mma_how((const hf_gemm_args *)call->args);
    return hf_gemm_cuda_run(call, &how);
}

static bool mma_supports(const struct hf_call *call) {
    const hf_gemm_args *args = (const hf_gemm_args *)call->args;
    return hf_gemm_may_use_tensors(args) && hf_gemm_cuda_supports(call);
}

/* Places of the copy engine are int32. */
static bool wgmma_supports(const struct hf_call *call) {
    const hf_gemm_args *args = (const hf_gemm_args *)call->args;
    const int64_t most = INT32_MAX / 2;
    return args->m <= most && args->n <= most && args->k <= most && args->batch <= most &&
           mma_supports(call);
}

static const struct gemm_launch dmma_how = {TILE, TILE, GEMM_WIDE_PAYS, false, hf_gemm_dmma};

static size_t dmma_workspace(const struct hf_call *call) {
    return hf_gemm_cuda_workspace((const hf_gemm_args *)call->args, &dmma_how);
}

static hf_status dmma_run(const struct hf_call *call) { return hf_gemm_cuda_run(call, &dmma_how); }

static struct gemm_launch wgmma_how(const hf_gemm_args *args) {
    return {TILE, WGMMA_COLS, GEMM_WIDE, true,
            args->dtype == HF_F16 ? hf_gemm_wgmma_f16 : hf_gemm_wgmma_bf16};
}

static size_t wgmma_workspace(const struct hf_call *call) {
    const hf_gemm_args *args = (const hf_gemm_args *)call->args;
    const struct gemm_launch how = wgmma_how(args);
    return hf_gemm_cuda_workspace(args, &how);
}

static hf_status wgmma_run(const struct hf_call *call) {
    const struct gemm_launch how = wgmma_how((const hf_gemm_args *)call->args);
    return hf_gemm_cuda_run(call, &how);
}

/* Whole rounds of tiles on all multiprocessors, one of which does `rate` multiplications per ns. */
static double rounds_ns(const struct hf_call *call, int64_t rows, int64_t cols, double rate) {
    const hf_gemm_args *args = (const hf_gemm_args *)call->args;
    const int64_t tiles = tiles_of(args, rows, cols), sms = call->device->sms;
    const double one = (double)rows * (double)cols * (double)args->k / rate;
    return 6000 + one * (double)ceil_div(tiles, sms > 0 ? sms : 1);
}

static double simt_estimate(const struct hf_call *call) {
    switch (((const hf_gemm_args *)call->args)->dtype) {
    case HF_F64:
        return rounds_ns(call, TILE_SMALL, TILE_SMALL, 80);
    case HF_I8:
        return rounds_ns(call, TILE, TILE, 700);
    default:
        return rounds_ns(call, TILE, TILE, 180);
    }
}

static double small_estimate(const struct hf_call *call) {
    return rounds_ns(call, TILE_SMALL, TILE_SMALL, 140);
}

static double mma_estimate(const struct hf_call *call) { return rounds_ns(call, TILE, TILE, 400); }

static double dmma_estimate(const struct hf_call *call) { return rounds_ns(call, TILE, TILE, 180); }

static double wgmma_estimate(const struct hf_call *call) {
    return rounds_ns(call, TILE, WGMMA_COLS, 2800);
}

#define SIMT_KERNEL(name, dtypes, tile)                                                            \
    HF_CUDA_KERNEL(name, dtypes, 80, HF_TRAIT_FIXED_ORDER, HF_TILE(tile, tile, 8),                 \
                   hf_gemm_cuda_supports, simt_workspace, simt_run, simt_estimate, NULL)

static const struct hf_kernel kernels[] = {
    SIMT_KERNEL("gemm_f32_128x128_cuda", HF_DT(HF_F32) | HF_DT(HF_F16) | HF_DT(HF_BF16), TILE),
    HF_CUDA_KERNEL("gemm_f32_64x64_cuda", HF_DT(HF_F32), 80, HF_TRAIT_FIXED_ORDER,
                   HF_TILE(TILE_SMALL, TILE_SMALL, 16), hf_gemm_cuda_supports, small_workspace,
                   small_run, small_estimate, NULL),
    SIMT_KERNEL("gemm_f64_64x64_cuda", HF_DT(HF_F64), TILE_SMALL),
    SIMT_KERNEL("gemm_i8_128x128_cuda", HF_DT(HF_I8), TILE),
    HF_CUDA_KERNEL("gemm_f16_128x128_cuda", HF_DT(HF_F16) | HF_DT(HF_BF16), 80,
                   HF_TRAIT_FIXED_ORDER, HF_TILE(TILE, TILE, 32), mma_supports, mma_workspace,
                   mma_run, mma_estimate, NULL),
    HF_CUDA_KERNEL("gemm_f64_128x128_sm90", HF_DT(HF_F64), 90, HF_TRAIT_FIXED_ORDER,
                   HF_TILE(TILE, TILE, 16), hf_gemm_cuda_supports, dmma_workspace, dmma_run,
                   dmma_estimate, NULL),
    HF_CUDA_KERNEL("gemm_f16_128x256_sm90", HF_DT(HF_F16) | HF_DT(HF_BF16), 90,
                   HF_TRAIT_FIXED_ORDER, HF_TILE(TILE, WGMMA_COLS, 64), wgmma_supports,
                   wgmma_workspace, wgmma_run, wgmma_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_gemm_kernels_cuda;
const struct hf_kernel_table hf_gemm_kernels_cuda = {kernels, sizeof kernels / sizeof *kernels};
}
