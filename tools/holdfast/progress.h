/* SPDX-License-Identifier: Apache-2.0
 * Progress on standard error: a bar on a terminal; elsewhere a line for each iteration of a fit,
 * and one now and then for slow passes over rows. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include "tool.h"

enum { PROGRESS_TREND = 8 };

struct progress {
    bool quiet, terminal, colour;
    int max_iter, n_init;
    double tol; /* relative, as given; below 0 when only unchanged labels stop */
    int64_t rows, cols;
    const char *what;    /* passes over rows: what is done to them */
    bool variance_known; /* an inertia bounds the variance of the data: plain Euclidean */
    /* state */
    double started, last_drawn, run_started;
    int restart, seen; /* the restart under way and the iterations of it seen here */
    double inertia_bound;
    double shifts[PROGRESS_TREND];
    int line_shown;
    int faults;         /* told so far */
    char warning[1024]; /* the first one, or "" */
};

/* Fill the settings of the terminal; the caller sets the others first. */
void progress_open(struct progress *p);

/* A hf_kmeans_progress; user is a struct progress. Non-zero once a signal was seen. */
int progress_step(void *user, int restart, int iteration, const hf_kmeans_iteration *it,
                  int64_t done, int64_t total);

/* Rows done, of all that are passed over. Non-zero once a signal was seen. */
int progress_rows(struct progress *p, int64_t done, int64_t total);

/* A hf_kmeans_warning; user is a struct progress: keeps the text and, unless quiet, prints it. */
void progress_warn(void *user, const char *text);

/* "label [=====     ] text" on the terminal, as much of it as the line holds; `part` of the bar is
 * full. */
void progress_draw(struct progress *p, const char *label, double part, const char *text);

/* A hf_on_fault; user is a struct progress: prints the first few that were repaired, unless
 * quiet. */
void progress_fault(void *user, const hf_fault_note *note);

/* Take the bar off the terminal. */
void progress_close(struct progress *p);

#endif
