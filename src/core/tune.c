/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tune.h"

#include "base/cpuid.h"
#include "base/file.h"
#include "base/mem.h"
#include "device/host/isa.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_FILE_BYTES ((uint64_t)16 << 20)
#define MAX_LINE_BYTES 512

static int log2_down(int64_t v) { return v > 1 ? 63 - __builtin_clzll((unsigned long long)v) : 0; }

struct hf_tune_key hf_tune_bucket(int op, const struct hf_key *key) {
    const struct hf_tune_key bucket = {op, key->dtype, log2_down(key->n), log2_down(key->k),
                                       log2_down(key->d)};
    return bucket;
}

void hf_tune_fingerprint(char text[HF_TUNE_NAME_BYTES]) {
    const uint32_t isas = hf_cpu_isas();
    (void)snprintf(text, HF_TUNE_NAME_BYTES, "%s:%s", hf_cpu_name(),
                   hf_isa_name(log2_down((int64_t)isas)));
    for (char *c = text; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~')
            *c = '_';
}

bool hf_tune_path(char *path, size_t bytes) {
    const char *file = getenv("HF_TUNE_FILE");
    const char *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int len = -1;
    if (file != NULL && *file != '\0')
        len = snprintf(path, bytes, "%s", file);
    else if (config != NULL && *config == '/')
        len = snprintf(path, bytes, "%s/holdfast/cpu.tune", config);
    else if (home != NULL && *home == '/')
        len = snprintf(path, bytes, "%s/.config/holdfast/cpu.tune", home);
    return len >= 0 && (size_t)len < bytes;
}

static hf_dtype dtype_find(const char *name) {
    for (int dtype = HF_F32; dtype <= HF_I32; dtype++)
        if (strcmp(hf_dtype_name((hf_dtype)dtype), name) == 0)
            return (hf_dtype)dtype;
    return HF_DTYPE_NONE;
}

static bool parse_line(const char *line, struct hf_tune_entry *e) {
    char op[32], dtype[8];
    if (sscanf(line, "%31s %7s %d %d %d %79s %79s %lf", op, dtype, &e->key.log2n, &e->key.log2k,
               &e->key.log2d, e->fingerprint, e->kernel, &e->ns) != 8)
        return false;
    e->key.op = hf_op_find(op);
    e->key.dtype = dtype_find(dtype);
    const bool logs = e->key.log2n >= 0 && e->key.log2n < 63 && e->key.log2k >= 0 &&
                      e->key.log2k < 63 && e->key.log2d >= 0 && e->key.log2d < 63;
    return logs && e->key.op >= 0 && e->key.dtype != HF_DTYPE_NONE && e->ns > 0.0 &&
           isfinite(e->ns);
}

/* The next line of text, cut off at its end; NULL after the last. */
static char *next_line(char **text) {
    char *line = *text;
    if (line == NULL)
        return NULL;
    char *end = strchr(line, '\n');
    if (end != NULL)
        *end = '\0';
    *text = end != NULL ? end + 1 : NULL;
    return line;
}

static int count_lines(const char *text) {
    int lines = 1;
    for (const char *c = strchr(text, '\n'); c != NULL; c = strchr(c + 1, '\n'))
        lines++;
    return lines;
}

/* Is the text from another version, whose kernels are others? Text that names none is not. */
static bool is_foreign(const char *text) {
    static const char head[] = "# holdfast ";
    const char *version = hf_version();
    const size_t length = strlen(version);
    if (strncmp(text, head, sizeof head - 1) != 0)
        return false;
    text += sizeof head - 1;
    return strncmp(text, version, length) != 0 || text[length] != ':';
}

static hf_status parse(const char *path, const void *data, size_t bytes, struct hf_tune *tune,
                       hf_error *err) {
    char *text = hf_alloc(bytes + 1);
    if (text == NULL)
        return hf_fail(err, HF_E_NOMEM, "cannot read %s: out of memory", path);
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    struct hf_tune_entry *entry = hf_alloc((size_t)count_lines(text) * sizeof *entry);
    if (entry == NULL) {
        hf_free(text);
        return hf_fail(err, HF_E_NOMEM, "cannot read %s: out of memory", path);
    }
    int count = 0;
    int number = 0;
    tune->foreign = is_foreign(text);
    char *rest = tune->foreign ? NULL : text;
    for (const char *line = next_line(&rest); line != NULL; line = next_line(&rest)) {
        number++;
        if (line[0] == '#' || line[0] == '\0')
            continue;
        if (parse_line(line, &entry[count]))
            count++;
        else if (tune->odd == 0)
            tune->odd = number;
    }
    hf_free(text);
    tune->entry = entry;
    tune->count = count;
    return HF_OK;
}

hf_status hf_tune_load(const char *path, struct hf_tune *tune, hf_error *err) {
    *tune = (struct hf_tune){NULL, 0, false, 0};
    if (access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return HF_OK;
    void *data = NULL;
    size_t bytes = 0;
    HF_TRY(hf_file_read_all(path, MAX_FILE_BYTES, &data, &bytes, err));
    const hf_status status = parse(path, data, bytes, tune, err);
    hf_free(data);
    return status;
}

void hf_tune_clear(struct hf_tune *tune) {
    hf_free(tune->entry);
    tune->entry = NULL;
    tune->count = 0;
}

static hf_status write_entry(hf_file *file, const struct hf_tune_entry *e, hf_error *err) {
    char line[MAX_LINE_BYTES];
    const int len = snprintf(line, sizeof line, "%s %s %d %d %d %s %s %.0f\n",
                             hf_op_at(e->key.op)->name, hf_dtype_name(e->key.dtype), e->key.log2n,
                             e->key.log2k, e->key.log2d, e->fingerprint, e->kernel, e->ns);
    return hf_file_write(file, line, (size_t)len, err);
}

hf_status hf_tune_save(const char *path, const struct hf_tune *tune, hf_error *err) {
    hf_file *file = NULL;
    HF_TRY(hf_file_create(&file, path, err));
    char head[MAX_LINE_BYTES];
    const int len = snprintf(head, sizeof head,
                             "# holdfast %s: op dtype log2(n) log2(k) log2(d) machine kernel ns\n",
                             hf_version());
    hf_status status = hf_file_write(file, head, (size_t)len, err);
    for (int i = 0; status == HF_OK && i < tune->count; i++)
        status = write_entry(file, &tune->entry[i], err);
    if (status != HF_OK) {
        hf_file_abort(file);
        return status;
    }
    return hf_file_commit(file, err);
}
