/* SPDX-License-Identifier: Apache-2.0 */
#include "solve/solve_progress.h"
#include "interrupt.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define REDRAW_SECONDS 0.1
#define LINE_SECONDS 2.0 /* between two lines off a terminal */

void solve_progress_open(struct solve_progress *p) {
    progress_open(&p->bar);
    p->at = -1;
}

/* How much of the way from the first residual to the tolerance is done, in decades. */
static double part_of(const struct solve_progress *p, double residual) {
    const double all = log(p->first / p->tol);
    const double done = log(p->first / residual);
    return all > 0 && done > 0 ? fmin(done / all, 1) : 0;
}

static void show(struct solve_progress *p, int64_t iteration, double residual) {
    char run[64] = "";
    char label[96];
    char text[160];
    const double spent = tool_now() - p->begun;
    const double part = part_of(p, residual);
    const double left = part > 0 ? spent * (1 - part) / part : INFINITY;
    if (p->rhs > 1)
        snprintf(run, sizeof run, "column %" PRId64 "/%" PRId64 ", ", p->at + 1, p->rhs);
    if (!p->bar.terminal) {
        fprintf(stderr, "%siteration %" PRId64 ": residual %.3g, about %s left\n", run, iteration,
                residual, tool_seconds_text(left));
        p->bar.last_drawn = tool_now();
        return;
    }
    snprintf(label, sizeof label, "%siteration %" PRId64, run, iteration);
    snprintf(text, sizeof text, "about %s left  residual %.2e", tool_seconds_text(left), residual);
    progress_draw(&p->bar, label, part, text);
}

int solve_progress_step(void *user, int64_t rhs, int64_t iteration, double residual) {
    struct solve_progress *p = user;
    const int os_error = errno; /* that of a closed stream must not pass for the library's */
    if (p->at != rhs) {
        p->at = rhs;
        p->first = residual;
        p->begun = tool_now();
    }
    const double from = fmax(p->bar.last_drawn, p->bar.started);
    if (!p->bar.quiet && tool_now() - from >= (p->bar.terminal ? REDRAW_SECONDS : LINE_SECONDS))
        show(p, iteration, residual);
    errno = os_error;
    return interrupt_seen();
}
