/* SPDX-License-Identifier: Apache-2.0
 * Planted faults: the lines that describe them, what each does to a value, that they strike where
 * they say and leave all else alone, and that kernels compiled for them give the shipped bits. */
#include "unit.h"

#include "harness/inject/fault.h"
#include "kmeans_rows.h"
#include <holdfast/dev_faults.h>
#include <string.h>

/* ---- lines */

static void expect_line(const char *line) {
    struct hf_fault_site site;
    char why[200] = "";
    char text[HF_FAULT_TEXT];
    if (!hf_fault_parse(line, &site, why, sizeof why))
        fail_msg("\"%s\": %s", line, why);
    hf_fault_text(&site, text);
    assert_string_equal(text, line);
}

static void lines_are_read_and_written(void **state) {
    (void)state;
    expect_line("op=assign where=score iteration=3 row=120 column=7 worker=1 mask=0x400 do=flip");
    expect_line(
        "op=assign where=score kernel=assign_f32_* lane=5 mask=0x1 do=stuck1 repeat=always");
    expect_line("op=assign where=step column=2 step=9 hit=4 do=duplicate");
    expect_line("op=assign where=labels word=17 value=0x0 when=after do=replace");
    expect_line("op=means where=next iteration=2 do=stale");
    expect_line("op=update where=call do=skip");
    expect_line("op=inertia where=distance do=nan");
}

static void bad_lines_say_what_is_wrong(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"", "op=, where= and do= are needed"},
        {"op=assign where=score do=flip", "needs the bits"},
        {"op=assign where=score mask=0 do=flip", "needs the bits"},
        {"op=assing where=score mask=1 do=flip", "no such op"},
        {"op=greedy where=score mask=1 do=flip", "no places"},
        {"op=assign where=scores mask=1 do=flip", "no such place"},
        {"op=means where=score mask=1 do=flip", "no such place"},
        {"op=assign where=score mask=1 do=flop", "do=flop"},
        {"op=assign where=score mask=x do=flip", "mask=x"},
        {"op=assign where=score mask=-1 do=flip", "mask=-1"},
        {"op=assign where=score mask=0x100000000 do=flip", "32 bits"},
        {"op=assign where=score row=-3 mask=1 do=flip", "row=-3"},
        {"op=assign where=score row=1x mask=1 do=flip", "row=1x"},
        {"op=assign where=score row mask=1 do=flip", "key=value"},
        {"op=assign where=score rwo=1 mask=1 do=flip", "no key 'rwo'"},
        {"op=assign where=score iteration=0 mask=1 do=flip", "iteration=0"},
        {"op=assign where=score do=skip", "makes no sense"},
        {"op=assign where=index do=nan", "makes no sense"},
        {"op=assign where=score word=1 mask=1 do=flip", "for arrays"},
        {"op=assign where=labels mask=1 do=flip", "word=0"},
        {"op=assign where=score mask=1 do=nan", "leave it out"},
        {"op=assign where=score do=replace", "need each other"},
        {"op=assign where=score mask=1 do=flip repeat=never", "once or always"},
        {"op=assign where=labels word=1 mask=1 do=flip when=now", "before or after"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct hf_fault_site site;
        char why[200] = "";
        assert_false(hf_fault_parse(bad[i][0], &site, why, sizeof why));
        if (!strstr(why, bad[i][1]))
            fail_msg("\"%s\": \"%s\" has no \"%s\"", bad[i][0], why, bad[i][1]);
    }
}

static void long_lines_are_refused(void **state) {
    (void)state;
    char line[2 * HF_FAULT_TEXT];
    struct hf_fault_site site;
    char why[200] = "";
    memset(line, 'a', sizeof line);
    line[sizeof line - 1] = '\0';
    assert_false(hf_fault_parse(line, &site, why, sizeof why));
    assert_non_null(strstr(why, "characters"));
}

/* ---- acts */

static uint64_t altered(const char *line, uint64_t value, uint64_t before, int bytes, bool floats) {
    char why[200] = "";
    if (hf_dev_fault_plant(line, why, sizeof why) != HF_OK)
        fail_msg("\"%s\": %s", line, why);
    hf_inject_alter(&value, &before, bytes, floats);
    hf_dev_fault_remove(NULL);
    return value;
}

