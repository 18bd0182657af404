/* SPDX-License-Identifier: Apache-2.0
 * What steps of k-means++ chose, for a checkpoint, and how a start that was cut off takes it again:
 * distances to all of these in one pass instead of the steps. */
#include "algo/kmeans/init/init_state.h"
#include "base/mem.h"
#include <assert.h>
#include <inttypes.h>
#include <string.h>

static hf_status make_room(const struct hf_init_state *s, struct hf_init_log *log, int64_t more) {
    if (log->count + more <= log->room)
        return HF_OK;
    const int64_t room = 2 * log->room + more + 64;
    int64_t *entry = hf_alloc((size_t)room * sizeof *entry);
    if (!entry)
        return hf_ctx_fail(s->rows->ctx, HF_E_NOMEM,
                           "no memory to note %" PRId64 " first centroids for the checkpoint",
                           room);
    if (log->count > 0)
        memcpy(entry, log->entry, (size_t)log->count * sizeof *entry);
    hf_free(log->entry);
    log->entry = entry;
    log->room = room;
    return HF_OK;
}

static hf_status add(const struct hf_init_state *s, const int64_t *rows, int64_t count) {
    struct hf_init_log *log = s->args->log;
    if (!log || count == 0)
        return HF_OK;
    assert(log->at == log->count);
    HF_TRY(make_room(s, log, count));
    memcpy(log->entry + log->count, rows, (size_t)count * sizeof *rows);
    log->at = log->count += count;
    log->unit = s->unit;
    if (log->save)
        log->save(log->user);
    return HF_OK;
}

hf_status hf_init_log_steps(const struct hf_init_state *s, int64_t before) {
    return add(s, s->chosen + before, s->count - before);
}

hf_status hf_init_log_over(const struct hf_init_state *s) {
    const int64_t over = HF_INIT_OVER;
    return add(s, &over, 1);
}

hf_status hf_init_recall(struct hf_init_state *s, bool *over) {
    struct hf_init_log *log = s->args->log;
    *over = false;
    for (; log && log->at < log->count && !*over; log->at++) {
        const int64_t row = log->entry[log->at];
        *over = row == HF_INIT_OVER;
        if (!*over && (row < 0 || row >= s->n || s->count == s->k))
            return hf_ctx_fail(s->rows->ctx, HF_E_CORRUPT,
                               "the checkpoint contradicts itself: centroid %" PRId64 " of %" PRId64
                               " starts at row %" PRId64 " of %" PRId64 ": start anew without it",
                               s->count, s->k, row, s->n);
        if (!*over)
            s->chosen[s->count++] = row;
    }
    return HF_OK;
}
