/* SPDX-License-Identifier: Apache-2.0
 * Two contexts of one GPU at work in two threads, on shapes that take more and less shared memory
 * in turn: neither takes from a kernel what the other one launches it with, and results have the
 * bits of calls made alone. Skipped, with the reason, where there is no GPU. */
#include "base/clock.h"
#include "kmeans_brute.h"
#include "on_device.h"
#include "relax_matrices.h"
#include <pthread.h>

#define SIDES 2
#define ROUNDS 100 /* at most, */
#define MOST_S 10  /* and about so many seconds */
#define SYSTEMS 3  /* jobs that solve one; */
#define JOBS 6     /* the others fit and multiply */
#define ROWS 20000
#define COLUMNS 64
#define FIT_ROWS 5000
#define PRODUCT 96    /* rows and columns of a product, */
#define PRODUCT_K 600 /* and the most terms of a sum */
#define SYSTEM_ROWS 8100

/* What all threads read. */
static struct matrix grid[2];  /* a small one and a large one */
static struct problem rows[2]; /* of float16 */
static float *factors;         /* [PRODUCT, PRODUCT_K] */
static double *rhs;            /* [SYSTEM_ROWS] ones */

static const hf_relax_opts systems[SYSTEMS][2] = {
    {{.method = HF_RELAX_JACOBI, .one_launch = HF_SWITCH_ON},
     {.method = HF_RELAX_JACOBI, .one_launch = HF_SWITCH_ON}},
    {{.method = HF_RELAX_ASYNC, .one_launch = HF_SWITCH_OFF, .block_rows = 50},
     {.method = HF_RELAX_ASYNC, .one_launch = HF_SWITCH_OFF, .block_rows = 1000}},
    {{.method = HF_RELAX_JACOBI, .one_launch = HF_SWITCH_OFF},
     {.method = HF_RELAX_CHEBYSHEV, .one_launch = HF_SWITCH_OFF}},
};

/* A thread with a context of its own. */
struct side {
    hf_context *ctx;
    hf_relax *relax[SYSTEMS][2];
    double x[SYSTEM_ROWS];
    float c[PRODUCT * PRODUCT];
    int begins;              /* with the large shape? */
    uint64_t alone[JOBS][2]; /* digests */
    char error[400];
};

static pthread_barrier_t together;
static double begun;
static bool over;

/* Of whole words. */
static uint64_t digest_of(const void *data, size_t bytes) {
    uint64_t sum = UINT64_C(0xcbf29ce484222325), word;
    for (size_t i = 0; i + sizeof word <= bytes; i += sizeof word) {
        memcpy(&word, (const char *)data + i, sizeof word);
        sum = (sum ^ word) * UINT64_C(0x100000001b3);
    }
    return sum;
}

static hf_status solve(struct side *s, int system, int large, uint64_t *digest) {
    const int64_t n = grid[large].a.rows;
    const hf_array b = hf_array_view(rhs, HF_F64, n, 1), x = hf_array_view(s->x, HF_F64, n, 1);
    memset(s->x, 0, sizeof s->x);
    const hf_status status = hf_relax_solve_with(s->relax[system][large], &b, &x, NULL);
    *digest = digest_of(s->x, (size_t)n * sizeof *s->x);
    return status;
}

static hf_status fit(struct side *s, const hf_array *x, const hf_kmeans_opts *opts,
                     uint64_t *digest) {
    hf_kmeans_result r = {0};
    const hf_status status = hf_kmeans_fit(s->ctx, x, opts, &r);
    if (status == HF_OK)
        *digest = digest_of(r.labels, (size_t)r.n * sizeof *r.labels);
    hf_kmeans_result_clear(&r);
    return status;
}

static hf_status multiply(struct side *s, int64_t k, uint64_t *digest) {
    const hf_gemm_args args = {.m = PRODUCT,
                               .n = PRODUCT,
                               .k = k,
                               .trans_b = 1,
                               .dtype = HF_F32,
                               .alpha = 1,
                               .a = factors,
                               .b = factors,
                               .c = s->c};
    const hf_status status = hf_gemm(s->ctx, &args, NULL);
    *digest = digest_of(s->c, sizeof s->c);
    return status;
}

/* Calls of a job in a round. What one thread may take from another's kernel is taken in less than a
 * microsecond, so there are many launches. */
static const int calls[JOBS] = {40, 10, 10, 12, 4, 100};

