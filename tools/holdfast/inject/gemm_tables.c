/* SPDX-License-Identifier: Apache-2.0
 * The results of a campaign against protected products beside those of the paper. */
#include "inject/gemm_campaign.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

const struct shape_name coverage_shapes[COVERAGE_SHAPES] = {
    {"20", {20, 20, 20}},  {"40", {40, 40, 40}}, {"80", {80, 80, 80}},
    {"L1", {32, 29, 144}}, {"L2", {8, 900, 8}},  {"L3", {15, 225, 48}}};
const struct shape_name time_shapes[TIME_SHAPES] = {{"80", {80, 80, 80}},
                                                    {"160", {160, 160, 160}},
                                                    {"320", {320, 320, 320}},
                                                    {"L91", {18, 230400, 64}}};
const char *const form_names[FORMS] = {"seq", "avx"};

static const struct {
    const char *scheme, *form;
    double coverage[COVERAGE_SHAPES];
} paper[] = {
#define PAPER(scheme, form, ...) {scheme, form, {__VA_ARGS__}},
#include "inject/paper_coverage.def"
#undef PAPER
};

double coverage_of(const hf_dev_es_count *count) {
    return count->faults > 0 ? 100.0 * (double)count->detected / (double)count->faults : NAN;
}

double paper_coverage(const char *scheme, const char *form, int shape) {
    for (size_t i = 0; i < sizeof paper / sizeof *paper; i++)
        if (strcmp(paper[i].scheme, scheme) == 0 && strcmp(paper[i].form, form) == 0)
            return paper[i].coverage[shape];
    return NAN;
}

/* IEC 61508-2, elements of type B: what SIL - HFT asks of the safe failure fraction. Beside it the
 * least that is taken where nothing is asked for: the paper takes no less than 50 % either. */
static const double least_coverage[] = {50, 60, 90, 99};

int cheapest_scheme(const struct gemm_campaign *c, int form, int sil, int hft) {
    const int row = sil - hft;
    int best = -2;
    if (row < 0)
        return -3;
    if (row > 3)
        return -1;
    for (int i = 0; i < c->schemes; i++) {
        const struct scheme_result *r = &c->result[form][i];
        if (!r->done || r->timing[0].ratio <= 0 || coverage_of(&r->count[2]) < least_coverage[row])
            continue;
        if (best < 0 || r->timing[0].ratio < c->result[form][best].timing[0].ratio)
            best = i;
    }
    return best;
}

static bool any_done(const struct gemm_campaign *c, int form) {
    for (int i = 0; i < c->schemes; i++)
        if (c->result[form][i].done)
            return true;
    return false;
}

/* The paper has a form of its own for GPUs, too. */
static void print_cell(FILE *out, const struct gemm_campaign *c, const struct scheme_result *r,
                       const char *form, int shape) {
    const double theirs = paper_coverage(r->name, form, shape);
    const double on_gpu = paper_coverage(r->name, "gpu", shape);
    fprintf(out, " %.1f", coverage_of(&r->count[shape]));
    if (!isnan(theirs) && c->on_gpu && !isnan(on_gpu))
        fprintf(out, " (%.1f; %.1f) |", theirs, on_gpu);
    else if (!isnan(theirs))
        fprintf(out, " (%.1f) |", theirs);
    else
        fputs(" |", out);
}

void print_coverage(FILE *out, const struct gemm_campaign *c, int form) {
    if (!any_done(c, form))
        return;
    fprintf(out,
            "\nSingle bits of A and B detected, per cent (in brackets: the paper's%s), form %s\n\n"
            "| scheme | 20x20 | 40x40 | 80x80 | L1 | L2 | L3 | time at 80x80 |\n"
            "|---|---|---|---|---|---|---|---|\n",
            c->on_gpu ? ", then that of its own form for GPUs" : "", form_names[form]);
    for (int i = 0; i < c->schemes; i++) {
        const struct scheme_result *r = &c->result[form][i];
        if (!r->done)
            continue;
        fprintf(out, "| %s |", r->name);
        for (int s = 0; s < COVERAGE_SHAPES; s++)
            print_cell(out, c, r, form_names[form], s);
        if (r->timing[0].ratio > 0)
            fprintf(out, " %.2fx |\n", r->timing[0].ratio);
        else
            fputs(" not measured |\n", out);
    }
}

static void print_choice(FILE *out, const struct gemm_campaign *c, int form, int best) {
    static const char *const why[] = {"not specified", "none is enough", "not achievable"};
    if (best < 0) {
        fprintf(out, " %s |", why[best + 3]);
        return;
    }
    const struct scheme_result *r = &c->result[form][best];
    fprintf(out, " %s %.2fx, %.1f %% |", r->name, r->timing[0].ratio, coverage_of(&r->count[2]));
}

