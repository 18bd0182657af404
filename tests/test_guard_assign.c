/* SPDX-License-Identifier: Apache-2.0
 * The checks inside the kernels of op assign on CPUs: planted faults in every place of theirs are
 * repaired, so that a fit has the bits of one without faults, or end it where the scheme is detect;
 * without faults nothing is suspected; and without the checks the same faults do harm. */
#include "unit.h"

#include "core/kernel.h"
#include "guard/guard.h"
#include "kmeans_rows.h"
#include <holdfast/dev.h>
#include <stdio.h>
#include <string.h>

#define ROWS 600
#define COLUMNS 18
#define CLUSTERS 21
#define LINES 40 /* faults of each place */

static float rows[ROWS * COLUMNS];

static hf_array make_rows(void) {
    struct hf_rng rng = {.seed = 11};
    float center[CLUSTERS * COLUMNS];
    for (int i = 0; i < CLUSTERS * COLUMNS; i++)
        center[i] = (float)hf_rng_next_normal(&rng);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            rows[i * COLUMNS + j] =
                0.5f * center[i * 7 % CLUSTERS * COLUMNS + j] + (float)hf_rng_next_normal(&rng);
    return hf_array_view(rows, HF_F32, ROWS, COLUMNS);
}

static hf_kmeans_opts opts_of(hf_guard guard) {
    return (hf_kmeans_opts){.k = CLUSTERS,
                            .n_init = 1,
                            .max_iter = 6,
                            .tol = -1,
                            .init = HF_INIT_RANDOM,
                            .seed = 3,
                            .guard = guard};
}

static int same(const hf_kmeans_result *a, const hf_kmeans_result *b) {
    return a->iterations == b->iterations &&
           memcmp(a->labels, b->labels, sizeof(int32_t) * ROWS) == 0 &&
           memcmp(a->centroids.data, b->centroids.data, sizeof(float) * CLUSTERS * COLUMNS) == 0 &&
           memcmp(&a->inertia, &b->inertia, sizeof a->inertia) == 0;
}

/* A number below `most`. */
static uint64_t draw(struct hf_rng *rng, uint64_t most) {
    return (uint64_t)(hf_rng_next_unit(rng) * (double)most);
}

/* Fault `number` of a place, whatever its bits: somewhere in the first iterations. */
static void draw_line(char *line, size_t bytes, const hf_dev_place *place, uint64_t number) {
    static const char *const acts[] = {"flip", "stuck0", "stuck1", "carry"};
    struct hf_rng rng = {.seed = 1000 + number};
    const int bits = place->bits > 0 ? place->bits : 32;
    const int step = (int)draw(&rng, 3 * COLUMNS);
    const int row = (int)draw(&rng, ROWS);
    const int column = (int)draw(&rng, CLUSTERS);
    const int hit = 1 + (int)draw(&rng, 12);
    char where[120];
    if (strcmp(place->name, "score") == 0 || strcmp(place->name, "step") == 0)
        (void)snprintf(where, sizeof where, "row=%d column=%d", row, column);
    else if (strcmp(place->name, "tile") == 0 || strcmp(place->name, "operand") == 0)
        (void)snprintf(where, sizeof where, "hit=%d", 1 + step * 3);
    else if (strcmp(place->name, "best") == 0 || strcmp(place->name, "second") == 0 ||
             strcmp(place->name, "index") == 0 || strcmp(place->name, "norm") == 0)
        (void)snprintf(where, sizeof where, "row=%d", row);
    else
        (void)snprintf(where, sizeof where, "hit=%d", hit);
    (void)snprintf(line, bytes, "op=assign where=%s iteration=%d %s mask=0x%llx do=%s", place->name,
                   1 + (int)(number % 3), where, 1ull << draw(&rng, (uint64_t)bits),
                   acts[number % 4]);
}

static hf_status struck_fit(hf_context *ctx, const char *line, hf_guard guard, hf_kmeans_result *r,
                            hf_dev_fault_proof *proof) {
    char why[200] = "";
    const hf_array x = hf_array_view(rows, HF_F32, ROWS, COLUMNS);
    const hf_kmeans_opts opts = opts_of(guard);
    if (hf_dev_fault_plant(line, why, sizeof why) != HF_OK)
        fail_msg("\"%s\": %s", line, why);
    const hf_status status = hf_kmeans_fit(ctx, &x, &opts, r);
    hf_dev_fault_remove(proof);
    return status;
}

