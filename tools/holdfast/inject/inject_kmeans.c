/* SPDX-License-Identifier: Apache-2.0
 * holdfast inject kmeans: campaigns of planted faults over fits. */
#include "inject/inject.h"
#include "inject/inject_report.h"
#include "interrupt.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_S 10.0 /* between two lines of progress where there is no terminal */
#define DRAW_S 0.2  /* and on one */

struct job {
    struct inject_options options;
    hf_array x; /* a copy of the rows that can be written to */
    struct inject_table table;
    double started, drawn;
    int64_t first; /* faults that were there before */
    bool terminal;
    int code; /* of a callback that failed */
};

/* ---- rows */

static int copy_rows(struct job *job, const hf_array *from) {
    const size_t row = (size_t)from->cols * hf_dtype_bytes(from->dtype);
    const size_t step =
        from->row_stride ? (size_t)from->row_stride * hf_dtype_bytes(from->dtype) : row;
    job->x = hf_array_view(malloc((size_t)from->rows * row), from->dtype, from->rows, from->cols);
    if (!job->x.data) {
        tool_error("no memory for the rows of %s", tool_name_text(job->options.data));
        return EXIT_RESOURCES;
    }
    for (int64_t i = 0; i < from->rows; i++)
        memcpy((char *)job->x.data + (size_t)i * row, (const char *)from->data + (size_t)i * step,
               row);
    return EXIT_DONE;
}

static int load_file(struct job *job) {
    const hf_context_opts opts = {.device = "cpu"};
    hf_context *ctx = NULL;
    hf_dataset *data = NULL;
    errno = 0;
    const hf_status status = hf_context_create(&ctx, &opts);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    int code = tool_open(ctx, 0, job->options.data, "inject", &data);
    if (code == EXIT_DONE)
        code = copy_rows(job, hf_dataset_array(data));
    hf_dataset_close(data);
    hf_context_destroy(ctx); /* children are made by a process of one thread */
    return code;
}

static int load(struct job *job) {
    const struct inject_options *o = &job->options;
    char why[400];
    if (o->data)
        return load_file(job);
    const hf_status status = hf_dev_rows_make(o->synthetic, o->dtype, o->rows, o->fit.k, o->columns,
                                              o->campaign.seed, &job->x, why, sizeof why);
    if (status == HF_OK)
        return EXIT_DONE;
    tool_error("--synthetic: %s", why);
    return status == HF_E_ARG ? EXIT_USAGE : EXIT_RESOURCES;
}

/* ---- progress */

/* Faults of this run's shard. */
static int64_t planned(const struct inject_options *o) {
    const int64_t shards = o->campaign.shards > 1 ? o->campaign.shards : 1;
    return (o->campaign.faults - o->campaign.shard + shards - 1) / shards;
}

static void show_progress(struct job *job, bool last) {
    const struct inject_options *o = &job->options;
    const double now = tool_now();
    if (o->quiet || (!last && now - job->drawn < (job->terminal ? DRAW_S : LINE_S)))
        return;
    job->drawn = now;
    const int64_t all = planned(o);
    const int64_t done = job->table.there;
    const double rate = (double)(done - job->first) / (now - job->started);
    fprintf(stderr, "%s%s of %s faults (%s), %.0f a second, %s left%s", job->terminal ? "\r" : "",
            tool_count_text(done), tool_count_text(all),
            tool_percent_text(all > 0 ? 100 * (double)done / (double)all : 100), rate,
            tool_seconds_text(rate > 0 ? (double)(all - done) / rate : INFINITY),
            job->terminal && !last ? "   " : "\n");
}

static void begun(void *user, const hf_dev_campaign_size *size) {
    const struct job *job = user;
    if (job->options.quiet || job->options.line)
        return;
    fprintf(stderr, "%s different faults in %s pairs of place and model; ",
            tool_count_text(size->sites), tool_count_text(size->strata));
    fprintf(stderr, "a fit makes %d iterations in %s\n", size->iterations,
            tool_seconds_text(size->seconds));
}