static uint64_t bits_of(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static void acts_do_what_they_say(void **state) {
    (void)state;
#define AT "op=assign where=step "
#define IN "op=update where=sums word=0 "
    assert_int_equal(altered(AT "mask=0x6 do=flip", 0xa, 0, 4, true), 0xc);
    assert_int_equal(altered(AT "mask=0x6 do=stuck0", 0xf, 0, 4, true), 0x9);
    assert_int_equal(altered(AT "mask=0x6 do=stuck1", 0x1, 0, 4, true), 0x7);
    assert_int_equal(altered(AT "mask=0x1 do=carry", 0xff, 0, 4, true), 0x100);
    assert_int_equal(altered(AT "mask=0x1 do=carry", 0xffffffff, 0, 4, true), 0);
    assert_int_equal(altered(AT "value=0x12 do=replace", 0xff, 0, 4, true), 0x12);
    assert_int_equal(altered(AT "do=nan", 0x3f800000, 0, 4, true), 0x7fc00000);
    assert_int_equal(altered(AT "do=skip", 0xff, 0x3, 4, true), 0x3);
    assert_int_equal(altered(AT "do=duplicate", 0x40000000, 0x3f800000, 4, true), 0x40400000);
    assert_int_equal(altered(AT "do=duplicate", 50, 20, 4, false), 80);
    assert_int_equal(altered(IN "mask=0x8000000000000000 do=flip", 1, 0, 8, false),
                     0x8000000000000001);
    assert_int_equal(altered(IN "do=nan", bits_of(2), 0, 8, true), 0x7ff8000000000000);
#undef AT
#undef IN
}

/* ---- fits */

#define ROWS 700
#define COLUMNS 19
#define CLUSTERS 13

static float rows[ROWS * COLUMNS];

static hf_array make_rows(void) {
    struct hf_rng rng = {.seed = 7};
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            rows[i * COLUMNS + j] =
                (float)(3 * ((i * 7 + j * (i % CLUSTERS)) % 5) + hf_rng_next_normal(&rng));
    return hf_array_view(rows, HF_F32, ROWS, COLUMNS);
}

/* Without checks, which make calls again. */
static const hf_kmeans_opts fit_opts = {.k = CLUSTERS,
                                        .n_init = 1,
                                        .max_iter = 8,
                                        .init = HF_INIT_RANDOM,
                                        .seed = 3,
                                        .guard = HF_GUARD_OFF};

static void expect_same(const hf_kmeans_result *a, const hf_kmeans_result *b) {
    assert_int_equal(a->iterations, b->iterations);
    assert_memory_equal(a->labels, b->labels, sizeof(int32_t) * ROWS);
    assert_memory_equal(a->centroids.data, b->centroids.data,
                        hf_dtype_bytes(a->centroids.dtype) * CLUSTERS * COLUMNS);
    assert_memory_equal(&a->inertia, &b->inertia, sizeof a->inertia);
}

/* A fit counted and one not counted, by this kernel; 0: it does not take the rows. */
static int expect_shipped_bits(hf_context *ctx, const struct hf_kernel *row, const hf_array *x,
                               hf_skipping skipping) {
    static struct hf_visits visits;
    hf_kmeans_opts opts = fit_opts;
    hf_kmeans_result plain = {0};
    hf_kmeans_result struck = {0};
    opts.skipping = skipping;
    assert_int_equal(setenv("HF_KERNEL_ASSIGN", row->name, 1), 0);
    const int taken = hf_kmeans_fit(ctx, x, &opts, &plain) == HF_OK;
    if (taken) {
        hf_inject_count(&visits);
        assert_int_equal(hf_kmeans_fit(ctx, x, &opts, &struck), HF_OK);
        hf_inject_remove();
        expect_same(&plain, &struck);
        assert_true(visits.calls[HF_OP_ASSIGN] >= plain.iterations);
        if (!(row->traits & HF_TRAIT_REFERENCE))
            assert_int_equal(visits.of_register[HF_REGISTER_LABEL][0], ROWS);
    }
    hf_kmeans_result_clear(&plain);
    hf_kmeans_result_clear(&struck);
    return taken;
}

/* Kernels that are counted are those that faults strike: their bits are the shipped ones. */
static void struck_kernels_give_the_shipped_bits(void **state) {
    (void)state;
    static const hf_dtype dtypes[] = {HF_F32, HF_F64, HF_BF16, HF_U8};
    static const char *const kinds[] = {"normal", "nested", "whole", "copies"};
    const struct hf_kernel *row;
    hf_context *ctx = open_context(2, 0);
    int kernels = 0;
    for (int i = 0; (row = hf_kernel_at(HF_OP_ASSIGN, i)) != NULL; i++) {
        if (row->device != HF_DEV_HOST || !hf_kernel_runs_here(row, NULL, 0))
            continue;
        for (int t = 0; t < 4; t++) {
            hf_array x;
            char why[300];
            assert_int_equal(hf_dev_rows_make(kinds[t], dtypes[t], ROWS, CLUSTERS, COLUMNS, 1, &x,
                                              why, sizeof why),
                             HF_OK);
            kernels += expect_shipped_bits(ctx, row, &x, HF_SKIP_OFF);
            kernels += expect_shipped_bits(ctx, row, &x, HF_SKIP_ON);
            hf_dev_rows_free(&x);
        }
    }
    assert_int_equal(unsetenv("HF_KERNEL_ASSIGN"), 0);
    assert_true(kernels > 0);
    hf_context_destroy(ctx);
}

static hf_dev_fault_proof struck_by(hf_context *ctx, const char *line, const hf_kmeans_opts *opts,
                                    hf_kmeans_result *r) {
    hf_dev_fault_proof proof;
    char why[200] = "";
    const hf_array x = hf_array_view(rows, HF_F32, ROWS, COLUMNS);
    if (hf_dev_fault_plant(line, why, sizeof why) != HF_OK)
        fail_msg("\"%s\": %s", line, why);
    const hf_status status = hf_kmeans_fit(ctx, &x, opts, r);
    hf_dev_fault_remove(&proof);
    assert_true(status == HF_OK || status == HF_E_CORRUPT);
    return proof;
}

static hf_dev_fault_proof struck_fit(hf_context *ctx, const char *line, hf_kmeans_result *r) {
    return struck_by(ctx, line, &fit_opts, r);
}

/* Lines that strike once; all but the reference have these places. */
static void faults_strike_once(void **state) {
    (void)state;
    static const char *const lines[] = {
        "op=assign where=label iteration=1 row=5 mask=0x1 do=flip",
        "op=assign where=label iteration=1 hit=600 mask=0x1 do=flip",
        "op=assign where=labels iteration=2 word=5 mask=0x1 do=flip",
        "op=assign where=labels iteration=2 word=5 mask=0x1 when=after do=flip",
        "op=assign where=call iteration=2 do=skip",
        "op=assign where=centroids iteration=2 word=5 mask=0x400000 do=flip",
        "op=means where=next iteration=2 word=5 mask=0x400000 when=after do=flip",
        "op=means where=next iteration=2 do=stale",
        "op=means where=inertia iteration=2 word=0 do=nan when=after",
        "op=assign where=term iteration=1 row=9 column=3 mask=0x100 do=flip",
    };
    make_rows();
    hf_context *ctx = open_context(1, 0);
    if (strstr(hf_kernel_at(HF_OP_ASSIGN, 0)->name, "ref") && !hf_kernel_at(HF_OP_ASSIGN, 1))
        skip();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        hf_kmeans_result r = {0};
        const hf_dev_fault_proof proof = struck_fit(ctx, lines[i], &r);
        if (proof.struck != 1 || proof.altered != 1)
            fail_msg("\"%s\": struck %lld, altered %lld", lines[i], (long long)proof.struck,
                     (long long)proof.altered);
        hf_kmeans_result_clear(&r);
    }
    hf_context_destroy(ctx);
}

