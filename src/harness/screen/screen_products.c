/* SPDX-License-Identifier: Apache-2.0
 * The hot phase of a CPU: products that keep the multiply-add units and the matrix tiles of each
 * core near their peak. Some rows of the first one are compared with the reference; whatever a core
 * computes later must have the bits of the first. */
#include "base/dtype.h"
#include "base/mem.h"
#include "device/host/isa.h"
#include "harness/screen/screen.h"
#include "ops/gemm/gemm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROWS 8      /* that the reference computes too */
#define HALF 0.5    /* of the peak rate */
#define PEAK_S 0.01 /* for measuring it */
#define PEAK_TIMES 3
#define REPEATS 5
#define OTHERS 4

/* of_fma, of_amx: the peak rate as a multiple of that of float32 or of AMX with bfloat16. */
static const struct {
    const char *name;
    hf_dtype dtype, dtype_c;
    int size;
    double of_fma, of_amx;
} kinds[] = {{"f32", HF_F32, HF_F32, 768, 1, 0},
             {"f64", HF_F64, HF_F64, 512, 0.5, 0},
             {"bf16", HF_BF16, HF_F32, 1536, 0, 1},
             {"i8", HF_I8, HF_I32, 1536, 0, 2}};
#define KINDS ((int)(sizeof kinds / sizeof kinds[0]))

/* Numbers of kinds in turn: what multiplies and adds is in every program, AMX in few. */
static const int order[] = {0, 1, 2, 0, 1, 0, 1, 3, 0, 1};
#define TURNS ((int)(sizeof order / sizeof order[0]))

/* What a core did with a kind. */
struct work {
    int64_t products;
    double seconds, hot_seconds, peak;
};

struct screen_products {
    char *a[KINDS], *b[KINDS], *first[KINDS]; /* NULL: the kind is not for this machine */
    char kernel[KINDS][64];
    struct screen_kernel *visited[KINDS]; /* the same; NULL: of none that is listed */
    char **c;                             /* [cores] */
    struct work *work;                    /* [cores, KINDS] */
    int *findings;                        /* [cores] */
    int home; /* the core that computed the first ones, -1: none of them */
};

bool hf_screen_has_products(const struct screen *s) {
    return s->opts->op == NULL || strcmp(s->opts->op, "gemm") == 0;
}

static size_t cells(int kind) { return (size_t)kinds[kind].size * (size_t)kinds[kind].size; }

static size_t c_bytes(int kind) { return cells(kind) * hf_dtype_bytes(kinds[kind].dtype_c); }

/* Of the kind that needs most. */
static size_t most_c_bytes(void) {
    size_t most = 0;
    for (int k = 0; k < KINDS; k++)
        most = most > c_bytes(k) ? most : c_bytes(k);
    return most;
}

static hf_gemm_args product_of(const struct screen_products *p, int kind, void *c) {
    const int64_t size = kinds[kind].size;
    return (hf_gemm_args){.m = size,
                          .n = size,
                          .k = size,
                          .dtype = kinds[kind].dtype,
                          .dtype_c = kinds[kind].dtype_c,
                          .alpha = 1,
                          .a = p->a[kind],
                          .b = p->b[kind],
                          .c = c,
                          .lda = size,
                          .ldb = size,
                          .ldc = size,
                          .batch = 1};
}

static char *filled(const struct screen *s, int kind, int which) {
    const hf_dtype dtype = kinds[kind].dtype;
    struct hf_rng rng = {s->opts->seed, (uint64_t)(2 * kind + which), 0};
    char *const x = hf_alloc(cells(kind) * hf_dtype_bytes(dtype));
    for (size_t i = 0; x != NULL && i < cells(kind); i++)
        hf_store_f64(x, dtype, (int64_t)i,
                     dtype == HF_I8 ? (double)(int8_t)(hf_rng_next(&rng) & 0xff)
                                    : 2 * hf_rng_next_unit(&rng) - 1);
    return x;
}

/* Row `row` of the first product by the reference: to the bit, but for AMX, which sums in another
 * order. No factor is above 1 there. */
