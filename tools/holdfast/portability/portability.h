/* SPDX-License-Identifier: Apache-2.0
 * holdfast bench portability: one design on every backend of this machine, after the SYCL study. */
#ifndef PORTABILITY_H
#define PORTABILITY_H

#include "tool.h"
#include <holdfast/dev.h>
#include <holdfast/dev_study.h>

#define STUDY_SETS 2
#define STUDY_KS 16
#define STUDY_BACKENDS 12
#define STUDY_ROWS (STUDY_SETS * STUDY_KS * STUDY_BACKENDS)
#define STUDY_POINTS 256

extern const char *const study_sets[STUDY_SETS + 1]; /* NULL at the end */

enum platform { PLATFORM_CPU, PLATFORM_GPU, PLATFORMS };
extern const char *const study_platforms[PLATFORMS];

enum code { CODE_C, CODE_CUDA, CODE_TUNED, CODE_UNTUNED, CODE_PORT, CODES };
extern const char *const study_codes[CODES]; /* "c", "cuda", "opencl-tuned", ... */

struct study_options {
    bool set[STUDY_SETS];
    int64_t k[STUDY_KS];
    int ks;
    double scale; /* of the rows of the sets */
    int rounds, steps, threads;
    int64_t slice; /* rows that are tuned on */
    double peak;   /* flop/s of GPUs, 0: measured */
    bool sweeps, port;
    const char *output; /* beginning of the names of files */
};

struct backend {
    enum code code;
    enum platform platform;
    char device[24];
    hf_context *ctx;
};

/* An iteration of a backend; times of its halves are those of op assign alone, and what is left. */
struct study_row {
    int set, backend;
    int64_t n, d, k;
    char kernel[64];
    double iteration_s, assign_s, update_s;
    double least_s, most_s; /* of the samples */
    double architectural;   /* efficiency; < 0: not known */
    double application;
    int64_t differ; /* labels that are not those of the first backend; -1: not comparable */
};

/* A point of a sweep on an OpenCL device. */
struct study_point {
    const char *sweep; /* "packages", "groups", "width at 100 columns", "kernels" */
    int backend;
    char what[64];             /* "16", or the kernel */
    double value;              /* 16; of kernels their place */
    double assign_s, update_s; /* update_s < 0: not measured */
};

struct study {
    struct study_options options;
    struct backend backend[STUDY_BACKENDS];
    int backends;
    double peak[PLATFORMS]; /* flop/s of float32, 0: not known */
    struct study_row row[STUDY_ROWS];
    int rows;
    struct study_point point[STUDY_POINTS];
    int points;
    const char *command; /* words of the call */
    char machine[600];
};

/* ---- study_backends.c: exit codes */
int study_open(struct study *s);
void study_close(struct study *s);

/* ---- study_measure.c: exit codes */
int study_measure(struct study *s);
int study_sweep(struct study *s);

/* ---- study_merits.c */
void study_judge(struct study *s); /* both efficiencies of each row */
/* The harmonic mean of the efficiencies of a code (CODE_C and CODE_CUDA: as one) on the platforms
 * of the mask, over the rows of a set (-1: of all); 0: it does not serve all of them. */
double study_phi(const struct study *s, enum code code, unsigned platforms, int set,
                 bool architectural);
unsigned study_platform_mask(const struct study *s);

/* ---- study_write.c, study_plot.c: exit codes */
int study_write(const struct study *s);
int study_plot(const struct study *s);
/* Open OUTPUT-or-OUTPUT.ENDING to write; reported if it fails. */
FILE *study_file(const struct study *s, const char *ending);
/* Close it; an exit code. */
int study_close_file(const struct study *s, FILE *file, const char *ending);

#endif