/* A place that is not reached is not struck, and nothing changes. */
static void faults_elsewhere_change_nothing(void **state) {
    (void)state;
    static const char *const lines[] = {
        "op=assign where=score iteration=200 mask=0x400 do=flip",
        "op=assign where=score row=100000 mask=0x400 do=flip",
        "op=assign where=labels word=100000 mask=0x400 do=flip",
        "op=assign where=score kernel=no_such_* mask=0x400 do=flip",
        "op=assign where=label worker=5 mask=0x1 do=flip",
    };
    hf_context *ctx = open_context(1, 0);
    const hf_array x = make_rows();
    hf_kmeans_result plain = {0};
    assert_int_equal(hf_kmeans_fit(ctx, &x, &fit_opts, &plain), HF_OK);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        hf_kmeans_result r = {0};
        assert_int_equal(struck_fit(ctx, lines[i], &r).struck, 0);
        expect_same(&plain, &r);
        hf_kmeans_result_clear(&r);
    }
    hf_kmeans_result_clear(&plain);
    hf_context_destroy(ctx);
}

/* A core with a bit that sticks: every score that worker 0 computes in a lane. */
static void a_permanent_fault_stays(void **state) {
    (void)state;
    make_rows();
    hf_context *ctx = open_context(2, 0);
    hf_kmeans_result r = {0};
    const hf_dev_fault_proof proof = struck_fit(
        ctx, "op=assign where=score worker=0 lane=3 mask=0x20000000 do=stuck1 repeat=always", &r);
    if (proof.struck > 0)
        assert_true(proof.struck >= CLUSTERS);
    hf_kmeans_result_clear(&r);
    hf_context_destroy(ctx);
}