static hf_status row_agrees(const struct screen *s, hf_context *cpu, int kind, int64_t row,
                            bool *right) {
    const struct screen_products *const p = s->products;
    const hf_dtype out = kinds[kind].dtype_c;
    const size_t each = hf_dtype_bytes(out), size = (size_t)kinds[kind].size;
    const bool exact = kinds[kind].dtype != HF_BF16;
    const double error = 0x1p-24 * 4 * (double)size;
    char *const want = hf_alloc(size * each);
    const char *const got = p->first[kind] + (size_t)row * size * each;
    hf_gemm_args args = product_of(p, kind, want);
    if (want == NULL)
        return HF_E_NOMEM;
    args.m = 1;
    args.portable = 1;
    args.a = p->a[kind] + (size_t)row * size * hf_dtype_bytes(kinds[kind].dtype);
    const struct hf_kernel *const plain = hf_screen_reference(s, &s->subject[HF_OP_GEMM], &args);
    const hf_status status =
        plain != NULL ? hf_run_kernel(cpu, HF_OP_GEMM, plain, &args) : HF_E_UNSUPPORTED;
    for (size_t i = 0; status == HF_OK && *right && i < size; i++)
        *right = exact ? memcmp(want + i * each, got + i * each, each) == 0
                       : fabs(hf_load_f64(want, out, (int64_t)i) -
                              hf_load_f64(got, out, (int64_t)i)) <= 2 * error * (double)size;
    hf_free(want);
    return status;
}

static void begin_finding(const struct screen *s, int kind, int at, char *problem, size_t bytes,
                          hf_dev_screen_finding *f) {
    (void)snprintf(problem, bytes, "%d x %d, k = %d, %s", kinds[kind].size, kinds[kind].size,
                   kinds[kind].size, kinds[kind].name);
    *f = (hf_dev_screen_finding){.op = "gemm",
                                 .kernel = s->products->kernel[kind],
                                 .problem = problem,
                                 .phase = s->phase,
                                 .core = at < 0 ? -1 : s->core[at],
                                 .with = 1,
                                 .lane = -1,
                                 .blame = HF_DEV_BLAME_UNKNOWN};
}

static void tell(struct screen *s, int kind, const hf_dev_screen_finding *f, int at) {
    (void)pthread_mutex_lock(&s->lock);
    s->result->findings++;
    if (at >= 0 && s->products->visited[kind] != NULL)
        s->products->visited[kind]->wrong[at]++;
    if (s->opts->finding)
        s->opts->finding(s->opts->user, f);
    (void)pthread_mutex_unlock(&s->lock);
}

/* The first product of a kind, on the calling thread. */
static hf_status begin_kind(struct screen *s, hf_context *cpu, int kind) {
    struct screen_products *const p = s->products;
    hf_gemm_report report;
    bool right = true;
    p->a[kind] = filled(s, kind, 0);
    p->b[kind] = filled(s, kind, 1);
    p->first[kind] = hf_alloc(c_bytes(kind));
    if (!p->a[kind] || !p->b[kind] || !p->first[kind])
        return HF_E_NOMEM;
    const hf_gemm_args args = product_of(p, kind, p->first[kind]);
    HF_TRY(hf_gemm(cpu, &args, &report));
    (void)snprintf(p->kernel[kind], sizeof p->kernel[kind], "%s", report.kernel);
    p->visited[kind] = hf_screen_listed(s, report.kernel);
    for (int64_t i = 0; i < ROWS && right; i++)
        HF_TRY(row_agrees(s, cpu, kind, i * (kinds[kind].size - 1) / (ROWS - 1), &right));
    if (right)
        return HF_OK;
    char problem[64];
    hf_dev_screen_finding f;
    begin_finding(s, kind, p->home, problem, sizeof problem, &f);
    f.text = "rows of the product differ from those of the reference";
    tell(s, kind, &f, p->home);
    return HF_OK;
}

