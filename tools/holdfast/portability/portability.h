/* SPDX-License-Identifier: Apache-2.0
 * holdfast bench portability: one design on every backend of this machine, after the SYCL study. */
#ifndef PORTABILITY_H
#define PORTABILITY_H

#include "tool.h"
#include <holdfast/dev.h>
#include <holdfast/dev_study.h>

#define STUDY_SETS 2
#define STUDY_KS 16
#define STUDY_BACKENDS 16
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
    int64_t slice; /* rows that CPUs are tuned on */
    double peak;   /* flop/s of GPUs, 0: measured */
    double limit;  /* seconds that a sample of the plain port may take */
    bool platform[PLATFORMS];
    bool sweeps, port;
    const char *output; /* beginning of the names of files */
    const char *with;   /* NAME.tsv of another machine, or NULL */
};

struct backend {
    enum code code;
    enum platform platform;
    char device[24];
    char tuning[40]; /* file that its plans follow */
    hf_context *ctx; /* NULL: its rows come from another machine's file */
    hf_array rows;   /* of the set, where the device reads them */
    hf_dev_port *port;
    double port_s;     /* of an iteration for a cluster and a row, as last measured; 0: not yet */
    int64_t port_rows; /* of those that `port` has */
};

/* The rows of a set, and the first centroids for a number of clusters. */
struct problem {
    int set;
    hf_array x, centroids;
    float *room;     /* of the centroids */
    int32_t *labels; /* [n] of the first backend */
};

/* An iteration of a backend; times of its halves are those of op assign alone, and what is left.
 * The plain port may be measured on fewer rows; its times are then as many times as long. */
struct study_row {
    int set, backend, steps;
    int64_t n, d, k;
    char kernel[64];
    double iteration_s, assign_s, update_s;
    double least_s, most_s; /* of the samples */
    double architectural;   /* efficiency; < 0: not known */
    double application;
    int64_t differ;  /* labels that are not those of the first backend; -1: not comparable */
    uint64_t labels; /* a word of all labels after `steps`, to compare machines by; 0: none */
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
/* A context that follows another tuning file, which is read now. */
int study_open_context(const struct study *s, const char *device, const char *tuning,
                       hf_context **ctx);
/* Bring the rows to all devices; before the next set study_remove(). */
int study_place(struct study *s, const struct problem *p);
void study_remove(struct study *s);
/* "opencl-tuned on the CPU" */
const char *study_backend_text(const struct study *s, int backend);

/* ---- study_tune.c: the fastest kernels for these centroids and rows, which the tuned backends
 * follow from now on. An exit code. */
int study_tune(struct study *s, struct problem *p);

/* ---- study_problem.c */
/* The rows of a set (columns 0: the set's own) with room for most_k centroids. An exit code. */
int study_problem(int set, int64_t rows, int64_t columns, int64_t most_k, struct problem *p);
void study_end_problem(struct problem *p);
/* Rows far apart are the first centroids. */
void study_choose_centroids(struct problem *p, int64_t k);
/* So many of the set's rows by --scale. */
int64_t study_scaled(const struct study *s, int64_t rows);

/* ---- study_join.c */
/* Is there no file of another machine, or one that can be read? If not, that is reported. */
bool study_can_join(const struct study *s);
/* Its rows are added, after those of this machine. An exit code. */
int study_join(struct study *s);

/* ---- study_measure.c, study_sweep.c: exit codes */
int study_measure(struct study *s);
int study_sweep(struct study *s);
/* The study's own fit: so many iterations, every row compared in each. */
hf_status study_fit(const struct backend *b, const hf_array *x, const hf_array *centroids,
                    int steps, hf_kmeans_result *r);
/* The study's own choice: columns apart on a GPU, 128 work-items; on a CPU 8. */
hf_dev_port_form study_port_form(const struct backend *b);

/* ---- study_merits.c */
void study_judge(struct study *s); /* both efficiencies of each row */
/* The harmonic mean of the efficiencies of a code (CODE_C and CODE_CUDA: as one) on the platforms
 * of the mask, over the rows of a set (-1: of all); 0: it does not serve all of them. */
double study_phi(const struct study *s, enum code code, unsigned platforms, int set,
                 bool architectural);
unsigned study_platform_mask(const struct study *s);

/* ---- study_write.c, study_plot.c: exit codes */
enum { STUDY_HEADS = 17 };
extern const char *const study_heads[STUDY_HEADS]; /* of the columns of the table */
int study_write(const struct study *s);
int study_write_table(const struct study *s); /* NAME.tsv alone */
int study_plot(const struct study *s);

#endif
