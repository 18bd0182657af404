/* SPDX-License-Identifier: Apache-2.0
 * The inside of the harness: problems with canaries, and one walk over ops, kernels and cases whose
 * modes (check, time) are functions. */
#ifndef HF_HARNESS_H
#define HF_HARNESS_H

#include "core/case.h"
#include "core/context.h"
#include "core/kernel.h"
#include "core/plan.h"
#include "core/run.h"
#include <holdfast/dev.h>

#define HF_CANARY_BYTES 64

/* What a walk goes over: an op, its cases, all its kernels. Tests of the harness make their own. */
struct hf_subject {
    const struct hf_op *op;
    const struct hf_op_cases *cases;
    const struct hf_kernel *const *kernels;
    int count;
};

static inline struct hf_kernel_set hf_subject_set(const struct hf_subject *subject) {
    const struct hf_kernel_set set = {subject->op, subject->kernels, subject->count};
    return set;
}

/* The cases of op `id`. */
const struct hf_op_cases *hf_op_cases_at(int id);

/* That of op `id`; its kernels are freed with hf_subject_clear(). false when out of memory. */
bool hf_subject_init(struct hf_subject *subject, int id);
void hf_subject_clear(struct hf_subject *subject);

/* An empty case with room for the op's arguments; hf_case_clear() frees it. */
bool hf_case_init(struct hf_case *c, const struct hf_op *op);
void hf_case_clear(struct hf_case *c);
/* Remember the contents as the case maker left them; inputs too when `inputs`. */
bool hf_case_seal(struct hf_case *c, bool inputs);
/* Put back the contents of the out buffers. */
void hf_case_restore(struct hf_case *c);
/* Put back the contents of the state buffers: the next run is a kernel's first. */
void hf_case_forget(struct hf_case *c);
/* Copies of the out buffers in order of allocation: [out buffers], freed with
 * hf_case_copies_free(). */
void **hf_case_copy_outs(const struct hf_case *c);
void hf_case_copies_free(const struct hf_case *c, void **copies);
/* The out buffers themselves, in order of allocation; returns how many. */
int hf_case_outs(const struct hf_case *c, void *outs[HF_CASE_BUFS]);
/* On a GPU: move the arrays to the device and let the arguments point there. Structs that hold
 * pointers stay on the host. The case is no longer good for anything but running. */
hf_status hf_case_move(struct hf_case *c, size_t args_size, hf_context *ctx);
void hf_case_unmove(struct hf_case *c, hf_context *ctx);
/* hf_case_restore() wherever the buffers are. */
hf_status hf_case_restore_on(struct hf_case *c, hf_context *ctx);
/* Out-of-bounds reads of the canaries are errors where AddressSanitizer is there. */
void hf_case_fence(const struct hf_case *c, bool on);
/* Are the canaries and the inputs as they were? Says what is not. */
bool hf_case_intact(const struct hf_case *c, char *why, size_t why_bytes);
/* All out buffers as in `copies`? Says where not. */
bool hf_case_same(const struct hf_case *c, void *const *copies, char *why, size_t why_bytes);
/* The same but for elements that the op bounds: those may differ by twice their bound, as each may
 * lie that far from the exact value. */
bool hf_case_near(const struct hf_case *c, const struct hf_op *op, void *const *copies, char *why,
                  size_t why_bytes);

/* One run on fresh outputs and a workspace full of `poison` (negative: as it comes). False, and
 * why, if the kernel fails, writes where it must not, or finds that its arithmetic was wrong. */
bool hf_case_run(hf_context *ctx, const struct hf_kernel *kernel, struct hf_case *c, int poison,
                 char *why, size_t why_bytes);
/* Are the outputs right, given those of the reference? Says where not. */
bool hf_case_right(const struct hf_subject *subject, const struct hf_case *c, void *const *ref,
                   char *why, size_t why_bytes);

/* Does the kernel take this case: type, shape? */
bool hf_kernel_takes(const struct hf_kernel *kernel, const struct hf_op *op,
                     const struct hf_call *call);

/* Workspace of a device with canaries around exactly the bytes that a kernel asked for, filled with
 * `poison` unless that is negative. */
struct hf_bench_ws {
    const struct hf_device *device;
    void *stream;
    char *block;
    char *ptr;
    size_t bytes;
};
bool hf_bench_ws_init(struct hf_bench_ws *ws, const struct hf_device *device, void *stream,
                      size_t bytes, int poison);
/* 0: both canaries are whole; -1, 1: the one before, past the end was overwritten. */
int hf_bench_ws_broken(const struct hf_bench_ws *ws);
void hf_bench_ws_clear(struct hf_bench_ws *ws);

/* A walk: `run` gets every case of every subject that passes the filter. */
struct hf_walk {
    const char *op; /* NULL: all */
    uint64_t seed;
    int64_t max_cases; /* 0: all */
    void *state;
    hf_status (*begin)(void *state,
                       const struct hf_subject *subject); /* each may be NULL but run */
    hf_status (*run)(void *state, const struct hf_subject *subject, struct hf_case *c);
    hf_status (*end)(void *state, const struct hf_subject *subject);
};
hf_status hf_walk_subject(const struct hf_walk *walk, const struct hf_subject *subject, int stream);
hf_status hf_walk_ops(const struct hf_walk *walk);

/* The check over one subject; hf_dev_check() is this over all ops. */
hf_status hf_check_subject(const struct hf_subject *subject, const hf_dev_check_opts *opts,
                           hf_dev_check_fn each, void *user, hf_dev_tally *tally);

/* Is the kernel, run on the context's device, right on this case? Asked before it is timed. */
bool hf_check_kernel_once(hf_context *ctx, const struct hf_subject *subject,
                          const struct hf_kernel *kernel, const struct hf_kernel *reference,
                          struct hf_case *c);

/* The benchmark problem of a shape. data: a kind of data of the op, NULL: the usual one. plan_only:
 * as in struct hf_bench. HF_E_ARG when the shape or the kind is none of the op's. */
struct hf_problem {
    const hf_dev_shape *shape;
    const char *data;
    uint64_t seed;
    bool plan_only;
};
hf_status hf_problem_make(const struct hf_subject *subject, const struct hf_problem *problem,
                          struct hf_case *c, hf_error *err);

/* The same numbers, inside and outside of the library. */
struct hf_key hf_shape_key(const hf_dev_shape *shape);
hf_dev_shape hf_key_shape(const struct hf_key *key);
/* The product of the dimensions that the op names. */
double hf_key_size(const struct hf_op *op, const struct hf_key *key);

/* hf_dev_plan() and hf_dev_time() over one subject. */
hf_status hf_plan_subject(hf_context *ctx, const struct hf_subject *subject,
                          const hf_dev_shape *shape, hf_dev_choice *choice,
                          hf_dev_candidate_fn each, void *user);
hf_status hf_time_subject(hf_context *ctx, const struct hf_subject *subject,
                          const hf_dev_shape *shape, const hf_dev_time_opts *opts,
                          hf_dev_timing_fn each, void *user);
/* hf_dev_tune_write() for winners of one op; NULL: each says by its name of which one it is. */
hf_status hf_tune_winners(hf_context *ctx, const char *path, const struct hf_op *op,
                          const hf_dev_timing *winners, int count);

/* Loops of ceiling.c, one per unit; flop (bytes) per second over about `seconds`. */
typedef double hf_rate_fn(double seconds);
hf_rate_fn *hf_rate_fma(int isa);
double hf_rate_amx(double seconds);

#endif
