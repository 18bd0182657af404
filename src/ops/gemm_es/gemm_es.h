/* SPDX-License-Identifier: Apache-2.0
 * gemm_es: the product C = A B of float32 matrices with execution signatures over its operands, as
 * in Fernandez et al.: On the safe deployment of matrix multiplication in massively parallel
 * safety-related systems (2022). It is there to be measured: op gemm has signatures that cover more
 * and cost less.
 *
 *     for i in 0 .. m - 1                            external loop, E
 *         for p in 0 .. k - 1                        intermediate loop, M
 *             for j in 0 .. n - 1                    internal loop, I
 *                 c[i][j] += a[i][p] * b[p][j]       (rounded twice)
 *
 * What a checksum at a level takes are the operands that are in registers there: at I a[i][p], once
 * before the loop, and each b[p][j]; at M, after the internal loop, a[i][p] and b[p][n - 1]; at E,
 * after the intermediate loop, a[i][k - 1] and b[k - 1][n - 1]. In a pair the inner checksum takes
 * what I takes, anew for each (i, p), and the outer one takes its values (two words if it has 64
 * bits, the lower one first).
 *
 * The AVX form has eight lanes, each with a signature of its own, and one more for the rest. Lane l
 * takes b[p][8 v + l], at M and E of the last whole vector only; the rest takes a as above, and at
 * I and M then the n mod 8 last elements of b's row. Where n is below 8 the rest takes b[k - 1][n -
 * 1] at E. */
#ifndef HF_GEMM_ES_H
#define HF_GEMM_ES_H

#include "base/checksum/checksum.h"
#include "core/run.h"

enum hf_es_level { HF_ES_NONE, HF_ES_E, HF_ES_M, HF_ES_I, HF_ES_PAIR, HF_ES_LEVELS };
enum hf_es_form { HF_ES_SEQ, HF_ES_AVX };

#define HF_ES_LANES 8
#define HF_ES_ENTRIES (HF_ES_LANES + 1) /* of the array of signatures; the last is the rest */

struct hf_gemm_es_args {
    int64_t m, n, k; /* at least 1 */
    const float *a;  /* [m, k], no gaps; likewise below */
    const float *b;  /* [k, n] */
    float *c;        /* [m, n] out */
    enum hf_es_form form;
    enum hf_es_level level;
    int checksum;        /* id, of those that tell their change; of a pair the inner one */
    int outer;           /* of a pair */
    uint64_t *signature; /* [HF_ES_ENTRIES] out; SEQ: the first, the others are 0 */
    /* The same product once more for each of `flips` faults in memory: bit (first_flip + f) % 32
     * of operand (first_flip + f) / 32, those of A before those of B, is flipped. seen[f] (out): 1
     * if it has another signature, else 0. */
    int64_t first_flip, flips;
    uint8_t *seen; /* [flips]; NULL if there are none */
};

static inline hf_status hf_gemm_es(hf_context *ctx, const struct hf_gemm_es_args *args) {
    return hf_run(ctx, HF_OP_GEMM_ES, args);
}

#endif
