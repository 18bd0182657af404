/* SPDX-License-Identifier: Apache-2.0
 * Set up a matrix, take new values, let go. */
#include "algo/relax/several/several.h"

#include "base/clock.h"
#include "base/mem.h"
#include <string.h>

/* Gauss-Seidel works on x and b alone, and on what every solution has. */
static bool is_needed(const hf_relax *relax, int vector) {
    return relax->opts.method != HF_RELAX_GAUSS_SEIDEL || hf_relax_on_device(relax) || vector < 1 ||
           vector > 5;
}

static bool take_vectors(hf_relax *relax) {
    const bool there = hf_relax_on_device(relax);
    const size_t bytes = (size_t)relax->a.rows * sizeof(double);
    if (there)
        relax->scratch = hf_relax_take(relax, relax->a.rows, sizeof(double));
    for (int i = 0; i < HF_RELAX_VECTORS - (there ? 0 : 2); i++) {
        if (!is_needed(relax, i))
            continue;
        relax->vector[i] = there ? hf_ctx_alloc(relax->ctx, bytes)
                                 : hf_relax_take(relax, relax->a.rows, sizeof(double));
        if (relax->vector[i] == NULL || hf_relax_zero(relax, relax->vector[i]) != HF_OK)
            return false;
    }
    return !there || relax->scratch != NULL;
}

static void release_vectors(hf_relax *relax) {
    for (int i = 0; i < HF_RELAX_VECTORS; i++) {
        if (hf_relax_on_device(relax))
            hf_ctx_release(relax->ctx, relax->vector[i]);
        else
            hf_free(relax->vector[i]);
    }
    hf_free(relax->scratch);
}

/* Sweeps with a damping that is given are the same for any matrix. */
static bool minds_symmetry(const hf_context *ctx, const hf_relax_opts *o) {
    const bool given =
        o->method == HF_RELAX_GAUSS_SEIDEL || (o->method == HF_RELAX_JACOBI && o->damping > 0);
    return !given || o->partition == HF_PARTITION_GRAPH || !hf_ctx_is_host(ctx);
}

static hf_status make(hf_relax *relax, const char *devices, struct hf_relax_scan *scan) {
    const double begin = hf_now_s();
    if (!take_vectors(relax))
        return hf_relax_no_memory(relax, "vectors");
    HF_TRY(hf_relax_take_matrix(relax, scan));
    if (minds_symmetry(relax->ctx, &relax->opts))
        HF_TRY(hf_relax_test_symmetry(relax, scan->mirrored));
    HF_TRY(hf_relax_choose(relax));
    HF_TRY(hf_relax_build(relax));
    HF_TRY(hf_relax_look(relax));
    hf_status status = hf_relax_tune(relax);
    hf_relax_reconsider(relax, &status);
    HF_TRY(status);
    HF_TRY(hf_relax_make_march(relax));
    HF_TRY(hf_relax_make_sums(relax));
    if (devices != NULL)
        HF_TRY(hf_relax_several_open(relax, devices));
    relax->seconds_setup = hf_now_s() - begin;
    return HF_OK;
}

hf_status hf_relax_leave_order(hf_relax *relax) {
    relax->in_order = false;
    relax->once = false;
    if (relax->m.before != NULL)
        relax->bytes -= (uint64_t)relax->m.n * sizeof *relax->m.before;
    hf_free(relax->m.before);
    relax->m.before = NULL;
    hf_free(relax->colours.start);
    hf_free(relax->colours.block);
    relax->colours = (struct hf_relax_colours){0};
    hf_relax_forget_blocks(relax);
    HF_TRY(hf_relax_build(relax));
    HF_TRY(hf_relax_look(relax));
    return hf_relax_make_sums(relax);
}

void hf_relax_destroy(hf_relax *relax) {
    if (relax == NULL)
        return;
    hf_relax_matrix_clear(&relax->m);
    hf_slices_clear(&relax->slices);
    hf_relax_forget_blocks(relax);
    hf_relax_clear_patches(relax);
    hf_free(relax->colours.start);
    hf_free(relax->colours.block);
    hf_free(relax->colours.row);
    hf_free(relax->coarse);
    hf_free(relax->sums);
    hf_relax_clear_march(relax);
    hf_relax_look_away(relax);
    release_vectors(relax);
    hf_relax_several_close(relax->several);
    if (relax->ctx != relax->owner)
        hf_context_destroy(relax->ctx);
    hf_free(relax);
}

/* Several devices have their set-up made by the host. */
static hf_status open_host(hf_context *ctx, hf_relax *relax) {
    const hf_context_opts opts = {.device = "cpu", .threads = ctx->threads};
    hf_context *host = NULL;
    const hf_status status = hf_context_create(&host, &opts);
    if (status != HF_OK)
        return hf_ctx_fail(ctx, status, "%s", hf_last_error(NULL));
    relax->ctx = host;
    return HF_OK;
}

