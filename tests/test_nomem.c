/* SPDX-License-Identifier: Apache-2.0
 * Every public call with its n-th request for memory refused, for every n: HF_E_NOMEM in words,
 * outputs as they were, and success once nothing is refused. Leaks are for AddressSanitizer to
 * find. */
#include "kmeans_brute.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int requests;
static atomic_int refuse_at = -1;

/* hf_alloc() gets its memory here. */
int posix_memalign(void **p, size_t align, size_t bytes) {
    if (atomic_fetch_add(&requests, 1) == atomic_load(&refuse_at))
        return ENOMEM;
    *p = aligned_alloc(align, (bytes + align - 1) / align * align);
    return *p != NULL ? 0 : ENOMEM;
}

enum { N = 400, D = 5, K = 6, BATCH = 3 };

static struct problem data;
static hf_array start;
static char file[256];

/* Outputs are filled with this; a failed call must leave it. */
#define MARK 0x5a

static void expect_untouched(const void *out, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(((const unsigned char *)out)[i], MARK);
}

typedef hf_status call_fn(hf_context *ctx);

/* Call until no request is refused, each time on a new context of `threads`. */
static void refuse_each(call_fn *call, int threads) {
    for (int at = 0;; at++) {
        hf_context *ctx = open_context(threads, 0);
        atomic_store(&requests, 0);
        atomic_store(&refuse_at, at);
        const hf_status status = call(ctx);
        atomic_store(&refuse_at, -1);
        const bool refused = atomic_load(&requests) > at;
        if (refused && status != HF_E_NOMEM)
            fail_msg("request %d refused: status %d, %s", at, (int)status, hf_last_error(ctx));
        if (refused)
            assert_true(strlen(hf_last_error(ctx)) > 0);
        else
            assert_int_equal(status, HF_OK);
        hf_context_destroy(ctx);
        if (!refused) {
            assert_true(at > 0);
            return;
        }
    }
}

static hf_status read_data(void *user, int64_t first, int64_t count, void *dst, char *message,
                           size_t message_bytes) {
    (void)user;
    (void)message;
    (void)message_bytes;
    memcpy(dst, (const float *)data.x.data + first * D, (size_t)(count * D) * sizeof(float));
    return HF_OK;
}

static const hf_source source = {.rows = N, .cols = D, .dtype = HF_F32, .read = read_data};

static hf_status fit(hf_context *ctx, const hf_kmeans_opts *o, bool streamed) {
    hf_kmeans_result r;
    memset(&r, MARK, sizeof(r));
    const hf_status status =
        streamed ? hf_kmeans_fit_source(ctx, &source, o, &r) : hf_kmeans_fit(ctx, &data.x, o, &r);
    if (status == HF_OK)
        hf_kmeans_result_clear(&r);
    else
        expect_untouched(&r, sizeof(r));
    return status;
}

static hf_status fit_defaults(hf_context *ctx) {
    const hf_kmeans_opts o = {.k = K};
    return fit(ctx, &o, false);
}

static hf_status fit_streamed(hf_context *ctx) {
    const hf_kmeans_opts o = {.k = K, .n_init = 2, .empty = HF_EMPTY_SPLIT};
    return fit(ctx, &o, true);
}

static hf_status fit_parallel_init(hf_context *ctx) {
    const hf_kmeans_opts o = {.k = K, .init = HF_INIT_KMEANS_PARALLEL, .metric = HF_COSINE};
    return fit(ctx, &o, true);
}

static hf_status fit_relocating(hf_context *ctx) {
    const hf_kmeans_opts o = {.k = K, .init = HF_INIT_GIVEN, .centroids = &start};
    return fit(ctx, &o, true);
}

/* A checkpoint that could not be written ends no fit. */
static void note_warning(void *user, const char *text) {
    *(bool *)user = strstr(text, "no checkpoint could be written") != NULL;
}

/* Weights, rows to drop, a checkpoint and its use. */
static hf_status fit_resumed(hf_context *ctx) {
    float w[N];
    for (int i = 0; i < N; i++)
        w[i] = (float)(i % 3);
    const hf_array weights = hf_array_view(w, HF_F32, N, 1);
    bool warned = false;
    hf_kmeans_opts o = {.k = K,
                        .weights = &weights,
                        .nan = HF_NAN_DROP,
                        .checkpoint = file,
                        .max_iter = 2,
                        .warn = note_warning,
                        .warn_user = &warned};
    float *element = (float *)data.x.data + 7;
    const float was = *element;
    *element = NAN;
    hf_status status = fit(ctx, &o, false);
    o.resume = file;
    o.max_iter = 0;
    if (status == HF_OK && !warned)
        status = fit(ctx, &o, false);
    *element = was;
    return status == HF_OK && warned ? HF_E_NOMEM : status;
}

