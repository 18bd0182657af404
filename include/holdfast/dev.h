/* SPDX-License-Identifier: Apache-2.0
 * For developers of kernels and for the command: list and check kernels, explain plans,
 * measure. Found in libholdfast_dev only. Unstable: may change in any release. */
#ifndef HF_DEV_H
#define HF_DEV_H

#include <holdfast/array.h>
#include <holdfast/base.h>
#include <holdfast/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is there. */

#define HF_DEV_TYPES 3
#define HF_DEV_DIMS 4
#define HF_DEV_FLAGS 4
#define HF_DEV_DATA 4

/* A call as planner and tuning file see it. What its numbers mean the op says: hf_dev_op. What an
 * op does not name is 0. */
typedef struct hf_dev_shape {
    hf_dtype dtype[HF_DEV_TYPES];
    int64_t dim[HF_DEV_DIMS];
    uint32_t flags; /* bit i: flag i is set */
} hf_dev_shape;

typedef struct hf_dev_op {
    const char *name;               /* "assign" */
    const char *type[HF_DEV_TYPES]; /* "x"; NULL after the last, likewise below */
    const char *dim[HF_DEV_DIMS];   /* "n", "k", "d" */
    const char *flag[HF_DEV_FLAGS];
    const char *data[HF_DEV_DATA]; /* kinds of benchmark data, the usual first: "blobs", "normal";
                                      none where the op is not timed by itself */
    hf_dev_shape example;          /* of a call that it is timed on */
} hf_dev_op;

/* Op number i; 0 past the last, else 1. */
HF_API int hf_dev_op_at(int i, hf_dev_op *info);
/* The op called `name`; 0 when there is none, else 1. */
HF_API int hf_dev_op_find(const char *name, hf_dev_op *info);

typedef struct hf_dev_kernel {
    const char *op;
    const char *name;
    const char *device; /* "cpu", "cuda", "opencl" */
    const char *isa;    /* "scalar", "avx2", ..., "sm_90" */
    char dtypes[48];    /* "f32 f64 u8" */
    int tile[3];        /* 0 where it means nothing */
    int reference;      /* plain float64, what the others are compared with */
    int fixed_order;    /* same bits for any number of threads */
    int runs_here;
    char why_not[160]; /* "" when it runs here */
} hf_dev_kernel;

/* Row i of an op, over all instruction sets compiled; 0 past the last, else 1. */
HF_API int hf_dev_kernel_at(const char *op, int i, hf_dev_kernel *info);

typedef struct hf_dev_isa {
    const char *name;
    const char *flags; /* what the compiler was given */
    int compiled;      /* kernels of this set are in this build */
    int runnable;      /* by this CPU, operating system and HF_ISA_MAX */
} hf_dev_isa;

/* Instruction set i, weakest first; 0 past the last, else 1. */
HF_API int hf_dev_isa_at(int i, hf_dev_isa *info);

typedef struct hf_dev_device {
    char name[24]; /* "cpu", "cuda:0"; "cuda" when it is not in this build */
    int available;
    char text[400]; /* what it is, or why it is not there */
} hf_dev_device;

/* Device i; 0 past the last, else 1. */
HF_API int hf_dev_device_at(int i, hf_dev_device *info);

typedef struct hf_dev_host {
    const char *cpu;           /* "AMD EPYC 7763 64-Core Processor" */
    int cores;                 /* that this process may use */
    int64_t l1, l2, l3;        /* bytes; L1 data and L2 of a core */
    uint64_t memory_available; /* bytes */
    const char *compiler;      /* "gcc 12.2.0" */
} hf_dev_host;

HF_API void hf_dev_host_info(hf_dev_host *info);

/* CRC-32C of the elements of an array in host memory, without what lies between its rows. */
HF_API uint32_t hf_dev_array_crc(const hf_array *x);

/* Plans. */

typedef struct hf_dev_candidate {
    const char *kernel;
    int usable; /* runs here and supports this call */
    int chosen;
    double estimate_s; /* predicted time on one thread; < 0: the kernel gives none */
    uint64_t workspace_bytes;
    char why[200]; /* why it was chosen, or why it lost */
} hf_dev_candidate;