/* What became of the faults of a place. */
struct outcome {
    int altered, repaired;
};

static void strike_place(hf_context *ctx, const hf_dev_place *place, const hf_kmeans_result *plain,
                         struct outcome *of) {
    for (uint64_t i = 0; i < LINES; i++) {
        char line[300];
        hf_dev_fault_proof proof;
        hf_kmeans_result r = {0};
        draw_line(line, sizeof line, place, i);
        const hf_status status = struck_fit(ctx, line, HF_GUARD_CORRECT, &r, &proof);
        if (status != HF_OK)
            fail_msg("%s: \"%s\": %s", plain->kernel_assign, line, hf_last_error(ctx));
        if (!same(plain, &r))
            fail_msg("%s: \"%s\": another result, %lld suspected", plain->kernel_assign, line,
                     (long long)r.faults.suspected);
        of->altered += proof.altered > 0;
        of->repaired += r.faults.repaired > 0;
        hf_kmeans_result_clear(&r);
    }
}

/* Calls f for each kernel of the CPU with checks, forced, with a fit without faults. */
static void each_kernel(void (*f)(hf_context *ctx, const hf_kmeans_result *plain)) {
    const hf_array x = make_rows();
    const hf_kmeans_opts opts = opts_of(HF_GUARD_OFF);
    const struct hf_kernel *kernel;
    hf_context *ctx = open_context(2, 0);
    for (int i = 0; (kernel = hf_kernel_at(HF_OP_ASSIGN, i)) != NULL; i++) {
        if (kernel->device != HF_DEV_HOST || !(kernel->guards & HF_CHECK_BIT(HF_FAULT_ROWS)) ||
            !hf_kernel_runs_here(kernel, NULL, 0))
            continue;
        assert_int_equal(setenv("HF_KERNEL_ASSIGN", kernel->name, 1), 0);
        hf_kmeans_result plain = {0};
        if (hf_kmeans_fit(ctx, &x, &opts, &plain) == HF_OK)
            f(ctx, &plain);
        hf_kmeans_result_clear(&plain);
    }
    assert_int_equal(unsetenv("HF_KERNEL_ASSIGN"), 0);
    hf_context_destroy(ctx);
}

static struct outcome outcomes[256]; /* of each place */
static struct outcome wide_keys;     /* of keys of float64 rows */

static void strike_kernel(hf_context *ctx, const hf_kmeans_result *plain) {
    hf_dev_place place;
    for (int i = 0; hf_dev_place_at(i, &place); i++)
        if (strcmp(place.op, "assign") == 0 && strcmp(place.kind, "register") == 0)
            strike_place(ctx, &place, plain, &outcomes[i]);
}

static void faults_are_repaired(void **state) {
    (void)state;
    static const char *const reached[] = {"step", "score", "best", "second", "index",
                                          "tile", "label", "move", "operand"};
    hf_dev_place place;
    each_kernel(strike_kernel);
    for (int i = 0; hf_dev_place_at(i, &place); i++)
        for (size_t j = 0; j < sizeof reached / sizeof *reached; j++)
            if (outcomes[i].altered == 0 && strcmp(place.op, "assign") == 0 &&
                strcmp(place.name, reached[j]) == 0)
                fail_msg("no fault in \"%s\" altered anything", place.name);
    for (int i = 0; hf_dev_place_at(i, &place); i++)
        if (strcmp(place.op, "assign") == 0 && strcmp(place.name, "move") == 0)
            assert_true(outcomes[i].repaired > 0);
}

static void detect_kernel(hf_context *ctx, const hf_kmeans_result *plain) {
    static const char *const lines[][2] = {
        {"op=assign where=score iteration=1 row=77 column=3 mask=0x40000000 do=flip", "score"},
        {"op=assign where=best iteration=1 row=40 mask=0x40000000 do=flip", "score"},
        {"op=assign where=move iteration=1 hit=5 mask=0x1 do=flip", "moved"},
    };
    (void)plain;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        hf_kmeans_result r = {0};
        hf_dev_fault_proof proof;
        const hf_status status = struck_fit(ctx, lines[i][0], HF_GUARD_DETECT, &r, &proof);
        if (proof.altered > 0 && status != HF_E_CORRUPT)
            fail_msg("\"%s\" was not detected", lines[i][0]);
        if (status == HF_E_CORRUPT && !strstr(hf_last_error(ctx), lines[i][1]))
            fail_msg("\"%s\": %s", lines[i][0], hf_last_error(ctx));
        hf_kmeans_result_clear(&r);
    }
}

