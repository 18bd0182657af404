/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"
#include "interrupt.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REDRAW_SECONDS 0.1
#define MOST_FAULTS 5     /* told of a run */
#define SLOW_SECONDS 10.0 /* between lines about a slow initialisation, off a terminal */

void progress_open(struct progress *p) {
    const char *term = getenv("TERM");
    const char *no_color = getenv("NO_COLOR");
    p->terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    p->colour = p->terminal && !(no_color && no_color[0]);
    p->started = p->run_started = tool_now();
    p->last_drawn = p->started - REDRAW_SECONDS;
}

/* Iterations until the shift falls below tol, if it goes on to shrink as it did over the last few.
 * The bound tol * variance is not known here, but once centroids are means no inertia is above
 * rows * cols times the variance, so this says "at most". */
static double iterations_to_tol(const struct progress *p) {
    if (!p->variance_known || p->tol < 0 || p->seen < 3)
        return INFINITY;
    const int span = p->seen < PROGRESS_TREND ? p->seen - 1 : PROGRESS_TREND - 1;
    const double now = p->shifts[p->seen % PROGRESS_TREND];
    const double then = p->shifts[(p->seen - span) % PROGRESS_TREND];
    const double goal = p->tol * p->inertia_bound / ((double)p->rows * (double)p->cols);
    if (!(goal > 0) || !(now < then))
        return INFINITY;
    return now <= goal ? 1 : ceil(log(goal / now) / (log(now / then) / span));
}

/* Seconds left at most, all restarts counted. */
static double seconds_left(const struct progress *p, int iteration) {
    const double each = (tool_now() - p->run_started) / p->seen;
    const double limit = p->max_iter - iteration;
    const double left = fmin(limit, iterations_to_tol(p));
    return each * (left + (double)(p->n_init - 1 - p->restart) * p->max_iter);
}

/* Keep what the estimates need. A resumed run begins at some later iteration. */
static void note(struct progress *p, int restart, int iteration, const hf_kmeans_iteration *it) {
    if (restart != p->restart || p->seen == 0) {
        p->restart = restart;
        p->seen = 0;
        p->inertia_bound = 0;
    }
    p->seen++;
    p->shifts[p->seen % PROGRESS_TREND] = it->shift;
    if (iteration >= 2 && it->inertia > p->inertia_bound)
        p->inertia_bound = it->inertia;
}

static int terminal_width(void) {
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return columns && atoi(columns) > 0 ? atoi(columns) : 80;
}

void progress_draw(struct progress *p, const char *label, double part, const char *text) {
    enum { LONG = 20, SHORT = 10, ROOMY = 100 };
    const int width = terminal_width() - 1;
    const int length = width < ROOMY ? SHORT : LONG;
    const int filled = part < 0 || part != part ? 0 : part > 1 ? length : (int)(part * length);
    char bar[LONG + 1];
    memset(bar, ' ', LONG);
    memset(bar, '=', (size_t)filled);
    bar[length] = '\0';
    const int fixed = (int)strlen(label) + length + 4;
    if (fixed >= width)
        fprintf(stderr, "\r%.*s\033[K", width, label);
    else
        fprintf(stderr, "\r%s %s[%s]%s %.*s\033[K", label, p->colour ? "\033[36m" : "", bar,
                p->colour ? "\033[0m" : "", width - fixed, text);
    fflush(stderr);
    p->line_shown = 1;
    p->last_drawn = tool_now();
}

static void seeding(struct progress *p, int restart, int64_t done, int64_t total) {
    const double now = tool_now();
    char label[64];
    if (done <= 0)
        p->run_started = now;
    if (p->n_init > 1)
        snprintf(label, sizeof label, "run %d/%d, initialisation", restart + 1, p->n_init);
    else
        snprintf(label, sizeof label, "initialisation");
    char text[96];
    snprintf(text, sizeof text, "%s of %s centroids", tool_count_text(done),
             tool_count_text(total));
    const bool finished = done >= total;
    if (p->terminal && (now - p->last_drawn >= REDRAW_SECONDS)) {
        progress_draw(p, label, total > 0 ? (double)done / (double)total : 0, text);
    } else if (!p->terminal && (finished || now - p->last_drawn >= SLOW_SECONDS)) {
        fprintf(stderr, "%s: %s, %s\n", label, text, tool_seconds_text(now - p->run_started));
        p->last_drawn = now;
    }
    if (finished)
        p->run_started = now;
}

