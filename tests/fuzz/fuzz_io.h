/* SPDX-License-Identifier: Apache-2.0
 * What the fuzz targets of the readers share: the input becomes a file (in memory, under a name
 * whose ending is that of the format, so that damaged files reach their reader) and goes through
 * the public calls. */
#ifndef HF_FUZZ_IO_H
#define HF_FUZZ_IO_H

#include <holdfast/holdfast.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEMORY ((uint64_t)16 << 20)

static hf_context *ctx;
static int file = -1;
static char folder[64];
static char path[128];

static void remove_link(void) {
    (void)unlink(path);
    (void)rmdir(folder);
}

static void require(int condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void fuzz_begin(const char *name) {
    if (ctx != NULL)
        return;
    const hf_context_opts opts = {.device = "cpu", .threads = 1, .memory_bytes = MEMORY};
    require(hf_context_create(&ctx, &opts) == HF_OK, "no context");
    file = memfd_create("fuzz", MFD_CLOEXEC);
    (void)snprintf(folder, sizeof folder, "/tmp/hf-fuzz-XXXXXX");
    require(file >= 0 && mkdtemp(folder) != NULL, "no folder in /tmp");
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    char target[64];
    (void)snprintf(target, sizeof target, "/proc/%ld/fd/%d", (long)getpid(), file);
    require(symlink(target, path) == 0, "no link in /tmp");
    (void)atexit(remove_link);
}

/* Every failure must have a status of its kind and words that name the file. */
static hf_dataset *fuzz_open(const hf_open_opts *opts) {
    hf_dataset *d = NULL;
    const hf_status status = hf_dataset_open(ctx, path, opts, &d);
    require((status == HF_OK) == (d != NULL), "status and data set disagree");
    require(status == HF_OK || status == HF_E_DATA || status == HF_E_NOMEM, "unexpected status");
    require(status == HF_OK || strncmp(hf_last_error(ctx), folder, strlen(folder)) == 0,
            "the message does not begin with the file");
    return d;
}

static size_t row_bytes(const hf_array *a) { return (size_t)a->cols * hf_dtype_bytes(a->dtype); }

/* Rows in chunks of `chunk` must be those that were loaded. */
static void compare_streamed(const hf_source *s, const hf_array *a, int64_t chunk) {
    char message[300];
    const size_t row = row_bytes(a);
    char *rows = malloc((size_t)chunk * row);
    require(rows != NULL, "no memory");
    for (int64_t i = 0; i < a->rows; i += chunk) {
        const int64_t now = a->rows - i < chunk ? a->rows - i : chunk;
        require(s->read(s->user, i, now, rows, message, sizeof message) == HF_OK,
                "loaded, but not read in chunks");
        require(memcmp(rows, (const char *)a->data + (size_t)i * row, (size_t)now * row) == 0,
                "rows differ when read in chunks");
    }
    free(rows);
}

/* Rows that could not be loaded: reading them must fail or not, but in words. */
static void walk_streamed(const hf_source *s) {
    char message[300] = "";
    size_t row = 0;
    if (__builtin_mul_overflow((size_t)s->cols, hf_dtype_bytes(s->dtype), &row) || row > MEMORY)
        return;
    char *rows = malloc(row);
    require(rows != NULL, "no memory");
    for (int64_t i = 0; i < s->rows && i < 2000; i++) {
        if (s->read(s->user, i, 1, rows, message, sizeof message) == HF_OK)
            continue;
        require(strncmp(message, folder, strlen(folder)) == 0, "no words");
        break;
    }
    free(rows);
}

static inline int fuzz_file(const uint8_t *data, size_t size, const char *name) {
    fuzz_begin(name);
    require(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size, "no file");
    const hf_open_opts stream = {.stream = 1};
    hf_dataset *loaded = fuzz_open(NULL);
    hf_dataset *streamed = fuzz_open(&stream);
    const hf_array *a = hf_dataset_array(loaded);
    const hf_source *s = hf_dataset_source(streamed);
    require(loaded == NULL || a != NULL || hf_dataset_source(loaded) != NULL, "neither of the two");
    require(loaded == NULL || streamed != NULL, "loaded, but not opened in chunks");
    if (a != NULL) {
        require(a->rows > 0 && a->cols > 0 && row_bytes(a) * (size_t)a->rows <= MEMORY, "sizes");
        volatile const unsigned char *bytes = a->data;
        unsigned char sum = 0;
        for (size_t b = 0; b < row_bytes(a) * (size_t)a->rows; b++)
            sum = (unsigned char)(sum + bytes[b]);
    }
    if (a != NULL && s != NULL) {
        require(a->rows == s->rows && a->cols == s->cols && a->dtype == s->dtype, "shapes differ");
        compare_streamed(s, a, a->rows);
        if (a->rows < 500)
            compare_streamed(s, a, a->rows / 3 + 1);
    } else if (s != NULL) {
        walk_streamed(s);
    }
    hf_dataset_close(streamed);
    hf_dataset_close(loaded);
    return 0;
}

#endif
