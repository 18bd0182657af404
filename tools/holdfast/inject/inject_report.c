/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_report.h"
#include "inject/text_files.h"
#include <stdlib.h>
#include <string.h>

#define CONFIDENCE 0.95

static void add(struct inject_tally *t, const struct inject_row *row) {
    const bool guarded = row->guarded < HF_DEV_OUTCOMES;
    const int final = guarded ? row->guarded : row->off;
    t->faults++;
    t->off[row->off]++;
    if (guarded)
        t->guarded[row->guarded]++;
    t->activated += row->altered > 0;
    t->told += row->altered > 0 &&
               (final == HF_DEV_CORRECTED || final == HF_DEV_DETECTED || final == HF_DEV_MISPLACED);
    if (!hf_dev_outcome_matters(row->off))
        return;
    t->matter++;
    t->matter_silent += final == HF_DEV_SILENT;
    t->matter_died += final == HF_DEV_ERROR || final == HF_DEV_HANG || final == HF_DEV_CRASH;
}

/* The group of that name, a new one if there is none; the last one when there are too many. */
static int group_of(struct inject_group *group, int *count, const char *name) {
    int i = 0;
    while (i < *count && strcmp(group[i].name, name) != 0)
        i++;
    if (i == *count && *count < INJECT_GROUPS)
        snprintf(group[(*count)++].name, sizeof group->name, "%s", name);
    return i < INJECT_GROUPS ? i : INJECT_GROUPS - 1;
}

/* A permanent fault that was told: is the verdict right, and the place? Faults are in worker 0. */
static void take_verdict(struct inject_report *r, const struct inject_row *row) {
    const char *lane = strstr(row->line, " lane=");
    r->permanent++;
    if (row->kind != HF_FAULT_PERMANENT || row->unit != 0)
        return;
    r->permanent_right++;
    r->laned += row->lane >= 0;
    r->lane_right += lane && row->lane == atoi(lane + strlen(" lane="));
}

static void take(void *user, const struct inject_row *row) {
    struct inject_report *r = user;
    char name[64];
    snprintf(name, sizeof name, "%s.%s", row->op, row->place);
    const int place = group_of(r->place, &r->places, name);
    const int model = group_of(r->model, &r->models, row->model);
    add(&r->all, row);
    add(&r->place[place].all, row);
    add(&r->model[model].all, row);
    if (row->bit >= 0 && row->bit < INJECT_BITS)
        add(&r->bit[place][row->bit], row);
    r->guarded = r->guarded || row->guarded < HF_DEV_OUTCOMES;
    if (strcmp(row->model, "permanent") == 0 && row->confirmed > 0)
        take_verdict(r, row);
}

int inject_report_read(struct inject_report *r, const struct inject_options *o) {
    memset(r, 0, sizeof *r);
    r->options = o;
    return inject_table_read(o, take, r);
}

static json_t *share_json(int64_t hits, int64_t n) {
    double low;
    double high;
    hf_dev_interval(hits, n, CONFIDENCE, &low, &high);
    return json_pack("{s:I, s:I, s:o, s:f, s:f}", "hits", (json_int_t)hits, "of", (json_int_t)n,
                     "share", n > 0 ? tool_json_real((double)hits / (double)n) : json_null(), "low",
                     low, "high", high);
}

static json_t *outcomes_json(const int64_t count[HF_DEV_OUTCOMES]) {
    json_t *all = json_object();
    for (int i = 0; i < HF_DEV_OUTCOMES; i++)
        json_object_set_new(all, hf_dev_outcome_name(i), json_integer(count[i]));
    return all;
}

static json_t *tally_json(const struct inject_tally *t, bool guarded) {
    json_t *all = json_pack("{s:I, s:I, s:I, s:o}", "faults", (json_int_t)t->faults, "activated",
                            (json_int_t)t->activated, "consequential", (json_int_t)t->matter, "off",
                            outcomes_json(t->off));
    if (!guarded)
        return all;
    json_object_set_new(all, "guarded", outcomes_json(t->guarded));
    json_object_set_new(all, "raw_coverage", share_json(t->told, t->activated));
    json_object_set_new(all, "consequential_coverage",
                        share_json(t->matter - t->matter_silent, t->matter));
    json_object_set_new(all, "consequential_died", share_json(t->matter_died, t->matter));
    return all;
}

static json_t *groups_json(const struct inject_group *group, int count, bool guarded) {
    json_t *all = json_object();
    for (int i = 0; i < count; i++)
        json_object_set_new(all, group[i].name, tally_json(&group[i].all, guarded));
    return all;
}

json_t *inject_report_json(const struct inject_report *r) {
    return json_pack(
        "{s:s, s:s, s:I, s:f, s:o, s:o, s:o, s:{s:I, s:I, s:I, s:I}}", "version", hf_version(),
        "campaign", inject_options_text(r->options), "asked",
        (json_int_t)r->options->campaign.faults, "confidence", CONFIDENCE, "all",
        tally_json(&r->all, r->guarded), "places", groups_json(r->place, r->places, r->guarded),
        "models", groups_json(r->model, r->models, r->guarded), "permanent_told", "faults",
        (json_int_t)r->permanent, "verdict_and_place_right", (json_int_t)r->permanent_right,
        "lane_named", (json_int_t)r->laned, "lane_right", (json_int_t)r->lane_right);
}