static hf_status fit_batch(hf_context *ctx) {
    const hf_array x[BATCH] = {data.x, data.x, data.x};
    const hf_kmeans_opts o = {.k = K};
    hf_kmeans_result r[BATCH];
    memset(r, MARK, sizeof(r));
    const hf_status status = hf_kmeans_fit_batch(ctx, x, BATCH, &o, r);
    if (status != HF_OK)
        expect_untouched(r, sizeof(r));
    for (int i = 0; status == HF_OK && i < BATCH; i++)
        hf_kmeans_result_clear(&r[i]);
    return status;
}

static hf_status predict(hf_context *ctx, bool streamed) {
    struct {
        int32_t labels[N];
        double distances[N];
        double inertia;
    } out;
    memset(&out, MARK, sizeof(out));
    const hf_status status =
        hf_kmeans_predict(ctx, streamed ? NULL : &data.x, streamed ? &source : NULL, &start,
                          HF_EUCLIDEAN, HF_EXACT, NULL, out.labels, out.distances, &out.inertia);
    if (status != HF_OK) /* labels and distances may be written by then */
        expect_untouched(&out.inertia, sizeof(out.inertia));
    return status;
}

static hf_status predict_array(hf_context *ctx) { return predict(ctx, false); }

static hf_status predict_source(hf_context *ctx) { return predict(ctx, true); }

/* Rows with NaN are left out, and the centroids are widened. */
static hf_status predict_dropping(hf_context *ctx) {
    const hf_predict_opts opts = {.nan = HF_NAN_DROP};
    int32_t labels[N];
    float *x = data.x.data;
    const float was = x[7];
    uint8_t bytes[2 * D] = {1};
    int64_t dropped = 0;
    const hf_array c = hf_array_view(bytes, HF_U8, 2, D);
    const hf_prediction out = {.labels = labels, .rows_dropped = &dropped};
    x[7] = NAN;
    const hf_status status = hf_kmeans_predict_with(ctx, &data.x, NULL, &c, &opts, &out);
    x[7] = was;
    assert_int_equal(dropped, status == HF_OK ? 1 : 0);
    return status;
}

static int count_rows(void *user, int64_t first, int64_t count, const double *distances) {
    (void)first;
    (void)distances;
    *(int64_t *)user += count;
    return 0;
}

static hf_status transform(hf_context *ctx) {
    int64_t rows = 0;
    const hf_status status =
        hf_kmeans_transform(ctx, NULL, &source, &start, HF_EUCLIDEAN, count_rows, &rows);
    assert_int_equal(rows, status == HF_OK ? N : 0);
    return status;
}

static hf_status write_and_open(hf_context *ctx) {
    const hf_status written = hf_write_npy(ctx, file, &data.x);
    if (written != HF_OK)
        return written;
    hf_dataset *set = NULL;
    const hf_status status = hf_dataset_open(ctx, file, NULL, &set);
    assert_true((status == HF_OK) == (set != NULL));
    hf_dataset_close(set);
    return status;
}

static hf_status write_text(hf_context *ctx) { return hf_write_file(ctx, file, "text", 4); }

static hf_status write_set(hf_context *ctx) {
    hf_file_set *set = NULL;
    hf_status status = hf_file_set_create(ctx, &set);
    if (status == HF_OK)
        status = hf_file_set_npy(set, file, &data.x);
    if (status == HF_OK)
        status = hf_file_set_file(set, file, "text", 4);
    if (status == HF_OK)
        status = hf_file_set_begin(set, file, HF_F32, 1, 1);
    if (status == HF_OK)
        status = hf_file_set_append(set, "text", 4);
    if (status == HF_OK)
        status = hf_file_set_end(set);
    if (status == HF_OK)
        status = hf_file_set_commit(set, NULL);
    hf_file_set_destroy(set);
    return status;
}

static hf_status open_with(hf_context *ctx, const char *name, const hf_open_opts *opts) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", HF_TEST_DATA, name);
    hf_dataset *set = NULL;
    const hf_status status = hf_dataset_open(ctx, path, opts, &set);
    assert_true((status == HF_OK) == (set != NULL));
    hf_dataset_close(set);
    return status;
}

static hf_status open_file(hf_context *ctx, const char *name, int stream) {
    const hf_open_opts opts = {.stream = stream};
    return open_with(ctx, name, &opts);
}

