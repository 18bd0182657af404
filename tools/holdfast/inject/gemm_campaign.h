/* SPDX-License-Identifier: Apache-2.0
 * What a campaign against protected products found, and the files that say it. */
#ifndef GEMM_CAMPAIGN_H
#define GEMM_CAMPAIGN_H

#include "tool.h"

#include <holdfast/dev.h>
#include <holdfast/dev_campaign.h>

enum { OURS = 4, SCHEMES = 40, COVERAGE_SHAPES = 6, TIME_SHAPES = 4, CLASSES = 8, FORMS = 2 };

struct shape_name {
    const char *name;
    hf_dev_dims dims;
};
extern const struct shape_name coverage_shapes[COVERAGE_SHAPES]; /* Table 2 of the paper */
extern const struct shape_name time_shapes[TIME_SHAPES];
extern const char *const form_names[FORMS];

struct scheme_result {
    char name[32];
    hf_dev_es es;
    bool done;                              /* the form was asked for and can run */
    hf_dev_es_count count[COVERAGE_SHAPES]; /* single bits of A and B */
    hf_dev_es_faults faults[CLASSES];       /* at 20 x 20 */
    hf_dev_es_timing timing[TIME_SHAPES];   /* ratio 0: not measured */
};

/* A scheme of op gemm. */
struct ours_result {
    const char *name, *checksum;
    int release;
    bool done;
    hf_dev_signed_count count[COVERAGE_SHAPES];
    hf_dev_es_timing timing[TIME_SHAPES];
};

/* hf_gemm_guarded(). */
struct guarded_result {
    bool done;
    hf_dev_guarded_count count[COVERAGE_SHAPES];
    hf_dev_es_timing timing[TIME_SHAPES];
};

struct gemm_campaign {
    uint64_t seed;
    int64_t sample, trials;
    double budget_s, seconds;
    const char *device; /* that the paper's schemes ran on */
    bool on_gpu;
    int schemes, classes;
    struct scheme_result result[FORMS][SCHEMES];
    int64_t every; /* of op gemm: only each so-many-th bit, */
    hf_dtype type; /* of its matrices */
    struct ours_result ours[OURS];
    struct guarded_result guarded;
};

/* Per cent detected; NaN for none. */
double coverage_of(const hf_dev_es_count *count);

/* What the paper prints for a scheme, form ("seq", "avx", "gpu") and shape; NaN where nothing. */
double paper_coverage(const char *scheme, const char *form, int shape);

/* The cheapest scheme of a form at 80 x 80 for a safety integrity level and a hardware fault
 * tolerance: its number, -1 where the standard has none, -2 where none of them is enough, -3 where
 * nothing is asked for. */
int cheapest_scheme(const struct gemm_campaign *c, int form, int sil, int hft);

/* Before the work begins: could files be written there? An exit code. */
int make_campaign_folder(hf_context *ctx, const char *folder);

/* Write coverage.tsv, faults.tsv, timing.tsv, report.md and report.json into a folder, all or none;
 * an exit code. */
int write_campaign(const struct gemm_campaign *c, const char *folder);

/* The table of the report on a stream, in Markdown. */
void print_coverage(FILE *out, const struct gemm_campaign *c, int form);
void print_ours(FILE *out, const struct gemm_campaign *c);
void print_levels(FILE *out, const struct gemm_campaign *c, int form);

/* The checks of rows and columns: the campaign (an exit code), its table, and for report.json. */
int run_guarded(hf_context *ctx, struct gemm_campaign *c);
void print_guarded(FILE *out, const struct gemm_campaign *c);
json_t *json_guarded(const struct gemm_campaign *c);

#endif
