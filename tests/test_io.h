/* SPDX-License-Identifier: Apache-2.0
 * What the tests of the readers share: a context, a folder for files, expectations. */
#ifndef HF_TEST_IO_H
#define HF_TEST_IO_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/dtype.h"
#include <holdfast/holdfast.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static hf_context *ctx;
static char folder[256];

static int io_setup(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof folder, "%s/hf-test-io-XXXXXX", base != NULL ? base : "/tmp");
    const hf_context_opts opts = {.device = "cpu", .threads = 1, .memory_bytes = 64u << 20};
    return mkdtemp(folder) != NULL && hf_context_create(&ctx, &opts) == HF_OK ? 0 : -1;
}

static int io_teardown(void **state) {
    (void)state;
    hf_context_destroy(ctx);
    DIR *dir = opendir(folder);
    char path[600];
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        (void)unlink(path);
    }
    if (dir != NULL)
        (void)closedir(dir);
    return rmdir(folder);
}

/* The path of a file in the folder; one of four buffers in turn. */
static const char *in_folder(const char *name) {
    static char path[4][600];
    static int turn;
    turn = (turn + 1) % 4;
    (void)snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static inline const char *make_file(const char *name, const void *data, size_t bytes) {
    const char *path = in_folder(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline const char *make_text(const char *name, const char *text) {
    return make_file(name, text, strlen(text));
}

static inline hf_dataset *open_opts(const char *path, const hf_open_opts *opts) {
    hf_dataset *d = NULL;
    const hf_status status = hf_dataset_open(ctx, path, opts, &d);
    if (status != HF_OK)
        fail_msg("%s: %s", hf_status_text(status), hf_last_error(ctx));
    assert_non_null(d);
    return d;
}

static inline hf_dataset *open_loaded(const char *path) {
    hf_dataset *d = open_opts(path, NULL);
    assert_non_null(hf_dataset_array(d));
    assert_null(hf_dataset_source(d));
    return d;
}

/* Opening must fail with this status and with all the words in the message, separated by '|'. */
static inline void expect_error(const char *path, const hf_open_opts *opts, hf_status status,
                                const char *words) {
    hf_dataset *d = (hf_dataset *)ctx;
    const hf_status got = hf_dataset_open(ctx, path, opts, &d);
    if (got != status)
        fail_msg("%s: got %s (%s), expected %s", path, hf_status_text(got),
                 got == HF_OK ? "opened" : hf_last_error(ctx), hf_status_text(status));
    assert_null(d);
    char word[200];
    while (*words != '\0') {
        const size_t bytes = strcspn(words, "|");
        assert_true(bytes < sizeof word);
        memcpy(word, words, bytes);
        word[bytes] = '\0';
        if (strstr(hf_last_error(ctx), word) == NULL)
            fail_msg("no \"%s\" in: %s", word, hf_last_error(ctx));
        words += bytes + (words[bytes] == '|');
    }
}

/* All rows through the source, a few at a time, then single rows backwards: as they were loaded. */
static inline void expect_same_streamed(const char *path, const hf_array *a) {
    const hf_open_opts opts = {.stream = 1};
    hf_dataset *d = open_opts(path, &opts);
    const hf_source *s = hf_dataset_source(d);
    assert_non_null(s);
    assert_null(hf_dataset_array(d));
    assert_true(s->rows == a->rows && s->cols == a->cols && s->dtype == a->dtype);
    const size_t row = (size_t)a->cols * hf_dtype_bytes(a->dtype);
    const size_t all = row * (size_t)a->rows;
    char *copy = malloc(all);
    assert_non_null(copy);
    char message[256] = "";
    for (int64_t chunk = 1; chunk <= a->rows; chunk = chunk * 3 + 1) {
        memset(copy, 0xA5, all);
        for (int64_t i = 0; i < a->rows; i += chunk) {
            const int64_t now = a->rows - i < chunk ? a->rows - i : chunk;
            assert_int_equal(
                s->read(s->user, i, now, copy + (size_t)i * row, message, sizeof message), HF_OK);
        }
        assert_memory_equal(copy, a->data, all);
    }
    for (int64_t i = a->rows - 1; i >= 0 && i >= a->rows - 50; i--) {
        assert_int_equal(s->read(s->user, i, 1, copy, message, sizeof message), HF_OK);
        assert_memory_equal(copy, (const char *)a->data + (size_t)i * row, row);
    }
    assert_int_equal(s->read(s->user, 0, a->rows + 1, copy, message, sizeof message), HF_E_ARG);
    assert_non_null(strstr(message, "rows"));
    assert_int_equal(s->read(s->user, -1, 1, copy, NULL, 0), HF_E_ARG);
    assert_int_equal(s->read(s->user, 0, 0, copy, message, sizeof message), HF_OK);
    free(copy);
    hf_dataset_close(d);
}

static inline double at(const hf_array *a, int64_t i, int64_t j) {
    return hf_load_f64(a->data, a->dtype, i * a->cols + j);
}

#endif