static int known(void *user, int64_t number) {
    const struct job *job = user;
    return job->table.known && inject_table_knows(&job->table, number);
}

static int take(void *user, const hf_dev_injection *one) {
    struct job *job = user;
    job->code = inject_table_add(&job->table, one);
    show_progress(job, false);
    return job->code != EXIT_DONE;
}

static int stop(void *user) {
    (void)user;
    return interrupt_seen();
}

/* ---- what is asked for */

static int failed(hf_status status, const char *why) {
    static const struct tool_word words[] = {
        {"repair it, or leave such rows out (HF_NAN_DROP)", "repair it"}, {NULL, NULL}};
    tool_error("inject kmeans: %s", why[0] ? tool_translate(why, words) : hf_status_text(status));
    return status == HF_E_ARG ? EXIT_USAGE : tool_exit_code(status, 0, STAGE_COMPUTE);
}

/* Arrays of an op in one line; the others of its places have one each. */
static void list_places(void) {
    hf_dev_place place;
    const char *op = "";
    printf("places of one value (op.place, type and bits):\n");
    for (int i = 0; hf_dev_place_at(i, &place); i++) {
        char full[64];
        snprintf(full, sizeof full, "%s.%s", place.op, place.name);
        if (strcmp(place.kind, "register") == 0)
            printf("  %-22s %2d bits: %s\n", full, place.bits, place.text);
    }
    printf("\nplaces in memory; 'call' is the call of the kernel:");
    for (int i = 0; hf_dev_place_at(i, &place); i++) {
        if (strcmp(place.kind, "register") == 0)
            continue;
        if (strcmp(op, place.op) != 0)
            printf("\n  %s:", place.op);
        op = place.op;
        printf(" %s", place.name);
    }
}

static int list_all(void) {
    const char *name;
    const char *text;
    list_places();
    printf("\n\nwhat one fault does (do=):\n");
    for (int i = 0; hf_dev_act_at(i, &name, &text); i++)
        printf("  %-22s %s\n", name, text);
    printf("\nmodels of a campaign:\n");
    for (int i = 0; (name = hf_dev_model_at(i, &text)) != NULL; i++)
        printf("  %-22s %s\n", name, text);
    return EXIT_DONE;
}

/* Faults that differ are fewer in some places than there are turns. */
static void note_exhausted(const struct job *job) {
    const struct inject_options *o = &job->options;
    const int64_t left = planned(o) - job->table.there;
    if (left > 0 && !o->quiet && !interrupt_seen())
        tool_error("note: %s faults fewer than asked for: their places have no more different ones",
                   tool_count_text(left));
}

/* Without a folder the table is in one that goes when the campaign ends. */
static int run_campaign(struct job *job) {
    struct inject_options *o = &job->options;
    static struct inject_report report;
    hf_dev_campaign_size size = {0};
    char own[] = "/tmp/holdfast-inject-XXXXXX";
    char why[400] = "";
    if (!o->out_dir && !(o->out_dir = mkdtemp(own))) {
        tool_error("%s: no folder can be made: %s", own, strerror(errno));
        return EXIT_RESOURCES;
    }
    int code = inject_table_open(&job->table, o);
    job->first = job->table.there;
    hf_status status = HF_OK;
    if (code == EXIT_DONE) {
        interrupt_watch();
        status = hf_dev_campaign_run(&o->campaign, &size, why, sizeof why);
        code = status == HF_OK ? job->code : failed(status, why);
    }
    if (code == EXIT_DONE) {
        show_progress(job, true);
        note_exhausted(job);
        code = inject_report_read(&report, o);
    }
    if (code == EXIT_DONE && o->out_dir != own)
        code = inject_report_write(&report);
    if (code == EXIT_DONE && o->json)
        code = tool_json_print(inject_report_json(&report));
    else if (code == EXIT_DONE)
        inject_report_print(&report, stdout);
    if (o->out_dir == own) {
        if (job->table.path)
            (void)unlink(job->table.path);
        (void)rmdir(own);
    }
    return code == EXIT_DONE && interrupt_seen() ? EXIT_INTERRUPTED : code;
}

