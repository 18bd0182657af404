/* SPDX-License-Identifier: Apache-2.0
 * The files of a campaign against protected products. */
#include "inject/gemm_campaign.h"
#include "inject/text_files.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

typedef void writer(FILE *out, const struct gemm_campaign *c);

/* `each` gets every scheme that was run. */
static void for_each(FILE *out, const struct gemm_campaign *c,
                     void (*each)(FILE *, const struct gemm_campaign *,
                                  const struct scheme_result *, const char *form)) {
    for (int form = 0; form < FORMS; form++)
        for (int i = 0; i < c->schemes; i++)
            if (c->result[form][i].done)
                each(out, c, &c->result[form][i], form_names[form]);
}

static void coverage_rows(FILE *out, const struct gemm_campaign *c, const struct scheme_result *r,
                          const char *form) {
    (void)c;
    for (int s = 0; s < COVERAGE_SHAPES; s++) {
        const hf_dev_es_count *n = &r->count[s];
        const hf_dev_dims d = coverage_shapes[s].dims;
        const double theirs = paper_coverage(r->name, form, s);
        fprintf(out, "%s\t%s\t%s\t%lld\t%lld\t%lld\t%lld\t%lld\t%.4f", r->name, form,
                coverage_shapes[s].name, (long long)d.m, (long long)d.n, (long long)d.k,
                (long long)n->faults, (long long)n->detected, coverage_of(n));
        if (isnan(theirs))
            fputs("\t\t", out);
        else
            fprintf(out, "\t%.1f\t%.2f", theirs, coverage_of(n) - theirs);
        fprintf(out, "\t%lld\n", (long long)n->computed);
    }
}

static void write_coverage(FILE *out, const struct gemm_campaign *c) {
    fputs("scheme\tform\tshape\tm\tn\tk\tfaults\tdetected\tcoverage_percent\tpaper_percent\t"
          "difference\tcomputed_sample\n",
          out);
    for_each(out, c, coverage_rows);
}

static void fault_rows(FILE *out, const struct gemm_campaign *c, const struct scheme_result *r,
                       const char *form) {
    for (int f = 0; f < c->classes; f++) {
        const char *name = "", *text = "";
        const hf_dev_es_faults *n = &r->faults[f];
        (void)hf_dev_es_fault_at(f, &name, &text);
        fprintf(out, "%s\t%s\t%s\t%lld\t%lld\t%lld\t%lld\n", r->name, form, name,
                (long long)n->faults, (long long)n->changed, (long long)n->detected,
                (long long)n->latent);
    }
}

static void write_faults(FILE *out, const struct gemm_campaign *c) {
    fputs("scheme\tform\tclass\tfaults\tchanged_c\tdetected_of_these\tlatent_detected\n", out);
    for_each(out, c, fault_rows);
}

static void timing_rows(FILE *out, const struct gemm_campaign *c, const struct scheme_result *r,
                        const char *form) {
    (void)c;
    for (int s = 0; s < TIME_SHAPES; s++)
        if (r->timing[s].ratio > 0)
            fprintf(out, "%s\t%s\t%s\t%.3e\t%.3f\n", r->name, form, time_shapes[s].name,
                    r->timing[s].plain_s, r->timing[s].ratio);
}

static void write_timing(FILE *out, const struct gemm_campaign *c) {
    fputs("scheme\tform\tshape\tunprotected_s\tratio\n", out);
    for_each(out, c, timing_rows);
}

static void write_report(FILE *out, const struct gemm_campaign *c) {
    fprintf(out, "# Execution signatures on %s\n\nSeed %llu, %s, %.3g s in all.\n", c->device,
            (unsigned long long)c->seed,
            c->on_gpu ? "a product computed for each single bit"
                      : "some products computed for each scheme and shape to verify the count",
            c->seconds);
    for (int form = 0; form < FORMS; form++) {
        print_coverage(out, c, form);
        print_levels(out, c, form);
    }
    print_ours(out, c);
    print_guarded(out, c);
}

static json_t *json_counts_of(const struct scheme_result *r, const char *form) {
    json_t *list = json_array();
    for (int s = 0; s < COVERAGE_SHAPES; s++)
        json_array_append_new(
            list,
            json_pack("{s:s, s:I, s:I, s:o, s:o, s:I}", "shape", coverage_shapes[s].name, "faults",
                      (json_int_t)r->count[s].faults, "detected", (json_int_t)r->count[s].detected,
                      "coverage_percent", tool_json_real(coverage_of(&r->count[s])),
                      "paper_percent", tool_json_real(paper_coverage(r->name, form, s)),
                      "computed_sample", (json_int_t)r->count[s].computed));
    return list;
}

static json_t *json_faults_of(const struct gemm_campaign *c, const struct scheme_result *r) {
    json_t *list = json_array();
    for (int f = 0; c->trials > 0 && f < c->classes; f++) {
        const char *name = "", *text = "";
        (void)hf_dev_es_fault_at(f, &name, &text);
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "class", name, "text",
                                        text, "faults", (json_int_t)r->faults[f].faults,
                                        "changed_c", (json_int_t)r->faults[f].changed,
                                        "detected_of_these", (json_int_t)r->faults[f].detected,
                                        "latent_detected", (json_int_t)r->faults[f].latent));
    }
    return list;
}