hf_status hf_screen_products_open(struct screen *s) {
    const hf_context_opts one = {.device = "cpu", .threads = 1};
    const bool amx = (hf_cpu_isas() >> HF_ISA_ID_amx & 1U) != 0;
    struct hf_affinity before;
    hf_context *cpu = NULL;
    if (!hf_screen_has_products(s))
        return HF_OK;
    struct screen_products *const p = s->products = hf_alloc_zero(sizeof *p);
    if (p == NULL)
        return HF_E_NOMEM;
    p->c = hf_alloc_zero((size_t)s->cores * sizeof *p->c);
    p->work = hf_alloc_zero((size_t)s->cores * KINDS * sizeof *p->work);
    p->findings = hf_alloc_zero((size_t)s->cores * sizeof *p->findings);
    if (!p->c || !p->work || !p->findings)
        return HF_E_NOMEM;
    p->home = hf_affinity_enter(s->core[0], &before) ? 0 : -1;
    hf_status status = hf_context_create(&cpu, &one);
    for (int k = 0; status == HF_OK && k < KINDS; k++)
        if (kinds[k].of_fma > 0 || amx)
            status = begin_kind(s, cpu, k);
    hf_context_destroy(cpu);
    if (p->home == 0)
        hf_affinity_leave(&before);
    return status;
}

void hf_screen_products_close(struct screen *s) {
    struct screen_products *const p = s->products;
    if (p == NULL)
        return;
    for (int k = 0; k < KINDS; k++) {
        hf_free(p->a[k]);
        hf_free(p->b[k]);
        hf_free(p->first[k]);
    }
    for (int c = 0; p->c != NULL && c < s->cores; c++)
        hf_free(p->c[c]);
    hf_free(p->c);
    hf_free(p->work);
    hf_free(p->findings);
    hf_free(p);
    s->products = NULL;
}

/* A rate as it would be if no other program had used the core. */
static double alone(hf_rate_fn *rate) {
    const double begin = hf_now_s(), work = hf_thread_s();
    const double seen = rate(PEAK_S);
    return seen * (hf_now_s() - begin) / fmax(hf_thread_s() - work, 1e-9);
}

/* The most that the calling thread's core does in registers. */
static void measure_peaks(struct work *work) {
    hf_rate_fn *fma = NULL;
    for (int isa = 0; isa < HF_ISA_COUNT; isa++)
        fma = hf_rate_fma(isa) != NULL ? hf_rate_fma(isa) : fma;
    double single = 0, tiles = 0;
    for (int i = 0; i < PEAK_TIMES; i++) {
        single = fma != NULL ? fmax(single, alone(fma)) : 0;
        if (hf_cpu_isas() >> HF_ISA_ID_amx & 1U)
            tiles = fmax(tiles, alone(hf_rate_amx));
    }
    for (int k = 0; k < KINDS; k++)
        work[k].peak = kinds[k].of_fma * single + kinds[k].of_amx * tiles;
}

/* A product on core number `at`, where the calling thread is, into c. Right? seconds: of the
 * product, without the comparison; NULL: not wanted. */
static bool multiply(struct screen *s, hf_context *ctx, int kind, int at, char *c,
                     double *seconds) {
    const struct screen_products *const p = s->products;
    hf_gemm_report report = {.seconds = 0};
    const hf_gemm_args args = product_of(p, kind, c);
    const bool ran = hf_gemm(ctx, &args, &report) == HF_OK;
    if (seconds != NULL)
        *seconds = report.seconds;
    if (!ran)
        return false;
    hf_screen_spoil(s, p->kernel[kind], false, at, c, c_bytes(kind));
    __atomic_fetch_add(&s->result->runs, 1, __ATOMIC_RELAXED);
    return memcmp(c, p->first[kind], c_bytes(kind)) == 0;
}

static void say_where(const struct screen_products *p, int kind, const char *c, char *text,
                      size_t bytes) {
    const hf_dtype out = kinds[kind].dtype_c;
    const size_t each = hf_dtype_bytes(out), size = (size_t)kinds[kind].size;
    size_t wrong = 0, at = 0;
    for (size_t i = 0; i < cells(kind); i++)
        if (memcmp(c + i * each, p->first[kind] + i * each, each) != 0 && wrong++ == 0)
            at = i;
    (void)snprintf(text, bytes,
                   "%zu elements differ, the first in row %zu, column %zu: %.9g instead of %.9g",
                   wrong, at / size, at % size, hf_load_f64(c, out, (int64_t)at),
                   hf_load_f64(p->first[kind], out, (int64_t)at));
}

