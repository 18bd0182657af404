/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/text_files.h"

#include <errno.h>
#include <stdlib.h>

static void take(struct text_files *t, hf_status status) {
    if (status != HF_OK && t->code == EXIT_DONE)
        t->code = tool_fail(t->ctx, status, STAGE_WRITE);
}

void text_files_open(struct text_files *t, const char *folder) {
    const hf_context_opts opts = {.device = "cpu", .threads = 1};
    *t = (struct text_files){.folder = folder};
    errno = 0;
    take(t, hf_context_create(&t->ctx, &opts));
    if (t->code == EXIT_DONE)
        take(t, hf_file_set_create(t->ctx, &t->set));
}

FILE *text_files_begin(struct text_files *t) {
    if (t->code != EXIT_DONE)
        return NULL;
    t->file = open_memstream(&t->text, &t->bytes);
    if (!t->file)
        take(t, HF_E_NOMEM);
    return t->file;
}

void text_files_end(struct text_files *t, const char *name) {
    char path[4200];
    if (!t->file)
        return;
    snprintf(path, sizeof path, "%s/%s", t->folder, name);
    errno = 0;
    take(t, fclose(t->file) == 0 ? hf_file_set_file(t->set, path, t->text, t->bytes) : HF_E_NOMEM);
    free(t->text);
    t->file = NULL;
}

int text_files_close(struct text_files *t) {
    errno = 0;
    if (t->code == EXIT_DONE)
        take(t, hf_file_set_commit(t->set, NULL));
    hf_file_set_destroy(t->set);
    hf_context_destroy(t->ctx);
    return t->code;
}
