/* SPDX-License-Identifier: Apache-2.0
 * Protection on a GPU: words of a fit's memory flip between iterations that the device makes by
 * itself, or between calls; the result is bit for bit that of the fit without a fault, or with
 * detect the fit ends. Skipped, with the reason, where there is no GPU. */
#include "core/context.h"
#include "kmeans_device.h"
#include <holdfast/dev_faults.h>

static hf_context *gpu;

/* A fit that is struck. */
struct strike {
    const char *line;
    int told;
    hf_fault_kind kind; /* of the last that was told, */
    int unit, lane;     /* and its multiprocessor and lane */
};

static void take_note(void *user, const hf_fault_note *note) {
    struct strike *s = user;
    s->told++;
    s->kind = note->kind;
    s->unit = (int)note->unit;
    s->lane = note->lane;
    assert_non_null(note->check);
    assert_non_null(note->text);
}

static hf_status fit_struck(const hf_array *x, hf_kmeans_opts opts, struct strike *s,
                            hf_kmeans_result *r) {
    char why[300] = "";
    hf_dev_fault_proof proof;
    opts.on_fault = take_note;
    opts.on_fault_user = s;
    s->told = 0;
    if (hf_dev_fault_plant(s->line, why, sizeof why) != HF_OK)
        fail_msg("%s: %s", s->line, why);
    const hf_status status = hf_kmeans_fit(gpu, x, &opts, r);
    hf_dev_fault_remove(&proof);
    if (proof.altered == 0)
        fail_msg("%s: struck %d, altered nothing", s->line, (int)proof.struck);
    return status;
}

/* Faults that have consequences. */
static const char *const lines[] = {
    "op=lloyd where=labels iteration=3 word=100 mask=0x1 do=flip",
    "op=lloyd where=labels iteration=5 word=7 mask=0x40000000 do=flip",
    "op=lloyd where=sums iteration=3 word=5 mask=0x1 do=flip",
    "op=lloyd where=sums iteration=5 word=333 mask=0x4000000000000 do=flip",
    "op=lloyd where=counts iteration=3 word=2 mask=0x2 do=flip",
    "op=lloyd where=counts iteration=6 word=9 mask=0x8000000000000000 do=flip",
    "op=lloyd where=current iteration=1 word=17 mask=0x400000 do=flip",
    "op=lloyd where=current iteration=3 word=30 mask=0x40000000 do=flip",
    "op=lloyd where=current iteration=2 word=31 do=nan",
    "op=lloyd where=current iteration=4 word=32 mask=0x800000 do=flip",
};

static const char *const ledgers[] = {
    "op=lloyd where=hash iteration=1 word=50 mask=0x10 do=flip",
    "op=lloyd where=booked_labels iteration=3 word=50 mask=0x1 do=flip",
    "op=lloyd where=booked_labels iteration=3 word=60 mask=0x40000000 do=flip",
    "op=lloyd where=booked_words iteration=4 word=3 mask=0x10 do=flip",
    "op=lloyd where=booked_counts iteration=4 word=3 mask=0x10 do=flip",
};

/* After the iterations, of which there are MOST_FEW. What one launch made needs no assignment. */
#define MOST_FEW 4
static const char *const last_lines[] = {
    "op=inertia where=call iteration=1 do=skip",
    "op=assign where=call iteration=1 do=skip",
    "op=assign where=labels iteration=1 word=300 mask=0x2 when=after do=flip",
    "op=lloyd where=labels iteration=4 word=300 mask=0x40000000 when=after do=flip",
};

static struct problem make_rows(hf_dtype dtype, double **values) {
    *values = blobs(11, 6000, 24, 40, 6);
    return problem_from(*values, 6000, 24, dtype, 0);
}

/* So many clusters that iterations are compared with a book; of fewer all are made twice in one
 * launch. */
static const hf_kmeans_opts options = {
    .k = 140, .init = HF_INIT_RANDOM, .seed = 5, .max_iter = 20, .guard = HF_GUARD_CORRECT};