static json_t *counts_json(const hf_guard_counts *c) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "checked", (json_int_t)c->checked,
                     "suspected", (json_int_t)c->suspected, "confirmed", (json_int_t)c->confirmed,
                     "repaired", (json_int_t)c->repaired, "rolled_back", (json_int_t)c->rolled_back,
                     "beyond", (json_int_t)c->beyond);
}

static int run_rate(struct job *job) {
    const struct inject_options *o = &job->options;
    hf_dev_rate rate = {.interval_s = 1 / o->rate};
    char why[400] = "";
    const hf_status status = hf_dev_campaign_rate(&o->campaign, &rate, why, sizeof why);
    if (status != HF_OK)
        return failed(status, why);
    const char *outcome = hf_dev_outcome_name((int)rate.outcome);
    if (o->json)
        return tool_json_print(json_pack(
            "{s:s, s:f, s:I, s:I, s:s, s:o, s:f, s:f}", "campaign", inject_options_text(o), "rate",
            o->rate, "struck", (json_int_t)rate.struck, "altered", (json_int_t)rate.altered,
            "outcome", outcome, "counts", counts_json(&rate.counts), "clean_s", rate.clean_s,
            "struck_s", rate.struck_s));
    printf("%s faults struck, %s altered a value: %s\n", tool_count_text(rate.struck),
           tool_count_text(rate.altered), outcome);
    printf("suspected %s, confirmed %s, repaired %s, iterations rolled back %s\n",
           tool_count_text(rate.counts.suspected), tool_count_text(rate.counts.confirmed),
           tool_count_text(rate.counts.repaired), tool_count_text(rate.counts.rolled_back));
    printf("%s without faults, %s with them: %+.1f %%\n", tool_seconds_text(rate.clean_s),
           tool_seconds_text(rate.struck_s), 100 * (rate.struck_s / rate.clean_s - 1));
    return EXIT_DONE;
}

static void add_counts(hf_guard_counts *to, const hf_guard_counts *from) {
    to->checked += from->checked;
    to->suspected += from->suspected;
    to->confirmed += from->confirmed;
    to->repaired += from->repaired;
    to->rolled_back += from->rolled_back;
    to->beyond += from->beyond;
}

/* Fits without faults: each with another seed, so that other rows begin. */
static int repeat_fits(struct job *job, hf_context *ctx, hf_guard_counts *counts, int64_t *fits) {
    struct inject_options *o = &job->options;
    for (*fits = 0; *fits < o->repeat && !interrupt_seen(); ++*fits) {
        hf_kmeans_result r = {0};
        o->fit.seed = o->campaign.seed + (uint64_t)*fits;
        const hf_status status = hf_kmeans_fit(ctx, &job->x, &o->fit, &r);
        if (status != HF_OK)
            return tool_fail(ctx, status, STAGE_COMPUTE);
        add_counts(counts, &r.faults);
        hf_kmeans_result_clear(&r);
    }
    return EXIT_DONE;
}

