/* SPDX-License-Identifier: Apache-2.0
 * For the command: is this machine's arithmetic right? Found in libholdfast_dev only. Unstable: may
 * change in any release. */
#ifndef HF_DEV_SCREEN_H
#define HF_DEV_SCREEN_H

#include <holdfast/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of a kernel on a core. What did not run is neither passed nor failed. */
typedef enum hf_dev_screened {
    HF_DEV_NOT_RUN = 0,
    HF_DEV_RIGHT = 1,
    HF_DEV_WRONG = 2,
    HF_DEV_NOT_HERE = 3 /* this CPU cannot run the kernel: nothing that could be wrong */
} hf_dev_screened;

/* What triage says of a wrong answer. */
typedef enum hf_dev_blame {
    HF_DEV_BLAME_CORE = 0,   /* other cores give the right answer */
    HF_DEV_BLAME_KERNEL = 1, /* all cores give the same wrong one: not the machine */
    HF_DEV_BLAME_UNKNOWN = 2 /* there is no other core to compare with */
} hf_dev_blame;

typedef struct hf_dev_screen_finding {
    const char *op, *kernel, *problem, *phase;
    int core; /* to blame, or where it was seen */
    hf_dev_blame blame;
    int repeats, repeats_wrong; /* on that core, afterwards: 0 wrong is a transient fault */
    int others, others_wrong;   /* other cores asked, and wrong */
    const char *text;           /* what is wrong with the answer */
} hf_dev_screen_finding;

typedef struct hf_dev_screen_part {
    const char *op, *kernel;
    int core; /* -1: NOT_HERE */
    hf_dev_screened verdict;
    int64_t visits, wrong;
    const char *text; /* why it did not run; "" */
} hf_dev_screen_part;

/* All zero means default. */
typedef struct hf_dev_screen_opts {
    double seconds;   /* to end after; 0: 10. What was not reached by then did not run */
    const char *op;   /* NULL: all */
    const int *cores; /* NULL: all that the caller may use */
    int core_count;
    uint64_t seed;
    int plant;                /* answers of core plant - 1 are spoilt; 0: none */
    const char *plant_kernel; /* of this kernel only; NULL: all */
    void (*finding)(void *user, const hf_dev_screen_finding *finding); /* may be NULL, as below */
    void (*phase)(void *user, const char *phase, double seconds);      /* begins */
    int (*stop)(void *user); /* asked often: non-zero ends the screen early */
    void (*part)(void *user, const hf_dev_screen_part *part); /* at the end, each */
    void *user;
} hf_dev_screen_opts;

typedef struct hf_dev_screen_result {
    int64_t right, wrong, not_run, not_here; /* kernels times cores; not_here: kernels */
    int64_t findings;
    int64_t runs; /* answers compared */
    int cores;    /* that were entered */
    double seconds;
    double share; /* of the time in the hot phase that the cores worked for us; < 0.5: busy */
} hf_dev_screen_result;

/* Run every kernel of the CPU on every core: woken from idle, in bursts, and together until the
 * machine is hot. HF_OK when the screen was made, whatever it found. HF_E_ARG: no such op, or no
 * core. HF_E_NOMEM. */
HF_API hf_status hf_dev_screen(const hf_dev_screen_opts *opts, hf_dev_screen_result *result);

#ifdef __cplusplus
}
#endif
#endif
