/* SPDX-License-Identifier: Apache-2.0
 * The hot phase of a GPU: large products, one type after the other, again and again. Each tile of
 * them is signed by the multiprocessor that computed it, so that a wrong one names it. */
#include "base/dtype.h"
#include "base/mem.h"
#include "core/part.h"
#include "harness/screen/screen.h"
#include <holdfast/gemm.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define RANDOM 1048583 /* numbers, which are repeated: a prime, so that rows differ */
#define ROWS 32        /* of a product that the CPU computes too */
#define SLICE_S 0.25   /* of a type before the next one, times its weight */
#define REPEATS 5
#define HOT 0.5                            /* of the peak rate */
#define AB_BYTES ((size_t)8192 * 8192 * 2) /* of the largest of the kinds below, */
#define C_BYTES ((size_t)8192 * 8192 * 4)

/* size: of the matrices. rate: operations of a multiprocessor in a clock, of compute capability 9.0
 * and of 8.0. The 16-bit units take most of the power. */
static const struct {
    const char *name;
    hf_dtype dtype, dtype_c;
    int size;
    double weight, rate90, rate80;
} kinds[] = {{"bf16", HF_BF16, HF_F32, 8192, 3, 4096, 2048},
             {"f32", HF_F32, HF_F32, 4096, 1, 256, 128},
             {"f16", HF_F16, HF_F32, 8192, 3, 4096, 2048},
             {"f64", HF_F64, HF_F64, 4096, 2, 256, 128},
             {"i8", HF_I8, HF_I32, 4096, 1, 512, 512}};
#define KINDS ((int)(sizeof kinds / sizeof kinds[0]))

struct hot {
    struct screen *s;
    char *a, *b, *c; /* on the device, of the widest type */
    hf_gemm_tile *tile, *first[KINDS];
    int64_t room; /* of tile */
    int64_t tiles[KINDS];
    char name[KINDS][64]; /* of the kernel */
    double peak[KINDS];   /* operations a second */
    double seconds[KINDS], hot_s[KINDS];
    int64_t products[KINDS];
};

static hf_gemm_args product_of(const struct hot *h, int kind) {
    return (hf_gemm_args){.m = kinds[kind].size,
                          .n = kinds[kind].size,
                          .k = kinds[kind].size,
                          .dtype = kinds[kind].dtype,
                          .dtype_c = kinds[kind].dtype_c,
                          .alpha = 1,
                          .a = h->a,
                          .b = h->b,
                          .c = h->c};
}

static size_t cells(int kind) { return (size_t)kinds[kind].size * (size_t)kinds[kind].size; }

/* Both matrices of a type: the same random numbers again and again. */
static hf_status fill(const struct hot *h, int kind) {
    const hf_dtype dtype = kinds[kind].dtype;
    const size_t each = hf_dtype_bytes(dtype), all = cells(kind) * each,
                 block_bytes = RANDOM * each;
    char *block = hf_alloc(block_bytes);
    if (!block)
        return HF_E_NOMEM;
    hf_status status = HF_OK;
    for (int which = 0; status == HF_OK && which < 2; which++) {
        struct hf_rng rng = {h->s->opts->seed, (uint64_t)(2 * kind + which), 0};
        char *const to = which == 0 ? h->a : h->b;
        for (int64_t i = 0; i < RANDOM; i++)
            hf_store_f64(block, dtype, i,
                         dtype == HF_I8 ? (double)(int8_t)(hf_rng_next(&rng) & 0xff)
                                        : 2 * hf_rng_next_unit(&rng) - 1);
        for (size_t at = 0; status == HF_OK && at < all; at += block_bytes)
            status = hf_ctx_copy(h->s->gpu, to + at, at == 0 ? block : to,
                                 all - at < block_bytes ? all - at : block_bytes);
    }
    hf_free(block);
    return status;
}

