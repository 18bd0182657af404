/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/mend/gathered.h"
#include "algo/kmeans/loop/clusters.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "core/array.h"
#include <string.h>

hf_status hf_gather_open(struct hf_fit *fit, struct hf_gathered *g) {
    const hf_array *x = fit->data.rows.array;
    const size_t room = HF_GATHERED;
    const size_t row_bytes = (size_t)x->cols * hf_dtype_bytes(x->dtype);
    *g = (struct hf_gathered){.fit = fit};
    for (int pass = 0; pass < 2; pass++) {
        hf_carve carve = {.base = g->block};
        void *rows = hf_carve_take(&carve, room * row_bytes);
        g->row = hf_carve_take(&carve, room * sizeof *g->row);
        g->label = hf_carve_take(&carve, room * sizeof *g->label);
        g->weight = fit->weights.scaled ? hf_carve_take(&carve, room * sizeof(double)) : NULL;
        if (pass == 0)
            g->block = hf_alloc((size_t)carve.used);
        if (!g->block)
            return HF_E_NOMEM;
        g->x = hf_array_view(rows, x->dtype, 0, x->cols);
    }
    return HF_OK;
}

void hf_gather_row(struct hf_gathered *g, int64_t i) {
    const hf_array *x = g->fit->data.rows.array;
    const size_t bytes = (size_t)x->cols * hf_dtype_bytes(x->dtype);
    memcpy((char *)(uintptr_t)g->x.data + (size_t)g->count * bytes, hf_array_row(x, i), bytes);
    g->row[g->count] = i;
    g->label[g->count] = g->fit->labels.host[i];
    if (g->weight)
        g->weight[g->count] = g->fit->weights.scaled[i];
    g->x.rows = ++g->count;
}

hf_status hf_gather_decide(struct hf_gathered *g, void *centers) {
    const struct hf_fit *fit = g->fit;
    struct hf_assign_stats stats = {0};
    const struct hf_assign_args args = {.x = g->x,
                                        .c = hf_centers(&fit->problem, centers),
                                        .metric = fit->problem.opts.metric,
                                        .exact = true,
                                        .filter = fit->frame.filter,
                                        .labels = g->label,
                                        .stats = &stats};
    memset(g->label, 0xff, (size_t)g->count * sizeof *g->label);
    return hf_assign(fit->problem.ctx, &args);
}

void hf_gather_forget(struct hf_gathered *g) { g->count = g->x.rows = 0; }

void hf_gather_close(struct hf_gathered *g) {
    hf_free(g->block);
    g->block = NULL;
}
