/* SPDX-License-Identifier: Apache-2.0
 * The part of a campaign that is about checks of rows and columns. */
#include "inject/gemm_campaign.h"
#include "interrupt.h"

#include <errno.h>

/* Sums of each shape, all bits of them: with --every only some. */
static int64_t places_of(const struct gemm_campaign *c) { return c->every == 1 ? 64 : 4; }

int run_guarded(hf_context *ctx, struct gemm_campaign *c) {
    struct guarded_result *r = &c->guarded;
    hf_status status = HF_OK;
    errno = 0;
    for (int s = 0; status == HF_OK && s < COVERAGE_SHAPES && !interrupt_seen(); s++)
        status =
            hf_dev_guarded_count_bits(ctx, coverage_shapes[s].dims, places_of(c), &r->count[s]);
    for (int s = 0; status == HF_OK && c->budget_s > 0 && s < TIME_SHAPES && !interrupt_seen(); s++)
        status = hf_dev_guarded_time(ctx, time_shapes[s].dims, c->budget_s, &r->timing[s]);
    r->done = status == HF_OK && !interrupt_seen();
    return status == HF_OK ? EXIT_DONE : tool_fail(ctx, status, STAGE_COMPUTE);
}

void print_guarded(FILE *out, const struct gemm_campaign *c) {
    const struct guarded_result *r = &c->guarded;
    if (!r->done)
        return;
    fprintf(
        out,
        "\nChecks of rows and columns (--guard correct): all bits of %lld sums of each shape, each "
        "in a product of its own\n\n"
        "| shape | faults | repaired | left | of them beyond the bound of their line | largest "
        "left, "
        "in such bounds | no result | false alarms |\n|---|---|---|---|---|---|---|---|\n",
        (long long)places_of(c));
    for (int s = 0; s < COVERAGE_SHAPES; s++) {
        const hf_dev_guarded_count *n = &r->count[s];
        fprintf(out, "| %s | %lld | %lld | %lld | %lld | %.3g | %lld | %lld |\n",
                coverage_shapes[s].name, (long long)n->faults, (long long)n->repaired,
                (long long)n->left, (long long)n->consequential, n->worst_left,
                (long long)n->failed, (long long)n->false_alarms);
    }
    fputs("\ntime:", out);
    for (int s = 0; s < TIME_SHAPES; s++)
        if (r->timing[s].ratio > 0)
            fprintf(out, " %s %.2fx", time_shapes[s].name, r->timing[s].ratio);
    fputc('\n', out);
}

json_t *json_guarded(const struct gemm_campaign *c) {
    const struct guarded_result *r = &c->guarded;
    json_t *list = r->done ? json_array() : json_null();
    for (int s = 0; r->done && s < COVERAGE_SHAPES; s++) {
        const hf_dev_guarded_count *n = &r->count[s];
        json_array_append_new(
            list,
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:o, s:I, s:I}", "shape", coverage_shapes[s].name,
                      "faults", (json_int_t)n->faults, "repaired", (json_int_t)n->repaired, "left",
                      (json_int_t)n->left, "consequential", (json_int_t)n->consequential,
                      "worst_left", tool_json_real(n->worst_left), "no_result",
                      (json_int_t)n->failed, "false_alarms", (json_int_t)n->false_alarms));
    }
    return list;
}