/* The product, and seconds of the device; wrong: tiles whose signature is not the first one's. */
static hf_status multiply(struct hot *h, int kind, bool plant, double *seconds) {
    hf_context *ctx = h->s->gpu;
    const int unit = h->s->opts->plant - 1;
    hf_gemm_report report;
    hf_gemm_signatures sign = {.checksum = "fletcher", .tile = h->tile, .tile_room = h->room};
    hf_gemm_args args = product_of(h, kind);
    args.signatures = &sign;
    if (plant && unit >= 0 &&
        (!h->s->opts->plant_kernel || strcmp(h->s->opts->plant_kernel, h->name[kind]) == 0)) {
        sign.plant = HF_GEMM_PLANT_UNIT;
        sign.plant_at = (int64_t)unit * 32 + 20;
    }
    HF_TRY(hf_ctx_check(ctx, ctx->device->mark(ctx->stream, 0)));
    HF_TRY(hf_gemm(ctx, &args, &report));
    HF_TRY(hf_ctx_check(ctx, ctx->device->mark(ctx->stream, 1)));
    *seconds = ctx->device->span(ctx->stream);
    h->tiles[kind] = sign.tiles;
    (void)snprintf(h->name[kind], sizeof h->name[kind], "%s", report.kernel);
    __atomic_fetch_add(&h->s->result->runs, 1, __ATOMIC_RELAXED);
    return HF_OK;
}

static void tell(struct hot *h, int kind, const hf_dev_screen_finding *found, const char *text) {
    struct screen *s = h->s;
    char problem[64];
    hf_dev_screen_finding f = *found;
    (void)snprintf(problem, sizeof problem, "%d x %d, k = %d, %s", kinds[kind].size,
                   kinds[kind].size, kinds[kind].size, kinds[kind].name);
    f.op = "gemm";
    f.kernel = h->name[kind];
    f.problem = problem;
    f.phase = s->phase;
    f.with = f.core < 0 ? s->cores : 1;
    f.text = text;
    s->result->findings++;
    struct screen_kernel *const kernel = hf_screen_listed(h->s, h->name[kind]);
    if (kernel != NULL && f.core >= 0 && f.core < s->cores)
        kernel->wrong[f.core]++;
    if (s->opts->finding)
        s->opts->finding(s->opts->user, &f);
}

/* Tiles of `unit` that differ from the first product's; others: multiprocessors that have some. */
static int64_t count_wrong(const struct hot *h, int kind, int unit, int *others) {
    bool seen[SCREEN_CORES] = {false};
    int64_t wrong = 0;
    for (int64_t i = 0; i < h->tiles[kind]; i++) {
        const hf_gemm_tile *tile = &h->tile[i];
        if (tile->c == h->first[kind][i].c || tile->unit < 0 || tile->unit >= SCREEN_CORES)
            continue;
        wrong += tile->unit == unit;
        *others += tile->unit != unit && !seen[tile->unit];
        seen[tile->unit] = true;
    }
    return wrong;
}

/* A tile that is wrong: the same again, to see whether it stays, and who else is. */
static hf_status triage(struct hot *h, int kind, hf_gemm_tile tile) {
    char text[160];
    double seconds;
    hf_dev_screen_finding f = {.core = tile.unit, .others = h->s->cores - 1};
    (void)count_wrong(h, kind, tile.unit, &f.others_wrong);
    for (f.repeats = 0; f.repeats < REPEATS; f.repeats++) {
        int others = 0;
        HF_TRY(multiply(h, kind, true, &seconds));
        f.repeats_wrong += count_wrong(h, kind, tile.unit, &others) > 0;
    }
    (void)snprintf(text, sizeof text, "the tile at row %lld, column %lld has another signature",
                   (long long)tile.row, (long long)tile.col);
    f.blame = f.others_wrong < f.others ? HF_DEV_BLAME_CORE : HF_DEV_BLAME_KERNEL;
    f.lane = -1;
    if (f.blame == HF_DEV_BLAME_CORE && f.repeats_wrong > 0)
        f.lane = hf_screen_lane(h->s, h->s->gpu, tile.unit, &f.lanes);
    tell(h, kind, &f, text);
    return HF_OK;
}