static void corrects(const hf_array *x, const hf_kmeans_opts *o, const char *line, bool told) {
    hf_kmeans_opts off = *o;
    hf_kmeans_result clean = {0};
    hf_kmeans_result r = {0};
    struct strike s = {.line = line};
    off.guard = HF_GUARD_OFF;
    FIT_OK(gpu, hf_kmeans_fit(gpu, x, &off, &clean));
    const hf_status status = fit_struck(x, *o, &s, &r);
    if (status != HF_OK)
        fail_msg("%s: %s", line, hf_last_error(gpu));
    expect_same(&clean, &r, line);
    if (told && (s.told == 0 || r.faults.repaired == 0))
        fail_msg("%s: nobody told of it (%d times), %d repaired", line, s.told,
                 (int)r.faults.repaired);
    hf_kmeans_result_clear(&clean);
    hf_kmeans_result_clear(&r);
}

static void faults_are_corrected(void **state) {
    (void)state;
    const hf_dtype types[] = {HF_F32, HF_F16, HF_F64};
    for (int t = 0; t < 3; t++) {
        double *values = NULL;
        struct problem p = make_rows(types[t], &values);
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
            corrects(&p.x, &options, lines[i], true);
        for (size_t i = 0; i < sizeof ledgers / sizeof *ledgers; i++)
            corrects(&p.x, &options, ledgers[i], true);
        hf_kmeans_opts few = options;
        few.max_iter = MOST_FEW;
        for (size_t i = 0; i < sizeof last_lines / sizeof *last_lines; i++)
            corrects(&p.x, &few, last_lines[i], true);
        problem_free(&p);
        free(values);
    }
}

static void faults_of_one_launch_are_corrected(void **state) {
    (void)state;
    const hf_dtype types[] = {HF_F32, HF_F16};
    for (int t = 0; t < 2; t++) {
        double *values = NULL;
        struct problem p = make_rows(types[t], &values);
        hf_kmeans_opts few = options;
        few.k = 40;
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
            corrects(&p.x, &few, lines[i], true);
        few.max_iter = MOST_FEW;
        corrects(&p.x, &few, last_lines[0], true);
        problem_free(&p);
        free(values);
    }
}

static double distance(const hf_kmeans_result *r, const double *row, int64_t j) {
    const float *c = r->centroids.data;
    double sum = 0;
    for (int64_t f = 0; f < r->d; f++)
        sum += (row[f] - (double)c[j * r->d + f]) * (row[f] - (double)c[j * r->d + f]);
    return sum;
}

/* A row that gets another label in the last assignment, and a cluster that is neither, but nearer
 * than the one that it leaves; -1: there is none. */
static int64_t find_late(const hf_kmeans_result *before, const hf_kmeans_result *last,
                         const double *values, int64_t *cluster) {
    for (int64_t i = 0; i < last->n; i++) {
        const double *row = values + i * last->d;
        const double old = distance(last, row, before->labels[i]);
        for (int64_t j = 0; before->labels[i] != last->labels[i] && j < last->k; j++)
            if (j != last->labels[i] && distance(last, row, j) < old) {
                *cluster = j;
                return i;
            }
    }
    return -1;
}

/* Between the assignment that finds the last labels and the inertia of these: the number of labels
 * that change tells nothing of it, and the row is nearer to the wrong centroid than it was. */
static void last_labels_are_confirmed(void **state) {
    (void)state;
    double *values = NULL;
    struct problem p = make_rows(HF_F32, &values);
    hf_kmeans_result before = {0};
    hf_kmeans_result last = {0};
    hf_kmeans_opts few = options;
    few.max_iter = 2;
    FIT_OK(gpu, hf_kmeans_fit(gpu, &p.x, &few, &last));
    few.max_iter = 1;
    FIT_OK(gpu, hf_kmeans_fit(gpu, &p.x, &few, &before));
    int64_t cluster = -1;
    const int64_t row = find_late(&before, &last, values, &cluster);
    assert_true(row >= 0);
    char line[120];
    few.max_iter = 2;
    snprintf(line, sizeof line,
             "op=inertia where=labels iteration=1 word=%lld value=%lld do=replace", (long long)row,
             (long long)cluster);
    corrects(&p.x, &few, line, true);
    snprintf(line, sizeof line,
             "op=assign where=labels iteration=1 word=%lld value=%lld when=after do=replace",
             (long long)row, (long long)cluster);
    corrects(&p.x, &few, line, true);
    hf_kmeans_result_clear(&before);
    hf_kmeans_result_clear(&last);
    problem_free(&p);
    free(values);
}