static hf_status open_npy(hf_context *ctx) {
    return open_file(ctx, "geo-cities/latlon_f32.npy", 1);
}
static hf_status open_fvecs(hf_context *ctx) {
    return open_file(ctx, "sift5k-128d/sift5k_base.fvecs", 0);
}
static hf_status open_idx(hf_context *ctx) {
    return open_file(ctx, "fashion-mnist/t10k-images-idx3-ubyte.gz", 0);
}
static hf_status open_csv(hf_context *ctx) { return open_file(ctx, "digits-64d/digits.csv.gz", 0); }

static hf_status open_npz(hf_context *ctx) { return open_file(ctx, "io/numpy_savez.npz:a", 1); }
static hf_status open_packed_npz(hf_context *ctx) {
    return open_file(ctx, "io/numpy_savez_compressed.npz:b.npy", 0);
}

static hf_status open_sparse(hf_context *ctx, const char *name) {
    char path[512];
    snprintf(path, sizeof(path), "%s/io/%s", HF_TEST_DATA, name);
    hf_sparse *matrix = NULL;
    const hf_status status = hf_sparse_open(ctx, path, 0, &matrix);
    assert_true((status == HF_OK) == (matrix != NULL));
    hf_sparse_close(matrix);
    return status;
}
static hf_status open_mtx(hf_context *ctx) { return open_sparse(ctx, "small.mtx"); }
static hf_status open_csr(hf_context *ctx) { return open_sparse(ctx, "scipy_csr.npz"); }
static hf_status open_coo(hf_context *ctx) { return open_sparse(ctx, "scipy_coo.npz"); }

static hf_status open_prepared(hf_context *ctx) {
    const hf_open_opts opts = {.columns = "2,1", .missing = "0", .scale = HF_SCALE_ROBUST};
    return open_with(ctx, "geo-cities/latlon_f32.npy", &opts);
}
static hf_status open_prepared_bytes(hf_context *ctx) {
    const hf_open_opts opts = {.columns = "1-9", .scale = HF_SCALE_STANDARD};
    return open_with(ctx, "fashion-mnist/t10k-images-idx3-ubyte.gz", &opts);
}
static hf_status open_prepared_csv(hf_context *ctx) {
    const hf_open_opts opts = {
        .columns = "2-5", .missing = "?,99", .header = HF_HEADER_YES, .scale = HF_SCALE_MINMAX};
    return open_with(ctx, "digits-64d/digits.csv.gz", &opts);
}

static void all_calls(void **state) {
    (void)state;
    static call_fn *const calls[] = {
        fit_defaults,  fit_streamed,        fit_parallel_init, fit_relocating,
        fit_resumed,   fit_batch,           predict_array,     predict_source,
        transform,     write_and_open,      write_text,        write_set,
        open_npy,      open_fvecs,          open_idx,          open_csv,
        open_prepared, open_prepared_bytes, open_prepared_csv, predict_dropping,
        open_npz,      open_packed_npz,     open_mtx,          open_csr,
        open_coo};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        for (int threads = 1; threads <= 2; threads++)
            refuse_each(calls[i], threads);
}

static void new_context(void **state) {
    (void)state;
    const hf_context_opts opts = {.device = "cpu", .threads = 3};
    for (int at = 0;; at++) {
        hf_context *ctx = NULL;
        atomic_store(&requests, 0);
        atomic_store(&refuse_at, at);
        const hf_status status = hf_context_create(&ctx, &opts);
        atomic_store(&refuse_at, -1);
        const bool refused = atomic_load(&requests) > at;
        assert_int_equal(status, refused ? HF_E_NOMEM : HF_OK);
        assert_true((ctx != NULL) == (status == HF_OK));
        hf_context_destroy(ctx);
        if (!refused)
            return;
    }
}

static int make_data(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(file, sizeof(file), "%s/hf-nomem-%ld.npy", base ? base : "/tmp", (long)getpid());
    double *v = blobs(1, N, D, 5, 4);
    memset(v, 0, D * sizeof *v); /* a row without a direction */
    data = problem_from(v, N, D, HF_F32, 0);
    double *c = must_alloc(K * D * sizeof(double));
    for (int i = 0; i < K * D; i++)
        c[i] = i < 3 * D ? v[i] : 1e3 + i; /* the last three begin empty */
    start = hf_array_view(c, HF_F64, K, D);
    free(v);
    return 0;
}

static int drop_data(void **state) {
    (void)state;
    problem_free(&data);
    free(start.data);
    unlink(file);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(new_context), cmocka_unit_test(all_calls)};
    return cmocka_run_group_tests(tests, make_data, drop_data);
}
