/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans/labels_format.h"
#include <string.h>

enum { BLOCK_BYTES = 1 << 16, LINE_BYTES = 16 };

const char *const labels_format_names[] = {"npy", "csv", NULL};

const char *labels_file_name(enum labels_format format) {
    return format == LABELS_CSV ? "labels.csv" : "labels.npy";
}

/* The digits of a label, which is -1 or more, and the end of the line; how many bytes. */
static size_t put_line(char *at, int32_t label) {
    char digits[LINE_BYTES];
    size_t count = 0, used = 0;
    if (label < 0)
        at[used++] = '-';
    int32_t left = label < 0 ? 1 : label;
    do {
        digits[count++] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    while (count > 0)
        at[used++] = digits[--count];
    at[used++] = '\n';
    return used;
}

static hf_status add_csv(hf_file_set *set, const char *path, const int32_t *labels, int64_t n) {
    char block[BLOCK_BYTES] = "label\n";
    size_t used = strlen(block);
    hf_status status = hf_file_set_begin(set, path, HF_DTYPE_NONE, 0, 0);
    for (int64_t i = 0; status == HF_OK && i < n; i++) {
        used += put_line(block + used, labels[i]);
        if (used < BLOCK_BYTES - LINE_BYTES)
            continue;
        status = hf_file_set_append(set, block, used);
        used = 0;
    }
    if (status == HF_OK)
        status = hf_file_set_append(set, block, used);
    return status == HF_OK ? hf_file_set_end(set) : status;
}

hf_status labels_add(hf_file_set *set, const char *path, const int32_t *labels, int64_t n,
                     enum labels_format format) {
    if (format == LABELS_CSV)
        return add_csv(set, path, labels, n);
    const hf_array a = hf_array_view((void *)labels, HF_I32, n, 1);
    return hf_file_set_npy(set, path, &a);
}