/* ---- text: tables of Markdown */

static void print_share(FILE *out, int64_t hits, int64_t n) {
    double low;
    double high;
    hf_dev_interval(hits, n, CONFIDENCE, &low, &high);
    if (n == 0)
        fprintf(out, " - |");
    else
        fprintf(out, " %.3f %% (%.3f to %.3f) |", 100 * (double)hits / (double)n, 100 * low,
                100 * high);
}

static void print_group(FILE *out, const char *name, const struct inject_tally *t, bool guarded) {
    const int64_t *count = guarded ? t->guarded : t->off;
    fprintf(out, "| %s | %lld | %lld | %lld |", name, (long long)t->faults, (long long)t->activated,
            (long long)t->matter);
    for (int i = HF_DEV_MASKED; i < HF_DEV_OUTCOMES; i++)
        fprintf(out, " %lld |", (long long)count[i]);
    if (guarded) {
        print_share(out, t->told, t->activated);
        print_share(out, t->matter - t->matter_silent, t->matter);
    }
    fprintf(out, "\n");
}

static void print_groups(FILE *out, const char *what, const struct inject_group *group, int count,
                         const struct inject_tally *all, bool guarded) {
    fprintf(out, "\n| %s | faults | activated | consequential |", what);
    for (int i = HF_DEV_MASKED; i < HF_DEV_OUTCOMES; i++)
        fprintf(out, " %s |", hf_dev_outcome_name(i));
    fprintf(out, guarded ? " raw coverage | consequential coverage |\n" : "\n");
    fprintf(out, "|---|---|---|---|");
    for (int i = HF_DEV_MASKED; i < HF_DEV_OUTCOMES + (guarded ? 2 : 0); i++)
        fprintf(out, "---|");
    fprintf(out, "\n");
    for (int i = 0; i < count; i++)
        print_group(out, group[i].name, &group[i].all, guarded);
    print_group(out, "all", all, guarded);
}

void inject_report_print(const struct inject_report *r, FILE *out) {
    const struct inject_tally *t = &r->all;
    fprintf(out, "# Planted faults: %s\n\n", inject_options_text(r->options));
    fprintf(out, "%s of %s faults were planted, %s altered a value. Without protection ",
            tool_count_text(t->faults), tool_count_text(r->options->campaign.faults),
            tool_count_text(t->activated));
    fprintf(out, "%s had consequences (silent %s", tool_count_text(t->matter),
            tool_count_text(t->off[HF_DEV_SILENT]));
    fprintf(out, ", detected %s, error %s, hang %s", tool_count_text(t->off[HF_DEV_DETECTED]),
            tool_count_text(t->off[HF_DEV_ERROR]), tool_count_text(t->off[HF_DEV_HANG]));
    fprintf(out, ", crash %s).\n", tool_count_text(t->off[HF_DEV_CRASH]));
    if (r->guarded) {
        fprintf(out, "With it %s stayed silent", tool_count_text(t->guarded[HF_DEV_SILENT]));
        fprintf(out,
                ", %s of them among those with consequences:", tool_count_text(t->matter_silent));
        print_share(out, t->matter - t->matter_silent, t->matter);
        fprintf(out, " covered at %.0f %% confidence. Permanent faults reported: %s",
                100 * CONFIDENCE, tool_count_text(r->permanent));
        fprintf(out, ", with the right verdict and worker %s", tool_count_text(r->permanent_right));
        fprintf(out, "; a lane was named for %s", tool_count_text(r->laned));
        fprintf(out, ", the right one for %s.\n", tool_count_text(r->lane_right));
    }
    fprintf(out, "\nOutcomes %s protection:\n", r->guarded ? "with" : "without");
    print_groups(out, "place", r->place, r->places, t, r->guarded);
    print_groups(out, "model", r->model, r->models, t, r->guarded);
}

/* ---- files */

static void print_bits(const struct inject_report *r, FILE *out) {
    fprintf(out, "place\tbit\tfaults\tactivated\ttold\tconsequential\tsilent\tdied\toff_silent\n");
    for (int i = 0; i < r->places; i++)
        for (int bit = 0; bit < INJECT_BITS; bit++) {
            const struct inject_tally *t = &r->bit[i][bit];
            if (t->faults > 0)
                fprintf(out, "%s\t%d\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\t%lld\n", r->place[i].name,
                        bit, (long long)t->faults, (long long)t->activated, (long long)t->told,
                        (long long)t->matter, (long long)t->matter_silent,
                        (long long)t->matter_died, (long long)t->off[HF_DEV_SILENT]);
        }
}

int inject_report_write(const struct inject_report *r) {
    struct text_files texts;
    text_files_open(&texts, r->options->out_dir);
    FILE *out = text_files_begin(&texts);
    if (out)
        print_bits(r, out);
    text_files_end(&texts, "coverage.tsv");
    out = text_files_begin(&texts);
    if (out)
        inject_report_print(r, out);
    text_files_end(&texts, "report.md");
    out = text_files_begin(&texts);
    json_t *root = inject_report_json(r);
    if (out && (json_dumpf(root, out, JSON_INDENT(2)) != 0 || fputc('\n', out) == EOF))
        texts.code = tool_fail(texts.ctx, HF_E_NOMEM, STAGE_WRITE);
    json_decref(root);
    text_files_end(&texts, "report.json");
    return text_files_close(&texts);
}
