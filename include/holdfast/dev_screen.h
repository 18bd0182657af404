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

/* A wrong answer, after triage. */
typedef struct hf_dev_screen_finding {
    const char *op;      /* name of the op, */
    const char *kernel;  /* of the kernel, */
    const char *problem; /* of the problem, */
    const char *phase;   /* and of the phase */
    int core;            /* to blame, or where it was seen: of a GPU a multiprocessor; -1: all of
                            them worked on it */
    int with;            /* so many, from core on, may be to blame: 1, but with kernels that need
                            several multiprocessors */
    hf_dev_blame blame;  /* what triage says */
    int repeats;         /* on that core, afterwards, */
    int repeats_wrong;   /* and how many of them were wrong: none is a transient fault */
    int others;          /* other cores that were asked, */
    int others_wrong;    /* and how many of them were wrong */
    int lane;            /* of the vector unit of that core: the only one whose chains of arithmetic
                            end wrongly (op lanes); -1: none, or several */
    int lanes;           /* of 32 bits that were asked: of a GPU 32 of each of the four parts of a
                            multiprocessor, one after the other; 0: none were */
    const char *text;    /* what is wrong with the answer */
} hf_dev_screen_finding;

/* A kernel on a core, when all is done. */
typedef struct hf_dev_screen_part {
    const char *op;          /* name of the op */
    const char *kernel;      /* name of the kernel */
    int core;                /* -1: NOT_HERE */
    hf_dev_screened verdict; /* NOT_RUN, RIGHT, ... */
    int64_t visits;          /* answers of this kernel on this core, */
    int64_t wrong;           /* and how many findings there were of them */
    const char *text;        /* why it did not run; "" */
} hf_dev_screen_part;

/* What the hot phase did with one kind of unit, when all is done. */
typedef struct hf_dev_screen_unit {
    const char *name;   /* "bf16", "f64", ... */
    const char *kernel; /* of its products */
    int64_t products;   /* on all cores */
    double seconds;     /* of them, added up over the cores of a CPU */
    double hot_seconds; /* of those, in products at half of the peak rate or more */
    double rate;        /* operations a second, of a core of a CPU, of a whole GPU; a product and
                           an addition are two */
    double peak;        /* of a CPU: measured, in registers, on each core; of a GPU: by its clock */
} hf_dev_screen_unit;

/* All zero means default. */
typedef struct hf_dev_screen_opts {
    double seconds;     /* to end after; 0: 10. What was not reached by then did not run */
    const char *device; /* "cpu", which is NULL, or a GPU of CUDA: "cuda", "cuda:1". Nobody else
                                 may use it meanwhile; below, its multiprocessors are the cores */
    const char *op;     /* NULL: all */
    const int *cores;   /* NULL: all that the caller may use; not for a GPU */
    int core_count;     /* of cores */
    uint64_t seed;      /* of the problems */
    int plant;          /* answers of core plant - 1 are spoilt; 0: none */
    const char *plant_kernel; /* of this kernel only; NULL: all */
    int plant_lane;           /* only what lane plant_lane - 1 of its vectors makes; 0: all */
    void (*finding)(void *user, const hf_dev_screen_finding *finding); /* may be NULL, as below */
    void (*phase)(void *user, const char *phase, double seconds);      /* begins */
    int (*stop)(void *user); /* asked often: non-zero ends the screen early */
    void (*part)(void *user, const hf_dev_screen_part *part); /* at the end, each */
    void (*unit)(void *user, const hf_dev_screen_unit *unit); /* likewise */
    double (*clock)(void *user); /* seconds, in place of the system's clock, for tests: called by
                                    all workers at once; nothing sleeps then */
    void *user;                  /* first argument of these */
} hf_dev_screen_opts;

/* What the screen came to. */
typedef struct hf_dev_screen_result {
    int64_t right;    /* kernels times cores, */
    int64_t wrong;    /* likewise, */
    int64_t not_run;  /* likewise, */
    int64_t not_here; /* and kernels */
    int64_t findings; /* wrong answers that triage looked at */
    int64_t runs;     /* answers compared */
    int cores;        /* that were entered */
    double seconds;   /* that it took */
    double share;     /* of the time in the hot phase that the cores worked for us; < 0.5: busy.
                         Of a GPU the next */
    double hot_share; /* of the whole time, at half of the peak rate of the unit at work or more;
                         of a CPU the mean of its cores */
} hf_dev_screen_result;

/* Run every kernel of the CPU on every core: woken from idle, in bursts, and together until the
 * machine is hot; or every kernel for CUDA on every multiprocessor of a GPU alone, in bursts on all
 * of them, and large products whose tiles are signed. HF_OK when the screen was made, whatever it
 * found. HF_E_ARG: no such op, no core, or a plant on a core that is not screened, or in
 * a lane that it has not. HF_E_UNSUPPORTED: there is no such GPU. HF_E_DEVICE: it failed.
 * HF_E_NOMEM. */
HF_API hf_status hf_dev_screen(const hf_dev_screen_opts *opts, hf_dev_screen_result *result);

#ifdef __cplusplus
}
#endif
#endif
