/* SPDX-License-Identifier: Apache-2.0
 * Labels of rows that met all centroids (host/dense.h), looked at again: the key of the label, from
 * float64, says above which keys no centroid matters, and a second sweep, with each row in another
 * lane, or the centroids near the row (host/guard/guard_slab.h) must find none but the label there.
 * Those that they find are compared by reference distances. */
#ifndef HF_ASSIGN_GUARD_DENSE_H
#define HF_ASSIGN_GUARD_DENSE_H

#include "ops/assign/host/dense.h"
#include "ops/assign/host/guard/guard_near.h"
#include "ops/assign/host/guard/guard_open.h"
#include "ops/assign/host/prepare.h"

/* w->listed[slot] candidates are as near as the label, or perhaps nearer. */
static void guard_conclude_dense(const struct job *job, struct worker *w, int slot) {
    const int32_t label = w->least_arg[slot];
    const int count = w->listed[slot];
    const int32_t *list = w->list + slot * CANDIDATES_MAX;
    if (count == 1 && list[0] == label)
        return;
    const int32_t nearest = count > 0 && count <= CANDIDATES_MAX
                                ? guard_nearest_listed(job, w, slot, list, count)
                                : guard_nearest(job, w, w->block.row[slot]);
    if (nearest != label)
        guard_disagree(job, w, slot);
}

static void guard_look_near(const struct job *job, struct worker *w, int slot) {
    if (w->slot64 != slot)
        exact_load_row(job, w, slot);
    double own;
    const double cut = guard_cut(job, w, w->least_arg[slot], &own);
    w->listed[slot] = cut < INFINITY
                          ? slab_list(job, w, cut, w->list + slot * CANDIDATES_MAX, CANDIDATES_MAX)
                          : CANDIDATES_MAX + 1;
    guard_conclude_dense(job, w, slot);
}

/* The cut of place i of a sweep. */
static void guard_put_cut(const struct job *job, struct worker *w, const struct dense *q, int i) {
    const int slot = q->slot[i];
    exact_load_row(job, w, slot);
    double own;
    const double cut = guard_cut(job, w, w->least_arg[slot], &own);
    const double known = cut == cut ? cut : INFINITY;
    w->key_best[i] = known;
    w->block.best[i] = known > -INFINITY ? (float)(known * (1 + 0x1p-22)) + 0x1p-126f : -INFINITY;
    w->listed[slot] = 0;
}

/* Slots q->slot[1 ...], at the places of the slots before them; place 0 is nobody's. */
static void guard_sweep_dense(const struct job *job, struct worker *w, const struct dense *q) {
    const int wide = job->difference == DIFFERENCE_F32;
    for (int i = 0; i < q->count; i += wide ? DENSE_ROWS : DENSE_ROWS64) {
        if (wide) {
            dense_pack_panel_f32(job, w, q, i);
            dense_pack_panel_f32(job, w, q, i + VW);
        } else {
            dense_pack_panel_f64(job, w, q, i);
            dense_pack_panel_f64(job, w, q, i + VDW);
        }
    }
    for (int i = 1; i < q->count; i++)
        guard_put_cut(job, w, q, i);
    w->key_best[0] = -INFINITY;
    w->block.best[0] = -INFINITY;
    if (wide)
        dense_sweep_f32(job, w, q);
    else
        dense_sweep_f64(job, w, q);
}

/* Does a slot have a label that can be looked at? */
static int guard_has_label(const struct job *job, struct worker *w, int slot) {
    w->guard.checked++;
    if (w->least_arg[slot] < 0 || w->least_arg[slot] >= job->k) {
        guard_disagree(job, w, slot);
        return 0;
    }
    guard_check_bounds(job, w, slot);
    return 1;
}

/* The labels of the slots w->dense[0 .. count) came from all centroids. */
static void guard_check_dense(const struct job *job, struct worker *w, int count) {
    int *slot = w->dense;
    int left = 0;
    for (int i = 0; i < count; i++)
        if (guard_has_label(job, w, slot[i]))
            slot[left++] = slot[i];
    if (job->difference == DIFFERENCE_NONE) {
        for (int i = 0; i < left; i++)
            if (guard_nearest(job, w, w->block.row[slot[i]]) != w->least_arg[slot[i]])
                guard_disagree(job, w, slot[i]);
        return;
    }
    if (job->guard.slab.count > 0) {
        for (int i = 0; i < left; i++)
            guard_look_near(job, w, slot[i]);
        return;
    }
    const int wide = job->difference == DIFFERENCE_F32 ? DENSE_ROWS : DENSE_ROWS64;
    const int packed = (int)(w->dense_bytes / DENSE_BYTES(job->d_pad)) * wide;
    const int open = open_most(job, &w->block) / wide * wide;
    const int most = (packed < open ? packed : open) - 1;
    memmove(slot + 1, slot, sizeof *slot * (size_t)left);
    for (int done = 0; done < left; done += most) {
        const int some = left - done < most ? left - done : most;
        const struct dense q = {.slot = slot + done, .count = some + 1, .collect = 1, .check = 1};
        guard_sweep_dense(job, w, &q);
        for (int i = 1; i <= some; i++)
            guard_conclude_dense(job, w, q.slot[i]);
    }
}

#endif
