/* SPDX-License-Identifier: Apache-2.0
 * The files of one run into a folder: they appear together at the end, report.json last. A run has
 * the folder for itself until it ends. */
#ifndef OUTPUTS_H
#define OUTPUTS_H

#include "kmeans/labels_format.h"
#include "tool.h"

#define OUTPUTS_MAX 8

struct outputs {
    hf_context *ctx;
    char *dir;
    bool made_dir;
    int lock; /* the folder, opened and locked */
    hf_file_set *set;
    int count, appeared;
    const char *names[OUTPUTS_MAX];
};

/* Make dir (parents too), lock it, and see that the files `names` (NULL-ended) can be made in it;
 * an exit code. */
int outputs_open(struct outputs *out, hf_context *ctx, const char *dir, const char *const *names);

/* See that the folder's file system has room for `bytes` more, where it tells how much it has and
 * no file of `names` is a link, which may lead to another one; an exit code. */
int outputs_check_room(const struct outputs *out, const char *const *names, uint64_t bytes);

/* Give up what was added, and go on in a new folder among the system's temporary files, which only
 * its owner may read; an exit code. */
int outputs_elsewhere(struct outputs *out);

/* Add a file; names must outlive `out`. Failures are reported; an exit code. */
int outputs_matrix(struct outputs *out, const char *name, const hf_array *a);
int outputs_labels(struct outputs *out, const int32_t *labels, int64_t n,
                   enum labels_format format);
int outputs_file(struct outputs *out, const char *name, const void *data, size_t bytes);

/* Sizes and checksums of the files added so far, by name. */
json_t *outputs_json(const struct outputs *out);

/* Move all files into place in the order they were added; an exit code. */
int outputs_publish(struct outputs *out);

/* After a failure: say what became of the files that dir held before. */
void outputs_explain(const struct outputs *out);

/* Remove what was not published, unlock and free all; also the folder if outputs_open() made it and
 * it stayed empty. Does nothing if all of `out` is 0. */
void outputs_close(struct outputs *out);

/* "dir/name", to be freed; NULL when memory is out. */
char *outputs_path(const char *dir, const char *name);

#endif