static void iterating(struct progress *p, int restart, int iteration,
                      const hf_kmeans_iteration *it) {
    note(p, restart, iteration, it);
    if (p->terminal && tool_now() - p->last_drawn < REDRAW_SECONDS)
        return;
    char run[48] = "";
    char label[96];
    const double changed = 100.0 * (double)it->changed / (double)p->rows;
    if (p->n_init > 1)
        snprintf(run, sizeof run, "run %d/%d, ", restart + 1, p->n_init);
    if (!p->terminal) {
        fprintf(stderr,
                "%siteration %d: inertia %.9g, shift %.3g, changed %" PRId64 " (%.2f %%), %s\n",
                run, iteration, it->inertia, it->shift, it->changed, changed,
                tool_seconds_text(it->seconds));
        return;
    }
    snprintf(label, sizeof label, "%siteration %d/%d", run, iteration, p->max_iter);
    const double left = seconds_left(p, iteration);
    const double spent = tool_now() - p->started;
    const double rate = it->seconds > 0 ? (double)p->rows / it->seconds : 0;
    char text[256];
    snprintf(text, sizeof text,
             "at most %s left  %.3g M rows/s  inertia %.6g  shift %.2g  changed %.2f %%",
             tool_seconds_text(left), rate * 1e-6, it->inertia, it->shift, changed);
    progress_draw(p, label, spent / (spent + left), text);
}

int progress_step(void *user, int restart, int iteration, const hf_kmeans_iteration *it,
                  int64_t done, int64_t total) {
    struct progress *p = user;
    const int os_error = errno; /* that of a closed stream must not pass for the fit's */
    if (!p->quiet && iteration == 0)
        seeding(p, restart, done, total);
    else if (!p->quiet && it)
        iterating(p, restart, iteration, it);
    errno = os_error;
    return interrupt_seen();
}

static void passing(struct progress *p, double part) {
    const double spent = tool_now() - p->started;
    char text[96];
    snprintf(text, sizeof text, "%.0f %%, about %s left", 100 * part,
             tool_seconds_text(part > 0 ? spent * (1 - part) / part : INFINITY));
    if (p->terminal) {
        progress_draw(p, p->what, part, text);
    } else {
        fprintf(stderr, "%s: %s\n", p->what, text);
        p->last_drawn = tool_now();
    }
}

int progress_rows(struct progress *p, int64_t done, int64_t total) {
    const int os_error = errno;
    const double from = p->last_drawn > p->started ? p->last_drawn : p->started;
    if (!p->quiet && tool_now() - from >= (p->terminal ? REDRAW_SECONDS : SLOW_SECONDS))
        passing(p, (double)done / (double)total);
    errno = os_error;
    return interrupt_seen();
}

void progress_fault(void *user, const hf_fault_note *note) {
    struct progress *p = user;
    const int os_error = errno;
    if (p->faults++ < MOST_FAULTS && note->repaired && !p->quiet) {
        progress_close(p);
        if (note->iteration > 0)
            tool_error("fault in iteration %d, %s, repaired: %s", note->iteration,
                       hf_fault_kind_text(note->kind), note->text);
        else
            tool_error("fault, %s, repaired: %s", hf_fault_kind_text(note->kind), note->text);
    }
    errno = os_error;
}

void progress_warn(void *user, const char *text) {
    struct progress *p = user;
    const int os_error = errno;
    const char *own = tool_translate(text, NULL);
    if (!p->warning[0])
        snprintf(p->warning, sizeof p->warning, "%s", own);
    if (!p->quiet) {
        progress_close(p);
        tool_error("warning: %s", own);
    }
    errno = os_error;
}

void progress_close(struct progress *p) {
    if (p->line_shown)
        fputs("\r\033[K", stderr);
    fflush(stderr);
    p->line_shown = 0;
}
