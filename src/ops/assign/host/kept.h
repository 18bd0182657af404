/* SPDX-License-Identifier: Apache-2.0
 * Packed rows that stay from call to call (struct hf_assign_kept). */
#ifndef HF_ASSIGN_KEPT_H
#define HF_ASSIGN_KEPT_H

#include "ops/assign/host/job.h"

/* The form of packed rows: by instruction set and idea. */
static int kept_form(const struct job *job) {
    return 1 + 4 * HF_ISA_ID + (job->i8 ? 1 + job->i8 : job->i16 || job->half);
}

/* Does this call fill or read rows that are kept? Only calls that look at all rows do. */
static void kept_begin(struct job *job) {
    const struct hf_assign_args *a = job->a;
    struct hf_assign_kept *k = a->kept;
    const size_t row = tile_kept_bytes(job);
    const int64_t first = a->kept_first;
    const int skips = a->bounds && a->bounds->valid;
    const int sweeps = skips && a->bounds->sweep && job->moved.count > 0;
    if (!k || job->project || job->begin_dense || !job->usable || (skips && !sweeps) ||
        first % TILE_ROWS != 0)
        return;
    const int same = k->form == kept_form(job);
    if (!(same && first <= k->filled) && first != 0)
        return;
    job->kept_use = same && first + job->n <= k->filled ? KEPT_READ : KEPT_FILL;
    job->sweep = sweeps;
    if (job->kept_use == KEPT_FILL) {
        k->form = kept_form(job);
        k->filled = first;
    }
    const size_t rows = (size_t)((k->rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS);
    float *beside = (float *)(void *)((char *)k->data + rows * row);
    job->kept.x = (char *)k->data + (size_t)first * row;
    job->kept.norm2 = beside + first;
    job->kept.loss = job->workers[0].own.loss ? beside + rows + first : NULL;
    job->kept.unit = job->workers[0].own.unit ? beside + 2 * rows + first : NULL;
}

static void kept_end(const struct job *job) {
    if (job->kept_use == KEPT_FILL)
        job->a->kept->filled = job->a->kept_first + job->n;
}

#endif
