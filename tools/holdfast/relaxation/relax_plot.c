/* SPDX-License-Identifier: Apache-2.0
 * Figures as SVG: residuals on a logarithmic scale, a curve for each series. */
#include "relaxation/relax_study.h"
#include "plain_file.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

#define WIDTH 720
#define HEIGHT 330
#define LEFT 70.0
#define RIGHT 520.0
#define TOP 40.0
#define BOTTOM 280.0
#define LEAST 1e-18

static const char *const colours[] = {"#1b6ca8", "#c0392b", "#27ae60", "#8e44ad", "#d68910"};
#define COLOURS ((int)(sizeof colours / sizeof *colours))

struct frame {
    double right, low, high; /* of x; log10 of y */
};

static bool belongs(const struct relax_number *n, const struct relax_number *first) {
    return n->table == first->table && strcmp(n->matrix, first->matrix) == 0;
}

static struct frame frame_of(const struct relax_study *s, const struct relax_number *first) {
    struct frame f = {1e-9, 1e9, -1e9};
    for (int64_t i = 0; i < s->numbers; i++)
        if (belongs(&s->number[i], first)) {
            const double y = log10(fmax(s->number[i].ours, LEAST));
            f.right = fmax(f.right, s->number[i].at);
            f.low = fmin(f.low, floor(y));
            f.high = fmax(f.high, ceil(y + 1e-9));
        }
    return f;
}

static double across(const struct frame *f, double x) {
    return LEFT + (RIGHT - LEFT) * x / f->right;
}

static double down(const struct frame *f, double y) {
    const double level = log10(fmax(y, LEAST));
    return BOTTOM - (BOTTOM - TOP) * (level - f->low) / fmax(f->high - f->low, 1);
}

static void draw_axes(FILE *out, const struct frame *f, const char *below) {
    const int step = (int)ceil(fmax(f->high - f->low, 1) / 10);
    for (int i = (int)f->low; i <= (int)f->high; i += step)
        fprintf(out,
                "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text "
                "x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">1e%d</text>\n",
                LEFT, RIGHT, down(f, pow(10, i)), down(f, pow(10, i)), LEFT - 6,
                down(f, pow(10, i)) + 4, i);
    for (int i = 0; i <= 4; i++)
        fprintf(out, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%.4g</text>\n",
                across(f, f->right * i / 4), BOTTOM + 18, f->right * i / 4);
    fprintf(out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>\n",
            (LEFT + RIGHT) / 2, BOTTOM + 38, below);
}

/* The curve that begins at number `at`, of those of its figure. */
static void draw_curve(FILE *out, const struct relax_study *s, int64_t at, const struct frame *f,
                       int place) {
    const struct relax_number *first = &s->number[at];
    const char *colour = colours[place % COLOURS];
    fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
    for (int64_t i = at; i < s->numbers; i++)
        if (belongs(&s->number[i], first) && strcmp(s->number[i].series, first->series) == 0)
            fprintf(out, "%.1f,%.1f ", across(f, s->number[i].at), down(f, s->number[i].ours));
    fprintf(out, "\"/>\n<text x=\"%.0f\" y=\"%.0f\" fill=\"%s\">%s</text>\n", RIGHT + 14,
            TOP + 12 + 17 * place, colour, first->series);
}

static int draw(const struct relax_study *s, int64_t at) {
    const struct relax_number *first = &s->number[at];
    const struct frame f = frame_of(s, first);
    char ending[80];
    snprintf(ending, sizeof ending, "-%s-%s.svg", first->table, first->matrix);
    for (char *c = ending; *c; c++)
        *c = (char)(isalnum((unsigned char)*c) || *c == '.' ? tolower((unsigned char)*c) : '-');
    FILE *out = plain_file_open(s->output, ending);
    if (!out)
        return EXIT_FAILED;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"white\"/>\n<text x=\"%.0f\" y=\"22\">%s, %s: %s</text>\n",
            WIDTH, HEIGHT, LEFT, first->table, first->matrix,
            strcmp(first->table, "Figure 11") == 0 ? "seconds to 1e-10" : "relative residual");
    draw_axes(out, &f,
              strcmp(first->table, "Figure 9") == 0    ? "seconds"
              : strcmp(first->table, "Figure 11") == 0 ? "devices"
                                                       : "iterations");
    int place = 0;
    for (int64_t i = at; i < s->numbers; i++) {
        bool begun = false;
        for (int64_t j = at; j < i && !begun; j++)
            begun = belongs(&s->number[j], first) &&
                    strcmp(s->number[j].series, s->number[i].series) == 0;
        if (belongs(&s->number[i], first) && !begun)
            draw_curve(out, s, i, &f, place++);
    }
    fputs("</svg>\n", out);
    return plain_file_close(out, s->output, ending);
}

int relax_plot(const struct relax_study *s) {
    int code = EXIT_DONE;
    for (int64_t i = 0; i < s->numbers && code == EXIT_DONE; i++) {
        bool drawn = s->number[i].table[0] != 'F';
        for (int64_t j = 0; j < i && !drawn; j++)
            drawn = belongs(&s->number[j], &s->number[i]);
        if (!drawn)
            code = draw(s, i);
    }
    return code;
}
