/* SPDX-License-Identifier: Apache-2.0
 * All ops and all kernels of this build. */
#include "core/kernel.h"
#include "core/op.h"
#include "device/host/isa.h"
#include "device/opencl/opencl.h"
#if HF_HAVE_CUDA
#include "device/cuda/cuda.h"
#endif

#include <stdio.h>
#include <string.h>

_Static_assert((int)HF_OP_COUNT <= HF_MAX_OPS, "raise HF_MAX_OPS");

#define OP(NAME, name) extern const struct hf_op hf_##name##_op;
#include "ops/ops.def"
#undef OP

static const struct hf_op *const ops[HF_OP_COUNT] = {
#define OP(NAME, name) &hf_##name##_op,
#include "ops/ops.def"
#undef OP
};

typedef const struct hf_kernel_table *const isa_tables[HF_OP_COUNT];

#define ISA(name, flags, test) extern isa_tables hf_isa_tables_##name;
#include "device/host/isa.def"
#undef ISA

/* The build defines HF_HAVE_ISA_<name> as 1 for the sets that its compiler knows; the others have
 * no tables and get NULL. TABLES(name) is hf_isa_tables_<name> or NULL: IF_1 puts a comma before
 * the name, so that it becomes the second argument. */
#define IF_1 0,
#define SECOND(a, b, ...) b
#define OR_NULL(junk_and_tables) SECOND(junk_and_tables, NULL, 0)
#define TABLES_(have, name) OR_NULL(IF_##have &hf_isa_tables_##name)
#define TABLES(have, name) TABLES_(have, name)

static isa_tables *const tables[HF_ISA_COUNT] = {
#define ISA(name, flags, test) TABLES(HF_HAVE_ISA_##name, name),
#include "device/host/isa.def"
#undef ISA
};

/* HF_CUDA_OP_<name> is 1 for ops that have a <op>_cuda.cu in this build. */
#define CUDA_TABLE_(have, name) OR_NULL(IF_##have &hf_##name##_kernels_cuda)
#define CUDA_TABLE(have, name) CUDA_TABLE_(have, name)

#define OP(NAME, name) extern const struct hf_kernel_table hf_##name##_kernels_cuda;
#include "ops/ops.def"
#undef OP

static const struct hf_kernel_table *const cuda_tables[HF_OP_COUNT] = {
#define OP(NAME, name) CUDA_TABLE(HF_CUDA_OP_##name, name),
#include "ops/ops.def"
#undef OP
};

/* HF_OPENCL_OP_<name> is 1 for ops that have a <op>_opencl.c. */
#define OPENCL_TABLE_(have, name) OR_NULL(IF_##have &hf_##name##_kernels_opencl)
#define OPENCL_TABLE(have, name) OPENCL_TABLE_(have, name)

#define OP(NAME, name) extern const struct hf_kernel_table hf_##name##_kernels_opencl;
#include "ops/ops.def"
#undef OP

static const struct hf_kernel_table *const opencl_tables[HF_OP_COUNT] = {
#define OP(NAME, name) OPENCL_TABLE(HF_OPENCL_OP_##name, name),
#include "ops/ops.def"
#undef OP
};

const struct hf_op *hf_op_at(int id) { return id >= 0 && id < HF_OP_COUNT ? ops[id] : NULL; }

int hf_op_find(const char *name) {
    for (int id = 0; id < HF_OP_COUNT; id++)
        if (strcmp(ops[id]->name, name) == 0)
            return id;
    return -1;
}

const struct hf_kernel *hf_kernel_at(int op, int i) {
    if (op < 0 || op >= HF_OP_COUNT || i < 0)
        return NULL;
    for (int isa = 0; isa < HF_ISA_COUNT; isa++) {
        if (tables[isa] == NULL)
            continue;
        const struct hf_kernel_table *table = (*tables[isa])[op];
        if (i < table->count)
            return &table->kernels[i];
        i -= table->count;
    }
    const struct hf_kernel_table *cuda = cuda_tables[op];
    if (cuda != NULL) {
        if (i < cuda->count)
            return &cuda->kernels[i];
        i -= cuda->count;
    }
    const struct hf_kernel_table *opencl = opencl_tables[op];
    return opencl != NULL && i < opencl->count ? &opencl->kernels[i] : NULL;
}