static int run_repeat(struct job *job) {
    const struct inject_options *o = &job->options;
    const hf_context_opts opts = {.device = o->campaign.device ? o->campaign.device : "cpu",
                                  .threads = o->campaign.threads};
    hf_context *ctx = NULL;
    hf_guard_counts c = {0};
    int64_t fits = 0;
    double low;
    double bound;
    errno = 0;
    const hf_status status = hf_context_create(&ctx, &opts);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    interrupt_watch();
    const int code = repeat_fits(job, ctx, &c, &fits);
    hf_context_destroy(ctx);
    if (code != EXIT_DONE)
        return code;
    /* one side at 95 %: of 0 of n it is about 3 / n */
    hf_dev_interval(c.confirmed, c.checked, 0.9, &low, &bound);
    if (o->json)
        return tool_json_print(json_pack("{s:s, s:I, s:o, s:f}", "campaign", inject_options_text(o),
                                         "fits", (json_int_t)fits, "counts", counts_json(&c),
                                         "false_alarms_below", bound));
    printf("%s fits without faults: %s checked, %s suspected", tool_count_text(fits),
           tool_count_text(c.checked), tool_count_text(c.suspected));
    printf(", %s confirmed\n", tool_count_text(c.confirmed));
    printf("false alarms: less than %.2g of what is checked, at 95 %% confidence\n", bound);
    return interrupt_seen() ? EXIT_INTERRUPTED : EXIT_DONE;
}

static int take_one(void *user, const hf_dev_injection *one) {
    struct job *job = user;
    const hf_guard_counts *c = &one->counts;
    const char *guarded = hf_dev_outcome_name((int)one->guarded);
    job->code = EXIT_DONE;
    if (job->options.json) {
        job->code = tool_json_print(
            json_pack("{s:s, s:s, s:s?, s:I, s:I, s:I, s:o}", "fault", one->line, "off",
                      hf_dev_outcome_name((int)one->off), "guarded", guarded, "visits",
                      (json_int_t)one->proof.visits, "struck", (json_int_t)one->proof.struck,
                      "altered", (json_int_t)one->proof.altered, "counts", counts_json(c)));
        return 1;
    }
    printf("%s\n  visits %s, struck %s, altered %s\n  without protection: %s\n", one->line,
           tool_count_text(one->proof.visits), tool_count_text(one->proof.struck),
           tool_count_text(one->proof.altered), hf_dev_outcome_name((int)one->off));
    if (guarded)
        printf("  with it: %s (suspected %s, confirmed %s, repaired %s)\n", guarded,
               tool_count_text(c->suspected), tool_count_text(c->confirmed),
               tool_count_text(c->repaired));
    return 1;
}

static int run_line(struct job *job) {
    struct inject_options *o = &job->options;
    char why[400] = "";
    o->campaign.line = o->line;
    o->campaign.each = take_one;
    o->campaign.faults = 1;
    job->code = EXIT_FAILED;
    const hf_status status = hf_dev_campaign_run(&o->campaign, NULL, why, sizeof why);
    if (status == HF_E_ARG) {
        tool_error("--fault: %s", why);
        return EXIT_USAGE;
    }
    return status == HF_OK ? job->code : failed(status, why);
}

int inject_kmeans(int argc, char **argv) {
    static struct job job;
    inject_options_parse(&job.options, argc, argv);
    struct inject_options *o = &job.options;
    if (o->list)
        return list_all();
    int code = load(&job);
    if (code != EXIT_DONE)
        return code;
    if (o->fit.k > job.x.rows) {
        tool_error("inject kmeans: -k %s: there are %s rows", tool_count_text(o->fit.k),
                   tool_count_text(job.x.rows));
        return o->data ? EXIT_INPUT : EXIT_USAGE;
    }
    job.started = job.drawn = tool_now();
    job.terminal = isatty(STDERR_FILENO);
    o->campaign.x = &job.x;
    o->campaign.fit = &o->fit;
    o->campaign.known = known;
    o->campaign.each = take;
    o->campaign.stop = stop;
    o->campaign.begun = begun;
    o->campaign.user = &job;
    code = o->line         ? run_line(&job)
           : o->rate > 0   ? run_rate(&job)
           : o->repeat > 0 ? run_repeat(&job)
                           : run_campaign(&job);
    inject_table_close(&job.table);
    if (o->data)
        free(job.x.data);
    else
        hf_dev_rows_free(&job.x);
    return code;
}
