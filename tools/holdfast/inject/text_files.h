/* SPDX-License-Identifier: Apache-2.0
 * Text files of a folder that appear together. */
#ifndef TEXT_FILES_H
#define TEXT_FILES_H

#include "tool.h"

struct text_files {
    const char *folder;
    hf_context *ctx;
    hf_file_set *set;
    FILE *file; /* that is being written */
    char *text; /* what was printed into it */
    size_t bytes;
    int code; /* of the first step that failed */
};

/* Begin files in a folder that is there. */
void text_files_open(struct text_files *t, const char *folder);

/* Where the next file is to be printed; NULL once something failed. */
FILE *text_files_begin(struct text_files *t);

/* What was printed becomes a file of this name. */
void text_files_end(struct text_files *t, const char *name);

/* Give all files their names, unless something failed; an exit code. */
int text_files_close(struct text_files *t);

#endif