static bool host_kernel_runs(const struct hf_kernel *kernel, char *why, size_t why_bytes) {
    if ((hf_cpu_isas() >> kernel->isa & 1) != 0)
        return true;
    const bool has = (hf_cpu_isas_found() >> kernel->isa & 1) != 0;
    (void)snprintf(why, why_bytes,
                   has ? "%s is hidden by HF_ISA_MAX"
                       : "this CPU or its operating system has no %s",
                   hf_isa_name((int)kernel->isa));
    return false;
}

/* Instructions of Hopper exist on 9.0 alone. */
static bool cuda_row_runs(const struct hf_kernel *kernel, int sm, char *why, size_t why_bytes) {
    const int least = (int)kernel->isa;
    const bool hopper = least == 90;
    if (hopper ? sm == 90 : sm >= least)
        return true;
    (void)snprintf(why, why_bytes, "needs compute capability %d.%d%s, the GPU has %d.%d",
                   least / 10, least % 10, hopper ? "" : " or later", sm / 10, sm % 10);
    return false;
}

/* Kernels for vectors are for CPUs. */
static bool opencl_kernel_runs(const struct hf_kernel *kernel, const struct hf_device_props *device,
                               char *why, size_t why_bytes) {
    if (device->units > 0 && (kernel->isa & HF_OPENCL_WIDE) <= (device->wide ? 1 : 0))
        return true;
    (void)snprintf(why, why_bytes, device->units > 0 ? "is for a CPU" : "needs an OpenCL device");
    return false;
}

bool hf_kernel_runs_on(const struct hf_kernel *kernel, const struct hf_device_props *device,
                       char *why, size_t why_bytes) {
    char unread[160];
    if (why == NULL) {
        why = unread;
        why_bytes = sizeof unread;
    }
    if (kernel->device == HF_DEV_OPENCL)
        return opencl_kernel_runs(kernel, device, why, why_bytes);
    return kernel->device == HF_DEV_CUDA ? cuda_row_runs(kernel, device->sm, why, why_bytes)
                                         : host_kernel_runs(kernel, why, why_bytes);
}

#if HF_HAVE_CUDA
/* Where none can, the first GPU counts. */
static bool some_gpu_runs(const struct hf_kernel *kernel, char *why, size_t why_bytes) {
    const struct hf_device *cuda = hf_device_of(HF_DEV_CUDA);
    const int count = cuda->count();
    for (int i = count - 1; i >= 0; i--) {
        const struct hf_device_props device = {.workers = 1, .sm = hf_cuda_sm(i)};
        if (hf_kernel_runs_on(kernel, &device, why, why_bytes))
            return true;
    }
    if (count == 0 && why != NULL)
        (void)cuda->probe(0, why, why_bytes);
    return false;
}
#endif

/* On the first device that can be used. */
static bool some_opencl_runs(const struct hf_kernel *kernel, char *why, size_t why_bytes) {
    const struct hf_device *opencl = hf_device_of(HF_DEV_OPENCL);
    char text[200];
    const int count = opencl->count();
    for (int i = 0; i < count; i++) {
        const struct hf_device_props device = hf_opencl_props(i);
        if (opencl->probe(i, text, sizeof text) == HF_OK &&
            hf_kernel_runs_on(kernel, &device, why, why_bytes))
            return true;
    }
    if (count == 0 && why != NULL)
        (void)opencl->probe(0, why, why_bytes);
    return false;
}

bool hf_kernel_runs_here(const struct hf_kernel *kernel, char *why, size_t why_bytes) {
    if (kernel->device == HF_DEV_OPENCL)
        return some_opencl_runs(kernel, why, why_bytes);
#if HF_HAVE_CUDA
    if (kernel->device == HF_DEV_CUDA)
        return some_gpu_runs(kernel, why, why_bytes);
#endif
    const struct hf_device_props host = {.workers = 1};
    return hf_kernel_runs_on(kernel, &host, why, why_bytes);
}
