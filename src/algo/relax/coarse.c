/* SPDX-License-Identifier: Apache-2.0
 * One coarse unknown per block: the sums of the matrix over pairs of blocks, inverted. */
#include "algo/relax/dense.h"
#include "algo/relax/setup.h"

#include "base/mem.h"
#include <string.h>

static void fill_coarse(const hf_relax *relax, int32_t *block_of, double *a) {
    const struct hf_relax_matrix *m = &relax->m;
    const int64_t blocks = relax->blocks.count;
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t i = relax->blocks.start[b]; i < relax->blocks.start[b + 1]; i++)
            block_of[i] = (int32_t)b;
    memset(a, 0, (size_t)(blocks * blocks) * sizeof *a);
    for (int64_t i = 0; i < m->n; i++)
        for (int64_t e = m->row_start[i]; e < m->row_start[i + 1]; e++)
            a[block_of[i] * blocks + block_of[m->column[e]]] += sparse_value(m->value, m->dtype, e);
}

hf_status hf_relax_make_coarse(hf_relax *relax) {
    const int64_t blocks = relax->blocks.count;
    if (relax->coarse == NULL)
        relax->coarse = hf_relax_take(relax, blocks * blocks, sizeof *relax->coarse);
    int32_t *block_of = hf_alloc((size_t)relax->m.n * sizeof *block_of);
    int64_t *pivot = hf_alloc((size_t)blocks * sizeof *pivot);
    const bool there = relax->coarse != NULL && block_of != NULL && pivot != NULL;
    bool done = false;
    if (there) {
        fill_coarse(relax, block_of, relax->coarse);
        done = hf_dense_invert(relax->coarse, blocks, pivot);
    }
    hf_free(block_of);
    hf_free(pivot);
    if (!there)
        return hf_relax_no_memory(relax, "the coarse unknowns");
    if (!done)
        return hf_ctx_fail(relax->ctx, HF_E_DATA,
                           "the coarse matrix of %lld blocks is singular, as the matrix itself may "
                           "be; switch coarse off",
                           (long long)blocks);
    return HF_OK;
}
