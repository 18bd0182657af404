/* SPDX-License-Identifier: Apache-2.0
 * A kernel is one implementation of an op. */
#ifndef HF_KERNEL_H
#define HF_KERNEL_H

#include "base/status.h"
#include "core/call.h"
#include <holdfast/array.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_DT(dtype) (1u << (dtype))
#define HF_DT_DATA (HF_DT(HF_F32) | HF_DT(HF_F64) | HF_DT(HF_F16) | HF_DT(HF_BF16) | HF_DT(HF_U8))

enum hf_trait {
    HF_TRAIT_REFERENCE = 1,  /* plain float64, scalar: planned only when nothing else can run */
    HF_TRAIT_FIXED_ORDER = 2 /* the same bits every time, whatever the threads */
};

/* A step of a call: op and arguments, of which contents of arrays are not looked at. */
typedef void hf_step_fn(void *user, int op, const void *args);

struct hf_kernel {
    const char *name; /* op_dtype_tile_isa[_variant] */
    int device;       /* enum hf_device_id */
    uint32_t dtypes;  /* HF_DT() bits of the data */
    uint32_t isa; /* enum hf_isa_id on the CPU; with CUDA the least compute capability, such as 80;
                     with OpenCL 0 or HF_OPENCL_WIDE */
    uint32_t traits;
    uint32_t guards; /* the checks that it makes by itself, HF_CHECK_BIT()s */
    int tile[3];
    bool (*supports)(const struct hf_call *call);    /* NULL: every call of these dtypes */
    size_t (*workspace)(const struct hf_call *call); /* bytes; NULL: 0 */
    /* On the device's stream. No allocation, no print. */
    hf_status (*run)(const struct hf_call *call);
    /* Predicted nanoseconds of this call on one worker: the cost model. NULL: never preferred. */
    double (*estimate)(const struct hf_call *call);
    /* Of a kernel that is made of others: tells the steps of a call, at most HF_MAX_STEPS, none of
     * which has steps itself. Each is planned like any call; hf_call.step has their kernels in this
     * order. NULL: it has none. */
    void (*steps)(const struct hf_call *call, hf_step_fn *tell, void *user);
};

/* An entry of a table in CUDA C++17, which has no designated initialisers. tile: HF_TILE() or
 * HF_NO_TILE. Then follow supports, workspace, run, estimate and steps. */
#define HF_CUDA_KERNEL(name, dtypes, least_capability, traits, tile, ...)                          \
    { name, HF_DEV_CUDA, dtypes, least_capability, traits, 0, tile, __VA_ARGS__ }
#define HF_TILE(rows, columns, depth)                                                              \
    { rows, columns, depth }
#define HF_NO_TILE HF_TILE(0, 0, 0)

#define HF_OPENCL_WIDE 1u /* bit of isa: only for a CPU under OpenCL, which works on vectors */

/* What a kernel file exports: hf_<op>_kernels_<isa>. */
struct hf_kernel_table {
    const struct hf_kernel *kernels;
    int count;
};

/* Kernel i of an op, of all backends and ISAs compiled, also those that this machine cannot run;
 * NULL past the last. */
const struct hf_kernel *hf_kernel_at(int op, int i);

/* Can a device of the kernel's kind with these properties run it? Writes the reason when not; why
 * may be NULL. */
bool hf_kernel_runs_on(const struct hf_kernel *kernel, const struct hf_device_props *device,
                       char *why, size_t why_bytes);

/* Can any device of this machine? */
bool hf_kernel_runs_here(const struct hf_kernel *kernel, char *why, size_t why_bytes);

#ifdef __cplusplus
}
#endif

#endif