static void note_kind(void *user, const hf_fault_note *note) {
    int *kind = user;
    *kind = (int)note->kind > *kind ? (int)note->kind : *kind;
}

/* What protection makes of a fault: its result, or its end, and what it says of the fault. */
static void protection_repairs_and_judges(void **state) {
    (void)state;
    static const struct {
        const char *line;
        hf_status status;
        hf_fault_kind kind;
    } cases[] = {
        {"op=assign where=index worker=0 lane=13 mask=0x2 do=stuck0 repeat=always", HF_OK,
         HF_FAULT_PERMANENT},
        {"op=assign where=norm worker=0 lane=2 mask=0x2 do=stuck0 repeat=always", HF_OK,
         HF_FAULT_PERMANENT},
        {"op=assign where=label worker=0 lane=0 mask=0x1 do=stuck0 repeat=always", HF_OK,
         HF_FAULT_PERMANENT},
        {"op=assign where=index iteration=1 hit=20 mask=0x1 do=flip", HF_OK, HF_FAULT_TRANSIENT},
        {"op=assign where=operand iteration=1 hit=70 mask=0x10 do=flip", HF_OK, HF_FAULT_TRANSIENT},
        {"op=assign where=counters iteration=2 word=0 value=0xae7ebd9b7718567c do=replace", HF_OK,
         HF_FAULT_TRANSIENT},
        {"op=range where=max iteration=1 word=3 mask=0x8000000000000 when=after do=flip", HF_OK,
         HF_FAULT_TRANSIENT},
        {"op=moments where=rows iteration=1 word=70 mask=0x400000 do=flip", HF_E_CORRUPT,
         HF_FAULT_KIND_UNKNOWN},
    };
    hf_context *ctx = open_context(1, 0);
    const hf_array x = make_rows();
    hf_kmeans_opts opts = fit_opts;
    hf_kmeans_result plain = {0};
    int kind = 0;
    assert_int_equal(hf_kmeans_fit(ctx, &x, &opts, &plain), HF_OK);
    opts.guard = HF_GUARD_CORRECT;
    opts.on_fault = note_kind;
    opts.on_fault_user = &kind;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hf_kmeans_result r = {0};
        hf_dev_fault_proof proof;
        char why[200] = "";
        kind = 0;
        make_rows();
        if (hf_dev_fault_plant(cases[i].line, why, sizeof why) != HF_OK)
            fail_msg("\"%s\": %s", cases[i].line, why);
        const hf_status status = hf_kmeans_fit(ctx, &x, &opts, &r);
        hf_dev_fault_remove(&proof);
        if (proof.altered == 0) {
            printf("not reached by the kernels here: %s\n", cases[i].line);
        } else if (status != cases[i].status || kind != (int)cases[i].kind) {
            fail_msg("\"%s\": %s, %s", cases[i].line, hf_status_text(status),
                     hf_fault_kind_text((hf_fault_kind)kind));
        } else if (status == HF_OK) {
            expect_same(&plain, &r);
        }
        hf_kmeans_result_clear(&r);
    }
    hf_kmeans_result_clear(&plain);
    hf_context_destroy(ctx);
}

