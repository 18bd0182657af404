/* SPDX-License-Identifier: Apache-2.0
 * The screen of a machine, and the campaigns against products with execution signatures. */
#include "unit.h"

#include "base/affinity.h"
#include <holdfast/dev_campaign.h>
#include <holdfast/dev_screen.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct seen {
    int findings, core, blamed_core;
    int lane, other_lanes; /* the last one named, findings that name another or none */
    int units, idle_units; /* told, and those of them that made no product */
    int parts, wrong_elsewhere, not_run;
};

static void on_finding(void *user, const hf_dev_screen_finding *f) {
    struct seen *s = user;
    s->findings++;
    s->core = f->core;
    s->other_lanes += s->findings > 1 && s->lane != f->lane;
    s->lane = f->lane;
    s->blamed_core += f->blame == HF_DEV_BLAME_CORE && f->repeats_wrong == f->repeats;
}

static void on_part(void *user, const hf_dev_screen_part *part) {
    struct seen *s = user;
    s->parts++;
    s->wrong_elsewhere += part->verdict == HF_DEV_WRONG &&
                          (part->core != s->core || strcmp(part->kernel, "gemm_es_ref") != 0);
    s->not_run += part->verdict == HF_DEV_NOT_RUN;
    assert_true(part->wrong <= part->visits);
}

static void on_unit(void *user, const hf_dev_screen_unit *unit) {
    struct seen *s = user;
    s->units++;
    s->idle_units += unit->products == 0;
    assert_true(unit->products == 0 || (unit->rate > 0 && unit->peak > 0));
    assert_true(unit->hot_seconds <= unit->seconds);
}

/* As long as it takes to ask every kernel, on a machine that may be slow. */
static void screen_whole(hf_dev_screen_opts *opts, hf_dev_screen_result *r) {
    struct seen *s = opts->user;
    for (opts->seconds = 0.5; opts->seconds < 60; opts->seconds *= 4) {
        *s = (struct seen){0};
        assert_int_equal(hf_dev_screen(opts, r), HF_OK);
        if (r->not_run == 0)
            return;
    }
    fail_msg("%lld parts did not run", (long long)r->not_run);
}

static void test_right(void **state) {
    (void)state;
    struct seen s = {0};
    hf_dev_screen_result r;
    hf_dev_screen_opts opts = {.op = "gemm_es", .finding = on_finding, .part = on_part, .user = &s};
    screen_whole(&opts, &r);
    assert_int_equal(r.wrong, 0);
    assert_int_equal(s.findings, 0);
    assert_true(r.right > 0 && r.runs >= r.right && s.parts == r.right + r.not_here);
}

/* A spoilt core is named, and no other. */
static void test_planted(void **state) {
    (void)state;
    struct seen s = {0};
    hf_dev_screen_result r;
    int core[2] = {0};
    const int cores = hf_affinity_cores(core, 2) < 2 ? 1 : 2;
    hf_dev_screen_opts opts = {.op = "gemm_es",
                               .cores = core,
                               .core_count = cores,
                               .plant = core[cores - 1] + 1,
                               .plant_kernel = "gemm_es_ref",
                               .finding = on_finding,
                               .part = on_part,
                               .user = &s};
    screen_whole(&opts, &r);
    assert_int_equal(r.wrong, 1);
    assert_true(s.findings > 0);
    assert_int_equal(s.core, core[cores - 1]);
    assert_int_equal(s.wrong_elsewhere, 0);
    assert_int_equal(s.blamed_core, cores == 2 ? s.findings : 0);
}

/* A fault of a lane strikes every kernel; the lane is named, by chains that never leave it. */
static void test_lane(void **state) {
    (void)state;
    struct seen s = {0};
    hf_dev_screen_result r;
    int core[2] = {0};
    if (hf_affinity_cores(core, 2) < 2) {
        print_message("skipped: a lane is looked for where another core computes rightly\n");
        skip();
    }
    hf_dev_screen_opts opts = {.op = "gemm_es",
                               .seconds = 2,
                               .plant = core[1] + 1,
                               .plant_lane = 1 + 3,
                               .finding = on_finding,
                               .user = &s};
    assert_int_equal(hf_dev_screen(&opts, &r), HF_OK);
    assert_true(s.findings > 0);
    assert_int_equal(s.core, core[1]);
    assert_int_equal(s.lane, 3);
    assert_int_equal(s.other_lanes, 0);
    opts.plant_lane = 1 + 128; /* a vector has at most 16 */
    assert_int_equal(hf_dev_screen(&opts, &r), HF_E_ARG);
}

