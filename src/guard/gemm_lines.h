/* SPDX-License-Identifier: Apache-2.0
 * The sums by which the rows and columns of a product are checked, wherever the matrices lie. */
#ifndef HF_GEMM_LINES_H
#define HF_GEMM_LINES_H

#include "core/context.h"
#include "core/kernel.h"
#include "ops/gemm/sums.h"

struct gemm_lines {
    hf_context *ctx;
    const hf_gemm_args *args; /* checked and complete */
    bool there;               /* the matrices lie in memory of the device */
    char *before;             /* where C lies, as it was, without gaps; NULL: beta is 0 */
    char *whole;              /* there: room for a product; hf_gemm_lines_whole() */
    char *again;              /* there: room for a line computed again, behind the sums */
    char *here[2];            /* room for two lines in memory of the host */
    double *sums;             /* all sums, where the matrices lie; */
    double *sums_here;        /* those of lines in memory of the host; the same if they lie there,
                                 NULL before some were not plausible: six arrays (hf_sums_line())
                                 of the rows, six of the columns */
    struct hf_sums_beside beside; /* those that the product's kernel made */
    struct hf_sums_bound bound;
    const struct hf_kernel *twin;
    int64_t number; /* of the product in the batch */
    hf_guard guard;
    hf_gemm_faults *faults;
};

/* How far the sums of lines may be off, of the product that ctx computed last; there: if they are
 * made on its device. */
struct hf_sums_bound hf_gemm_lines_bound(hf_context *ctx, const hf_gemm_args *args, bool there);

/* Memory, and a copy of C if beta wants it. close() frees what there is. */
hf_status hf_gemm_lines_open(struct gemm_lines *l);
void hf_gemm_lines_close(struct gemm_lines *l);

/* Room for a product without gaps in l->whole; false: there is no memory for it. */
bool hf_gemm_lines_whole(struct gemm_lines *l);

/* C of product l->number, and of the copy from before. */
struct gemm_place {
    char *data;
    int64_t ld;
};
struct gemm_place hf_gemm_lines_c(const struct gemm_lines *l);
struct gemm_place hf_gemm_lines_before(const struct gemm_lines *l);

/* The sums of product l->number: what A and B make of them, without a wait for the device; what C
 * is, and whether some line may not be plausible: if not, they may stay on the device. */
hf_status hf_gemm_lines_sum_operands(struct gemm_lines *l);

/* The same of the first product where the matrices lie in memory of the device, and the products of
 * the batch, without a wait: by kernels that can sum beside the product at once. */
hf_status hf_gemm_lines_queue(struct gemm_lines *l);
hf_status hf_gemm_lines_sum_c(struct gemm_lines *l, bool *suspect);

#endif
