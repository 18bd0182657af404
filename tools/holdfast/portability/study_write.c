/* SPDX-License-Identifier: Apache-2.0
 * Results as tables: TSV, JSON and Markdown. */
#include "portability/portability.h"
#include "plain_file.h"
#include <string.h>
#include <time.h>

/* What the study printed: Core i7-10700, RTX 3090, Arc A770. */
static const struct {
    const char *what, *figure, *value;
} printed[] = {
    {"SYCL-CPU on the CPU", "architectural efficiency, at most", "37 %"},
    {"SYCL-port on the CPU", "slower than SYCL-CPU by", "46 %"},
    {"SYCL-nGPU and SYCL-iGPU on the CPU", "slower than SYCL-CPU by", "57 %, 66 %"},
    {"SYCL (nvc++) on the RTX 3090", "architectural; application efficiency", "0.02 %; 19 %"},
    {"He-Vialle (nvcc) on the RTX 3090", "architectural; application efficiency", "0.05 %; 82 %"},
    {"SYCL-nGPU on the RTX 3090", "faster than SYCL-CPU and SYCL-iGPU by", "72 %"},
    {"SYCL-nGPU and SYCL-port on the Arc", "slower than SYCL-iGPU by", "26 %, 16 %"},
    {"assign on the CPU, He-Vialle; SYCL", "share of the time", "92 %; 88 %"},
    {"update on the CPU, SYCL-nGPU; SYCL-iGPU", "share of the time", "36 %; 60 %"},
    {"best sizes on the CPU", "packages; group; width", "16; 8; 8"},
    {"best sizes on the RTX 3090", "points a package in update; group", "128; 128"},
};

enum { PRINTED = sizeof printed / sizeof *printed };

const char *const study_heads[STUDY_HEADS] = {
    "set",           "n",       "d",      "k",        "code",     "platform",      "kernel",
    "iteration_s",   "least_s", "most_s", "assign_s", "update_s", "architectural", "application",
    "labels_differ", "labels",  "steps"};

/* Values of a row with `between` between them. */
static void print_row(const struct study *s, FILE *out, const struct study_row *r,
                      const char *between) {
    const struct backend *b = &s->backend[r->backend];
    fprintf(out, "%s%s%lld%s%lld%s%lld%s%s%s%s%s%s", study_sets[r->set], between, (long long)r->n,
            between, (long long)r->d, between, (long long)r->k, between, study_codes[b->code],
            between, study_platforms[b->platform], between, r->kernel);
    fprintf(out, "%s%.5g%s%.5g%s%.5g%s%.5g%s%.5g%s", between, r->iteration_s, between, r->least_s,
            between, r->most_s, between, r->assign_s, between, r->update_s, between);
    if (r->architectural >= 0)
        fprintf(out, "%.4f", r->architectural);
    else
        fputc('-', out);
    fprintf(out, "%s%.4f%s", between, r->application, between);
    if (r->differ >= 0)
        fprintf(out, "%lld", (long long)r->differ);
    else
        fputc('-', out);
    fprintf(out, "%s%016llx%s%d", between, (unsigned long long)r->labels, between, r->steps);
}

int study_write_table(const struct study *s) {
    FILE *out = plain_file_open(s->options.output, ".tsv");
    if (!out)
        return EXIT_FAILED;
    for (int i = 0; i < STUDY_HEADS; i++)
        fprintf(out, "%s%s", i > 0 ? "\t" : "", study_heads[i]);
    fputc('\n', out);
    for (int i = 0; i < s->rows; i++) {
        print_row(s, out, &s->row[i], "\t");
        fputc('\n', out);
    }
    return plain_file_close(out, s->options.output, ".tsv");
}

/* ---- Markdown */

static void print_phi(const struct study *s, FILE *out, bool architectural) {
    const unsigned all = study_platform_mask(s);
    fprintf(out, "\n## Phi, %s efficiency\n\n| code | set |",
            architectural ? "architectural" : "application");
    for (unsigned mask = 1; mask <= all; mask++)
        if ((mask & ~all) == 0)
            fprintf(out, " {%s} |", mask == 3 ? "CPU, GPU" : study_platforms[mask - 1]);
    fprintf(out, "\n|---|---|");
    for (unsigned mask = 1; mask <= all; mask++)
        if ((mask & ~all) == 0)
            fprintf(out, "---|");
    fputc('\n', out);
    for (int code = CODE_CUDA; code < CODES; code++)
        for (int set = STUDY_SETS - 1; set >= -1; set--) {
            if (set >= 0 && !s->options.set[set])
                continue;
            fprintf(out, "| %s | %s |", code == CODE_CUDA ? "c+cuda" : study_codes[code],
                    set < 0 ? "all" : study_sets[set]);
            for (unsigned mask = 1; mask <= all; mask++)
                if ((mask & ~all) == 0)
                    fprintf(out, " %.3f |",
                            study_phi(s, (enum code)code, mask, set, architectural));
            fputc('\n', out);
        }
}

static void print_sweeps(const struct study *s, FILE *out) {
    const char *last = "";
    int backend = -1;
    for (int i = 0; i < s->points; i++) {
        const struct study_point *p = &s->point[i];
        if (strcmp(last, p->sweep) != 0 || backend != p->backend)
            fprintf(out, "\n## Sweep: %s, %s\n\n| value | assign, s | update, s |\n|---|---|---|\n",
                    p->sweep, study_platforms[s->backend[p->backend].platform]);
        last = p->sweep;
        backend = p->backend;
        fprintf(out, "| %s | %.5g | ", p->what, p->assign_s);
        if (p->update_s >= 0)
            fprintf(out, "%.5g |\n", p->update_s);
        else
            fprintf(out, "- |\n");
    }
}

