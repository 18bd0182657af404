/* SPDX-License-Identifier: Apache-2.0 */
#include "picture.h"
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 1, PAPER = 48, MOST_LINES = 65535, MOST_DOTS = 1 << 28 };

static double value_at(const hf_array *a, int64_t row, int64_t col) {
    const int64_t stride = a->row_stride ? a->row_stride : a->cols;
    if (a->dtype == HF_F64)
        return ((const double *)a->data)[row * stride + col];
    return ((const float *)a->data)[row * stride + col];
}

static void find_range(const hf_array *a, double *least, double *most) {
    *least = INFINITY;
    *most = -INFINITY;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++) {
            *least = fmin(*least, value_at(a, i, j));
            *most = fmax(*most, value_at(a, i, j));
        }
}

/* pixels [.., line] holds the grid; tile i lies in column i % across. */
static void paint(uint8_t *pixels, int64_t line, int64_t across, const hf_array *a, int64_t height,
                  int64_t width) {
    double least;
    double most;
    find_range(a, &least, &most);
    const double scale = most > least ? 255 / (most - least) : 0;
    for (int64_t i = 0; i < a->rows; i++) {
        const int64_t top = GAP + (i / across) * (height + GAP);
        const int64_t left = GAP + (i % across) * (width + GAP);
        for (int64_t j = 0; j < a->cols; j++)
            pixels[(top + j / width) * line + left + j % width] =
                (uint8_t)lrint((value_at(a, i, j) - least) * scale);
    }
}

struct layout {
    int64_t across, down; /* tiles */
    int64_t line, lines;  /* dots */
};

/* As many tiles across as make the picture about square. */
static struct layout lay_out(int64_t k, int64_t height, int64_t width) {
    struct layout l;
    l.across = (int64_t)ceil(sqrt((double)k * (double)height / (double)width));
    l.across = l.across < 1 ? 1 : l.across > k ? k : l.across;
    l.down = (k + l.across - 1) / l.across;
    l.line = l.across * (width + GAP) + GAP;
    l.lines = l.down * (height + GAP) + GAP;
    return l;
}

int picture_check(int64_t k, int64_t height, int64_t width) {
    const struct layout l = lay_out(k, height, width);
    if (l.line <= MOST_LINES && l.lines <= MOST_LINES && l.line * l.lines <= MOST_DOTS)
        return EXIT_DONE;
    tool_error("--picture: %s centroids make a picture of %s x %s dots, too large to draw; leave "
               "--picture out",
               tool_count_text(k), tool_count_text(l.lines), tool_count_text(l.line));
    return EXIT_INPUT;
}

int picture_make(struct picture *out, uint8_t *dots, int64_t height, int64_t width) {
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = PNG_FORMAT_GRAY};
    png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    void *png = malloc(bytes);
    const bool drawn =
        dots && png && png_image_write_to_memory(&image, png, &bytes, 0, dots, 0, NULL) != 0;
    free(dots);
    if (!drawn) {
        free(png);
        tool_error("--picture: %s", image.message[0] ? image.message : "out of memory");
        return EXIT_RESOURCES;
    }
    *out = (struct picture){png, bytes};
    return EXIT_DONE;
}

int picture_draw(struct picture *out, const hf_array *a, int64_t height, int64_t width) {
    const struct layout l = lay_out(a->rows, height, width);
    const size_t dots = (size_t)(l.line * l.lines);
    uint8_t *pixels = malloc(dots);
    *out = (struct picture){NULL, 0};
    if (pixels) {
        memset(pixels, PAPER, dots);
        paint(pixels, l.line, l.across, a, height, width);
    }
    return picture_make(out, pixels, l.lines, l.line);
}