typedef void (*hf_dev_candidate_fn)(void *user, const hf_dev_candidate *candidate);

/* Texts of the library. */
typedef struct hf_dev_choice {
    const char *kernel;
    const char *source; /* "forced", "tuned", "model" or "reference" */
} hf_dev_choice;

/* Which kernel would serve `op` on this shape. choice may be NULL. each (may be NULL) gets every
 * kernel of the op. HF_E_ARG unknown op or impossible shape; HF_E_UNSUPPORTED no kernel can, or the
 * op has no benchmark problem. */
HF_API hf_status hf_dev_plan(hf_context *ctx, const char *op, const hf_dev_shape *shape,
                             hf_dev_choice *choice, hf_dev_candidate_fn each, void *user);

/* Check. */

typedef enum hf_dev_verdict {
    HF_DEV_PASSED = 0,
    HF_DEV_FAILED = 1,
    HF_DEV_SKIPPED = 2
} hf_dev_verdict;

/* All zero means default. */
typedef struct hf_dev_check_opts {
    const char *op;     /* NULL: all */
    const char *kernel; /* exact name, or with a trailing '*'; NULL: all */
    uint64_t seed;
    int64_t max_cases; /* of each op; 0: all */
    /* For slow tools, which can take a part at a time: */
    const char *device;  /* kernels of this device, such as "cpu"; NULL: all */
    int share, shares;   /* cases whose number is `share` modulo `shares`; shares 0: all */
    int64_t largest;     /* leave out cases whose dimensions multiply to more; 0: none */
    int once;            /* run each kernel once on a case instead of three or four times */
    int leave_workspace; /* do not fill workspaces: tools then see reads of what nobody wrote */
} hf_dev_check_opts;

typedef struct hf_dev_check_event {
    const char *op;
    const char *kernel;
    const char *case_name; /* NULL: the verdict on the whole kernel */
    hf_dev_verdict verdict;
    int64_t cases;    /* that the kernel has run so far */
    const char *text; /* what is wrong, or why it was skipped; "" otherwise */
} hf_dev_check_event;

/* Called for each failing case and once for each kernel. */
typedef void (*hf_dev_check_fn)(void *user, const hf_dev_check_event *event);

typedef struct hf_dev_tally {
    int64_t passed, failed, skipped; /* kernels */
} hf_dev_tally;

/* Compare kernels with their reference on all cases, with 1, 2 and 7 workers. HF_OK when the
 * check was made, whatever it found; HF_E_ARG when no op or kernel has the name; HF_E_NOMEM. */
HF_API hf_status hf_dev_check(const hf_dev_check_opts *opts, hf_dev_check_fn each, void *user,
                              hf_dev_tally *tally);

/* Time. */

#define HF_DEV_MAX_ISAS 8

/* The fastest this machine's CPU does simple things with the context's threads, measured now; all 0
 * for a context on another device. */
typedef struct hf_dev_ceiling {
    double fma_f32[HF_DEV_MAX_ISAS]; /* flop/s by instruction set, numbered as hf_dev_isa_at(); 0:
                                        cannot run */
    double amx_bf16;                 /* flop/s; 0: no AMX */
    double read_bytes;               /* bytes/s read from memory */
} hf_dev_ceiling;

/* Takes about half a second. */
HF_API hf_status hf_dev_measure_ceiling(hf_context *ctx, hf_dev_ceiling *ceiling);

typedef struct hf_dev_timing {
    const char *op;
    const char *kernel;
    hf_dev_shape shape;
    int threads;
    int rounds;
    double median_s, min_s, max_s;
    double flops, bytes; /* that the op needs at least (hf_op::cost) */
    double ceiling_s;    /* least time by the ceilings: max of flops and bytes over their rates */
    const char *ceiling_by; /* "fma" or "memory" */
    int planned;            /* the planner would take this kernel */
} hf_dev_timing;

typedef void (*hf_dev_timing_fn)(void *user, const hf_dev_timing *timing);

/* All zero means default. */
typedef struct hf_dev_time_opts {
    const char *kernel; /* NULL: the planned one; "all": all that can but the reference; a name */
    int rounds;         /* 0: 7; kernels take turns within a round */
    double budget_s;    /* stop after this long with at least 3 rounds; 0: 10 */
    const char *data;   /* kind of data, one of the op's; NULL: its first */
    int checked_only;   /* leave out kernels that differ from the reference on this very problem */
    uint64_t seed;
    const hf_dev_ceiling *ceiling; /* to compare with; NULL: none */
} hf_dev_time_opts;