/* c is wrong: the same again, and on other cores. */
static void triage(struct screen *s, hf_context *ctx, int kind, int at, char *c) {
    const struct screen_products *const p = s->products;
    char problem[64], text[200];
    hf_dev_screen_finding f;
    bool home_right = false;
    begin_finding(s, kind, at, problem, sizeof problem, &f);
    say_where(p, kind, c, text, sizeof text);
    f.text = text;
    for (f.repeats = 0; f.repeats < REPEATS; f.repeats++)
        f.repeats_wrong += !multiply(s, ctx, kind, at, c, NULL);
    for (int other = 0; other < s->cores && f.others < OTHERS; other++) {
        struct hf_affinity before;
        if (other == at || !hf_affinity_enter(s->core[other], &before))
            continue;
        const bool right = multiply(s, ctx, kind, other, c, NULL);
        hf_affinity_leave(&before);
        f.others++;
        f.others_wrong += !right;
        home_right = home_right || (other == p->home && right);
    }
    f.blame = f.others == 0               ? HF_DEV_BLAME_UNKNOWN
              : f.others_wrong < f.others ? HF_DEV_BLAME_CORE
                                          : HF_DEV_BLAME_KERNEL;
    /* All but the core that computed the first one contradict it. */
    if (home_right && f.others > 1 && f.others_wrong == f.others - 1) {
        at = p->home;
        f.core = s->core[at];
    }
    if (f.blame == HF_DEV_BLAME_CORE && f.repeats_wrong > 0)
        f.lane = hf_screen_lane(s, ctx, at, &f.lanes);
    tell(s, kind, &f, at);
}

void hf_screen_products_work(struct screen *s, hf_context *ctx, int at, int turn, double until_s) {
    struct screen_products *const p = s->products;
    const int kind = order[turn % TURNS];
    struct work *const works = p->work + (int64_t)at * KINDS, *const work = works + kind;
    if (p->c[at] == NULL) {
        measure_peaks(works);
        p->c[at] = hf_alloc(most_c_bytes());
    }
    if (p->first[kind] == NULL || p->c[at] == NULL)
        return;
    while (hf_screen_now(s) < until_s && !hf_screen_over(s)) {
        double seconds = 0;
        const bool right = multiply(s, ctx, kind, at, p->c[at], &seconds);
        work->products++;
        if (p->visited[kind] != NULL)
            __atomic_fetch_add(&p->visited[kind]->visits[at], 1, __ATOMIC_RELAXED);
        work->seconds += seconds;
        if (2 * (double)cells(kind) * kinds[kind].size >= HALF * work->peak * seconds)
            work->hot_seconds += seconds;
        if (!right && p->findings[at]++ < SCREEN_MOST_FINDINGS)
            triage(s, ctx, kind, at, p->c[at]);
    }
}

void hf_screen_products_tell(struct screen *s, double seconds) {
    const struct screen_products *const p = s->products;
    double hot = 0;
    for (int k = 0; k < KINDS; k++) {
        hf_dev_screen_unit u = {.name = kinds[k].name, .kernel = p->kernel[k]};
        for (int c = 0; c < s->cores; c++) {
            const struct work *const work = p->work + (int64_t)c * KINDS + k;
            u.products += work->products;
            u.seconds += work->seconds;
            u.hot_seconds += work->hot_seconds;
            u.peak += work->peak / s->cores;
        }
        hot += u.hot_seconds;
        u.rate = u.seconds > 0
                     ? 2 * (double)cells(k) * kinds[k].size * (double)u.products / u.seconds
                     : 0;
        if (p->first[k] != NULL && s->opts->unit)
            s->opts->unit(s->opts->user, &u);
    }
    s->result->hot_share = seconds > 0 ? hot / (seconds * s->cores) : 0;
}