/* Rows whose labels change in the second iteration, each kept where it is by a wrong score: the
 * third one shows that it should have moved, and the fit begins anew. Rows may stay silent that
 * do not move then, or to another cluster than the one they were kept from. */
static void keep_rows(hf_context *ctx, const hf_kmeans_result *plain) {
    const hf_array x = hf_array_view(rows, HF_F32, ROWS, COLUMNS);
    const hf_array from = hf_array_view(rows, HF_F32, CLUSTERS, COLUMNS);
    hf_kmeans_opts opts = opts_of(HF_GUARD_OFF);
    hf_kmeans_result right = {0};
    hf_kmeans_result second = {0};
    int32_t first[ROWS];
    int kept = 0;
    int silent = 0;
    int seen = 0;
    (void)plain;
    opts.init = HF_INIT_GIVEN;
    opts.centroids = &from;
    assert_int_equal(
        hf_kmeans_predict(ctx, &x, NULL, &from, opts.metric, HF_EXACT, NULL, first, NULL, NULL),
        HF_OK);
    assert_int_equal(hf_kmeans_fit(ctx, &x, &opts, &right), HF_OK);
    opts.max_iter = 1; /* its labels are those of the second iteration */
    assert_int_equal(hf_kmeans_fit(ctx, &x, &opts, &second), HF_OK);
    opts.max_iter = opts_of(HF_GUARD_OFF).max_iter;
    opts.guard = HF_GUARD_CORRECT;
    for (int i = 0; i < ROWS; i++) {
        char line[160];
        char why[200];
        hf_kmeans_result r = {0};
        hf_dev_fault_proof proof;
        if (first[i] == second.labels[i])
            continue;
        (void)snprintf(line, sizeof line,
                       "op=assign where=score iteration=2 row=%d column=%d do=replace "
                       "value=0xff000000",
                       i, second.labels[i]);
        assert_int_equal(hf_dev_fault_plant(line, why, sizeof why), HF_OK);
        assert_int_equal(hf_kmeans_fit(ctx, &x, &opts, &r), HF_OK);
        hf_dev_fault_remove(&proof);
        kept += proof.altered > 0;
        silent += !same(&right, &r);
        seen += r.faults.rolled_back > 0;
        if (same(&right, &r) && r.faults.rolled_back > 0)
            assert_true(r.faults.repaired > 0);
        hf_kmeans_result_clear(&r);
    }
    assert_true(kept > 0 && seen > 0);
    if (silent * 2 > kept)
        fail_msg("%s: %d of %d rows that were kept changed the result", right.kernel_assign, silent,
                 kept);
    hf_kmeans_result_clear(&right);
    hf_kmeans_result_clear(&second);
}

/* A key of a candidate that is wrong in float64, where rows and centroids are that, too. */
static void strike_wide_keys(hf_context *ctx, const hf_kmeans_result *narrow) {
    static double wide[ROWS * COLUMNS];
    const hf_array x = hf_array_view(wide, HF_F64, ROWS, COLUMNS);
    hf_kmeans_opts opts = opts_of(HF_GUARD_OFF);
    hf_kmeans_result plain = {0};
    for (int i = 0; i < ROWS * COLUMNS; i++)
        wide[i] = (double)rows[i];
    for (int i = 0; i < COLUMNS; i++) /* rows between two others stay open */
        for (int r = 0; r + 2 < ROWS; r += 3)
            wide[(r + 1) * COLUMNS + i] = (wide[r * COLUMNS + i] + wide[(r + 2) * COLUMNS + i]) / 2;
    assert_int_equal(hf_kmeans_fit(ctx, &x, &opts, &plain), HF_OK);
    opts.guard = HF_GUARD_CORRECT;
    for (int i = 0; i < LINES; i++) {
        char line[160];
        char why[200] = "";
        hf_dev_fault_proof proof;
        hf_kmeans_result r = {0};
        (void)snprintf(line, sizeof line,
                       "op=assign where=key iteration=%d hit=%d do=replace value=0x0", 1 + i % 3,
                       1 + i / 3);
        assert_int_equal(hf_dev_fault_plant(line, why, sizeof why), HF_OK);
        assert_int_equal(hf_kmeans_fit(ctx, &x, &opts, &r), HF_OK);
        hf_dev_fault_remove(&proof);
        if (memcmp(plain.labels, r.labels, sizeof(int32_t) * ROWS) != 0)
            fail_msg("%s: \"%s\": other labels", narrow->kernel_assign, line);
        wide_keys.altered += proof.altered > 0;
        wide_keys.repaired += r.faults.repaired > 0;
        hf_kmeans_result_clear(&r);
    }
    hf_kmeans_result_clear(&plain);
}

