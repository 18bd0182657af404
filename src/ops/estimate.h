/* SPDX-License-Identifier: Apache-2.0
 * The cost model of the streaming ops: rough machine constants, the same for every kernel of an op,
 * so that kernels compare by what they do at once. */
#ifndef HF_ESTIMATE_H
#define HF_ESTIMATE_H

#define HF_ESTIMATE_CALL_NS 500.0 /* start and join of a loop */
#define HF_ESTIMATE_OPS_NS 4.0    /* operations per ns and lane: two ports near 3 GHz, kept busy */
#define HF_ESTIMATE_BYTES_NS 10.0 /* bytes per ns and core from memory */

/* Nanoseconds of a pass of `ops` operations, `lanes` at once, over `bytes` bytes on one core. */
static inline double hf_estimate_ns(double ops, int lanes, double bytes) {
    return HF_ESTIMATE_CALL_NS + ops / (HF_ESTIMATE_OPS_NS * lanes) + bytes / HF_ESTIMATE_BYTES_NS;
}

#endif
