/* SPDX-License-Identifier: Apache-2.0
 * Campaigns against signed products on a device. A launch takes longer than a small product, so a
 * batch of products is computed, each with a fault of its own, and the signatures of its tiles are
 * compared with those of the same batch without faults. */
#include "base/dtype.h"
#include "base/mem.h"
#include "core/context.h"
#include "harness/campaign/es.h"

#include <string.h>

#define TILES 512 /* of a batch: a device leaves the sums over so few to the host */

enum { OF_A, OF_B, OF_NONE };

struct batches {
    hf_context *ctx;
    const struct es_product *product;
    hf_gemm_signatures sign;
    int64_t every;
    hf_dev_signed_count *count;
    int64_t batch, tiles; /* products of a batch, tiles of a product */
    int64_t size[2];      /* elements of A and B, */
    size_t bytes[2];      /* and their bytes */
    char *side[2], *c;    /* [batch] copies of A and B, [batch] C */
    hf_gemm_tile *tile, *good;
    hf_gemm_args args;
    bool corrupt; /* the last call ended with HF_E_CORRUPT */
};

/* What became of the product of a batch. */
struct outcome {
    bool seen, staged, changed;
};

static hf_status run(struct batches *x) {
    x->sign.tile = x->tile;
    const hf_status status = hf_gemm(x->ctx, &x->args, NULL);
    x->corrupt = status == HF_E_CORRUPT;
    return x->corrupt ? HF_OK : status;
}

static struct outcome outcome_of(const struct batches *x, int64_t b) {
    struct outcome o = {false, false, false};
    for (int64_t i = b * x->tiles; i < (b + 1) * x->tiles; i++) {
        const hf_gemm_tile *is = &x->tile[i], *was = &x->good[i];
        o.seen = o.seen || is->a != was->a || is->b != was->b || is->c != was->c || is->unit < 0;
        o.staged = o.staged || is->changed != 0;
    }
    const size_t each = x->product->bytes;
    o.changed = memcmp(x->c + (size_t)b * each, x->product->plain, each) != 0;
    return o;
}

/* A batch whose products share what is not of `side`, without faults. */
static hf_status begin(struct batches *x, int side) {
    x->args.a = side == OF_A ? (void *)x->side[OF_A] : x->product->p.a;
    x->args.b = side == OF_B ? (void *)x->side[OF_B] : x->product->p.b;
    x->args.stride_a = side == OF_A ? x->size[OF_A] : 0;
    x->args.stride_b = side == OF_B ? x->size[OF_B] : 0;
    x->sign.plant = HF_GEMM_PLANT_NONE;
    HF_TRY(run(x));
    if (x->corrupt)
        return hf_ctx_fail(x->ctx, HF_E_CORRUPT, "a batch without a fault has wrong signatures");
    x->tiles = x->sign.tiles / x->batch; /* a batch may have another kernel than one product */
    memcpy(x->good, x->tile, (size_t)(x->batch * x->tiles) * sizeof *x->good);
    for (int64_t b = 0; b < x->batch; b++)
        x->count->same = x->count->same && !outcome_of(x, b).changed;
    return HF_OK;
}

/* Bits of an operand in memory. */
static hf_status flip_operand(struct batches *x, int side) {
    const int64_t bits = 8 * (int64_t)x->bytes[side], step = x->every * x->batch;
    HF_TRY(begin(x, side));
    for (int64_t from = 0; from < bits; from += step) {
        for (int pass = 0; pass < 2; pass++) {
            if (pass == 1)
                HF_TRY(run(x));
            for (int64_t b = 0; b < x->batch; b++) {
                const int64_t bit = from + b * x->every;
                if (bit >= bits)
                    break;
                hf_es_flip(x->side[side] + (size_t)b * x->bytes[side], bit);
                if (pass == 0)
                    continue;
                const struct outcome o = outcome_of(x, b);
                x->count->operand_faults++;
                x->count->operand_detected += o.seen;
                x->count->changed += o.changed;
            }
        }
    }
    return HF_OK;
}

/* Faults while the product is computed, at bits of so many elements. tell() counts one. */
static hf_status plant(struct batches *x, hf_gemm_plant kind, int64_t elements,
                       void (*tell)(struct batches *x, hf_gemm_plant kind, struct outcome o)) {
    const int64_t bits = 32 * elements, step = x->every * x->batch;
    HF_TRY(begin(x, OF_NONE));
    x->sign.plant_step = x->every;
    for (int64_t from = 0; from < bits; from += step) {
        x->sign.plant = kind;
        x->sign.plant_at = from;
        HF_TRY(run(x));
        for (int64_t b = 0; b < x->batch && from + b * x->every < bits; b++)
            tell(x, kind, outcome_of(x, b));
    }
    return HF_OK;
}

