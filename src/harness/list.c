/* SPDX-License-Identifier: Apache-2.0
 * What is compiled and what this machine can do with it. */
#include "base/cpuid.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "core/op.h"
#include "device/host/isa.h"
#include "harness/harness.h"
#include <stdio.h>
#include <string.h>

static const struct isa_row {
    const char *name, *flags;
} isa_rows[HF_ISA_COUNT] = {
#define ISA(name, flags, test) {#name, flags},
#include "device/host/isa.def"
#undef ISA
};

int hf_dev_op_at(int i, hf_dev_op *info) {
    const struct hf_op *op = hf_op_at(i);
    memset(info, 0, sizeof *info);
    if (!op)
        return 0;
    const struct hf_op_cases *cases = hf_op_cases_at(i);
    info->name = op->name;
    memcpy(info->type, op->type, sizeof info->type);
    memcpy(info->dim, op->dim, sizeof info->dim);
    memcpy(info->flag, op->flag, sizeof info->flag);
    memcpy(info->data, cases->data, sizeof info->data);
    info->example = hf_key_shape(&cases->example);
    return 1;
}

int hf_dev_op_find(const char *name, hf_dev_op *info) {
    return hf_dev_op_at(hf_op_find(name), info);
}

static void list_dtypes(uint32_t dtypes, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (int t = HF_F32; t <= HF_I8; t++)
        if ((dtypes & HF_DT(t)) && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? " " : "",
                                     hf_dtype_name((hf_dtype)t));
}

/* The compute capabilities that kernels are written for. */
static const char *sm_name(uint32_t sm) { return sm == 90 ? "sm_90" : sm == 80 ? "sm_80" : "sm"; }

static const char *isa_name(const struct hf_kernel *kernel) {
    if (kernel->device == HF_DEV_OPENCL)
        return (kernel->isa & HF_OPENCL_WIDE) ? "cl12_cpu" : "cl12";
    return kernel->device == HF_DEV_HOST ? isa_rows[kernel->isa].name : sm_name(kernel->isa);
}

int hf_dev_kernel_at(const char *op, int i, hf_dev_kernel *info) {
    const int id = hf_op_find(op);
    const struct hf_kernel *kernel = id < 0 || i < 0 ? NULL : hf_kernel_at(id, i);
    memset(info, 0, sizeof *info);
    if (!kernel)
        return 0;
    info->op = hf_op_at(id)->name;
    info->name = kernel->name;
    info->device = hf_device_of(kernel->device)->name;
    info->isa = isa_name(kernel);
    list_dtypes(kernel->dtypes, info->dtypes, sizeof info->dtypes);
    memcpy(info->tile, kernel->tile, sizeof info->tile);
    info->reference = (kernel->traits & HF_TRAIT_REFERENCE) != 0;
    info->fixed_order = (kernel->traits & HF_TRAIT_FIXED_ORDER) != 0;
    info->runs_here = hf_kernel_runs_here(kernel, info->why_not, sizeof info->why_not);
    if (info->runs_here)
        info->why_not[0] = '\0';
    return 1;
}

/* Has any op a host kernel of this set? */
static int isa_compiled(int isa) {
    for (int id = 0; id < HF_OP_COUNT; id++) {
        const struct hf_kernel *kernel;
        for (int i = 0; (kernel = hf_kernel_at(id, i)) != NULL; i++)
            if (kernel->device == HF_DEV_HOST && kernel->isa == (uint32_t)isa)
                return 1;
    }
    return 0;
}

int hf_dev_isa_at(int i, hf_dev_isa *info) {
    memset(info, 0, sizeof *info);
    if (i < 0 || i >= HF_ISA_COUNT)
        return 0;
    info->name = isa_rows[i].name;
    info->flags = isa_rows[i].flags;
    info->compiled = isa_compiled(i);
    info->runnable = (hf_cpu_isas() >> i) & 1u ? 1 : 0;
    return 1;
}

int hf_dev_device_at(int i, hf_dev_device *info) {
    const struct hf_device *device = NULL;
    memset(info, 0, sizeof *info);
    for (int b = 0; i >= 0 && (device = hf_device_at(b)) != NULL; b++) {
        const int count = device->count();
        const int shown = count > 0 ? count : 1; /* one line says why there is none */
        if (i < shown) {
            if (device->id == HF_DEV_HOST)
                snprintf(info->name, sizeof info->name, "%s", device->name);
            else
                snprintf(info->name, sizeof info->name, "%s:%d", device->name, i);
            info->available = device->probe(i, info->text, sizeof info->text) == HF_OK;
            return 1;
        }
        i -= shown;
    }
    const struct hf_absent *absent = i < 0 ? NULL : hf_device_absent(i);
    if (!absent)
        return 0;
    snprintf(info->name, sizeof info->name, "%s", absent->name);
    snprintf(info->text, sizeof info->text, "not in this build: %s", absent->why);
    return 1;
}

void hf_dev_host_info(hf_dev_host *info) {
    memset(info, 0, sizeof *info);
    info->cpu = hf_cpu_name();
    info->cores = hf_usable_cores();
    hf_cpu_caches(&info->l1, &info->l2, &info->l3);
    info->memory_available = hf_mem_available();
#if defined(__clang__)
    info->compiler = "clang " __clang_version__;
#else
    info->compiler = "gcc " __VERSION__;
#endif
}