/* In the iteration that the host ends, of a fit that one launch makes otherwise, and after it. */
static const char *const empty_lines[] = {
    "op=means where=counts iteration=1 word=11 value=0x0 when=after do=replace",
    "op=means where=counts iteration=2 word=3 value=0xa3a328ea4026ddbb do=replace",
    "op=means where=sums iteration=1 word=33 mask=0x4000000000 do=flip",
    "op=inertia where=distances iteration=1 word=212 when=after do=nan",
    "op=inertia where=labels iteration=1 word=828 mask=0x2 when=after do=carry",
    "op=update where=sums iteration=1 do=stale",
    "op=update where=counts iteration=1 word=6 mask=0x2 when=after do=flip",
    "op=update where=old_labels iteration=1 word=0 mask=0x1 do=carry",
    "op=update where=call iteration=1 do=skip",
    "op=update where=call iteration=1 do=duplicate",
    "op=rowhash where=rows iteration=1 word=1007 mask=0x400000 do=flip",
    "op=lloyd where=labels iteration=4 word=100 mask=0x1 do=flip",
    "op=lloyd where=labels iteration=7 word=100 mask=0x1 do=flip",
    "op=lloyd where=sums iteration=7 word=5 mask=0x100 do=flip",
};

static void empty_clusters_are_covered(void **state) {
    (void)state;
    char why[200] = "";
    hf_array x;
    if (hf_dev_rows_make("blobs", HF_F32, 2000, 12, 48, 16, &x, why, sizeof why) != HF_OK)
        fail_msg("%s", why);
    float starts[12 * 48]; /* cluster 1 begins where cluster 0 does */
    memcpy(starts, x.data, sizeof starts);
    memcpy(starts + 48, starts, 48 * sizeof *starts);
    const hf_array twins = hf_array_view(starts, HF_F32, 12, 48);
    hf_kmeans_opts o = {.k = 12, .init = HF_INIT_RANDOM, .seed = 16, .max_iter = 8};
    for (int given = 0; given < 2; given++) { /* empty in iteration 2; 1 */
        hf_kmeans_result clean = {0};
        o.guard = HF_GUARD_CORRECT;
        o.init = given ? HF_INIT_GIVEN : HF_INIT_RANDOM;
        o.centroids = given ? &twins : NULL;
        FIT_OK(gpu, hf_kmeans_fit(gpu, &x, &o, &clean));
        assert_int_equal(clean.faults.suspected, 0);
        assert_true(clean.history[1 - given].empty > 0);
        hf_kmeans_result_clear(&clean);
        for (size_t i = 0; i < sizeof empty_lines / sizeof *empty_lines; i++)
            corrects(&x, &o, empty_lines[i], true);
    }
    hf_dev_rows_free(&x);
}

/* All iterations of a call made twice, or not at all. */
static void calls_happen_once(void **state) {
    (void)state;
    double *values = NULL;
    struct problem p = make_rows(HF_F32, &values);
    hf_kmeans_opts o = options;
    for (o.k = 40; o.k <= 140; o.k += 100) {
        o.max_iter = MOST_FEW;
        corrects(&p.x, &o, "op=lloyd where=call iteration=1 do=duplicate", true);
        corrects(&p.x, &o, "op=lloyd where=call iteration=1 do=skip", true);
    }
    problem_free(&p);
    free(values);
}

/* One multiprocessor is always wrong: whatever problem it takes part in has a wrong label. With a
 * lane that one's arithmetic is wrong, too. */
