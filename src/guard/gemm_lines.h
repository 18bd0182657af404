/* SPDX-License-Identifier: Apache-2.0
 * The sums by which the rows and columns of a product are checked, wherever the matrices lie. */
#ifndef HF_GEMM_LINES_H
#define HF_GEMM_LINES_H

#include "core/context.h"
#include "core/kernel.h"
#include "ops/gemm/sums.h"

/* Of all rows, or of all columns: what A and B make of the sum, before alpha; what C was, before
 * beta; what C is. In memory of the host. */
struct gemm_line_sums {
    double *want, *want_size, *old, *old_size, *found, *found_size;
};

struct gemm_lines {
    hf_context *ctx;
    const hf_gemm_args *args; /* checked and complete */
    bool there;               /* the matrices lie in memory of the device */
    char *before;             /* where C lies, as it was; NULL: beta is 0 */
    char *again;              /* there: room for a line computed again */
    char *here[2];            /* room for two lines in memory of the host */
    double *sums;             /* all sums, where the matrices lie; */
    double *sums_here;        /* those of lines in memory of the host; the same if they lie there */
    struct gemm_line_sums rows, cols;
    double error, tiny; /* as in hf_gemm_report, of the sums; */
    double rounding;    /* relative, of a C of 16 bits */
    const struct hf_kernel *twin;
    int64_t number; /* of the product in the batch */
    hf_guard guard;
    hf_gemm_faults *faults;
};

/* Memory, and a copy of C if beta wants it. close() frees what there is. */
hf_status hf_gemm_lines_open(struct gemm_lines *l);
void hf_gemm_lines_close(struct gemm_lines *l);

/* The sums of product l->number. */
hf_status hf_gemm_lines_sum(struct gemm_lines *l);

#endif
