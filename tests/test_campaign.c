/* SPDX-License-Identifier: Apache-2.0
 * Campaigns of planted faults: outcomes, order, shards, what kills or keeps a child, and the
 * intervals of reports. */
#include "unit.h"

#include "harness/inject/campaign.h"
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- intervals: by SciPy's quantiles of beta distributions */

static void expect_interval(int64_t hits, int64_t n, double confidence, double low, double high) {
    double got[2];
    hf_dev_interval(hits, n, confidence, &got[0], &got[1]);
    if (fabs(got[0] - low) > 5e-7 * (low + 1e-3) || fabs(got[1] - high) > 5e-7 * (high + 1e-3))
        fail_msg("%lld of %lld: [%.9g, %.9g], not [%.9g, %.9g]", (long long)hits, (long long)n,
                 got[0], got[1], low, high);
}

static void intervals_are_those_of_clopper_and_pearson(void **state) {
    (void)state;
    expect_interval(0, 0, 0.95, 0, 1);
    expect_interval(0, 10, 0.95, 0, 0.30849710781876083);
    expect_interval(10, 10, 0.95, 0.6915028921812392, 1);
    expect_interval(1, 10, 0.95, 0.0025285785444617848, 0.4450161167209536);
    expect_interval(5, 10, 0.95, 0.18708602844739834, 0.8129139715526016);
    expect_interval(81, 263, 0.95, 0.25273674558527126, 0.36762192260135135);
    expect_interval(3, 1000, 0.99, 0.00033814452906649344, 0.01093377742040524);
    expect_interval(99997, 100000, 0.95, 0.9999123297974336, 0.9999938132360411);
    expect_interval(1234, 300000, 0.95, 0.003887439601353567, 0.004348887374530255);
    /* one side: 1 - (alpha / 2)^(1/n), in closed form */
    for (int64_t n = 1; n <= 100000000; n *= 10)
        expect_interval(0, n, 0.95, 0, -expm1(log(0.025) / (double)n));
    for (int64_t n = 1; n <= 100000000; n *= 10)
        expect_interval(n, n, 0.9, exp(log(0.05) / (double)n), 1);
}

/* ---- campaigns */

#define FAULTS 400

struct taken {
    int count;
    hf_dev_injection one[FAULTS];
};

static int take(void *user, const hf_dev_injection *one) {
    struct taken *taken = user;
    assert_true(taken->count < FAULTS);
    taken->one[taken->count++] = *one;
    return 0;
}

static hf_array x;

static hf_kmeans_opts fit_opts(void) {
    return (hf_kmeans_opts){
        .k = 5, .init = HF_INIT_RANDOM, .max_iter = 6, .guard = HF_GUARD_OFF, .n_init = 1};
}

static hf_dev_campaign campaign_of(const hf_kmeans_opts *fit, struct taken *taken) {
    return (hf_dev_campaign){
        .x = &x, .fit = fit, .threads = 1, .faults = FAULTS, .each = take, .user = taken};
}

static void run(const hf_dev_campaign *campaign) {
    char why[300] = "";
    hf_dev_campaign_size size;
    if (hf_dev_campaign_run(campaign, &size, why, sizeof why) != HF_OK)
        fail_msg("%s", why);
    assert_true(size.strata > 0 && size.sites >= size.strata && size.iterations > 0);
}

static void expect_equal(const hf_dev_injection *a, const hf_dev_injection *b) {
    assert_int_equal(a->number, b->number);
    assert_string_equal(a->line, b->line);
    assert_int_equal(a->off, b->off);
    assert_int_equal(a->proof.altered, b->proof.altered);
}

/* A fault depends on its number alone, and every line plants its fault again. */
static void shards_make_the_whole(void **state) {
    (void)state;
    static struct taken all, half[2];
    const hf_kmeans_opts fit = fit_opts();
    hf_dev_campaign campaign = campaign_of(&fit, &all);
    campaign.places = "means.*,range.*,assign.s*,assign.best,inertia.t*"; /* no wild addresses */
    run(&campaign);
    assert_true(all.count > FAULTS / 2);
    for (int i = 0; i < 2; i++) {
        campaign.shard = i;
        campaign.shards = 2;
        campaign.user = &half[i];
        run(&campaign);
    }
    assert_int_equal(half[0].count + half[1].count, all.count);
    int seen[2] = {0, 0};
    for (int i = 0; i < all.count; i++) {
        struct hf_fault_site site;
        char why[300] = "";
        const int odd = (int)(all.one[i].number % 2);
        expect_equal(&all.one[i], &half[odd].one[seen[odd]++]);
        if (!hf_fault_parse(all.one[i].line, &site, why, sizeof why))
            fail_msg("%s: %s", all.one[i].line, why);
    }
}