static void expect_accused(const hf_array *x, const hf_kmeans_opts *o,
                           const hf_kmeans_result *clean, const int where[2]) {
    char line[160];
    char lane[20] = "";
    hf_kmeans_result r = {0};
    struct strike s = {.line = line};
    if (where[1] >= 0)
        snprintf(lane, sizeof lane, "lane=%d", where[1]);
    snprintf(line, sizeof line,
             "op=lloyd where=labels word=%d mask=0x1 do=flip repeat=always worker=%d %s",
             where[0] % 64, where[0], lane);
    const hf_status status = fit_struck(x, *o, &s, &r);
    if (status != (clean ? HF_OK : HF_E_CORRUPT))
        fail_msg("%s: %s: %s", line, hf_status_text(status), hf_last_error(gpu));
    if (clean)
        expect_same(clean, &r, line);
    if (s.kind != HF_FAULT_PERMANENT || s.unit != where[0] || s.lane != where[1])
        fail_msg("%s: told %d times, last as %s on multiprocessor %d, lane %d", line, s.told,
                 hf_fault_kind_text(s.kind), s.unit, s.lane);
    hf_kmeans_result_clear(&r);
}

/* Of so many multiprocessors or, where there are less, some twice. */
static void expect_all_accused(hf_kmeans_opts o, int count, bool repaired) {
    double *values = NULL;
    struct problem p = make_rows(HF_F32, &values);
    hf_kmeans_result r = {0};
    o.max_iter = 6;
    FIT_OK(gpu, hf_kmeans_fit(gpu, &p.x, &o, &r));
    const hf_kmeans_result *clean = repaired ? &r : NULL;
    for (int i = 0; i < count; i++) {
        const int unit = i * 100 / count % gpu->props.sms;
        expect_accused(&p.x, &o, clean, (const int[2]){unit, -1});
        expect_accused(&p.x, &o, clean, (const int[2]){unit, (37 * i + 5) % 128});
    }
    hf_kmeans_result_clear(&r);
    problem_free(&p);
    free(values);
}

static void multiprocessors_are_named(void **state) {
    (void)state;
    hf_kmeans_opts few = options;
    few.k = 40;
    expect_all_accused(few, 100, true);
}

/* They have a part in each iteration, and cannot be left out: each fit makes dozens of attempts. */
static void multiprocessors_of_all_are_named(void **state) {
    (void)state;
    expect_all_accused(options, 8, false);
}

static void faults_are_detected(void **state) {
    (void)state;
    double *values = NULL;
    struct problem p = make_rows(HF_F32, &values);
    hf_kmeans_opts o = options;
    o.guard = HF_GUARD_DETECT;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        hf_kmeans_result r = {0};
        struct strike s = {.line = lines[i]};
        const hf_status status = fit_struck(&p.x, o, &s, &r);
        if (status != HF_E_CORRUPT)
            fail_msg("%s: %s", lines[i], hf_status_text(status));
        assert_int_equal(s.told, 1);
    }
    problem_free(&p);
    free(values);
}

/* The caller still has the rows as they were. */
static void changed_rows_come_again(void **state) {
    (void)state;
    static const char *const changes[] = {
        "op=lloyd where=rows iteration=3 word=77 mask=0x400000 do=flip",
        "op=assign where=rows iteration=1 word=78 mask=0x400000 when=after do=flip",
        "op=inertia where=rows iteration=1 word=79 mask=0x400000 do=flip",
        "op=range where=rows iteration=1 word=80 value=0x62b41ad3 do=replace",
        "op=moments where=rows iteration=1 word=81 value=0x62b41ad3 when=after do=replace",
        "op=rowhash where=rows iteration=1 word=82 mask=0x400000 do=flip"};
    double *values = NULL;
    struct problem p = make_rows(HF_F32, &values);
    hf_kmeans_opts o = options;
    o.max_iter = MOST_FEW;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        corrects(&p.x, &o, changes[i], true);
    o.k = 40; /* in one launch, from two copies */
    corrects(&p.x, &o, "op=lloyd where=rows iteration=1 word=77 mask=0x400000 do=flip", true);
    corrects(&p.x, &o, changes[0], true);
    corrects(&p.x, &o, changes[3], true);
    corrects(&p.x, &o, changes[4], true);
    o.init = HF_INIT_KMEANSPP; /* what begins with bad data */
    corrects(&p.x, &o, "op=moments where=rows iteration=1 word=83 when=after do=nan", true);
    problem_free(&p);
    free(values);
}

