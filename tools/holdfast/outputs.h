/* SPDX-License-Identifier: Apache-2.0
 * The files of one run: collected in a hidden folder inside DIR, then moved into place together, so
 * that a failure at any point before leaves what DIR held as it was. */
#ifndef OUTPUTS_H
#define OUTPUTS_H

#include "tool.h"

#define OUTPUTS_MAX 8

struct outputs {
    char *dir;
    char *stage; /* the hidden folder; NULL when there is none */
    bool made_dir;
    int count;
    const char *names[OUTPUTS_MAX];
};

/* Make dir (parents too) and see that files can be made in it; an exit code. */
int outputs_open(struct outputs *out, const char *dir);

/* Add a file; names must outlive `out`. Failures are reported; an exit code. */
int outputs_matrix(struct outputs *out, hf_context *ctx, const char *name, const hf_array *a);
int outputs_vector(struct outputs *out, hf_context *ctx, const char *name, const hf_array *a);
int outputs_file(struct outputs *out, hf_context *ctx, const char *name, const void *data,
                 size_t bytes);

/* Move all files into place in the order they were added; an exit code. */
int outputs_publish(struct outputs *out);

/* Remove what was not published and free all; also the folder if outputs_open() made it and it
 * stayed empty. */
void outputs_close(struct outputs *out);

/* "dir/name", to be freed; NULL when memory is out. */
char *outputs_path(const char *dir, const char *name);

#endif