/* What is told of a worker that always errs. */
struct blame {
    int unit, lane;
};

static void note_blame(void *user, const hf_fault_note *note) {
    struct blame *blame = user;
    if (note->kind == HF_FAULT_PERMANENT)
        *blame = (struct blame){note->unit, note->lane};
}

/* One of two workers always errs: it is named with its lane, left out, and the result is right. */
static void a_worker_that_always_errs_is_left_out(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int lane; /* -1: of faults that know none */
    } cases[] = {
        {"op=assign where=score worker=0 lane=3 mask=0x100000 do=stuck0 repeat=always", 3},
        {"op=assign where=score worker=1 lane=3 mask=0x100000 do=stuck0 repeat=always", 3},
        {"op=assign where=index worker=0 lane=5 mask=0x2 do=stuck1 repeat=always", 5},
        {"op=assign where=label worker=0 lane=0 mask=0x1 do=stuck1 repeat=always", -1},
        {"op=assign where=move worker=0 lane=0 mask=0x1 do=stuck1 repeat=always", -1},
        {"op=inertia where=distance worker=0 lane=2 mask=0x10000000000 do=stuck1 repeat=always",
         -1},
    };
    const hf_array x = make_rows();
    hf_kmeans_opts opts = fit_opts;
    opts.guard = HF_GUARD_CORRECT;
    int left_out = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hf_context *ctx = open_context(2, 0);
        struct blame blame = {-1, -1};
        hf_kmeans_result plain = {0};
        hf_kmeans_result r = {0};
        opts.on_fault = NULL;
        assert_int_equal(hf_kmeans_fit(ctx, &x, &opts, &plain), HF_OK);
        opts.on_fault = note_blame;
        opts.on_fault_user = &blame;
        const bool altered = struck_by(ctx, cases[i].line, &opts, &r).altered > 0;
        expect_same(&plain, &r);
        const int worker = strstr(cases[i].line, "worker=1") != NULL;
        if (!altered || blame.unit < 0) /* made again, it may have had no rows */
            printf("not reached here, or not twice: %s\n", cases[i].line);
        else if (blame.unit != worker || blame.lane != cases[i].lane)
            fail_msg("\"%s\": worker %d, lane %d", cases[i].line, blame.unit, blame.lane);
        left_out += hf_pool_left(hf_ctx_pool(ctx)) == 1;
        hf_kmeans_result_clear(&plain);
        hf_kmeans_result_clear(&r);
        hf_context_destroy(ctx);
    }
    if (left_out == 0)
        printf("no worker was left out: one of two had all rows\n");
}

/* What is found in an iteration is put right where it stands: none is made again, and counts of
 * labels that changed, by which a fit stops, are those of the fit without the fault. */
