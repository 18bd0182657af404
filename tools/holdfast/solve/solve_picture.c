/* SPDX-License-Identifier: Apache-2.0 */
#include "solve/solve_picture.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 800, HEIGHT = 480, LEFT = 64, RIGHT = 16, TOP = 16, BOTTOM = 32 };
enum { PAPER = 255, INK = 0, GRID = 225, AXIS = 120, GOAL = 170, CURVES = 16 };
enum { DOT = 2, GLYPH_WIDTH = 3, GLYPH_HEIGHT = 5, LETTER = (GLYPH_WIDTH + 1) * DOT };

struct canvas {
    uint8_t *dots;
    double top, bottom; /* log10 of the residuals at the edges */
    double iterations;  /* at the right edge */
};

/* 3 x 5 dots each, rows from the top, the left dot is the highest bit. */
static const struct {
    char letter;
    const char *rows; /* five octal digits */
} glyphs[] = {{'0', "75557"}, {'1', "26227"}, {'2', "71747"}, {'3', "71717"},
              {'4', "55711"}, {'5', "74717"}, {'6', "74757"}, {'7', "71111"},
              {'8', "75757"}, {'9', "75717"}, {'e', "07747"}, {'-', "00700"}};

static void put(const struct canvas *c, int64_t x, int64_t y, uint8_t shade) {
    if (x >= 0 && x < WIDTH && y >= 0 && y < HEIGHT)
        c->dots[y * WIDTH + x] = shade;
}

static void put_glyph(const struct canvas *c, int64_t x, int64_t y, const char *rows) {
    for (int i = 0; i < GLYPH_HEIGHT * DOT; i++)
        for (int j = 0; j < GLYPH_WIDTH * DOT; j++)
            if ((rows[i / DOT] - '0') >> (GLYPH_WIDTH - 1 - j / DOT) & 1)
                put(c, x + j, y + i, INK);
}

/* Text that ends at x and has its middle at y. */
static void put_text(const struct canvas *c, int64_t x, int64_t y, const char *text) {
    x -= (int64_t)strlen(text) * LETTER;
    for (; *text; text++, x += LETTER)
        for (size_t g = 0; g < sizeof glyphs / sizeof *glyphs; g++)
            if (glyphs[g].letter == *text)
                put_glyph(c, x, y - GLYPH_HEIGHT * DOT / 2, glyphs[g].rows);
}

static int64_t across(const struct canvas *c, double iteration) {
    return LEFT + llrint(iteration / c->iterations * (WIDTH - LEFT - RIGHT - 1));
}

static int64_t down(const struct canvas *c, double residual) {
    const double level = fmax(fmin(log10(residual), c->top), c->bottom);
    return TOP + llrint((c->top - level) / (c->top - c->bottom) * (HEIGHT - TOP - BOTTOM - 1));
}

static void put_level(const struct canvas *c, double residual, uint8_t shade) {
    for (int64_t x = LEFT; x < WIDTH - RIGHT; x++)
        put(c, x, down(c, residual), shade);
}

static void put_axes(const struct canvas *c, double tol) {
    char text[32];
    const int step = (int)ceil((c->top - c->bottom) / 20);
    for (int level = (int)c->bottom; level <= (int)c->top; level += step) {
        put_level(c, pow(10, level), GRID);
        snprintf(text, sizeof text, "1e%d", level);
        put_text(c, LEFT - 8, down(c, pow(10, level)), text);
    }
    put_level(c, tol, GOAL);
    for (int part = 0; part <= 4; part++) {
        const double iteration = floor(c->iterations * part / 4);
        snprintf(text, sizeof text, "%.0f", iteration);
        const int64_t right = part < 4 ? (int64_t)strlen(text) * LETTER / 2 : DOT;
        put_text(c, across(c, iteration) + right, HEIGHT - BOTTOM / 2, text);
    }
    for (int64_t y = TOP; y < HEIGHT - BOTTOM; y++)
        put(c, LEFT, y, AXIS);
}

/* From one value to the next, a dot for every column and every row in between. */
static void put_line(const struct canvas *c, int64_t x0, int64_t y0, int64_t x1, int64_t y1) {
    const int64_t steps = llabs(x1 - x0) > llabs(y1 - y0) ? llabs(x1 - x0) : llabs(y1 - y0);
    for (int64_t i = 0; i <= steps; i++) {
        const double part = steps > 0 ? (double)i / (double)steps : 0;
        const int64_t x = x0 + llrint(part * (double)(x1 - x0));
        const int64_t y = y0 + llrint(part * (double)(y1 - y0));
        put(c, x, y, INK);
        put(c, x, y + 1, INK);
    }
}

static void put_curve(const struct canvas *c, const hf_relax_column *column) {
    int64_t x0 = -1;
    int64_t y0 = 0;
    for (int64_t i = 0; i < column->history_count; i++) {
        if (!(column->history[i] > 0) || !isfinite(column->history[i]))
            continue;
        const int64_t x = across(c, (double)(i * column->history_step));
        const int64_t y = down(c, column->history[i]);
        put_line(c, x0 < 0 ? x : x0, x0 < 0 ? y : y0, x, y);
        x0 = x;
        y0 = y;
    }
}

static void find_edges(struct canvas *c, const hf_relax_result *result, double tol) {
    c->top = 0;
    c->bottom = log10(tol);
    c->iterations = 1;
    for (int64_t j = 0; j < result->rhs; j++) {
        const hf_relax_column *column = &result->columns[j];
        for (int64_t i = 0; i < column->history_count; i++) {
            const double level = log10(column->history[i]);
            if (!isfinite(level))
                continue;
            c->top = fmax(c->top, level);
            c->bottom = fmin(c->bottom, level);
            c->iterations = fmax(c->iterations, (double)(i * column->history_step));
        }
    }
    c->top = ceil(c->top);
    c->bottom = fmin(floor(c->bottom), c->top - 1);
}

int solve_picture_draw(struct picture *out, const hf_relax_result *result, double tol) {
    struct canvas c = {.dots = malloc((size_t)WIDTH * HEIGHT)};
    if (c.dots) {
        memset(c.dots, PAPER, (size_t)WIDTH * HEIGHT);
        find_edges(&c, result, tol);
        put_axes(&c, tol);
        for (int64_t j = 0; j < result->rhs && j < CURVES; j++)
            put_curve(&c, &result->columns[j]);
    }
    return picture_make(out, c.dots, HEIGHT, WIDTH);
}
