/* SPDX-License-Identifier: Apache-2.0
 * Where planted faults strike. Everything here is empty unless HF_INJECT is defined, which only
 * objects of the development library are compiled with: the door a second time, and a second set
 * of kernels that runs while a fault in a register is planted (harness/inject). */
#ifndef HF_CORE_INJECT_HOOKS_H
#define HF_CORE_INJECT_HOOKS_H

#include "core/kernel.h"

#ifdef HF_INJECT

#include <stdatomic.h>

enum hf_register {
#define REGISTER(NAME, name, op, type, undo, text) HF_REGISTER_##NAME,
#include "core/registers.def"
#undef REGISTER
    HF_REGISTER_COUNT
};

/* Values that a kernel has at hand: `columns` of them for each of `lanes` rows. */
struct hf_strike {
    int where;             /* enum hf_register */
    int worker;            /* -1: not known */
    int lanes, columns;    /* row l and column c: value[c * stride + l] */
    int stride;            /* elements */
    const int64_t *row;    /* [lanes] of the call; NULL: first_row + lane */
    int64_t first_row;     /* -1, without row: not known */
    const int32_t *column; /* [columns]; NULL: first_column + c */
    int64_t first_column;
    const void *row_at; /* a row of the data of the call, in place of its number; or NULL */
    int64_t step;       /* -1: none */
    void *value;        /* of the type of the register, */
    const void *before; /* and what was there before the step; NULL: not known */
    int whole;          /* F32 registers: these values are int32 */
};

/* Bit i: a fault in register i is planted in the call at work, or its visits are counted. */
extern _Atomic uint32_t hf_strike_wanted;

static inline int hf_strikes(int where) {
    return atomic_load_explicit(&hf_strike_wanted, memory_order_relaxed) >> where & 1;
}

/* Alters those values that the planted fault is in. */
void hf_strike(const struct hf_strike *s);

/* The way of a kernel through the door, with faults in its arrays and its registers. */
hf_status hf_inject_run(const struct hf_kernel *kernel, const struct hf_call *call);

#define HF_RUN_KERNEL(kernel, call) hf_inject_run(kernel, call)

#else

#define HF_RUN_KERNEL(kernel, call) (kernel)->run(call)

#endif

#endif