/* Without faults nothing is told, and the result is that without a guard. */
static void expect_quiet(hf_dtype dtype, hf_kmeans_opts o, const char *what) {
    double *values = NULL;
    struct problem p = make_rows(dtype, &values);
    hf_kmeans_result a = {0};
    hf_kmeans_result b = {0};
    FIT_OK(gpu, hf_kmeans_fit(gpu, &p.x, &o, &a));
    o.guard = HF_GUARD_OFF;
    FIT_OK(gpu, hf_kmeans_fit(gpu, &p.x, &o, &b));
    expect_same(&b, &a, what);
    assert_int_equal(a.faults.suspected, 0);
    assert_true(a.faults.checked > 0);
    hf_kmeans_result_clear(&a);
    hf_kmeans_result_clear(&b);
    problem_free(&p);
    free(values);
}

/* The scheme of FT K-Means. */
static void tiles_are_quiet(void **state) {
    (void)state;
    const hf_dtype types[] = {HF_F32, HF_F64, HF_F16};
    for (int t = 0; t < 3; t++)
        for (int k = 5; k <= 140; k += 45) {
            hf_kmeans_opts o = options;
            char what[60];
            o.k = k;
            o.guard = HF_GUARD_WEIGHTED;
            snprintf(what, sizeof what, "tiles, %s k=%d", hf_dtype_name(types[t]), k);
            expect_quiet(types[t], o, what);
        }
}

/* Single bits of scores: those that can be seen are told where they are, and none of them decides a
 * row. */
static void struck_tiles_are_mended(void **state) {
    (void)state;
    hf_dev_tile_bit bits[32];
    if (hf_dev_tiles_struck(gpu, 1600, 1, bits) != HF_OK)
        fail_msg("%s", hf_last_error(gpu));
    for (int i = 0; i < 32; i++)
        assert_int_equal(bits[i].struck, 50);
    for (int i = 25; i < 32; i++) /* exponent and sign, but for scores near 0 */
        if (bits[i].silent > 0 || bits[i].placed + 10 < bits[i].struck)
            fail_msg("bit %d: %d of %d are silent, %d told in their place", i, (int)bits[i].silent,
                     (int)bits[i].struck, (int)bits[i].placed);
}

static void no_false_alarms(void **state) {
    (void)state;
    const hf_dtype types[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8};
    for (int t = 0; t < 5; t++)
        for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++) {
            hf_kmeans_opts o = options;
            char what[60];
            o.metric = (hf_metric)metric;
            o.k = t % 2 ? 140 : 40;
            snprintf(what, sizeof what, "guarded, %s metric %d", hf_dtype_name(types[t]), metric);
            expect_quiet(types[t], o, what);
        }
}

int main(int argc, char **argv) {
    const hf_context_opts o = {.device = "cuda"};
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_false_alarms),
                                       cmocka_unit_test(tiles_are_quiet),
                                       cmocka_unit_test(struck_tiles_are_mended),
                                       cmocka_unit_test(faults_are_corrected),
                                       cmocka_unit_test(last_labels_are_confirmed),
                                       cmocka_unit_test(faults_of_one_launch_are_corrected),
                                       cmocka_unit_test(empty_clusters_are_covered),
                                       cmocka_unit_test(calls_happen_once),
                                       cmocka_unit_test(multiprocessors_are_named),
                                       cmocka_unit_test(multiprocessors_of_all_are_named),
                                       cmocka_unit_test(faults_are_detected),
                                       cmocka_unit_test(changed_rows_come_again)};
    if (hf_context_create(&gpu, &o) != HF_OK) {
        printf("skipped: no GPU here\n");
        return 77;
    }
    if (argc > 1) /* a part of them, such as 'faults_*' */
        cmocka_set_test_filter(argv[1]);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hf_context_destroy(gpu);
    return failed;
}