static json_t *json_timing_of(const struct scheme_result *r) {
    json_t *list = json_array();
    for (int s = 0; s < TIME_SHAPES; s++)
        if (r->timing[s].ratio > 0)
            json_array_append_new(list, json_pack("{s:s, s:f, s:f}", "shape", time_shapes[s].name,
                                                  "unprotected_s", r->timing[s].plain_s, "ratio",
                                                  r->timing[s].ratio));
    return list;
}

static json_t *json_levels_of(const struct gemm_campaign *c) {
    json_t *list = json_array();
    for (int form = 0; c->budget_s > 0 && form < FORMS; form++)
        for (int cell = 0; cell < 12; cell++) {
            const int sil = 1 + cell / 3, hft = cell % 3;
            const int best = cheapest_scheme(c, form, sil, hft);
            if (best >= 0)
                json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:s}", "form",
                                                      form_names[form], "sil", sil, "hft", hft,
                                                      "scheme", c->result[form][best].name));
        }
    return list;
}

/* Faults while a product was computed; none on a CPU. */
static json_t *json_kinds_of(const hf_dev_signed_count *n) {
    json_t *kinds = json_object();
    for (int k = 0; k < HF_DEV_SIGNED_KINDS; k++)
        if (n->kind[k].faults > 0)
            json_object_set_new(kinds, hf_dev_signed_kind_name(k),
                                json_pack("{s:I, s:I, s:I}", "faults",
                                          (json_int_t)n->kind[k].faults, "changed",
                                          (json_int_t)n->kind[k].changed, "detected",
                                          (json_int_t)n->kind[k].detected));
    return kinds;
}

static json_t *json_ours_of(const struct gemm_campaign *c) {
    json_t *list = json_array();
    for (int i = 0; i < OURS; i++) {
        const struct ours_result *r = &c->ours[i];
        if (!r->done)
            continue;
        json_t *shapes = json_array(), *timing = json_array();
        for (int s = 0; s < COVERAGE_SHAPES; s++)
            json_array_append_new(
                shapes, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o}", "shape",
                                  coverage_shapes[s].name, "operand_faults",
                                  (json_int_t)r->count[s].operand_faults, "operand_detected",
                                  (json_int_t)r->count[s].operand_detected, "sum_faults",
                                  (json_int_t)r->count[s].sum_faults, "sum_detected",
                                  (json_int_t)r->count[s].sum_detected, "staged_faults",
                                  (json_int_t)r->count[s].staged_faults, "staged_detected",
                                  (json_int_t)r->count[s].staged_detected, "same_c",
                                  r->count[s].same, "kinds", json_kinds_of(&r->count[s])));
        for (int s = 0; s < TIME_SHAPES; s++)
            if (r->timing[s].ratio > 0)
                json_array_append_new(timing, json_pack("{s:s, s:f}", "shape", time_shapes[s].name,
                                                        "ratio", r->timing[s].ratio));
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o}", "scheme", r->name, "type",
                                              hf_dtype_name(c->type), "single_bits", shapes,
                                              "timing", timing));
    }
    return list;
}

/* False: there was no memory for it. */
static bool write_json(FILE *out, const struct gemm_campaign *c) {
    json_t *schemes = json_array();
    hf_dev_host host;
    hf_dev_host_info(&host);
    for (int form = 0; form < FORMS; form++)
        for (int i = 0; i < c->schemes; i++) {
            const struct scheme_result *r = &c->result[form][i];
            if (r->done)
                json_array_append_new(schemes,
                                      json_pack("{s:s, s:s, s:o, s:o, s:o}", "scheme", r->name,
                                                "form", form_names[form], "single_bits",
                                                json_counts_of(r, form_names[form]), "faults",
                                                json_faults_of(c, r), "timing", json_timing_of(r)));
        }
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:f, s:s, s:o, s:o, s:o, s:o}", "holdfast", hf_version(),
        "device", c->device, "cpu", host.cpu, "compiler", host.compiler, "seed",
        (json_int_t)c->seed, "seconds", c->seconds, "assumption",
        "the coverage of single bits of A and B at 80x80 is read as the safe failure fraction",
        "levels", json_levels_of(c), "gemm", json_ours_of(c), "rows_and_columns", json_guarded(c),
        "schemes", schemes);
    const bool written = json_dumpf(root, out, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) == 0 &&
                         fputc('\n', out) != EOF;
    json_decref(root);
    return written;
}

int make_campaign_folder(hf_context *ctx, const char *folder) {
    char path[4200];
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        tool_error("cannot make the folder %s: %s", tool_name_text(folder), strerror(errno));
        return EXIT_FAILED;
    }
    snprintf(path, sizeof path, "%s/report.json", folder);
    return tool_writable(ctx, path);
}

int write_campaign(const struct gemm_campaign *c, const char *folder) {
    static const struct {
        const char *name;
        writer *write;
    } files[] = {{"coverage.tsv", write_coverage},
                 {"faults.tsv", write_faults},
                 {"timing.tsv", write_timing},
                 {"report.md", write_report}};
    struct text_files texts;
    text_files_open(&texts, folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *out = text_files_begin(&texts);
        if (out)
            files[i].write(out, c);
        text_files_end(&texts, files[i].name);
    }
    FILE *out = text_files_begin(&texts);
    if (out && !write_json(out, c))
        texts.code = tool_fail(texts.ctx, HF_E_NOMEM, STAGE_WRITE);
    text_files_end(&texts, "report.json");
    return text_files_close(&texts);
}
