/* SPDX-License-Identifier: Apache-2.0
 * How parts tell each other what they have computed. HF_EXCHANGE_PUSH: each writes what others read
 * into their x. The ways of Anzt, Tomov, Dongarra, Heuveline 2012, 3.4: AMC by a vector in the
 * host's memory, DC by one in that of the first device, DK: there is but one x, on the first. */
#include "algo/relax/several/several.h"

/* In free timing nobody knows which side the others look at. */
static bool is_free(const struct hf_relax_several *s) {
    return s->relax->opts.timing == HF_TIMING_FREE;
}

static hf_status copy_span(struct hf_relax_part *part, double *to, const double *from,
                           struct hf_relax_span span) {
    return hf_ctx_copy(part->ctx, to + span.first, from + span.first,
                       (size_t)(span.last - span.first) * sizeof *to);
}

/* From x[side] to x[to] of all others. */
static hf_status push(struct hf_relax_part *part, int side, int to) {
    const struct hf_relax_several *s = part->several;
    for (int h = 0; h < s->count; h++) {
        const struct hf_relax_reading *reading = &s->part[h]->reads[part->number];
        for (int i = 0; i < reading->count; i++)
            HF_TRY(copy_span(part, s->part[h]->x[to], part->x[side], reading->span[i]));
    }
    return HF_OK;
}

/* The vector that all write to and read from; NULL: there is none. */
static double *board_of(const struct hf_relax_part *part, int side) {
    const struct hf_relax_several *s = part->several;
    const int at = is_free(s) ? 0 : side;
    return s->exchange == HF_EXCHANGE_AMC ? s->board[at] : part->board[at];
}

hf_status hf_relax_send(struct hf_relax_part *part, int side) {
    const struct hf_relax_several *s = part->several;
    const struct hf_relax_span own = {part->first, part->last};
    if (s->exchange == HF_EXCHANGE_PUSH) {
        HF_TRY(push(part, side, side));
        return is_free(s) ? push(part, side, 1 - side) : HF_OK;
    }
    double *board = board_of(part, side);
    return board != NULL ? copy_span(part, board, part->x[side], own) : HF_OK;
}

hf_status hf_relax_receive(struct hf_relax_part *part, int side) {
    const struct hf_relax_span left = {0, part->first};
    const struct hf_relax_span right = {part->last, part->several->relax->m.n};
    double *board = board_of(part, side);
    if (board == NULL || part->several->exchange == HF_EXCHANGE_PUSH)
        return HF_OK;
    HF_TRY(copy_span(part, part->x[side], board, left));
    return copy_span(part, part->x[side], board, right);
}

static hf_status settle_part(struct hf_relax_part *part) {
    const struct hf_relax_span own = {part->first, part->last};
    const int side = (int)(part->made % 2);
    if (side != 0 || is_free(part->several)) /* which reads either side */
        HF_TRY(copy_span(part, part->x[1 - side], part->x[side], own));
    return part->ctx->device->sync(part->ctx->stream);
}

static hf_status push_part(struct hf_relax_part *part) {
    const bool shared = part->several->exchange == HF_EXCHANGE_DK;
    if (!shared)
        HF_TRY(push(part, 0, 0));
    if (!shared && is_free(part->several))
        HF_TRY(push(part, 0, 1));
    return part->ctx->device->sync(part->ctx->stream);
}

hf_status hf_relax_settle(struct hf_relax_several *s) {
    HF_TRY(hf_relax_each_part(s, settle_part));
    HF_TRY(hf_relax_each_part(s, push_part));
    for (int g = 0; g < s->count; g++)
        s->part[g]->made = 0;
    return HF_OK;
}
