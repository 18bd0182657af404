/* SPDX-License-Identifier: Apache-2.0
 * holdfast bench relax: tables and figures of the paper on block-asynchronous relaxation (Anzt,
 * Tomov, Dongarra, Heuveline, J. Parallel Distrib. Comput. 73, 2013), measured here, beside its
 * numbers. */
#ifndef RELAX_STUDY_H
#define RELAX_STUDY_H

#include "tool.h"

enum { RELAX_SYSTEMS = 7, RELAX_POINTS = 240 };

struct relax_system {
    const char *name;
    hf_csr a;
    double *b; /* [rows] ones */
};

/* A number of a table, or a point of a curve. */
struct relax_number {
    const char *table;  /* "Table 2", "Figure 6" */
    const char *matrix; /* or what else is compared */
    char series[48];
    double at, ours, paper; /* NAN: the paper has none */
};

struct relax_study {
    const char *output, *matrices, *device, *only;
    const char *devices; /* of Figure 11; NULL: those that there are */
    int threads, rounds, cores;
    int64_t runs;
    hf_context *ctx;
    struct relax_system system[RELAX_SYSTEMS];
    int systems;
    struct relax_number *number;
    int64_t numbers, room;
};

/* ---- relax_systems.c: make them, and read those that cannot be made; exit codes */
int relax_open(struct relax_study *s);
void relax_close(struct relax_study *s);
/* NULL: it is not there. */
const struct relax_system *relax_find(const struct relax_study *s, const char *name);
double relax_residual(const struct relax_system *system, const double *x); /* |b - A x| / |b| */

/* ---- relax_tables.c, relax_figures.c: exit codes */
int relax_tables(struct relax_study *s);
int relax_figures(struct relax_study *s);
/* async-(k) as the paper had it. */
hf_relax_opts relax_paper_opts(int k, int64_t block);
/* Solve from 0; *result is the caller's to clear. */
int relax_solve(struct relax_study *s, const struct relax_system *system, const hf_relax_opts *opts,
                hf_relax_result *result);
/* Is a table or figure asked for? */
bool relax_wanted(const struct relax_study *s, const char *table);

/* ---- bench_relax.c: note a number, and print it unless it is one of a curve; an exit code */
int relax_note(struct relax_study *s, const struct relax_number *number);

/* ---- relax_plot.c: OUTPUT-*.svg of what figures there are; an exit code */
int relax_plot(const struct relax_study *s);

#endif