/* Products near the peak of the units: each kind is told, and a wrong one is found. */
static void test_products(void **state) {
    (void)state;
    struct seen s = {0};
    hf_dev_screen_result r;
    int core[1] = {0};
    assert_true(hf_affinity_cores(core, 1) >= 1);
    hf_dev_screen_opts opts = {.op = "gemm",
                               .cores = core,
                               .core_count = 1,
                               .finding = on_finding,
                               .unit = on_unit,
                               .user = &s};
    for (opts.seconds = 2; opts.seconds < 100; opts.seconds *= 3) {
        s = (struct seen){0};
        assert_int_equal(hf_dev_screen(&opts, &r), HF_OK);
        assert_int_equal(s.findings + r.wrong, 0);
        if (s.idle_units == 0)
            break;
    }
    assert_int_equal(s.idle_units, 0);
    assert_true(s.units > 0 && r.hot_share >= 0 && r.hot_share <= 1);
    opts.seconds = 2; /* of the planned kernel nearly all answers are products */
    opts.part = on_part;
    opts.plant = core[0] + 1;
    assert_int_equal(hf_dev_screen(&opts, &r), HF_OK);
    assert_true(s.findings > 0 && r.wrong > 0);
}

/* Of a GPU a multiprocessor is named: by the answer that it gives alone, and by the tiles of large
 * products. */
static void test_gpu(void **state) {
    (void)state;
    struct seen s = {0};
    hf_dev_screen_result r;
    hf_dev_screen_opts opts = {.device = "cuda",
                               .op = "gemm",
                               .seconds = 4,
                               .finding = on_finding,
                               .part = on_part,
                               .user = &s};
    const hf_status status = hf_dev_screen(&opts, &r);
    if (status == HF_E_UNSUPPORTED) {
        print_message("skipped: no NVIDIA GPU\n");
        skip();
    }
    assert_int_equal(status, HF_OK);
    assert_int_equal(s.findings, 0);
    assert_int_equal(r.wrong + r.not_run, 0);
    s = (struct seen){0};
    opts.plant = 1 + 7;
    assert_int_equal(hf_dev_screen(&opts, &r), HF_OK);
    assert_true(s.findings > 0);
    assert_int_equal(s.core, 7);
    assert_int_equal(s.blamed_core, s.findings);
    s = (struct seen){0};
    opts.plant_lane = 1 + 69;
    assert_int_equal(hf_dev_screen(&opts, &r), HF_OK);
    assert_true(s.findings > 0);
    assert_int_equal(s.core, 7);
    assert_int_equal(s.lane, 69);
}

/* What did not run is not right: a core that is not there, no time. */
static void test_not_run(void **state) {
    (void)state;
    struct seen s = {0};
    hf_dev_screen_result r;
    const int nowhere[] = {32000};
    hf_dev_screen_opts opts = {.seconds = 0.2,
                               .op = "gemm_es",
                               .cores = nowhere,
                               .core_count = 1,
                               .part = on_part,
                               .user = &s};
    assert_int_equal(hf_dev_screen(&opts, &r), HF_OK);
    assert_int_equal(r.right + r.wrong, 0);
    assert_true(r.not_run > 0 && s.not_run == r.not_run);
    assert_int_equal(r.cores, 0);
    opts.op = "no_such_op";
    assert_int_equal(hf_dev_screen(&opts, &r), HF_E_ARG);
}

/* A clock that goes on by a step whenever it is asked, so that a level takes as long as its calls
 * do, on any machine. */
struct paced {
    double now, step;
    int phases;
    char order[8];
    double begin[8];
};

static double tick(void *user) {
    struct paced *p = user;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    (void)pthread_mutex_lock(&lock);
    const double now = p->now += p->step;
    (void)pthread_mutex_unlock(&lock);
    return now;
}

static void on_phase(void *user, const char *phase, double seconds) {
    struct paced *p = user;
    assert_true(p->phases < 7);
    p->order[p->phases] = phase[0];
    p->begin[p->phases++] = seconds;
}

/* 10 s, 2 min, 30 min: each ends in time, asks every kernel, and leaves at least half of the time
 * to all cores together. */
static void test_levels(void **state) {
    (void)state;
    const double level[] = {10, 120, 1800};
    int core[2];
    const int cores = hf_affinity_cores(core, 2) < 2 ? 1 : 2;
    int64_t runs = 0;
    for (int i = 0; i < 3; i++) {
        struct paced p = {.step = level[i] / 4000};
        hf_dev_screen_result r;
        const hf_dev_screen_opts opts = {.cores = core, /* many would share the ticks unevenly */
                                         .core_count = cores,
                                         .seconds = level[i],
                                         .op = "gemm_es",
                                         .phase = on_phase,
                                         .clock = tick,
                                         .user = &p};
        assert_int_equal(hf_dev_screen(&opts, &r), HF_OK);
        assert_string_equal(p.order, "aibh"); /* answers, idle, burst, hot */
        assert_true(p.begin[1] < 0.3 * level[i] && p.begin[3] < 0.55 * level[i]);
        assert_true(r.seconds >= level[i] && r.seconds < 1.02 * level[i]);
        assert_int_equal(r.not_run + r.wrong, 0);
        assert_true(r.right > 0 && r.runs > runs / 2);
        runs = r.runs;
    }
}

