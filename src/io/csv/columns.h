/* SPDX-License-Identifier: Apache-2.0
 * Lists as users write them: which columns to keep and to leave out, which values mean a missing
 * one. */
#ifndef HF_COLUMNS_H
#define HF_COLUMNS_H

#include "base/status.h"
#include <stdbool.h>

/* Can the lists be understood? NULL can. HF_E_ARG, with what is wrong. */
hf_status hf_columns_check(const char *columns, const char *skip, const char *missing,
                           hf_error *err);

/* Does the list hold a name? */
bool hf_columns_named(const char *list);

/* Lists that hf_columns_check() passed, and what they choose from. */
struct hf_columns {
    const char *keep, *skip;  /* NULL: all, none */
    const char *file;         /* for messages */
    const char *const *names; /* [total]; NULL: there is no header */
    int64_t total;
};

/* The numbers, from 0, of the columns chosen, in *list (hf_free()). HF_E_DATA: no such column. */
hf_status hf_columns_choose(const struct hf_columns *c, int64_t **list, int64_t *count,
                            hf_error *err);

/* A value that means a missing one. */
struct hf_missing {
    char *text; /* without quotes; belongs to the list */
    bool is_number;
    double value;
};

/* The values of a list that hf_columns_check() passed, in *values (one hf_free()); none for NULL.
 */
hf_status hf_missing_list(const char *list, struct hf_missing **values, int64_t *count,
                          hf_error *err);

#endif