/* Time kernels of an op on one shape; each is called per kernel, fastest first.
 * HF_E_ARG unknown op, kernel or kind of data; HF_E_UNSUPPORTED the op is not timed by itself or no
 * kernel can. */
HF_API hf_status hf_dev_time(hf_context *ctx, const char *op, const hf_dev_shape *shape,
                             const hf_dev_time_opts *opts, hf_dev_timing_fn each, void *user);

/* Calls of an op on the caller's own data: `rounds` samples after one that warms up. */
typedef struct hf_dev_rounds {
    int rounds;        /* samples */
    int calls;         /* back to back in a sample, at least 1 */
    double *seconds;   /* out [rounds]: device time of a call, the mean of its sample */
    char kernel[64];   /* out: the kernel that served */
    int64_t rechecked; /* out: rows that float64 decided in a call */
} hf_dev_rounds;

/* Time op assign on data in host or device memory.
 *   x [n, d], centroids [k, d] F32 or F64, labels [n] out; metric, exact as in kmeans.h */
HF_API hf_status hf_dev_time_assign(hf_context *ctx, const hf_array *x, const hf_array *centroids,
                                    int metric, int exact, int32_t *labels, hf_dev_rounds *timed);

/* Faults. */

/* Plant the fault that a line of text describes (docs/fault-injection.md), such as "op=assign
 * where=score iteration=3 row=120 column=7 mask=0x400 do=flip", in place of an earlier one: this
 * process computes wrongly until it is removed. No call may be at work meanwhile. HF_E_ARG, and
 * what is wrong in `why`, when the line describes none. */
HF_API hf_status hf_dev_fault_plant(const char *line, char *why, size_t why_bytes);

/* What a planted fault met. */
typedef struct hf_dev_fault_proof {
    int64_t visits;  /* of its place, as far as they match the line */
    int64_t struck;  /* those of them that it was due for, */
    int64_t altered; /* and those whose value it altered */
} hf_dev_fault_proof;

HF_API void hf_dev_fault_remove(hf_dev_fault_proof *proof); /* proof may be NULL */

typedef struct hf_dev_place {
    const char *op, *name, *text;
    const char *kind; /* "register", "call", "array" */
    int bits;         /* of a value; 0: those of an element */
    int acts;         /* bit i: hf_dev_act_at(i) makes sense there */
} hf_dev_place;

/* Place i where faults can strike, and act i; 0 past the last, else 1. */
HF_API int hf_dev_place_at(int i, hf_dev_place *place);
HF_API int hf_dev_act_at(int i, const char **name, const char **text);

/* Compile an OpenCL program of the library for device number `device`, for the cache of compiled
 * kernels: what a process of its own does where a driver's compiler crashed before. The status says
 * nothing: what was compiled is in the cache. */
HF_API hf_status hf_dev_opencl_compile(int device, const char *source, const char *options);

/* Where the planner looks for a tuning file: $HF_TUNE_FILE, else holdfast/cpu.tune in
 * $XDG_CONFIG_HOME or ~/.config. 0 when there is no such place. */
HF_API int hf_dev_tune_path(char *path, size_t bytes);

/* Does the file that HF_TUNE_FILE names help to plan here? Plans take one that does not for none
 * and go on. HF_OK when the variable is not set; HF_E_IO when the file cannot be read; HF_E_DATA
 * when it is not a tuning file, another version's, or has no entry of this machine. */
HF_API hf_status hf_dev_tune_check(hf_context *ctx);

/* Write the winners of earlier hf_dev_time() calls with checked_only into a tuning file, whole or
 * not at all; what it holds of other kinds of call stays. path NULL: where the planner looks. With
 * a count of 0 it is asked whether this can be done. HF_E_DATA: another file is there. */
HF_API hf_status hf_dev_tune_write(hf_context *ctx, const char *path, const hf_dev_timing *winners,
                                   int count);

#ifdef __cplusplus
}
#endif
#endif
