/* SPDX-License-Identifier: Apache-2.0
 * A campaign of single bits of scores in the tensor-core filter of a GPU: what the checksums of
 * tiles make of them. */
#include "base/rng.h"
#include "core/context.h"
#include "harness/inject/tile_strike.h"
#include <holdfast/dev_faults.h>
#include <math.h>
#include <string.h>

#if HF_HAVE_CUDA

enum { N = HF_STRUCK_ROWS, K = HF_STRUCK_CLUSTERS, D = HF_STRUCK_COLUMNS };

/* Rows near centroids that lie close together, so that labels hang on scores. All values are
 * multiples of 2^-10, so that float16 and float32 have them exactly. */
struct data {
    uint16_t x[N * D];
    float norm[N], c[K * D], value[N * D];
    int32_t label[N]; /* in float64 */
};

/* A multiple of 2^-10 below 1 in size. */
static float some_value(struct hf_rng *rng) {
    return (float)((int)(hf_rng_next(rng) % 2047) - 1023) * 0x1p-10f;
}

/* Bits of such a number, or of a sum of two, as float16. */
static uint16_t half_of(float v) {
    int e;
    if (v == 0)
        return 0;
    const float m = frexpf(fabsf(v), &e); /* m in [.5, 1) */
    return (uint16_t)((v < 0) << 15 | (e + 14) << 10 | ((int)(m * 2048) & 1023));
}

static int32_t nearest(const struct data *data, int row) {
    double least = INFINITY;
    int32_t label = 0;
    for (int j = 0; j < K; j++) {
        double sum = 0;
        for (int f = 0; f < D; f++) {
            const double by = (double)data->value[row * D + f] - (double)data->c[j * D + f];
            sum += by * by;
        }
        if (sum < least) {
            least = sum;
            label = j;
        }
    }
    return label;
}

static void make(struct data *data, uint64_t seed) {
    struct hf_rng rng = {.seed = seed};
    for (int i = 0; i < K * D; i++)
        data->c[i] = some_value(&rng) / 2;
    for (int i = 0; i < N; i++) {
        double square = 0;
        for (int f = 0; f < D; f++) {
            const float v = rintf((data->c[i % K * D + f] + some_value(&rng) / 2) * 1024) / 1024;
            data->value[i * D + f] = v;
            data->x[i * D + f] = half_of(v);
            square += (double)v * (double)v;
        }
        data->norm[i] = (float)sqrt(square) * (1 + 0x1p-20f);
        data->label[i] = nearest(data, i);
    }
}

/* Is a row decided wrongly? */
static bool is_wrong(const struct data *data, const int32_t labels[N]) {
    for (int i = 0; i < N; i++)
        if (labels[i] >= 0 && labels[i] != data->label[i])
            return true;
    return false;
}

/* One fault, without and with checksums. */
static hf_status strike(struct hf_struck_tiles *tiles, const struct data *data,
                        const struct hf_struck_score *score, hf_dev_tile_bit *bit) {
    struct hf_struck_labels got;
    HF_TRY(hf_struck_tiles_label(tiles, false, score, &got));
    const bool matters = is_wrong(data, got.label);
    HF_TRY(hf_struck_tiles_label(tiles, true, score, &got));
    const struct hf_finding *f = &got.slot.event[0].finding;
    const bool told = got.slot.confirmed > 0;
    bit->struck += got.struck > 0;
    bit->consequential += matters;
    bit->told += told;
    bit->placed += told && f->row == score->row && f->column == score->column;
    bit->silent += is_wrong(data, got.label);
    return HF_OK;
}

static hf_status run(hf_context *ctx, struct data *data, int64_t faults, uint64_t seed,
                     hf_dev_tile_bit bits[32]) {
    struct hf_rng rng = {.seed = seed, .stream = 1};
    const struct hf_struck_score none = {-1, 0, 0};
    struct hf_struck_labels got;
    make(data, seed);
    struct hf_struck_tiles *tiles = hf_struck_tiles_open(ctx->stream, data->x, data->norm, data->c);
    if (!tiles)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for tiles that are struck: %s",
                           ctx->device->error_text(ctx->stream));
    hf_status status = hf_struck_tiles_label(tiles, true, &none, &got);
    const bool wrong = status == HF_OK && is_wrong(data, got.label);
    if (status == HF_OK && (wrong || got.slot.suspected > 0 || got.slot.checked == 0))
        status = hf_ctx_fail(ctx, HF_E_CORRUPT,
                             "tiles without faults: %s, %lld suspected of %lld that were checked",
                             wrong ? "a wrong label" : "labels are right",
                             (long long)got.slot.suspected, (long long)got.slot.checked);
    for (int64_t i = 0; status == HF_OK && i < faults; i++) {
        const struct hf_struck_score score = {.row = (int)(hf_rng_next(&rng) % N),
                                              .column = (int)(hf_rng_next(&rng) % K),
                                              .mask = UINT32_C(1) << i % 32};
        status = strike(tiles, data, &score, &bits[i % 32]);
    }
    hf_struck_tiles_close(tiles);
    return status;
}

hf_status hf_dev_tiles_struck(hf_context *ctx, int64_t faults, uint64_t seed,
                              hf_dev_tile_bit bits[32]) {
    static struct data data;
    memset(bits, 0, 32 * sizeof *bits);
    if (ctx->device->id != HF_DEV_CUDA || ctx->props.sm < 80)
        return hf_ctx_fail(ctx, HF_E_UNSUPPORTED,
                           "scores of tiles are struck on NVIDIA GPUs from compute capability 8.0");
    return run(ctx, &data, faults, seed, bits);
}

#else

hf_status hf_dev_tiles_struck(hf_context *ctx, int64_t faults, uint64_t seed,
                              hf_dev_tile_bit bits[32]) {
    (void)faults, (void)seed;
    memset(bits, 0, 32 * sizeof *bits);
    return hf_ctx_fail(ctx, HF_E_UNSUPPORTED, "this build has no CUDA");
}

#endif