/* Every scheme: what is counted agrees with computed products. */
static void test_campaign(void **state) {
    (void)state;
    const hf_context_opts one = {.device = "cpu", .threads = 1};
    static const hf_dev_dims dims[] = {{3, 19, 5}, {4, 8, 3}, {2, 5, 4}};
    hf_context *ctx = NULL;
    hf_dev_es es;
    char name[32];
    int schemes = 0;
    assert_int_equal(hf_context_create(&ctx, &one), HF_OK);
    for (; hf_dev_es_at(schemes, &es, name); schemes++)
        for (int shape = 0; shape < 3; shape++)
            for (es.avx = 0; es.avx < 2; es.avx++) {
                hf_dev_es_count count;
                const hf_status status = hf_dev_es_count_bits(ctx, &es, dims[shape], 7, 60, &count);
                if (status == HF_E_UNSUPPORTED)
                    continue;
                assert_int_equal(status, HF_OK);
                assert_int_equal(count.computed, 60);
                assert_int_equal(count.differed, 0);
                assert_int_equal(count.faults, 32 * (dims[shape].m * dims[shape].k +
                                                     dims[shape].k * dims[shape].n));
            }
    assert_int_equal(schemes, 35);
    hf_context_destroy(ctx);
}

/* 20 x 20: what the paper prints for the sequential form, where it agrees with itself. */
static void test_paper(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double percent;
    } printed[] = {{"xor_e", 2.5},      {"xor_m", 50.0},      {"xor_i", 50.0},
                   {"twos_m", 52.3},    {"twos_i", 96.9},     {"ones_m", 52.5},
                   {"fletcher_e", 2.6}, {"fletcher_m", 52.2}, {"fletcher_i", 100.0},
                   {"crc32_e", 2.6},    {"crc32_m", 52.5},    {"crc32_i", 100.0}};
    hf_context *ctx = NULL;
    hf_dev_es es;
    char name[32];
    assert_int_equal(hf_context_create(&ctx, NULL), HF_OK);
    for (int i = 0; hf_dev_es_at(i, &es, name); i++)
        for (size_t p = 0; p < sizeof printed / sizeof *printed; p++) {
            hf_dev_es_count count;
            if (strcmp(printed[p].name, name) != 0)
                continue;
            assert_int_equal(
                hf_dev_es_count_bits(ctx, &es, (hf_dev_dims){20, 20, 20}, 1, 0, &count), HF_OK);
            const double percent = 100.0 * (double)count.detected / (double)count.faults;
            if (percent < printed[p].percent - 0.5 || percent > printed[p].percent + 0.5)
                fail_msg("%s: %.2f %%, the paper has %.1f", name, percent, printed[p].percent);
        }
    hf_context_destroy(ctx);
}

/* Operands are signed: faults in results are not seen, faults in operands that are used are. */
static void test_faults(void **state) {
    (void)state;
    const hf_context_opts one = {.device = "cpu", .threads = 1};
    const hf_dev_dims dims = {6, 16, 6};
    hf_context *ctx = NULL;
    hf_dev_es es;
    const char *class, *text;
    char name[32];
    int i = 0;
    while (hf_dev_es_at(i, &es, name) && strcmp(name, "crc32_i") != 0)
        i++;
    assert_int_equal(hf_context_create(&ctx, &one), HF_OK);
    for (int f = 0; hf_dev_es_fault_at(f, &class, &text); f++) {
        hf_dev_es_faults found;
        assert_int_equal(hf_dev_es_inject(ctx, &es, dims, f, 3, 100, &found), HF_OK);
        assert_int_equal(found.faults, 100);
        assert_true(found.changed > 0);
        if (strcmp(class, "accumulator") == 0 || strcmp(class, "product") == 0 ||
            strcmp(class, "carry") == 0)
            assert_int_equal(found.detected, 0);
        if (strcmp(class, "address") == 0 || strcmp(class, "stuck") == 0 ||
            strcmp(class, "dropped") == 0)
            assert_int_equal(found.detected, found.changed);
    }
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),  cmocka_unit_test(test_planted),
        cmocka_unit_test(test_lane),   cmocka_unit_test(test_products),
        cmocka_unit_test(test_gpu),    cmocka_unit_test(test_not_run),
        cmocka_unit_test(test_levels), cmocka_unit_test(test_campaign),
        cmocka_unit_test(test_paper),  cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
