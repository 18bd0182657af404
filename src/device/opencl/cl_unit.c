/* SPDX-License-Identifier: Apache-2.0
 * Matrix units. OpenCL has no common way to them, so a unit counts only if its source compiles here
 * and gives the right products. */
#include "device/opencl/opencl.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 16, COLUMNS = 32, CENTROIDS = 8 };

/* HF_OPENCL_MATRIX: "0" without, "1" even where work-items take the unit's place, "dpas" where they
 * take the place of Intel's. */
static bool asked_for(const char *word) {
    const char *text = getenv("HF_OPENCL_MATRIX");
    return text != NULL && strcmp(text, word) == 0;
}

bool hf_cl_unit_kernels(const struct hf_cl_info *info) {
    return !asked_for("0") && (info->ptx || info->matrix || asked_for("1") || asked_for("dpas"));
}

/* Small whole numbers: every sum of products is exact. */
static int row_value(int row, int column) { return (row * 5 + column * 3) % 11 - 5; }

static int centroid_value(int centroid, int column) { return (centroid * 7 + column * 5) % 9 - 4; }

/* float16 of a whole number from -8 to 8. */
static uint16_t half_of(int v) {
    const unsigned size = (unsigned)(v < 0 ? -v : v);
    unsigned exponent = 0;
    while (size >> (exponent + 1) != 0)
        exponent++;
    const unsigned bits = (15 + exponent) << 10 | ((size << (10 - exponent)) & 0x3FF);
    return (uint16_t)(size == 0 ? 0 : bits | (v < 0 ? 0x8000U : 0));
}

static int product(int row, int centroid) {
    int sum = row - centroid; /* what the scores begin with */
    for (int j = 0; j < COLUMNS; j++)
        sum += row_value(row, j) * centroid_value(centroid, j);
    return sum;
}

static bool right(const float *score) {
    bool good = true;
    for (int i = 0; i < ROWS * CENTROIDS; i++)
        good = good && score[i] == (float)product(i / CENTROIDS, i % CENTROIDS);
    return good;
}

bool hf_cl_unit_works(struct hf_opencl *cl, const char *source) {
    float rows[ROWS * COLUMNS], score[ROWS * CENTROIDS];
    uint16_t centroids[CENTROIDS * COLUMNS];
    struct hf_cl_stage stage;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        rows[i] = (float)row_value(i / COLUMNS, i % COLUMNS);
    for (int i = 0; i < CENTROIDS * COLUMNS; i++)
        centroids[i] = half_of(centroid_value(i / COLUMNS, i % COLUMNS));
    for (int i = 0; i < ROWS * CENTROIDS; i++)
        score[i] = (float)(i / CENTROIDS - i % CENTROIDS);
    hf_cl_stage_begin(&stage, cl);
    const void *x = hf_cl_in(&stage, rows, sizeof rows);
    const void *c = hf_cl_in(&stage, centroids, sizeof centroids);
    void *to = hf_cl_inout(&stage, score, sizeof score);
    const struct hf_cl_job job = {.source = source,
                                  .options = "-DPARTS=1 -DBLOCKS=1 -DMT=1 -DSTRIP=1 -DCHUNK=4",
                                  .kernel = "unit_trial",
                                  .global = 32,
                                  .group = 32};
    const hf_status status =
        stage.status == HF_OK ? hf_opencl_run(cl, &job, "ppp", x, c, to) : stage.status;
    return hf_cl_stage_end(&stage, status) == HF_OK && right(score);
}

void hf_cl_unit_choose(struct hf_opencl *cl) {
    const struct hf_cl_info *info = cl->info;
    if (!hf_cl_unit_kernels(info))
        return;
    if (info->ptx && hf_cl_unit_works(cl, HF_CL_UNIT_PTX "+unit_trial")) {
        cl->matrix = HF_CL_UNIT_PTX "+matrix";
        cl->unit = true;
    } else if (info->matrix && hf_cl_unit_works(cl, HF_CL_UNIT_DPAS "+unit_trial")) {
        cl->matrix = HF_CL_UNIT_DPAS "+matrix";
    } else if (asked_for("dpas")) {
        cl->matrix = HF_CL_UNIT_DPAS_ALONE "+matrix";
    } else if (asked_for("1")) {
        cl->matrix = HF_CL_UNIT_NONE "+matrix";
    }
}
