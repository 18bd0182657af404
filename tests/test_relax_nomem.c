/* SPDX-License-Identifier: Apache-2.0
 * Relaxation with its n-th request for memory refused, for every n: HF_E_NOMEM in words, outputs as
 * they were, and success once nothing is refused. Leaks are for AddressSanitizer to find. */
#include "relax_matrices.h"

#include <errno.h>
#include <stdatomic.h>

static atomic_int requests;
static atomic_int refuse_at = -1;

/* hf_alloc() gets its memory here. */
int posix_memalign(void **p, size_t align, size_t bytes) {
    if (atomic_fetch_add(&requests, 1) == atomic_load(&refuse_at))
        return ENOMEM;
    *p = aligned_alloc(align, (bytes + align - 1) / align * align);
    return *p != NULL ? 0 : ENOMEM;
}

static struct matrix m, other;

static hf_status solve(hf_context *ctx, const hf_relax_opts *opts) {
    double *b = ones(m.a.rows), *x = ones(m.a.rows);
    const hf_array bv = hf_array_view(b, HF_F64, m.a.rows, 1);
    const hf_array xv = hf_array_view(x, HF_F64, m.a.rows, 1);
    hf_relax_result r = {.n = -5};
    const hf_status status = hf_relax_solve(ctx, &m.a, &bv, &xv, opts, &r);
    for (int64_t i = 0; status != HF_OK && i < m.a.rows; i++)
        assert_true(x[i] == 1);
    assert_true((status == HF_OK) == (r.n == m.a.rows));
    if (status == HF_OK)
        hf_relax_result_clear(&r);
    free(b);
    free(x);
    return status;
}

static hf_status solve_async(hf_context *ctx) {
    return solve(ctx, &(hf_relax_opts){.method = HF_RELAX_ASYNC, .block_rows = 20});
}

static hf_status solve_seidel(hf_context *ctx) {
    return solve(ctx, &(hf_relax_opts){.method = HF_RELAX_GAUSS_SEIDEL, .block_rows = 20});
}

static hf_status solve_jacobi(hf_context *ctx) {
    return solve(ctx, &(hf_relax_opts){.method = HF_RELAX_JACOBI});
}

static hf_status solve_shared(hf_context *ctx) {
    return solve(ctx, &(hf_relax_opts){.method = HF_RELAX_ASYNC,
                                       .block_rows = 20,
                                       .devices = "cpu,cpu",
                                       .exchange = HF_EXCHANGE_AMC});
}

static hf_status solve_blocks(hf_context *ctx) {
    return solve(ctx, &(hf_relax_opts){.method = HF_RELAX_CHEBYSHEV,
                                       .precond = HF_PRECOND_BLOCKS,
                                       .block_rows = 20});
}

static hf_status renew(hf_context *ctx) {
    hf_relax *relax = NULL;
    const hf_relax_opts opts = {.method = HF_RELAX_SCHWARZ, .block_rows = 20};
    hf_status status = hf_relax_setup(ctx, &m.a, &opts, &relax);
    assert_true((status == HF_OK) == (relax != NULL));
    if (status == HF_OK)
        status = hf_relax_update_values(relax, &other.a);
    hf_relax_destroy(relax);
    return status;
}

static hf_status batch(hf_context *ctx) {
    const hf_csr a[2] = {m.a, other.a};
    hf_array b[2], x[2];
    hf_relax_result r[2];
    for (int i = 0; i < 2; i++) {
        b[i] = hf_array_view(ones(m.a.rows), HF_F64, m.a.rows, 1);
        x[i] = hf_array_view(ones(m.a.rows), HF_F64, m.a.rows, 1);
    }
    const hf_status status = hf_relax_solve_batch(ctx, a, b, x, 2, NULL, r);
    for (int i = 0; i < 2; i++) {
        free(b[i].data);
        free(x[i].data);
        if (status == HF_OK)
            hf_relax_result_clear(&r[i]);
    }
    return status;
}

static void each_request(void **state) {
    (void)state;
    static hf_status (*const calls[])(hf_context *) = {
        solve_async, solve_seidel, solve_jacobi, solve_blocks, solve_shared, renew, batch};
    make_fv(&m, 9, 3.2);
    make_fv(&other, 9, 3.4);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        bool refused = true;
        for (int at = 0; refused; at++) {
            hf_context *ctx = cpu_context(1);
            atomic_store(&requests, 0);
            atomic_store(&refuse_at, at);
            const hf_status status = calls[i](ctx);
            atomic_store(&refuse_at, -1);
            refused = atomic_load(&requests) > at;
            if (status != (refused ? HF_E_NOMEM : HF_OK))
                fail_msg("call %d, request %d refused: status %d, %s", (int)i, at, (int)status,
                         hf_last_error(ctx));
            assert_true(!refused || strlen(hf_last_error(ctx)) > 0);
            assert_true(refused || at > 20);
            hf_context_destroy(ctx);
        }
    }
    matrix_free(&m);
    matrix_free(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
