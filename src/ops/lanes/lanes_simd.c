/* SPDX-License-Identifier: Apache-2.0
 * lanes on vectors: element i stays in lane i modulo the width of a vector. Several vectors are
 * under way at once, so that the units have work in every clock. */
#include "base/mem.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/lanes/lanes.h"

#include <string.h>

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_lanes_kernels) = {NULL, 0};
#else

#define VECTORS 4
#define GROUP (VECTORS * VW)

/* One step after the other of a group of elements. */
struct group {
    float single[GROUP];
    double wide[GROUP];
    uint32_t word[GROUP];
};

static void step_single(float *single, int64_t steps) {
    const vf map = vf_set1((float)HF_LANES_MAP), one = vf_set1(1);
    vf v[VECTORS];
    UNROLL(4)
    for (int i = 0; i < VECTORS; i++)
        v[i] = vf_load(single + i * VW);
    for (int64_t s = 0; s < steps; s++)
        UNROLL(4)
    for (int i = 0; i < VECTORS; i++)
        v[i] = vf_fma(vf_mul(map, v[i]), v[i], one);
    UNROLL(4)
    for (int i = 0; i < VECTORS; i++)
        vf_store(single + i * VW, v[i]);
}

static void step_wide(double *wide, int64_t steps) {
    const vd map = vd_set1(HF_LANES_MAP), one = vd_set1(1);
    vd v[2 * VECTORS];
    UNROLL(8)
    for (int i = 0; i < 2 * VECTORS; i++)
        v[i] = vd_load(wide + i * VDW);
    for (int64_t s = 0; s < steps; s++)
        UNROLL(8)
    for (int i = 0; i < 2 * VECTORS; i++)
        v[i] = vd_fma(vd_mul(map, v[i]), v[i], one);
    UNROLL(8)
    for (int i = 0; i < 2 * VECTORS; i++)
        vd_store(wide + i * VDW, v[i]);
}

/* The compiler makes vectors of this loop: neighbours are in neighbouring lanes. */
static void step_word(uint32_t *word, int64_t steps) {
    for (int64_t s = 0; s < steps; s++)
        for (int i = 0; i < GROUP; i++) {
            const uint32_t v = word[i] * HF_LANES_TIMES + HF_LANES_PLUS;
            word[i] = v ^ v >> 15;
        }
}

static hf_status lanes_run(const struct hf_call *call) {
    const struct hf_lanes_args *args = call->args;
    _Alignas(HF_ALIGN) struct group g;
    memset(&g, 0, sizeof g);
    for (int64_t i = 0; i < args->n; i += GROUP) {
        const size_t count = (size_t)(args->n - i < GROUP ? args->n - i : GROUP);
        memcpy(g.single, args->single + i, count * sizeof *g.single);
        memcpy(g.wide, args->wide + i, count * sizeof *g.wide);
        memcpy(g.word, args->word + i, count * sizeof *g.word);
        step_single(g.single, args->steps);
        step_wide(g.wide, args->steps);
        step_word(g.word, args->steps);
        memcpy(args->single_end + i, g.single, count * sizeof *g.single);
        memcpy(args->wide_end + i, g.wide, count * sizeof *g.wide);
        memcpy(args->word_end + i, g.word, count * sizeof *g.word);
    }
    return HF_OK;
}

static double lanes_estimate(const struct hf_call *call) {
    const struct hf_lanes_args *args = call->args;
    return hf_estimate_ns(10 * (double)args->n * (double)args->steps, VDW, 32.0 * (double)args->n);
}

static const struct hf_kernel kernels[] = {{.name = "lanes_f32_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32),
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .run = lanes_run,
                                            .estimate = lanes_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_lanes_kernels) = {kernels, 1};

#endif
