/* SPDX-License-Identifier: Apache-2.0
 * The study's figures as SVG: times over the number of clusters, the split between assign and
 * update, and the sweeps. */
#include "portability/portability.h"
#include "plain_file.h"
#include <math.h>
#include <string.h>

#define WIDTH 720
#define HEIGHT 330
#define LEFT 70.0
#define RIGHT 470.0
#define TOP 40.0
#define BOTTOM 280.0
#define CURVES 24

struct point {
    double x, y;
};

struct curve {
    char name[64];
    struct point point[STUDY_KS];
    int points;
};

struct figure {
    const char *title, *across;
    struct curve curve[CURVES];
    int curves;
};

static const char *const colours[] = {"#1b6ca8", "#c0392b", "#27ae60", "#8e44ad",
                                      "#d68910", "#34495e", "#16a085", "#7f8c8d"};

static const char *colour(int i) { return colours[i % (int)(sizeof colours / sizeof *colours)]; }

static FILE *begin(const struct study *s, const char *ending, const char *title) {
    FILE *out = plain_file_open(s->options.output, ending);
    if (out)
        fprintf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" "
                "height=\"100%%\" fill=\"white\"/>\n<text x=\"%.0f\" y=\"22\">%s</text>\n",
                WIDTH, HEIGHT, LEFT, title);
    return out;
}

static int end(const struct study *s, FILE *out, const char *ending) {
    fputs("</svg>\n", out);
    return plain_file_close(out, s->options.output, ending);
}

/* The curve of that name, a new one if there is none; NULL: there are too many. */
static struct curve *curve_of(struct figure *f, const char *name) {
    int i = 0;
    while (i < f->curves && strcmp(f->curve[i].name, name) != 0)
        i++;
    if (i == CURVES)
        return NULL;
    if (i == f->curves) {
        snprintf(f->curve[i].name, sizeof f->curve[i].name, "%s", name);
        f->curves++;
    }
    return &f->curve[i];
}

static void add(struct figure *f, const char *name, double x, double y) {
    struct curve *c = curve_of(f, name);
    if (c && c->points < STUDY_KS && x > 0 && y > 0)
        c->point[c->points++] = (struct point){log2(x), log10(y)};
}

struct frame {
    struct point low, high;
};

static struct frame frame_of(const struct figure *f) {
    struct frame frame = {{1e9, 1e9}, {-1e9, -1e9}};
    for (int i = 0; i < f->curves; i++)
        for (int j = 0; j < f->curve[i].points; j++) {
            const struct point p = f->curve[i].point[j];
            frame.low = (struct point){fmin(frame.low.x, p.x), fmin(frame.low.y, p.y)};
            frame.high = (struct point){fmax(frame.high.x, p.x), fmax(frame.high.y, p.y)};
        }
    frame.low.y = floor(frame.low.y);
    frame.high.y = ceil(frame.high.y + 1e-9);
    return frame;
}

static double across(const struct frame *f, double x) {
    return LEFT + (RIGHT - LEFT) * (x - f->low.x) / fmax(f->high.x - f->low.x, 1e-9);
}

static double up(const struct frame *f, double y) {
    return BOTTOM - (BOTTOM - TOP) * (y - f->low.y) / fmax(f->high.y - f->low.y, 1e-9);
}

static void draw_axes(FILE *out, const struct figure *f, const struct frame *frame) {
    for (int i = (int)frame->low.y; i <= (int)frame->high.y; i++) {
        const double y = i;
        fprintf(out,
                "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text "
                "x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%g s</text>\n",
                LEFT, RIGHT, up(frame, y), up(frame, y), LEFT - 6, up(frame, y) + 4, pow(10, y));
    }
    for (int i = 0; i <= (int)(frame->high.x - frame->low.x); i++) {
        const double x = frame->low.x + i;
        fprintf(out, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%.4g</text>\n",
                across(frame, x), BOTTOM + 18, exp2(x));
    }
    fprintf(out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>\n",
            (LEFT + RIGHT) / 2, BOTTOM + 38, f->across);
}