static void tell_sum(struct batches *x, hf_gemm_plant kind, struct outcome o) {
    (void)kind;
    x->count->sum_faults++;
    x->count->sum_detected += o.seen;
}

static void tell_staged(struct batches *x, hf_gemm_plant kind, struct outcome o) {
    (void)kind;
    x->count->staged_faults++;
    x->count->staged_detected += o.staged && x->corrupt;
}

/* A tile that is not computed is wrong, even if the device's memory has that of the call before. */
static void tell_kind(struct batches *x, hf_gemm_plant kind, struct outcome o) {
    hf_dev_signed_kind *const k = &x->count->kind[kind - HF_GEMM_PLANT_CARRY];
    const bool changed = o.changed || kind == HF_GEMM_PLANT_DROPPED;
    k->faults++;
    k->changed += changed;
    k->detected += changed && (o.seen || o.staged);
}

static hf_status count_all(struct batches *x) {
    const int64_t a = x->size[OF_A], c = x->args.m * x->args.n;
    HF_TRY(flip_operand(x, OF_A));
    HF_TRY(flip_operand(x, OF_B));
    HF_TRY(plant(x, HF_GEMM_PLANT_SUM, c, tell_sum));
    HF_TRY(plant(x, HF_GEMM_PLANT_CARRY, c, tell_kind));
    if (x->args.dtype != HF_F32) /* kernels for tensor cores make no other fault in a batch */
        return HF_OK;
    if (x->sign.release)
        HF_TRY(plant(x, HF_GEMM_PLANT_A, a, tell_staged));
    HF_TRY(plant(x, HF_GEMM_PLANT_ADDRESS, a, tell_kind));
    HF_TRY(plant(x, HF_GEMM_PLANT_STUCK, a, tell_kind));
    return plant(x, HF_GEMM_PLANT_DROPPED, c, tell_kind);
}

static char *copies(const void *of, size_t bytes, int64_t count) {
    char *const all = hf_alloc(bytes * (size_t)count);
    for (size_t i = 0; all != NULL && i < (size_t)count; i++)
        memcpy(all + i * bytes, of, bytes);
    return all;
}

/* How many tiles a product has, and memory for a batch of them. */
static hf_status prepare(struct batches *x) {
    const hf_gemm_args *args = &x->product->args;
    hf_gemm_args one = *args;
    one.signatures = &x->sign;
    HF_TRY(hf_gemm(x->ctx, &one, NULL));
    x->tiles = x->sign.tiles;
    if (x->tiles <= 0 || x->tiles > TILES)
        return hf_ctx_fail(x->ctx, HF_E_UNSUPPORTED, "a product of a campaign has %lld tiles",
                           (long long)x->tiles);
    x->batch = TILES / x->tiles;
    x->size[OF_A] = args->m * args->k;
    x->size[OF_B] = args->k * args->n;
    for (int side = 0; side < 2; side++)
        x->bytes[side] = (size_t)x->size[side] * hf_dtype_bytes(args->dtype);
    x->sign.tile_room = hf_gemm_most_tiles(args->m, args->n, x->batch);
    const size_t room = (size_t)x->sign.tile_room * sizeof *x->tile;
    x->side[OF_A] = copies(x->product->p.a, x->bytes[OF_A], x->batch);
    x->side[OF_B] = copies(x->product->p.b, x->bytes[OF_B], x->batch);
    x->c = hf_alloc((size_t)x->batch * x->product->bytes);
    x->tile = hf_alloc(room);
    x->good = hf_alloc(room);
    if (!x->side[OF_A] || !x->side[OF_B] || !x->c || !x->tile || !x->good)
        return hf_ctx_fail(x->ctx, HF_E_NOMEM, "no memory for the products of a campaign");
    x->args = *args;
    x->args.batch = x->batch;
    x->args.stride_c = args->m * args->n;
    x->args.c = x->c;
    x->args.signatures = &x->sign;
    return HF_OK;
}

hf_status hf_es_signed_batches(hf_context *ctx, const struct es_product *product,
                               const hf_gemm_signatures *sign, int64_t every,
                               hf_dev_signed_count *count) {
    struct batches x = {
        .ctx = ctx, .product = product, .sign = *sign, .every = every, .count = count};
    count->same = 1;
    hf_status status = prepare(&x);
    if (status == HF_OK)
        status = count_all(&x);
    hf_free(x.side[OF_A]);
    hf_free(x.side[OF_B]);
    hf_free(x.c);
    hf_free(x.tile);
    hf_free(x.good);
    return status;
}
