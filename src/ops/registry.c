/* SPDX-License-Identifier: Apache-2.0
 * All ops and all kernel rows of this build. */
#include "core/kernel.h"
#include "core/op.h"
#include "device/host/isa.h"
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
#define PICK(junk_and_tables) SECOND(junk_and_tables, NULL, 0)
#define TABLES_(have, name) PICK(IF_##have &hf_isa_tables_##name)
#define TABLES(have, name) TABLES_(have, name)

static isa_tables *const tables[HF_ISA_COUNT] = {
#define ISA(name, flags, test) TABLES(HF_HAVE_ISA_##name, name),
#include "device/host/isa.def"
#undef ISA
};

/* HF_CUDA_OP_<name> is 1 for ops that have a <op>_cuda.cu in this build. */
#define CUDA_TABLE_(have, name) PICK(IF_##have &hf_##name##_rows_cuda)
#define CUDA_TABLE(have, name) CUDA_TABLE_(have, name)

#define OP(NAME, name) extern const struct hf_kernel_table hf_##name##_rows_cuda;
#include "ops/ops.def"
#undef OP

static const struct hf_kernel_table *const cuda_tables[HF_OP_COUNT] = {
#define OP(NAME, name) CUDA_TABLE(HF_CUDA_OP_##name, name),
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
            return &table->rows[i];
        i -= table->count;
    }
    const struct hf_kernel_table *cuda = cuda_tables[op];
    return cuda != NULL && i < cuda->count ? &cuda->rows[i] : NULL;
}

static bool host_row_runs(const struct hf_kernel *kernel, char *why, size_t why_bytes) {
    if ((hf_cpu_isas() >> kernel->isa & 1) != 0)
        return true;
    const bool there = (hf_cpu_isas_there() >> kernel->isa & 1) != 0;
    (void)snprintf(why, why_bytes,
                   there ? "%s is hidden by HF_ISA_MAX"
                         : "this CPU or its operating system has no %s",
                   hf_isa_name((int)kernel->isa));
    return false;
}

bool hf_kernel_runs_here(const struct hf_kernel *kernel, char *why, size_t why_bytes) {
    char unread[160];
    if (why == NULL) {
        why = unread;
        why_bytes = sizeof unread;
    }
#if HF_HAVE_CUDA
    if (kernel->device == HF_DEV_CUDA)
        return hf_cuda_runs(kernel->isa, why, why_bytes);
#endif
    return host_row_runs(kernel, why, why_bytes);
}
