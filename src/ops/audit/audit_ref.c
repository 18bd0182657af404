/* SPDX-License-Identifier: Apache-2.0
 * Reference of audit: row by row, cluster by cluster, on one thread. */
#include "base/dtype.h"
#include "base/mem.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/audit/audit.h"
#include "ops/estimate.h"
#include "ops/reference.h"

#define STEP UINT32_C(2654435769)

static bool is_cluster(const struct hf_audit_args *a, int32_t label) {
    return label >= 0 && label < a->k;
}

static void note(int64_t *lowest, int64_t at) {
    if (*lowest < 0 || at < *lowest)
        *lowest = at;
}

static double distance(const struct hf_audit_args *a, int64_t row, int32_t cluster,
                       double *vectors) {
    const int64_t d = a->x.cols;
    hf_to_f64(vectors, hf_array_row(&a->x, row), a->x.dtype, d);
    hf_to_f64(vectors + d, hf_array_row(&a->c, cluster), a->c.dtype, d);
    return hf_reference_distance(a->metric, vectors, vectors + d, d);
}

/* May a row leave cluster `from` for `to`? What is not a number decides nothing. */
static bool may_move(const struct hf_audit_args *a, int64_t row, int32_t from, int32_t to,
                     double *vectors) {
    const double before = distance(a, row, from, vectors);
    const double after = distance(a, row, to, vectors);
    return !(before < after || (before == after && from < to));
}

static void book(const struct hf_audit_args *a, double *vectors) {
    struct hf_audit_found *f = a->found;
    for (int64_t i = 0; i < a->n; i++) {
        const int32_t from = a->booked[i];
        const int32_t to = a->labels[i];
        if (from == to)
            continue;
        f->changed++;
        if (!is_cluster(a, to)) {
            note(&f->outside, i);
            continue;
        }
        if (is_cluster(a, from)) {
            if (a->x.data && !may_move(a, i, from, to, vectors))
                note(&f->farther, i);
            a->word[from] -= a->hash[i];
            a->rows[from]--;
        }
        a->word[to] += a->hash[i];
        a->rows[to]++;
        a->booked[i] = to;
    }
}

static hf_status audit_run(const struct hf_call *call) {
    const struct hf_audit_args *a = call->args;
    *a->found = (struct hf_audit_found){.outside = -1, .farther = -1, .sum = -1, .count = -1};
    if (a->labels)
        book(a, call->ws);
    for (int64_t j = 0; a->sums && j < a->k; j++) {
        if (hf_audit_word(a, j) != a->word[j])
            note(&a->found->sum, j);
        if (a->sums->count[j] != a->rows[j])
            note(&a->found->count, j);
    }
    for (int64_t i = 0; a->words && i < a->n_words; i++)
        a->found->sign += (uint64_t)a->words[i] * (((uint32_t)i * STEP) | 1);
    return HF_OK;
}

static size_t audit_workspace(const struct hf_call *call) {
    const struct hf_audit_args *a = call->args;
    return 2 * (size_t)a->x.cols * sizeof(double);
}

static double audit_estimate(const struct hf_call *call) {
    const struct hf_audit_args *a = call->args;
    return hf_estimate_ns((double)a->n, 1, 8 * (double)a->n);
}

static const struct hf_kernel kernels[] = {{.name = "audit_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .workspace = audit_workspace,
                                            .run = audit_run,
                                            .estimate = audit_estimate}};

const struct hf_kernel_table hf_audit_kernels_scalar = {kernels, 1};