/* Each multiprocessor that made tiles of a product has answered once. */
static void count_answers(const struct hot *h, int kind) {
    bool seen[SCREEN_CORES] = {false};
    struct screen_kernel *const kernel = hf_screen_listed(h->s, h->name[kind]);
    for (int64_t i = 0; kernel != NULL && i < h->tiles[kind]; i++) {
        const int unit = h->tile[i].unit;
        if (unit < 0 || unit >= h->s->cores || seen[unit])
            continue;
        seen[unit] = true;
        kernel->visits[unit]++;
    }
}

/* Compare with the first product; each multiprocessor that differs is told once. */
static hf_status look(struct hot *h, int kind, int *told) {
    count_answers(h, kind);
    for (int64_t i = 0; i < h->tiles[kind]; i++) {
        const hf_gemm_tile tile = h->tile[i];
        if (tile.c == h->first[kind][i].c)
            continue;
        if ((*told)++ >= SCREEN_MOST_FINDINGS)
            return HF_OK;
        return triage(h, kind, tile);
    }
    return HF_OK;
}

/* Some rows by the CPU: to the bit, but for tensor cores, which sum in another order. */
static bool rows_agree(hf_context *cpu, const struct hot *h, int kind, const char *a, const char *b,
                       const char *got) {
    const hf_dtype out = kinds[kind].dtype_c;
    const size_t each = hf_dtype_bytes(out);
    const int size = kinds[kind].size;
    hf_gemm_report here;
    char *want = hf_alloc((size_t)(ROWS * size) * each);
    hf_gemm_args args = product_of(h, kind);
    args.m = ROWS;
    args.a = a;
    args.b = b;
    args.c = want;
    args.portable = 1;
    bool right = want != NULL && hf_gemm(cpu, &args, &here) == HF_OK;
    const double there = 0x1p-24 * 3 * size; /* the error of tensor cores, and more */
    const bool exact = kinds[kind].dtype != HF_BF16 && kinds[kind].dtype != HF_F16;
    for (int64_t i = 0; right && i < (int64_t)ROWS * size; i++)
        right = exact ? memcmp(want + (size_t)i * each, got + (size_t)i * each, each) == 0
                      : fabs(hf_load_f64(want, out, i) - hf_load_f64(got, out, i)) <=
                            (here.error + there) * size; /* no factor is above 1 */
    hf_free(want);
    return right;
}

/* Is the first product of a kind right? */
static hf_status verify(const struct hot *h, hf_context *cpu, int kind, bool *right) {
    const size_t size = (size_t)kinds[kind].size, each = hf_dtype_bytes(kinds[kind].dtype);
    const size_t in = size * each, out = size * hf_dtype_bytes(kinds[kind].dtype_c);
    char *a = hf_alloc(ROWS * in), *b = hf_alloc(size * in), *c = hf_alloc(ROWS * out);
    hf_status status = a && b && c ? HF_OK : HF_E_NOMEM;
    for (size_t i = 0; status == HF_OK && i < ROWS; i++) {
        const size_t row = i * (size / ROWS) + i * 37 % (size / ROWS);
        status = hf_ctx_copy(h->s->gpu, a + i * in, h->a + row * in, in);
        if (status == HF_OK)
            status = hf_ctx_copy(h->s->gpu, c + i * out, h->c + row * out, out);
    }
    if (status == HF_OK)
        status = hf_ctx_copy(h->s->gpu, b, h->b, size * in);
    if (status == HF_OK)
        *right = rows_agree(cpu, h, kind, a, b, c);
    hf_free(a);
    hf_free(b);
    hf_free(c);
    return status;
}