static int draw(const struct study *s, const struct figure *f, const char *ending) {
    const struct frame frame = frame_of(f);
    FILE *out = f->curves > 0 ? begin(s, ending, f->title) : NULL;
    if (!out)
        return f->curves > 0 ? EXIT_FAILED : EXIT_DONE;
    draw_axes(out, f, &frame);
    for (int i = 0; i < f->curves; i++) {
        const struct curve *c = &f->curve[i];
        fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
                colour(i));
        for (int j = 0; j < c->points; j++)
            fprintf(out, "%.1f,%.1f ", across(&frame, c->point[j].x), up(&frame, c->point[j].y));
        fprintf(out, "\"/>\n<text x=\"%.0f\" y=\"%.0f\" fill=\"%s\">%s</text>\n", RIGHT + 14,
                TOP + 12 + 17 * i, colour(i), c->name);
    }
    return end(s, out, ending);
}

static void backend_name(const struct study *s, int at, char text[64]) {
    snprintf(text, 64, "%s, %s", study_codes[s->backend[at].code],
             study_platforms[s->backend[at].platform]);
}

static int plot_set(const struct study *s, int set) {
    struct figure f = {.across = "clusters"};
    char title[80];
    char ending[40];
    char name[64];
    snprintf(title, sizeof title, "%s: seconds of an iteration", study_sets[set]);
    snprintf(ending, sizeof ending, "-%s.svg", study_sets[set]);
    f.title = title;
    for (int i = 0; i < s->rows; i++)
        if (s->row[i].set == set) {
            backend_name(s, s->row[i].backend, name);
            add(&f, name, (double)s->row[i].k, s->row[i].iteration_s);
        }
    return draw(s, &f, ending);
}

/* Shares of assign and update at the largest number of clusters. */
static int plot_split(const struct study *s, int set) {
    int64_t most = 0;
    int place = 0;
    char ending[40];
    char name[64];
    snprintf(ending, sizeof ending, "-split-%s.svg", study_sets[set]);
    for (int i = 0; i < s->rows; i++)
        most = s->row[i].set == set && s->row[i].k > most ? s->row[i].k : most;
    snprintf(name, sizeof name, "%s, K = %lld: assign and update", study_sets[set],
             (long long)most);
    FILE *out = begin(s, ending, name);
    if (!out)
        return EXIT_FAILED;
    for (int i = 0; i < s->rows; i++) {
        const struct study_row *r = &s->row[i];
        if (r->set != set || r->k != most)
            continue;
        const double all = r->assign_s + r->update_s, y = TOP + 26 * place++;
        const double part = 300 * r->assign_s / all;
        backend_name(s, r->backend, name);
        fprintf(out,
                "<text x=\"200\" y=\"%.0f\" text-anchor=\"end\">%s</text><rect x=\"210\" "
                "y=\"%.0f\" width=\"%.1f\" height=\"18\" fill=\"%s\"/><rect x=\"%.1f\" y=\"%.0f\" "
                "width=\"%.1f\" height=\"18\" fill=\"%s\"/><text x=\"520\" y=\"%.0f\">assign %.0f "
                "%%, %.3g s in all</text>\n",
                y + 13, name, y, part, colour(0), 210 + part, y, 300 - part, colour(4), y + 13,
                100 * r->assign_s / all, all);
    }
    return end(s, out, ending);
}

/* One kind of sweep of the plain port, its name's beginning. */
static int plot_sweep(const struct study *s, const char *kind, const char *ending) {
    struct figure f = {.title = "the plain port: seconds", .across = kind};
    char name[64];
    for (int i = 0; i < s->points; i++) {
        const struct study_point *p = &s->point[i];
        if (strncmp(p->sweep, kind, strlen(kind)) != 0)
            continue;
        const char *where = study_platforms[s->backend[p->backend].platform];
        const char *more = p->sweep + strlen(kind);
        snprintf(name, sizeof name, "assign, %s%s", where, more);
        add(&f, name, p->value, p->assign_s);
        if (*more == '\0') {
            snprintf(name, sizeof name, "update, %s", where);
            add(&f, name, p->value, p->update_s);
        }
    }
    return draw(s, &f, ending);
}

int study_plot(const struct study *s) {
    int code = EXIT_DONE;
    for (int set = 0; code == EXIT_DONE && set < STUDY_SETS; set++) {
        if (!s->options.set[set])
            continue;
        code = plot_set(s, set);
        if (code == EXIT_DONE)
            code = plot_split(s, set);
    }
    if (code == EXIT_DONE)
        code = plot_sweep(s, "points of a work-item", "-packages.svg");
    if (code == EXIT_DONE)
        code = plot_sweep(s, "work-items of a group", "-groups.svg");
    return code == EXIT_DONE ? plot_sweep(s, "width", "-widths.svg") : code;
}