/* Without protection there is something to protect from, and something that needs none. */
static void outcomes_are_told_apart(void **state) {
    (void)state;
    static struct taken taken;
    const hf_kmeans_opts fit = fit_opts();
    const hf_dev_campaign campaign = campaign_of(&fit, &taken);
    int count[HF_DEV_OUTCOMES] = {0};
    taken.count = 0;
    run(&campaign);
    for (int i = 0; i < taken.count; i++) {
        const hf_dev_injection *one = &taken.one[i];
        count[one->off]++;
        assert_int_equal(one->guarded, HF_DEV_OUTCOMES);
        if (one->off == HF_DEV_NOT_ACTIVATED)
            assert_int_equal(one->proof.altered, 0);
        else
            assert_true(one->proof.altered > 0);
    }
    assert_true(count[HF_DEV_MASKED] > 0 && count[HF_DEV_NOT_ACTIVATED] > 0);
    assert_true(count[HF_DEV_SILENT] > 0 && count[HF_DEV_DETECTED] > 0);
    assert_int_equal(count[HF_DEV_CORRECTED] + count[HF_DEV_MISPLACED], 0);
}

/* What the next fit with a fault in it does. */
static enum { GO_ON, DIE, SLEEP } planted_fits;

static int progress(void *user, int restart, int iteration, const hf_kmeans_iteration *it,
                    int64_t done, int64_t total) {
    (void)user, (void)restart, (void)iteration, (void)it, (void)done, (void)total;
    if (hf_injector()->mode != HF_INJECT_PLANTED || hf_injector()->struck == 0)
        return 0;
    if (planted_fits == DIE)
        abort();
    for (int i = 0; planted_fits == SLEEP && i < 600; i++)
        (void)sleep(1);
    return 0;
}

static void expect_fate(int fits, hf_dev_outcome outcome) {
    static struct taken taken;
    hf_kmeans_opts fit = fit_opts();
    fit.progress = progress;
    hf_dev_campaign campaign = campaign_of(&fit, &taken);
    campaign.faults = 3;
    campaign.limit_s = 0.1;
    campaign.places = "assign.labels";
    campaign.models = "flip";
    taken.count = 0;
    planted_fits = fits;
    run(&campaign);
    planted_fits = GO_ON;
    assert_int_equal(taken.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(taken.one[i].number, i);
        assert_int_equal(taken.one[i].off, outcome);
        assert_non_null(strstr(taken.one[i].line, "where=labels"));
    }
}

/* The campaign outlives its children, and knows which fault was the last of each. */
static void children_that_die_are_replaced(void **state) {
    (void)state;
    expect_fate(DIE, HF_DEV_CRASH);
    expect_fate(SLEEP, HF_DEV_HANG);
}

/* A device that is no CPU, or NULL. */
static const char *other_device(void) {
    static const char *const name[] = {"cuda", "opencl"};
    for (int i = 0; i < 2; i++) {
        const hf_context_opts opts = {.device = name[i]};
        hf_context *ctx = NULL;
        const pid_t child = fork(); /* children of campaigns open devices that are not open here */
        int status = 1;
        if (child == 0)
            _exit(hf_context_create(&ctx, &opts) != HF_OK);
        if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
            return name[i];
    }
    printf("skipped: there is neither a CUDA nor an OpenCL device\n");
    return NULL;
}

/* In the order of their numbers: fits side by side end in any. */
static void sort(struct taken *taken) {
    for (int i = 1; i < taken->count; i++)
        for (int j = i; j > 0 && taken->one[j - 1].number > taken->one[j].number; j--) {
            const hf_dev_injection one = taken->one[j];
            taken->one[j] = taken->one[j - 1];
            taken->one[j - 1] = one;
        }
}

static void fits_side_by_side_make_the_whole(void **state) {
    static struct taken alone, beside;
    hf_kmeans_opts fit = fit_opts();
    hf_dev_campaign campaign = campaign_of(&fit, &alone);
    (void)state;
    fit.guard = HF_GUARD_CORRECT;
    campaign.device = other_device();
    if (!campaign.device)
        return;
    campaign.faults = 30;
    alone.count = beside.count = 0;
    run(&campaign);
    campaign.at_once = 3;
    campaign.user = &beside;
    run(&campaign);
    sort(&beside);
    assert_int_equal(alone.count, beside.count);
    for (int i = 0; i < alone.count; i++) {
        expect_equal(&alone.one[i], &beside.one[i]);
        assert_int_equal(alone.one[i].guarded, beside.one[i].guarded);
    }
}