static hf_status work(struct side *s, int job, int large, uint64_t *digest) {
    const hf_kmeans_opts start = {.k = 6, .seed = 3, .max_iter = 1, .guard = HF_GUARD_OFF};
    const hf_kmeans_opts guarded = {.k = large ? 900 : 140,
                                    .init = HF_INIT_RANDOM,
                                    .seed = 5,
                                    .max_iter = 20,
                                    .guard = HF_GUARD_CORRECT};
    switch (job) {
    case SYSTEMS:
        return fit(s, &rows[large].x, &start, digest);
    case SYSTEMS + 1:
        return fit(s, &rows[0].x, &guarded, digest);
    case SYSTEMS + 2:
        return multiply(s, large ? PRODUCT_K : PRODUCT_K / 4, digest);
    default:
        return solve(s, job, large, digest);
    }
}

/* One round of a job, with the bits of `alone`. */
static void run_job(struct side *s, int job, int large, uint64_t alone) {
    for (int i = 0; i < calls[job] && s->error[0] == '\0'; i++) {
        uint64_t digest = 0;
        const hf_status status = work(s, job, large, &digest);
        if (status != HF_OK || digest != alone)
            snprintf(s->error, sizeof s->error, "job %d, %s shape: %s", job,
                     large ? "large" : "small",
                     status != HF_OK ? hf_last_error(s->ctx) : "other bits");
    }
}

/* The other side is at the same job, with the other shape. */
static void *run(void *user) {
    struct side *s = user;
    for (int round = 0; round < ROUNDS && !over; round++) {
        for (int job = 0; job < JOBS; job++) {
            const int large = (round + s->begins) % 2;
            (void)pthread_barrier_wait(&together);
            run_job(s, job, large, s->alone[job][large]);
        }
        if (pthread_barrier_wait(&together) == PTHREAD_BARRIER_SERIAL_THREAD)
            over = hf_now_s() - begun > MOST_S;
        (void)pthread_barrier_wait(&together);
    }
    return NULL;
}

static void open_side(struct side *s, int begins) {
    const hf_context_opts opts = {.device = "cuda", .threads = 1};
    s->begins = begins;
    assert_int_equal(hf_context_create(&s->ctx, &opts), HF_OK);
    for (int i = 0; i < SYSTEMS; i++)
        for (int large = 0; large < 2; large++) {
            hf_relax_opts o = systems[i][large];
            o.tol = -1;
            o.max_iter = 4;
            if (hf_relax_setup(s->ctx, &grid[large].a, &o, &s->relax[i][large]) != HF_OK)
                fail_msg("%s", hf_last_error(s->ctx));
        }
    for (int job = 0; job < JOBS; job++)
        for (int large = 0; large < 2; large++)
            if (work(s, job, large, &s->alone[job][large]) != HF_OK)
                fail_msg("%s", hf_last_error(s->ctx));
}

static void close_side(struct side *s) {
    for (int i = 0; i < SYSTEMS; i++)
        for (int large = 0; large < 2; large++)
            hf_relax_destroy(s->relax[i][large]);
    hf_context_destroy(s->ctx);
}

static void kernels_keep_their_shared_memory(void **state) {
    (void)state;
    static struct side side[SIDES];
    pthread_t thread[SIDES];
    assert_int_equal(pthread_barrier_init(&together, NULL, SIDES), 0);
    for (int i = 0; i < SIDES; i++)
        open_side(&side[i], i);
    begun = hf_now_s();
    for (int i = 0; i < SIDES; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run, &side[i]), 0);
    for (int i = 0; i < SIDES; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < SIDES; i++)
        assert_string_equal(side[i].error, "");
    for (int i = 0; i < SIDES; i++)
        close_side(&side[i]);
    (void)pthread_barrier_destroy(&together);
}

static void make_data(void) {
    double *v = blobs(7, ROWS, COLUMNS, 20, 4);
    make_fv(&grid[0], 20, 3.510152);
    make_fv(&grid[1], 90, 3.510152);
    rows[0] = problem_from(v, FIT_ROWS, COLUMNS / 4, HF_F16, 0);
    rows[1] = problem_from(v, ROWS, COLUMNS, HF_F16, 0);
    factors = must_alloc((size_t)PRODUCT * PRODUCT_K * sizeof *factors);
    for (int i = 0; i < PRODUCT * PRODUCT_K; i++)
        factors[i] = (float)v[i];
    rhs = ones(SYSTEM_ROWS);
    free(v);
}

static void free_data(void) {
    for (int i = 0; i < 2; i++) {
        matrix_free(&grid[i]);
        problem_free(&rows[i]);
    }
    free(factors);
    free(rhs);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_keep_their_shared_memory)};
    hf_context *gpu = NULL;
    if (!open_for_tests(&gpu, "cuda", argc, argv))
        return SKIPPED;
    hf_context_destroy(gpu);
    make_data();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_data();
    return failed;
}
