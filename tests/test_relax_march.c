/* SPDX-License-Identifier: Apache-2.0
 * Maps of op march for systems: the op's reference gets to the solution with them. */
#include "algo/relax/setup.h"
#include "relax_matrices.h"

/* `epochs` of the map on A x = 1; returns the residual. */
static double march(hf_context *ctx, const hf_relax *relax, const struct hf_march_map *map,
                    int64_t epochs) {
    const int64_t n = relax->m.n;
    const double factor[2] = {1, 0};
    double *b = ones(n), *x = calloc((size_t)n, sizeof *x), *moved = calloc((size_t)n, sizeof *x);
    void *state = calloc(1, hf_march_state_bytes(n, map->blocks));
    struct hf_march_report report;
    const struct hf_march_args args = {.map = *map,
                                       .a = hf_relax_sparse(&relax->m),
                                       .inverse = relax->m.inverse,
                                       .b = b,
                                       .x = x,
                                       .sweeps = 1,
                                       .factors = 1,
                                       .factor = factor,
                                       .every = 1,
                                       .lead = 1,
                                       .most = epochs,
                                       .goal = -1,
                                       .limit_s = 1,
                                       .state = state,
                                       .report = &report};
    assert_int_equal(hf_march(ctx, &args), HF_OK);
    for (int64_t p = 0; p < n; p++)
        moved[relax->perm != NULL ? relax->perm[p] : p] = x[p];
    const double residual = residual_of(&relax->a, b, moved);
    free(b);
    free(x);
    free(moved);
    free(state);
    return residual;
}

/* Every block that is read from reads back. */
static void expect_both_ways(const struct hf_march_map *map) {
    const int64_t blocks = map->blocks;
    uint8_t *reads = calloc((size_t)(blocks * blocks), 1);
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t i = map->source_start[b]; i < map->source_start[b + 1]; i++)
            for (int64_t other = 0; other < blocks; other++)
                if (map->source[i] >= map->block_start[other] &&
                    map->source[i] < map->block_start[other + 1])
                    reads[b * blocks + other] = 1;
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t other = 0; other < blocks; other++)
            assert_int_equal(reads[b * blocks + other], reads[other * blocks + b]);
    free(reads);
}

/* Blocks that are solved exactly, whole and with layers of overlap; thin ones, of which some read
 * from others that do not read from them. */
static void exact_blocks(void **state) {
    (void)state;
    struct matrix m;
    hf_context *ctx = cpu_context(1);
    make_poisson(&m, 24, 1, 0.5); /* not symmetric: blocks have inverses */
    for (int overlap = -1; overlap <= 2; overlap++)
        for (int64_t rows = 6; rows <= 60; rows *= 3) {
            const hf_relax_opts opts = {.method = HF_RELAX_SCHWARZ,
                                        .block_rows = rows,
                                        .overlap = overlap,
                                        .coarse = HF_SWITCH_OFF};
            hf_relax *relax = NULL;
            struct hf_march_map map;
            assert_int_equal(hf_relax_setup(ctx, &m.a, &opts, &relax), HF_OK);
            const hf_status status = hf_relax_exact_map(relax, &map);
            if (status == HF_OK) {
                expect_both_ways(&map);
                assert_true(march(ctx, relax, &map, 1500) < 1e-10);
            } else {
                assert_int_equal(status, HF_E_UNSUPPORTED); /* too much lies around it */
                assert_true(rows > 6);
            }
            hf_march_map_clear(&map);
            hf_relax_destroy(relax);
        }
    matrix_free(&m);
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(exact_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