/* Which of the fits under way killed the process is found out. */
static void fits_side_by_side_may_die(void **state) {
    static struct taken taken;
    hf_kmeans_opts fit = fit_opts();
    hf_dev_campaign campaign = campaign_of(&fit, &taken);
    (void)state;
    campaign.device = other_device();
    if (!campaign.device)
        return;
    fit.progress = progress;
    campaign.at_once = 3;
    campaign.faults = 5;
    campaign.places = "rowhash.*,range.*,assign.*,lloyd.*";
    campaign.models = "flip";
    taken.count = 0;
    planted_fits = DIE;
    run(&campaign);
    planted_fits = GO_ON;
    sort(&taken);
    assert_int_equal(taken.count, 5);
    int crashes = 0; /* the others strike behind the last iteration */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(taken.one[i].number, i);
        crashes += taken.one[i].off == HF_DEV_CRASH;
    }
    assert_true(crashes > 0);
}

static void small_places_are_exhausted(void **state) {
    (void)state;
    static struct taken taken;
    const hf_kmeans_opts fit = fit_opts();
    hf_dev_campaign campaign = campaign_of(&fit, &taken);
    campaign.places = "means.inertia";
    campaign.models = "skip";
    taken.count = 0;
    run(&campaign);
    assert_true(taken.count > 0 && taken.count < 10); /* one for each call */
    for (int i = 0; i < taken.count; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(taken.one[i].line, taken.one[j].line);
}

static void wrong_filters_are_refused(void **state) {
    (void)state;
    static struct taken taken;
    const hf_kmeans_opts fit = fit_opts();
    hf_dev_campaign campaign = campaign_of(&fit, &taken);
    char why[300] = "";
    campaign.places = "assign.nothing";
    assert_int_equal(hf_dev_campaign_run(&campaign, NULL, why, sizeof why), HF_E_ARG);
    assert_non_null(strstr(why, "assign.nothing"));
    campaign = campaign_of(&fit, &taken);
    campaign.line = "op=assign where=score do=flip";
    assert_int_equal(hf_dev_campaign_run(&campaign, NULL, why, sizeof why), HF_E_ARG);
    assert_non_null(strstr(why, "mask"));
}

static void faults_at_a_rate(void **state) {
    (void)state;
    const hf_kmeans_opts fit = fit_opts();
    hf_dev_campaign campaign = campaign_of(&fit, NULL);
    hf_dev_rate rate = {.interval_s = 1e-6};
    char why[300] = "";
    campaign.places = "assign.score";
    campaign.models = "flip";
    assert_int_equal(hf_dev_campaign_rate(&campaign, &rate, why, sizeof why), HF_OK);
    assert_true(rate.struck > 0 && rate.struck <= 20 && rate.altered <= rate.struck);
    assert_int_equal(hf_injector()->mode, HF_INJECT_OFF);
}

static int make_rows(void **state) {
    char why[300] = "";
    (void)state;
    if (hf_dev_rows_make("normal", HF_F32, 300, 5, 6, 1, &x, why, sizeof why) != HF_OK)
        fail_msg("%s", why);
    hf_array none;
    assert_int_equal(hf_dev_rows_make("mud", HF_F32, 3, 1, 6, 1, &none, why, sizeof why), HF_E_ARG);
    assert_non_null(strstr(why, "cauchy"));
    return 0;
}

static int free_rows(void **state) {
    (void)state;
    hf_dev_rows_free(&x);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_make_the_whole),
        cmocka_unit_test(outcomes_are_told_apart),
        cmocka_unit_test(children_that_die_are_replaced),
        cmocka_unit_test(fits_side_by_side_make_the_whole),
        cmocka_unit_test(fits_side_by_side_may_die),
        cmocka_unit_test(small_places_are_exhausted),
        cmocka_unit_test(wrong_filters_are_refused),
        cmocka_unit_test(faults_at_a_rate),
        cmocka_unit_test(intervals_are_those_of_clopper_and_pearson),
    };
    if (argc > 1) /* a part of them, such as 'faults_*' */
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, make_rows, free_rows);
}