void print_levels(FILE *out, const struct gemm_campaign *c, int form) {
    if (!any_done(c, form) || c->budget_s <= 0)
        return;
    fprintf(
        out,
        "\nCheapest scheme at 80x80 for each safety integrity level (SIL) and hardware fault\n"
        "tolerance (HFT), form %s: IEC 61508-2, elements of type B, with the diagnostic coverage\n"
        "of single bits of A and B read as the safe failure fraction, which it is not more than.\n"
        "Where the standard asks for none, at least 50 %% is taken.\n\n"
        "| SIL | HFT 0 | HFT 1 | HFT 2 |\n|---|---|---|---|\n",
        form_names[form]);
    for (int sil = 4; sil >= 1; sil--) {
        fprintf(out, "| %d |", sil);
        for (int hft = 0; hft < 3; hft++)
            print_choice(out, c, form, cheapest_scheme(c, form, sil, hft));
        fputc('\n', out);
    }
}

/* Detected of all, per cent; "all" where none was missed. */
static void print_found(FILE *out, int64_t detected, int64_t faults) {
    if (faults == 0)
        fputs(" - |", out);
    else if (detected == faults)
        fprintf(out, " all of %s |", tool_count_text(faults));
    else
        fprintf(out, " %.4f %% |", 100.0 * (double)detected / (double)faults);
}

/* Faults while a product was computed that changed C, over all shapes. */
static void print_kinds(FILE *out, const struct gemm_campaign *c) {
    const struct ours_result *some = NULL;
    for (int i = 0; i < OURS; i++)
        if (c->ours[i].done && c->ours[i].count[0].kind[0].faults > 0)
            some = &c->ours[i];
    if (some == NULL)
        return;
    fputs("\nFaults while the product is computed: those that changed C, and how many were seen\n\n"
          "| scheme |",
          out);
    for (int k = 0; k < HF_DEV_SIGNED_KINDS; k++)
        fprintf(out, " %s |", hf_dev_signed_kind_name(k));
    fputs("\n|---|---|---|---|---|\n", out);
    for (int i = 0; i < OURS; i++) {
        const struct ours_result *r = &c->ours[i];
        if (!r->done)
            continue;
        fprintf(out, "| %s |", r->name);
        for (int k = 0; k < HF_DEV_SIGNED_KINDS; k++) {
            int64_t changed = 0, detected = 0;
            for (int s = 0; s < COVERAGE_SHAPES; s++) {
                changed += r->count[s].kind[k].changed;
                detected += r->count[s].kind[k].detected;
            }
            print_found(out, detected, changed);
        }
        fputc('\n', out);
    }
}

void print_ours(FILE *out, const struct gemm_campaign *c) {
    bool any = false;
    for (int i = 0; i < OURS; i++) {
        const struct ours_result *r = &c->ours[i];
        hf_dev_signed_count sum = {.same = 1};
        if (!r->done)
            continue;
        if (!any)
            fprintf(out,
                    "\nSchemes of op gemm over all six shapes, %s, each %s bit in a product of its "
                    "own\n\n"
                    "| scheme | bits of A and B | bits of sums | staged words of A | same C | 80 | "
                    "160 | 320 | L91 |\n|---|---|---|---|---|---|---|---|---|\n",
                    hf_dtype_name(c->type), c->every == 1 ? "single" : "chosen");
        any = true;
        for (int s = 0; s < COVERAGE_SHAPES; s++) {
            sum.operand_faults += r->count[s].operand_faults;
            sum.operand_detected += r->count[s].operand_detected;
            sum.sum_faults += r->count[s].sum_faults;
            sum.sum_detected += r->count[s].sum_detected;
            sum.staged_faults += r->count[s].staged_faults;
            sum.staged_detected += r->count[s].staged_detected;
            sum.same = sum.same && r->count[s].same;
        }
        fprintf(out, "| %s |", r->name);
        print_found(out, sum.operand_detected, sum.operand_faults);
        print_found(out, sum.sum_detected, sum.sum_faults);
        print_found(out, sum.staged_detected, sum.staged_faults);
        fprintf(out, " %s |", sum.same ? "yes" : "NO");
        for (int s = 0; s < TIME_SHAPES; s++)
            fprintf(out, r->timing[s].ratio > 0 ? " %.2fx |" : " - |", r->timing[s].ratio);
        fputc('\n', out);
    }
    print_kinds(out, c);
}
