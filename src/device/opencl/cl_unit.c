/* SPDX-License-Identifier: Apache-2.0
 * Matrix units. OpenCL has no common way to them, so a unit counts only if its source compiles here
 * and gives the right products. */
#include "device/opencl/opencl.h"

#include <stdlib.h>
#include <string.h>

/* A warp, and a team of four. */
enum { ROWS = 16, COLUMNS = 32, CENTROIDS = 8, WARPS = 4, STRIP = 8 };
enum { MOST_ROWS = ROWS * WARPS, MOST_CENTROIDS = CENTROIDS * STRIP };

/* HF_OPENCL_MATRIX: "0" without, "1" even where work-items take the unit's place, "dpas" where they
 * take the place of Intel's; "mma": without teams. */
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

/* Where a unit wants column j of a centroid, of eight: UNIT_PLACE() */
static int place_of(bool team, int centroid, int j) {
    const int own =
        team ? j % 8 / 2 * 64 + centroid % 8 * 8 + j / 8 * 2 + j % 2 : centroid % 8 * COLUMNS + j;
    return centroid / 8 * 8 * COLUMNS + own;
}

bool hf_cl_unit_works(struct hf_opencl *cl, const char *source, bool team) {
    float rows[MOST_ROWS * COLUMNS], score[MOST_ROWS * MOST_CENTROIDS];
    uint16_t centroids[MOST_CENTROIDS * COLUMNS];
    const int n = team ? MOST_ROWS : ROWS, k = team ? MOST_CENTROIDS : CENTROIDS;
    struct hf_cl_stage stage;
    for (int i = 0; i < n * COLUMNS; i++)
        rows[i] = (float)row_value(i / COLUMNS, i % COLUMNS);
    for (int i = 0; i < k * COLUMNS; i++)
        centroids[place_of(team, i / COLUMNS, i % COLUMNS)] =
            half_of(centroid_value(i / COLUMNS, i % COLUMNS));
    for (int i = 0; i < n * k; i++)
        score[i] = (float)(i / k - i % k);
    hf_cl_stage_begin(&stage, cl);
    const void *x = hf_cl_in(&stage, rows, (size_t)(n * COLUMNS) * sizeof *rows);
    const void *c = hf_cl_in(&stage, centroids, (size_t)(k * COLUMNS) * sizeof *centroids);
    void *to = hf_cl_inout(&stage, score, (size_t)(n * k) * sizeof *score);
    const size_t group = (size_t)(n / ROWS) * 32;
    const struct hf_cl_job job = {
        .source = source,
        .options = team ? "-DPARTS=1 -DBLOCKS=1 -DMT=1 -DSTRIP=8 -DCHUNK=8 -DTRIAL=4"
                        : "-DPARTS=1 -DBLOCKS=1 -DMT=1 -DSTRIP=1 -DCHUNK=4 -DTRIAL=1",
        .kernel = "unit_trial",
        .global = group,
        .group = group};
    const hf_status status =
        stage.status == HF_OK ? hf_opencl_run(cl, &job, "ppp", x, c, to) : stage.status;
    bool right = hf_cl_stage_end(&stage, status) == HF_OK;
    for (int i = 0; i < n * k; i++)
        right = right && score[i] == (float)product(i / k, i % k);
    return right;
}

void hf_cl_unit_choose(struct hf_opencl *cl) {
    const struct hf_cl_info *info = cl->info;
    if (!hf_cl_unit_kernels(info))
        return;
    if (info->ptx && hf_cl_unit_works(cl, HF_CL_UNIT_PTX "+unit_trial", false)) {
        cl->matrix = HF_CL_UNIT_PTX "+halves+matrix+near";
        cl->unit = true;
        cl->team = info->hopper && !asked_for("mma") &&
                   hf_cl_unit_works(cl, HF_CL_UNIT_PTX "+unit_trial", true);
    } else if (info->matrix && hf_cl_unit_works(cl, HF_CL_UNIT_DPAS "+unit_trial", false)) {
        cl->matrix = HF_CL_UNIT_DPAS "+halves+matrix+near";
    } else if (asked_for("dpas")) {
        cl->matrix = HF_CL_UNIT_DPAS_ALONE "+halves+matrix+near";
    } else if (asked_for("1")) {
        cl->matrix = HF_CL_UNIT_NONE "+halves+matrix+near";
    }
}