static void iterations_go_on(void **state) {
    (void)state;
    static const char *const lines[] = {
        "op=assign where=sums iteration=3 word=40 mask=0x100 do=flip",
        "op=assign where=sums iteration=3 do=stale",
        "op=assign where=counts iteration=3 word=2 mask=0x1 when=after do=flip",
        "op=assign where=counters iteration=3 word=0 mask=0x1 when=after do=flip",
        "op=assign where=labels iteration=3 word=77 mask=0x1 do=flip",
        "op=assign where=labels iteration=3 word=77 mask=0x1 when=after do=flip",
        "op=assign where=labels iteration=3 word=77 mask=0x40000000 when=after do=flip",
        "op=assign where=labels iteration=3 do=stale",
        "op=assign where=centroids iteration=3 word=5 mask=0x400000 do=flip",
        "op=assign where=centroids iteration=3 word=5 mask=0x400000 when=after do=flip",
        "op=assign where=shift iteration=3 word=5 mask=0x10000000000000 do=flip",
        "op=means where=counts iteration=3 word=2 mask=0x1 when=after do=flip",
    };
    const hf_array x = make_rows();
    hf_context *ctx = open_context(1, 0);
    hf_kmeans_opts opts = fit_opts;
    hf_kmeans_result plain = {0};
    opts.guard = HF_GUARD_CORRECT;
    assert_int_equal(hf_kmeans_fit(ctx, &x, &opts, &plain), HF_OK);
    assert_true(plain.iterations > 3);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        hf_kmeans_result r = {0};
        if (struck_by(ctx, lines[i], &opts, &r).altered == 0)
            fail_msg("\"%s\": altered nothing", lines[i]);
        expect_same(&plain, &r);
        assert_int_equal(r.iterations, plain.iterations);
        for (int it = 0; it < r.iterations; it++)
            assert_int_equal(r.history[it].changed, plain.history[it].changed);
        if (r.faults.repaired == 0 || r.faults.rolled_back > 0)
            fail_msg("\"%s\": %d repaired, %d iterations made again", lines[i],
                     (int)r.faults.repaired, (int)r.faults.rolled_back);
        hf_kmeans_result_clear(&r);
    }
    hf_kmeans_result_clear(&plain);
    hf_context_destroy(ctx);
}

/* Rows that refill an empty cluster are looked for in their clusters: a label that is none is told,
 * and addresses nothing. */
static void wild_labels_refill_nothing(void **state) {
    (void)state;
    const hf_array x = make_rows();
    float start[CLUSTERS * COLUMNS];
    memcpy(start, rows, sizeof start);
    memcpy(start + COLUMNS, start, COLUMNS * sizeof *start); /* the second one is left empty */
    const hf_array init = hf_array_view(start, HF_F32, CLUSTERS, COLUMNS);
    hf_kmeans_opts opts = fit_opts;
    opts.init = HF_INIT_GIVEN;
    opts.centroids = &init;
    opts.guard = HF_GUARD_CORRECT;
    hf_context *ctx = open_context(1, 0);
    hf_kmeans_result plain = {0};
    hf_kmeans_result r = {0};
    if (hf_kmeans_fit(ctx, &x, &opts, &plain) != HF_OK)
        fail_msg("%s", hf_last_error(ctx));
    const hf_dev_fault_proof proof = struck_by(
        ctx, "op=inertia where=labels iteration=1 word=5 value=0xa68ed062 do=replace", &opts, &r);
    assert_int_equal(proof.altered, 1);
    assert_true(r.faults.repaired > 0);
    expect_same(&plain, &r);
    hf_kmeans_result_clear(&plain);
    hf_kmeans_result_clear(&r);
    hf_context_destroy(ctx);
}

static void places_are_listed(void **state) {
    (void)state;
    hf_dev_place place;
    const char *name, *text;
    int count = 0;
    int arrays = 0;
    for (; hf_dev_place_at(count, &place); count++) {
        assert_true(place.acts != 0 && place.text[0] && hf_op_find(place.op) >= 0);
        arrays += strcmp(place.kind, "array") == 0;
    }
    assert_true(count > HF_REGISTER_COUNT && arrays > 20);
    assert_true(hf_dev_act_at(HF_ACT_FLIP, &name, &text));
    assert_string_equal(name, "flip");
    assert_false(hf_dev_act_at(HF_ACT_COUNT, &name, &text));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_read_and_written),
        cmocka_unit_test(bad_lines_say_what_is_wrong),
        cmocka_unit_test(long_lines_are_refused),
        cmocka_unit_test(acts_do_what_they_say),
        cmocka_unit_test(struck_kernels_give_the_shipped_bits),
        cmocka_unit_test(faults_strike_once),
        cmocka_unit_test(faults_elsewhere_change_nothing),
        cmocka_unit_test(a_permanent_fault_stays),
        cmocka_unit_test(protection_repairs_and_judges),
        cmocka_unit_test(a_worker_that_always_errs_is_left_out),
        cmocka_unit_test(iterations_go_on),
        cmocka_unit_test(wild_labels_refill_nothing),
        cmocka_unit_test(places_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