/* The first product of a kind, whose rows the CPU computes too. */
static hf_status begin_kind(struct hot *h, hf_context *cpu, int kind) {
    double seconds;
    bool right = false;
    HF_TRY(fill(h, kind));
    HF_TRY(multiply(h, kind, false, &seconds));
    h->first[kind] = hf_alloc((size_t)h->tiles[kind] * sizeof **h->first);
    if (!h->first[kind])
        return HF_E_NOMEM;
    memcpy(h->first[kind], h->tile, (size_t)h->tiles[kind] * sizeof **h->first);
    HF_TRY(verify(h, cpu, kind, &right));
    if (right)
        return HF_OK;
    hf_dev_screen_finding f = {.core = -1, .lane = -1, .blame = HF_DEV_BLAME_UNKNOWN};
    tell(h, kind, &f, "rows of the product differ from those that the CPU computes");
    return HF_OK;
}

static hf_status run_slice(struct hot *h, hf_context *cpu, int kind, int *told) {
    struct screen *s = h->s;
    const double until = hf_screen_now(s) + kinds[kind].weight * SLICE_S;
    HF_TRY(h->first[kind] == NULL ? begin_kind(h, cpu, kind) : fill(h, kind));
    while (hf_screen_now(s) < until && !hf_screen_over(s)) {
        double seconds;
        HF_TRY(multiply(h, kind, true, &seconds));
        h->products[kind]++;
        h->seconds[kind] += seconds;
        if (2 * (double)cells(kind) * kinds[kind].size >= HOT * h->peak[kind] * seconds)
            h->hot_s[kind] += seconds;
        HF_TRY(look(h, kind, told));
    }
    return HF_OK;
}

static hf_status work(struct hot *h) {
    struct screen *s = h->s;
    hf_context *cpu = NULL;
    const hf_context_opts here = {.device = "cpu"};
    int told = 0;
    HF_TRY(hf_context_create(&cpu, &here));
    for (int k = 0; k < KINDS; k++)
        h->peak[k] = hf_part_clock(s->gpu) * s->props.sms *
                     (s->props.sm >= 90 ? kinds[k].rate90 : kinds[k].rate80);
    hf_status status = HF_OK;
    for (int turn = 0; status == HF_OK && !hf_screen_over(s); turn++)
        status = run_slice(h, cpu, turn % KINDS, &told);
    hf_context_destroy(cpu);
    return status;
}

/* What each unit did. */
static void tell_units(const struct hot *h) {
    const struct screen *const s = h->s;
    double hot_s = 0;
    for (int k = 0; k < KINDS; k++) {
        const double work = 2 * (double)cells(k) * kinds[k].size * (double)h->products[k];
        const hf_dev_screen_unit u = {.name = kinds[k].name,
                                      .kernel = h->name[k],
                                      .products = h->products[k],
                                      .seconds = h->seconds[k],
                                      .hot_seconds = h->hot_s[k],
                                      .rate = h->seconds[k] > 0 ? work / h->seconds[k] : 0,
                                      .peak = h->peak[k]};
        hot_s += h->hot_s[k];
        if (s->opts->unit && h->products[k] > 0)
            s->opts->unit(s->opts->user, &u);
    }
    s->result->share = s->result->hot_share = hot_s / (hf_screen_now(s) - s->start_s);
}

hf_status hf_screen_gpu_hot(struct screen *s) {
    struct hot h = {.s = s, .room = hf_gemm_most_tiles(8192, 8192, 1)};
    hf_status status = HF_E_NOMEM;
    hf_screen_begin_phase(s, "hot");
    if (s->opts->op && strcmp(s->opts->op, "gemm") != 0)
        return HF_OK;
    h.a = hf_ctx_alloc(s->gpu, AB_BYTES);
    h.b = hf_ctx_alloc(s->gpu, AB_BYTES);
    h.c = hf_ctx_alloc(s->gpu, C_BYTES);
    h.tile = hf_alloc((size_t)h.room * sizeof *h.tile);
    if (h.a && h.b && h.c && h.tile)
        status = work(&h);
    tell_units(&h);
    hf_ctx_release(s->gpu, h.a);
    hf_ctx_release(s->gpu, h.b);
    hf_ctx_release(s->gpu, h.c);
    for (int k = 0; k < KINDS; k++)
        hf_free(h.first[k]);
    hf_free(h.tile);
    return status;
}
