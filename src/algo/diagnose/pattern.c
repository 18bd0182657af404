/* SPDX-License-Identifier: Apache-2.0
 * The fixed products of the periodic test. Their data are made anew each time, so that a bit that
 * flips in memory does not stay; products are small, so that they stay in a core's own cache. */
#include "algo/diagnose/pattern.h"

#include "base/checksum/checksum.h"
#include "base/dtype.h"
#include "base/rng.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm_es/gemm_es.h"

#include <string.h>

enum { M = HF_PATTERN_M, N = HF_PATTERN_N, K = HF_PATTERN_K, SEED = 61508 };

static const struct {
    enum hf_op_id op;
    hf_dtype dtype;
    enum hf_probe_form form;
    struct hf_probe_value golden[HF_PATTERNS];
} probes[HF_PROBES] = {
#define GOLDEN(NAME, op, dtype, form, ...) {HF_OP_##op, HF_##dtype, HF_PROBE_##form, {__VA_ARGS__}},
#include "algo/diagnose/golden.def"
#undef GOLDEN
};

enum hf_op_id hf_probe_op(int probe) { return probes[probe].op; }

enum hf_probe_form hf_probe_form(int probe) { return probes[probe].form; }

static bool is_tensor(int probe) {
    return probes[probe].form == HF_PROBE_TENSOR || probes[probe].form == HF_PROBE_AMX;
}

struct hf_probe_value hf_probe_golden(int probe, int pattern) {
    return probes[probe].golden[pattern];
}

/* Alternating mantissa bits, or their complements, with exponents from -6 to 8. */
static double alternating(uint64_t bits, bool complement) {
    const uint32_t mantissa = (bits & 1) != (uint64_t)complement ? 0x2aaaaau : 0x555555u;
    const uint32_t exponent = 121 + (uint32_t)(bits >> 8) % 15;
    const uint32_t word = (uint32_t)(bits >> 16) << 31 | exponent << 23 | mantissa;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* Element i of operand 0 or 1; whole numbers from -8 to 8 for the last pattern. */
static double element(int pattern, int operand, int64_t i) {
    const uint64_t bits = hf_rng_bits(SEED, (uint64_t)(2 * pattern + operand), (uint64_t)i);
    switch (pattern) {
    case 0:
        return (double)(bits >> 11) * 0x1p-52 - 1;
    case 1:
    case 2:
        return alternating(bits, pattern == 2);
    default:
        return (double)(int64_t)(bits % 17) - 8;
    }
}

static double fitted(double value, hf_dtype dtype) {
    if (dtype != HF_I8)
        return value;
    const int whole = (int)(value * 13);
    return whole > 127 ? 127 : whole < -128 ? -128 : whole;
}

union operand {
    double f64[K * N];
    unsigned char bytes[K * N * 8];
    float f32[K * N];
};

static void fill(union operand *x, hf_dtype dtype, int pattern, int which, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        hf_store_f64(x->bytes, dtype, i, fitted(element(pattern, which, i), dtype));
}

struct product {
    union operand a, b, c;
    uint64_t signature[HF_ES_ENTRIES];
    struct hf_gemm_es_args es;
    hf_gemm_args gemm;
};

/* Returns the bytes of C. */
static size_t prepare(struct product *p, int probe, int pattern) {
    const hf_dtype dtype = probes[probe].dtype;
    const hf_dtype out = dtype == HF_I8 ? HF_I32 : dtype;
    fill(&p->a, dtype, pattern, 0, (int64_t)M * K);
    fill(&p->b, dtype, pattern, 1, (int64_t)K * N);
    memset(&p->c, 0xff, sizeof p->c);
    memset(p->signature, 0, sizeof p->signature);
    p->es =
        (struct hf_gemm_es_args){.m = M,
                                 .n = N,
                                 .k = K,
                                 .a = p->a.f32,
                                 .b = p->b.f32,
                                 .c = p->c.f32,
                                 .form = probes[probe].form == HF_PROBE_AVX ? HF_ES_AVX : HF_ES_SEQ,
                                 .level = HF_ES_I,
                                 .checksum = HF_CHECKSUM_FLETCHER,
                                 .signature = p->signature};
    p->gemm = (hf_gemm_args){.order = HF_ROW_MAJOR,
                             .m = M,
                             .n = N,
                             .k = K,
                             .dtype = dtype,
                             .dtype_c = out,
                             .alpha = 1,
                             .a = &p->a,
                             .b = &p->b,
                             .c = &p->c,
                             .lda = K,
                             .ldb = N,
                             .ldc = N,
                             .batch = 1,
                             .portable = !is_tensor(probe)};
    return (size_t)M * N * hf_dtype_bytes(out);
}

static const void *arguments(const struct product *p, int probe) {
    return probes[probe].op == HF_OP_GEMM ? (const void *)&p->gemm : (const void *)&p->es;
}

bool hf_probe_takes(int probe, const struct hf_kernel *kernel,
                    const struct hf_device_props *device) {
    struct product p;
    const enum hf_probe_form form = probes[probe].form;
    (void)prepare(&p, probe, 0);
    const struct hf_call call = {.device = device, .args = arguments(&p, probe)};
    if (is_tensor(probe) && ((kernel->dtypes & HF_DT(HF_F32)) != 0 ||
                             (kernel->device == HF_DEV_HOST) != (form == HF_PROBE_AMX) ||
                             (form == HF_PROBE_TENSOR && device->sm != 90)))
        return false;
    return (kernel->dtypes & HF_DT(probes[probe].dtype)) != 0 &&
           (kernel->supports == NULL || kernel->supports(&call));
}

/* The checksums of a product that was computed. */
static struct hf_probe_value value_of(const struct product *p, size_t bytes) {
    uint32_t words[sizeof p->c / 4], signature[2 * HF_ES_ENTRIES];
    memcpy(words, &p->c, sizeof words);
    memcpy(signature, p->signature, sizeof signature);
    return (struct hf_probe_value){.c = hf_crc32c_words(0, words, (int64_t)(bytes / 4)),
                                   .signature =
                                       hf_crc32c_words(0, signature, (int64_t)2 * HF_ES_ENTRIES)};
}

hf_status hf_probe_run(hf_context *ctx, int probe, int pattern, const struct hf_kernel *kernel,
                       bool flip, struct hf_probe_value *value) {
    struct product p;
    const size_t bytes = prepare(&p, probe, pattern);
    HF_TRY(hf_run_kernel(ctx, probes[probe].op, kernel, arguments(&p, probe)));
    if (flip)
        p.c.bytes[bytes / 2] ^= 1;
    *value = value_of(&p, bytes);
    return HF_OK;
}

struct hf_probe_value hf_probe_computed(int probe, int pattern,
                                        void (*compute)(const hf_gemm_args *args)) {
    struct product p;
    const size_t bytes = prepare(&p, probe, pattern);
    compute(&p.gemm);
    return value_of(&p, bytes);
}
