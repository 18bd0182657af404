/* SPDX-License-Identifier: Apache-2.0 */
#include "core/part.h"

#if HF_HAVE_CUDA
#include "device/cuda/pin.h"
#endif

static hf_status refuse(hf_context *ctx) {
    return hf_ctx_fail(
        ctx, HF_E_UNSUPPORTED,
        "device %s has no multiprocessors that can be told apart: give a GPU of CUDA", ctx->name);
}

#if HF_HAVE_CUDA
static bool is_cuda(const hf_context *ctx) { return ctx->device->id == HF_DEV_CUDA; }

hf_status hf_part_open(hf_context *ctx, struct hf_pin **pin) {
    if (!is_cuda(ctx))
        return refuse(ctx);
    return hf_ctx_check(ctx, hf_cuda_pin_open(ctx->stream, pin));
}

void hf_part_close(struct hf_pin *pin) { hf_cuda_pin_close(pin); }

hf_status hf_part_begin(hf_context *ctx, struct hf_pin *pin, int first, int count, double limit_s) {
    HF_TRY(hf_ctx_check(ctx, hf_cuda_pin_begin(ctx->stream, pin, first, count, limit_s)));
    ctx->props.sms = count;
    return HF_OK;
}

hf_status hf_part_end(hf_context *ctx, struct hf_pin *pin, bool *kept) {
    const hf_status status = hf_ctx_check(ctx, hf_cuda_pin_end(ctx->stream, pin, kept));
    ctx->props = ctx->device->props(ctx->stream);
    return status;
}

double hf_part_clock(hf_context *ctx) { return is_cuda(ctx) ? hf_cuda_clock(ctx->stream) : 0; }
#else
hf_status hf_part_open(hf_context *ctx, struct hf_pin **pin) {
    (void)pin;
    return refuse(ctx);
}

void hf_part_close(struct hf_pin *pin) { (void)pin; }

hf_status hf_part_begin(hf_context *ctx, struct hf_pin *pin, int first, int count, double limit_s) {
    (void)pin;
    (void)first;
    (void)count;
    (void)limit_s;
    return refuse(ctx);
}

hf_status hf_part_end(hf_context *ctx, struct hf_pin *pin, bool *kept) {
    (void)pin;
    *kept = false;
    return refuse(ctx);
}

double hf_part_clock(hf_context *ctx) {
    (void)ctx;
    return 0;
}
#endif
