/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/panel_rows.h"
#include "algo/kmeans/fit.h"
#include "base/mem.h"
#include "rows/reader.h"

#define PANEL_ROWS ((int64_t)1 << 18)  /* most rows of one call of an op on the CPU, */
#define PANEL_BYTES ((int64_t)8 << 20) /* and most of their values with HF_FAST */
#define PANEL_STEP 64                  /* rows: tiles are whole */
#define SCAN_ROWS ((int64_t)1 << 14)   /* the same where each row needs a float64 of scratch */

bool hf_memory_is_rigid(const hf_context *ctx, hf_precision precision) {
    return precision == HF_FAST && hf_ctx_is_host(ctx);
}

int64_t hf_panel_most(const hf_context *ctx, hf_precision precision, int64_t d, hf_dtype dtype) {
    const int64_t fit = PANEL_BYTES / (d * (int64_t)hf_dtype_bytes(dtype));
    const int64_t whole = fit < PANEL_STEP ? fit : fit / PANEL_STEP * PANEL_STEP;
    return hf_memory_is_rigid(ctx, precision) ? hf_min64(PANEL_ROWS, whole < 1 ? 1 : whole)
                                              : PANEL_ROWS;
}

/* Rows of one call on a device: all, if what kernels need for each of them fits beside; else as
 * many as fit, float16 rows with a 16-bit form of their own too. */
static int64_t resident_rows(const struct hf_fit_problem *problem, const struct hf_data *data) {
    const uint64_t limit = problem->ctx->memory_bytes;
    const uint64_t bytes = data->resident.owned ? (uint64_t)(problem->n_all * problem->d) *
                                                      hf_dtype_bytes(problem->dtype)
                                                : 0;
    const uint64_t left = limit > bytes ? limit - bytes : 0;
    const uint64_t row = hf_resident_row_bytes(problem->dtype, problem->d);
    const uint64_t own = problem->dtype == HF_F16 ? 2 * (uint64_t)problem->d : 0;
    const bool all = left / row >= (uint64_t)problem->n_all;
    const int64_t fits = (int64_t)(left / (row + (all ? 0 : own)));
    const int64_t most = hf_min64(problem->n_all, (int64_t)1 << 30);
    return fits < SCAN_ROWS ? hf_min64(most, SCAN_ROWS) : hf_min64(most, fits);
}

void hf_fit_panels(const struct hf_fit_problem *problem, struct hf_data *data) {
    const bool resident = problem->x == &data->resident.array;
    const struct hf_reader *reader = data->resident.reader;
    data->panel_rows =
        resident ? resident_rows(problem, data)
        : reader ? hf_reader_panel_rows(reader)
                 : hf_panel_most(problem->ctx, problem->opts.precision, problem->d, problem->dtype);
    data->scan_rows = resident || reader ? data->panel_rows : SCAN_ROWS;
}