static void keys_of_float64_are_looked_at(void **state) {
    (void)state;
    each_kernel(strike_wide_keys);
    assert_true(wide_keys.altered > 0 && wide_keys.repaired > 0);
}

static void rows_that_were_kept_are_found(void **state) {
    (void)state;
    each_kernel(keep_rows);
}

static void faults_are_detected(void **state) {
    (void)state;
    each_kernel(detect_kernel);
}

static void suspect_nothing(hf_context *ctx, const hf_kmeans_result *plain) {
    static const hf_guard guards[] = {HF_GUARD_DETECT, HF_GUARD_CORRECT, HF_GUARD_SAMPLED};
    static const hf_skipping skipping[] = {HF_SKIP_OFF, HF_SKIP_ON};
    const hf_array x = hf_array_view(rows, HF_F32, ROWS, COLUMNS);
    int64_t checked[3];
    for (int i = 0; i < 6; i++) {
        hf_kmeans_opts opts = opts_of(guards[i % 3]);
        hf_kmeans_result r = {0};
        opts.skipping = skipping[i / 3];
        assert_int_equal(hf_kmeans_fit(ctx, &x, &opts, &r), HF_OK);
        assert_true(same(plain, &r));
        assert_int_equal(r.faults.suspected, 0);
        assert_true(r.faults.checked >= ROWS);
        checked[i % 3] = r.faults.checked;
        hf_kmeans_result_clear(&r);
    }
    assert_true(checked[2] < checked[1]);
}

static void right_arithmetic_is_not_suspected(void **state) {
    (void)state;
    each_kernel(suspect_nothing);
}

#define LONG_ROWS 200
#define LONG_MOST 257

static float wide[LONG_ROWS * LONG_MOST];

static void suspect_no_long_row(hf_context *ctx, const hf_kmeans_result *plain) {
    hf_kmeans_opts opts = opts_of(HF_GUARD_CORRECT);
    (void)plain;
    opts.k = 40;
    opts.max_iter = 2;
    for (int d = 129; d <= LONG_MOST; d += LONG_MOST - 129)
        for (int n = 56; n <= LONG_ROWS; n += 16) {
            const hf_array x = hf_array_view(wide, HF_F32, n, d);
            hf_kmeans_result r = {0};
            assert_int_equal(hf_kmeans_fit(ctx, &x, &opts, &r), HF_OK);
            if (r.faults.suspected > 0)
                fail_msg("%s, %d x %d: %lld suspected", r.kernel_assign, n, d,
                         (long long)r.faults.suspected);
            hf_kmeans_result_clear(&r);
        }
}

/* Rows so long that tiles multiply them in parts, in blocks down to one tile: what is added up of
 * their scores must not be read before it is stored. */
static void long_rows_are_not_suspected(void **state) {
    (void)state;
    struct hf_rng rng = {.seed = 5};
    for (int i = 0; i < LONG_ROWS * LONG_MOST; i++)
        wide[i] = (float)hf_rng_next_normal(&rng);
    each_kernel(suspect_no_long_row);
}

/* The scheme of FT K-Means: a flip in a score is put right in its place, and the result is that of
 * a fit without one. Kernels without such tiles are not planned. */
