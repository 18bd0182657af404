/* SPDX-License-Identifier: Apache-2.0 */
#include "rows/panels.h"

#include "core/array.h"

struct panel_job {
    hf_rows_fn *fn;
    void *job;
    int64_t most;
};

static hf_status cut_chunk(void *job, const hf_array *chunk, int64_t first) {
    const struct panel_job *p = job;
    for (int64_t at = 0; at < chunk->rows; at += p->most) {
        const int64_t left = chunk->rows - at;
        const hf_array panel = hf_array_slice(chunk, at, left < p->most ? left : p->most);
        HF_TRY(p->fn(p->job, &panel, first + at));
    }
    return HF_OK;
}

hf_status hf_panels_each(const struct hf_rows *rows, int64_t most, hf_rows_fn *fn, void *job) {
    struct panel_job p = {.fn = fn, .job = job, .most = most};
    return hf_rows_each(rows, cut_chunk, &p);
}
