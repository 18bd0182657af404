/* SPDX-License-Identifier: Apache-2.0
 * Labels as a file: int32 .npy, or CSV with a header and a label a line. */
#ifndef LABELS_FORMAT_H
#define LABELS_FORMAT_H

#include "tool.h"

enum labels_format { LABELS_NPY, LABELS_CSV };

/* Names in the order of the enum, NULL-ended. */
extern const char *const labels_format_names[];

#define LABELS_FORMAT_HELP "npy (int32, default) or csv (a header, then one a line)"

/* Add a file with n labels to the set. */
hf_status labels_add(hf_file_set *set, const char *path, const int32_t *labels, int64_t n,
                     enum labels_format format);

/* The name of the file in a result folder. */
const char *labels_file_name(enum labels_format format);

#endif
