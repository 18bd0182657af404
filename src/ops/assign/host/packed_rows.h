/* SPDX-License-Identifier: Apache-2.0
 * Packed rows that stay from call to call (struct hf_assign_packed). */
#ifndef HF_ASSIGN_PACKED_ROWS_H
#define HF_ASSIGN_PACKED_ROWS_H

#include "ops/assign/host/job.h"

/* The form of packed rows depends on the instruction set, the variant, and whether they are summed
 * up. */
static int packed_form(const struct job *job) {
    const int form = 4 * HF_ISA_ID + (job->i8 ? 1 + job->i8 : job->i16 || job->half);
    return 1 + 2 * form + job->guard.words;
}

/* Does this call pack rows to stay, or read them? Only calls that send all rows through the tiles:
 * not where rows may keep their labels without (stays_near()). */
static void packed_begin(struct job *job) {
    const struct hf_assign_args *a = job->a;
    struct hf_assign_packed *k = a->packed;
    const size_t row = tile_packed_bytes(job);
    const int64_t first = a->packed_first;
    const int skips = a->bounds && a->bounds->valid;
    const int sweeps = skips && a->bounds->sweep && job->moved.count > 0;
    if (!k || job->project || job->begin_dense || !job->usable || (skips && !sweeps) ||
        first % TILE_ROWS != 0 || (job->guard.near && !a->bounds))
        return;
    const int same = k->form == packed_form(job);
    if (!(same && first <= k->filled) && first != 0)
        return;
    job->packed_use = same && first + job->n <= k->filled ? PACKED_READ : PACKED_FILL;
    job->sweep = sweeps;
    if (job->packed_use == PACKED_FILL) {
        k->form = packed_form(job);
        k->filled = first;
        k->summed = job->guard.words;
        k->loss = job->workers[0].own.loss != NULL;
        k->unit = job->workers[0].own.unit != NULL;
        k->lanes = VW;
        k->row_bytes = row;
    }
    const size_t rows = (size_t)((k->rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS);
    float *beside = (float *)(void *)((char *)k->data + rows * row);
    job->packed.x = (char *)k->data + (size_t)first * row;
    job->packed.norm2 = beside + first;
    job->packed.loss = job->workers[0].own.loss ? beside + rows + first : NULL;
    job->packed.unit = job->workers[0].own.unit ? beside + 2 * rows + first : NULL;
    job->packed.word = (int32_t *)(void *)(beside + 3 * rows + first);
}

static void packed_end(const struct job *job) {
    if (job->packed_use == PACKED_FILL)
        job->a->packed->filled = job->a->packed_first + job->n;
    if (atomic_load_explicit(&job->guard.stale, memory_order_relaxed))
        job->a->packed->form = 0; /* the next call packs them again */
}

#endif