static void weighted_kernel(hf_context *ctx, const hf_kmeans_result *plain) {
    const hf_array x = hf_array_view(rows, HF_F32, ROWS, COLUMNS);
    hf_kmeans_opts opts = opts_of(HF_GUARD_WEIGHTED);
    hf_kmeans_result r = {0};
    int struck = 0;
    if (hf_kmeans_fit(ctx, &x, &opts, &r) != HF_OK) {
        assert_non_null(strstr(hf_last_error(ctx), "does not make the checks of this guard"));
        return;
    }
    assert_true(same(plain, &r));
    assert_int_equal(r.faults.suspected, 0);
    assert_true(r.faults.checked > 0);
    hf_kmeans_result_clear(&r);
    for (int i = 0; i < LINES; i++) {
        char line[160];
        hf_dev_fault_proof proof;
        (void)snprintf(line, sizeof line, "op=assign where=score iteration=%d row=%d column=%d %s",
                       1 + i % 3, i * 37 % ROWS, i * 5 % CLUSTERS,
                       i % 7 == 0   ? "do=nan"
                       : i % 2 == 0 ? "mask=0x8000000 do=flip"
                                    : "mask=0x40000000 do=flip");
        assert_int_equal(struck_fit(ctx, line, HF_GUARD_WEIGHTED, &r, &proof), HF_OK);
        if (!same(plain, &r))
            fail_msg("\"%s\" leads to another result", line);
        assert_int_equal(r.faults.confirmed, proof.altered > 0);
        assert_int_equal(r.faults.repaired, r.faults.confirmed);
        struck += proof.altered > 0;
        hf_kmeans_result_clear(&r);
    }
    assert_true(struck > LINES / 2);
}

static void tiles_are_corrected(void **state) {
    (void)state;
    each_kernel(weighted_kernel);
}

/* A lane of worker 0 in which a bit of every score sticks. */
struct told {
    int notes, permanent;
};

static void count_note(void *user, const hf_fault_note *note) {
    struct told *told = user;
    told->notes++;
    told->permanent += note->kind == HF_FAULT_PERMANENT && note->unit == 0;
}

static void stick_kernel(hf_context *two, const hf_kmeans_result *plain) {
    hf_context *ctx = open_context(1, 0); /* else worker 0 may have no rows */
    const hf_array x = hf_array_view(rows, HF_F32, ROWS, COLUMNS);
    hf_kmeans_opts opts = opts_of(HF_GUARD_CORRECT);
    struct told told = {0};
    char why[200] = "";
    hf_kmeans_result r = {0};
    (void)two;
    opts.on_fault = count_note;
    opts.on_fault_user = &told;
    assert_int_equal(hf_dev_fault_plant("op=assign where=score worker=0 lane=3 mask=0x40000000 "
                                        "do=stuck1 repeat=always",
                                        why, sizeof why),
                     HF_OK);
    assert_int_equal(hf_kmeans_fit(ctx, &x, &opts, &r), HF_OK);
    hf_dev_fault_proof proof;
    hf_dev_fault_remove(&proof);
    assert_true(same(plain, &r));
    if (proof.altered > 0) {
        assert_true(told.notes > 0);
        assert_true(told.permanent > 0);
    }
    hf_kmeans_result_clear(&r);
    hf_context_destroy(ctx);
}

static void a_permanent_fault_is_called_so(void **state) {
    (void)state;
    each_kernel(stick_kernel);
}

/* Without checks a score that is far too low takes a row from its cluster. */
static int harmed;

static void leave_alone(hf_context *ctx, const hf_kmeans_result *plain) {
    for (int row = 0; row < 40; row++) {
        char line[200];
        hf_dev_fault_proof proof;
        hf_kmeans_result r = {0};
        (void)snprintf(line, sizeof line,
                       "op=assign where=score iteration=1 row=%d column=%d value=0xc9000000 "
                       "do=replace",
                       row, plain->labels[row]);
        if (struck_fit(ctx, line, HF_GUARD_OFF, &r, &proof) != HF_OK || !same(plain, &r))
            harmed++;
        hf_kmeans_result_clear(&r);
    }
}

static void faults_do_harm_without_checks(void **state) {
    (void)state;
    each_kernel(leave_alone);
    assert_true(harmed > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_arithmetic_is_not_suspected),
        cmocka_unit_test(long_rows_are_not_suspected),
        cmocka_unit_test(faults_are_repaired),
        cmocka_unit_test(rows_that_were_kept_are_found),
        cmocka_unit_test(keys_of_float64_are_looked_at),
        cmocka_unit_test(faults_are_detected),
        cmocka_unit_test(tiles_are_corrected),
        cmocka_unit_test(a_permanent_fault_is_called_so),
        cmocka_unit_test(faults_do_harm_without_checks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