static void today(char text[16]) {
    const time_t now = time(NULL);
    struct tm parts;
    if (!gmtime_r(&now, &parts) || strftime(text, 16, "%Y-%m-%d", &parts) == 0)
        snprintf(text, 16, "?");
}

static int write_markdown(const struct study *s) {
    FILE *out = plain_file_open(s->options.output, ".md");
    const char *with = s->options.with;
    char date[16];
    if (!out)
        return EXIT_FAILED;
    today(date);
    fprintf(out,
            "# What portability costs\n\n%s. %s. holdfast %s; `%s`. Peaks of float32: CPU %.0f "
            "GFLOP/s, GPU %.0f.%s%s%s\n\n|",
            date, s->machine, hf_version(), s->command, s->peak[PLATFORM_CPU] * 1e-9,
            s->peak[PLATFORM_GPU] * 1e-9, with ? " Of another machine: `" : "", with ? with : "",
            with ? "`." : "");
    for (int i = 0; i < STUDY_HEADS; i++)
        fprintf(out, " %s |", study_heads[i]);
    fprintf(out, "\n|");
    for (int i = 0; i < STUDY_HEADS; i++)
        fprintf(out, "---|");
    for (int i = 0; i < s->rows; i++) {
        fprintf(out, "\n| ");
        print_row(s, out, &s->row[i], " | ");
        fprintf(out, " |");
    }
    fputc('\n', out);
    print_phi(s, out, false);
    print_phi(s, out, true);
    print_sweeps(s, out);
    fprintf(out, "\n## The study's own figures, on other machines\n\n| what | figure | value |\n"
                 "|---|---|---|\n");
    for (int i = 0; i < PRINTED; i++)
        fprintf(out, "| %s | %s | %s |\n", printed[i].what, printed[i].figure, printed[i].value);
    return plain_file_close(out, s->options.output, ".md");
}

/* ---- JSON */

static json_t *row_json(const struct study *s, const struct study_row *r) {
    const struct backend *b = &s->backend[r->backend];
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:o, s:f, s:o}", "set",
        study_sets[r->set], "n", (json_int_t)r->n, "d", (json_int_t)r->d, "k", (json_int_t)r->k,
        "code", study_codes[b->code], "platform", study_platforms[b->platform], "device", b->device,
        "kernel", r->kernel, "iteration_s", r->iteration_s, "least_s", r->least_s, "most_s",
        r->most_s, "assign_s", r->assign_s, "update_s", r->update_s, "architectural",
        r->architectural >= 0 ? json_real(r->architectural) : json_null(), "application",
        r->application, "labels_differ",
        r->differ >= 0 ? json_integer((json_int_t)r->differ) : json_null());
}

static json_t *phi_json(const struct study *s) {
    const unsigned all = study_platform_mask(s);
    json_t *list = json_array();
    for (int code = CODE_CUDA; code < CODES; code++)
        for (int set = -1; set < STUDY_SETS; set++)
            for (unsigned mask = 1; mask <= all; mask++) {
                if ((mask & ~all) != 0 || (set >= 0 && !s->options.set[set]))
                    continue;
                json_array_append_new(
                    list,
                    json_pack("{s:s, s:s, s:s, s:f, s:f}", "code",
                              code == CODE_CUDA ? "c+cuda" : study_codes[code], "set",
                              set < 0 ? "all" : study_sets[set], "platforms",
                              mask == 3 ? "CPU+GPU" : study_platforms[mask - 1], "application",
                              study_phi(s, (enum code)code, mask, set, false), "architectural",
                              study_phi(s, (enum code)code, mask, set, true)));
            }
    return list;
}

static int write_json(const struct study *s) {
    FILE *out = plain_file_open(s->options.output, ".json");
    char date[16];
    if (!out)
        return EXIT_FAILED;
    today(date);
    json_t *rows = json_array(), *points = json_array(), *paper = json_array();
    for (int i = 0; i < s->rows; i++)
        json_array_append_new(rows, row_json(s, &s->row[i]));
    for (int i = 0; i < s->points; i++) {
        const struct study_point *p = &s->point[i];
        json_array_append_new(points,
                              json_pack("{s:s, s:s, s:s, s:f, s:f, s:o}", "sweep", p->sweep,
                                        "device", s->backend[p->backend].device, "what", p->what,
                                        "value", p->value, "assign_s", p->assign_s, "update_s",
                                        p->update_s >= 0 ? json_real(p->update_s) : json_null()));
    }
    for (int i = 0; i < PRINTED; i++)
        json_array_append_new(
            paper, json_pack("[s, s, s]", printed[i].what, printed[i].figure, printed[i].value));
    json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:f, s:i, s:f, s:f, s:o, s:o, s:o, s:o}", "date",
                             date, "version", hf_version(), "machine", s->machine, "command",
                             s->command, "scale", s->options.scale, "threads", s->options.threads,
                             "peak_cpu", s->peak[PLATFORM_CPU], "peak_gpu", s->peak[PLATFORM_GPU],
                             "rows", rows, "phi", phi_json(s), "sweeps", points, "paper", paper);
    if (!root || json_dumpf(root, out, JSON_INDENT(1)) != 0)
        tool_error("no memory for the report");
    json_decref(root);
    return plain_file_close(out, s->options.output, ".json");
}

int study_write(const struct study *s) {
    int code = study_write_table(s);
    if (code == EXIT_DONE)
        code = write_markdown(s);
    return code == EXIT_DONE ? write_json(s) : code;
}
