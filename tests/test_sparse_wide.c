/* SPDX-License-Identifier: Apache-2.0
 * Element numbers beyond 2^31 and 2^32: the rows of a small matrix, moved there in memory that is
 * promised and nowhere else used, give what they give at 0. */
#include "core/kernel.h"
#include "core/op.h"
#include "ops/seidel/seidel.h"
#include "ops/slices.h"
#include "ops/sparse_scan.h"
#include "ops/spmv/spmv.h"
#include "ops/sweep/sweep.h"
#include "relax_matrices.h"

#include <sys/mman.h>

#define SIDE 24
#define ROWS ((int64_t)SIDE * SIDE)
#define FAR (((int64_t)1 << 32) - 1000) /* so that some rows are on either side */
#define ROOM (FAR + 100000)

static struct {
    double y[ROWS], swept[ROWS], seidel[ROWS], inverse[ROWS], square[3];
    struct hf_sparse_scan scan;
    double slots[16 * ROWS];
} found[2];

/* All kernels of an op that this machine runs give the same x. */
static void run_all(hf_context *ctx, enum hf_op_id op, const void *args, double *x) {
    double *const first = malloc((size_t)ROWS * sizeof *x);
    int ran = 0;
    const struct hf_kernel *k;
    for (int i = 0; (k = hf_kernel_at(op, i)) != NULL; i++) {
        if (k->device != HF_DEV_HOST || !hf_kernel_runs_here(k, NULL, 0))
            continue;
        memset(x, 0, (size_t)ROWS * sizeof *x);
        assert_int_equal(hf_run_kernel(ctx, op, k, args), HF_OK);
        if (ran++ > 0)
            assert_memory_equal(x, first, (size_t)ROWS * sizeof *x);
        memcpy(first, x, (size_t)ROWS * sizeof *x);
    }
    assert_true(ran > 0);
    free(first);
}

static void look(hf_context *ctx, const struct hf_sparse *a, int which) {
    static const int64_t block[] = {0, ROWS / 2, ROWS}, colour[] = {0, 1, 2};
    static const int32_t order[] = {0, 1};
    static double b[ROWS], x[ROWS];
    for (int64_t i = 0; i < ROWS; i++) {
        b[i] = 1 + (double)(i % 5);
        x[i] = sin((double)i);
    }
    found[which].scan = hf_sparse_scan_rows(a, 0, ROWS, 1, found[which].inverse);
    const struct hf_spmv_args spmv = {
        .a = *a, .x = x, .b = b, .y = found[which].y, .square = &found[which].square[0]};
    run_all(ctx, HF_OP_SPMV, &spmv, found[which].y);
    const struct hf_sweep_args sweep = {.a = *a,
                                        .inverse = found[which].inverse,
                                        .block_start = block,
                                        .blocks = 2,
                                        .largest = ROWS / 2,
                                        .k = 1,
                                        .damping = 1,
                                        .b = b,
                                        .x = x,
                                        .x_new = found[which].swept,
                                        .square = &found[which].square[1]};
    run_all(ctx, HF_OP_SWEEP, &sweep, found[which].swept);
    const struct hf_seidel_args seidel = {.a = *a,
                                          .inverse = found[which].inverse,
                                          .block_start = block,
                                          .blocks = 2,
                                          .colour_start = colour,
                                          .colour_block = order,
                                          .colours = 2,
                                          .damping = 1,
                                          .b = b,
                                          .x = found[which].seidel,
                                          .square = &found[which].square[2]};
    run_all(ctx, HF_OP_SEIDEL, &seidel, found[which].seidel);
    const int64_t whole[] = {0, ROWS};
    struct hf_slices s;
    assert_int_equal(hf_slices_make(a, whole, 1, UINT64_MAX, NULL, &s), HF_OK);
    assert_in_range(s.slots, 1, 2 * ROWS);
    memcpy(found[which].slots, s.value, (size_t)s.slots * SLICE_ROWS * sizeof(double));
    hf_slices_clear(&s);
}

static void far_elements(void **state) {
    (void)state;
    const size_t bytes = (size_t)ROOM * (sizeof(double) + sizeof(int32_t));
    char *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
        print_message("skipped: no %zu MiB of addresses can be had\n", bytes >> 20);
        skip();
    }
    double *const value = (double *)(void *)room;
    int32_t *const column = (int32_t *)(void *)(value + ROOM);
    hf_context *ctx = cpu_context(2);
    struct matrix m;
    make_fv(&m, SIDE, 3.2);
    int64_t start[ROWS + 1];
    for (int64_t i = 0; i <= ROWS; i++)
        start[i] = FAR + m.row_start[i];
    memcpy(value + FAR, m.value, (size_t)m.used * sizeof *value);
    memcpy(column + FAR, m.column, (size_t)m.used * sizeof *column);
    struct hf_sparse a = {.rows = ROWS,
                          .cols = ROWS,
                          .elements = m.used,
                          .row_start = m.row_start,
                          .column = m.column,
                          .dtype = HF_F64,
                          .value = m.value};
    assert_true(start[ROWS] > (int64_t)1 << 32 && start[0] < (int64_t)1 << 32);
    look(ctx, &a, 0);
    a.row_start = start;
    a.column = column;
    a.value = value;
    look(ctx, &a, 1);
    assert_memory_equal(&found[0], &found[1], sizeof found[0]);
    assert_true(found[1].square[0] > 0 && found[1].scan.mirror == 0 && !found[1].scan.bad);
    (void)munmap(room, bytes);
    matrix_free(&m);
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(far_elements)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