hf_status hf_relax_told(hf_relax *relax, hf_status status) {
    if (status != HF_OK && relax->ctx != relax->owner)
        relax->owner->error = relax->ctx->error;
    return status;
}

static hf_status check_device(hf_context *ctx) {
    if (ctx->device->id == HF_DEV_HOST || ctx->device->id == HF_DEV_CUDA)
        return HF_OK;
    return hf_ctx_fail(ctx, HF_E_UNSUPPORTED,
                       "there is no relaxation on device %s yet; open a context on the cpu or on "
                       "cuda",
                       hf_context_device(ctx));
}

hf_status hf_relax_open(hf_context *ctx, const hf_csr *a, const hf_relax_opts *opts,
                        enum hf_relax_use use, hf_relax **out) {
    hf_relax_opts full;
    struct hf_relax_scan scan;
    HF_TRY(check_device(ctx));
    HF_TRY(hf_relax_check_opts(ctx, opts, &full));
    HF_TRY(hf_relax_check_matrix(ctx, a, minds_symmetry(ctx, &full), &scan));
    hf_relax *relax = hf_alloc_zero(sizeof *relax);
    if (relax == NULL) {
        hf_free(scan.inverse);
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory to set up a matrix");
    }
    const char *devices = full.devices;
    full.devices = NULL;
    relax->ctx = relax->owner = ctx;
    relax->opts = full;
    relax->kept = use == HF_RELAX_KEPT;
    relax->once = use == HF_RELAX_ONCE;
    relax->shared = devices != NULL;
    relax->a = *a;
    hf_status status = devices != NULL ? open_host(ctx, relax) : HF_OK;
    if (status == HF_OK)
        status = hf_relax_told(relax, make(relax, devices, &scan));
    hf_free(scan.inverse);
    if (status != HF_OK) {
        hf_relax_destroy(relax);
        return status;
    }
    *out = relax;
    return HF_OK;
}

static hf_status check_pattern(const hf_relax *relax, const hf_csr *a) {
    const hf_csr *old = &relax->a;
    const size_t rows = (size_t)old->rows + 1, elements = (size_t)old->row_start[old->rows];
    const bool same = a->rows == old->rows &&
                      memcmp(a->row_start, old->row_start, rows * sizeof *a->row_start) == 0 &&
                      memcmp(a->column, old->column, elements * sizeof *a->column) == 0;
    return same
               ? HF_OK
               : hf_ctx_fail(relax->ctx, HF_E_ARG,
                             "the new matrix has another pattern than the one that was set up; set "
                             "it up anew");
}

hf_status hf_relax_renew(hf_relax *relax, const hf_csr *a) {
    struct hf_relax_scan scan;
    HF_TRY(hf_relax_check_matrix(relax->ctx, a, relax->symmetry_known, &scan));
    const hf_status same = check_pattern(relax, a);
    if (same != HF_OK) {
        hf_free(scan.inverse);
        return same;
    }
    const double begin = hf_now_s();
    const bool symmetric = relax->symmetric, positive = relax->positive;
    const hf_csr before = relax->a;
    relax->a = *a;
    hf_relax_clear_march(relax); /* the spectrum is taken by steps of its own */
    hf_status status = hf_relax_take_matrix(relax, &scan);
    hf_free(scan.inverse);
    if (status == HF_OK && relax->symmetry_known)
        status = hf_relax_test_symmetry(relax, scan.mirrored);
    if (status == HF_OK && ((symmetric && !relax->symmetric) || (positive && !relax->positive)))
        status =
            hf_ctx_fail(relax->ctx, HF_E_DATA,
                        "the matrix that was set up is symmetric with a positive diagonal, the "
                        "new one is not; set it up anew");
    if (status == HF_OK)
        status = hf_relax_make_slices(relax);
    if (status == HF_OK && relax->patched)
        status = hf_relax_factor_patches(relax);
    if (status == HF_OK && relax->coarse != NULL)
        status = hf_relax_make_coarse(relax);
    if (status == HF_OK)
        status = hf_relax_look(relax);
    if (status == HF_OK)
        status = hf_relax_tune(relax);
    if (status == HF_OK)
        status = hf_relax_make_march(relax);
    if (status == HF_OK)
        status = hf_relax_make_sums(relax);
    if (status == HF_OK && relax->several != NULL)
        status = hf_relax_several_load(relax->several);
    relax->seconds_setup = hf_now_s() - begin;
    if (status == HF_E_DATA) { /* back to what it was: these values were good before */
        const hf_error why = relax->ctx->error;
        relax->a = before;
        if (hf_relax_renew(relax, &before) == HF_OK)
            relax->ctx->error = why;
    }
    return status;
}
