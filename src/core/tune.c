/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tune.h"

#include "base/cpuid.h"
#include "base/file.h"
#include "base/mem.h"
#include "device/host/isa.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_FILE_BYTES ((uint64_t)16 << 20)
#define MAX_LINE_BYTES 512
#define MAX_LIST_BYTES 100  /* of the types, dimensions or flags of a line */
#define FORMAT " tuning 2:" /* behind the version in the first line */

static int log2_down(int64_t v) { return v > 1 ? 63 - __builtin_clzll((unsigned long long)v) : 0; }

static void copy_word(char word[HF_TUNE_WORD_BYTES], const char *text) {
    (void)snprintf(word, HF_TUNE_WORD_BYTES, "%s", text);
}

struct hf_tune_key hf_tune_bucket(const struct hf_op *op, const struct hf_key *key) {
    struct hf_tune_key bucket;
    memset(&bucket, 0, sizeof bucket);
    (void)snprintf(bucket.op, sizeof bucket.op, "%s", op->name);
    for (int i = 0; i < HF_KEY_TYPES && op->type[i] != NULL; i++) {
        copy_word(bucket.type[i].name, op->type[i]);
        bucket.type[i].dtype = key->dtype[i];
    }
    for (int i = 0; i < HF_KEY_DIMS && op->dim[i] != NULL; i++) {
        copy_word(bucket.dim[i].name, op->dim[i]);
        bucket.dim[i].log2 = log2_down(key->dim[i]);
    }
    for (int i = 0, set = 0; i < HF_KEY_FLAGS && op->flag[i] != NULL; i++)
        if (key->flags >> i & 1)
            copy_word(bucket.flag[set++], op->flag[i]);
    return bucket;
}

int hf_tune_distance(const struct hf_tune_key *a, const struct hf_tune_key *b) {
    int distance = 0;
    if (strcmp(a->op, b->op) != 0)
        return INT_MAX;
    for (int i = 0; i < HF_KEY_TYPES; i++)
        if (a->type[i].dtype != b->type[i].dtype || strcmp(a->type[i].name, b->type[i].name) != 0)
            return INT_MAX;
    for (int i = 0; i < HF_KEY_FLAGS; i++)
        if (strcmp(a->flag[i], b->flag[i]) != 0)
            return INT_MAX;
    for (int i = 0; i < HF_KEY_DIMS; i++) {
        if (strcmp(a->dim[i].name, b->dim[i].name) != 0)
            return INT_MAX;
        distance += abs(a->dim[i].log2 - b->dim[i].log2);
    }
    return distance;
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
    for (int dtype = HF_F32; dtype <= HF_I8; dtype++)
        if (strcmp(hf_dtype_name((hf_dtype)dtype), name) == 0)
            return (hf_dtype)dtype;
    return HF_DTYPE_NONE;
}

/* The next of the words that commas separate in *list, "" after the last; false when one is empty
 * or too long. */
static bool next_word(const char **list, char word[2 * HF_TUNE_WORD_BYTES]) {
    const size_t length = strcspn(*list, ",");
    const bool more = (*list)[length] == ',';
    word[0] = '\0';
    if (**list == '\0')
        return true;
    if (length == 0 || length >= (size_t)2 * HF_TUNE_WORD_BYTES ||
        (more && (*list)[length + 1] == '\0'))
        return false;
    memcpy(word, *list, length);
    word[length] = '\0';
    *list += length + more;
    return true;
}

/* "name=value" in two; NULL when it is not of that form. */
static const char *value_of(const char *word, char name[HF_TUNE_WORD_BYTES]) {
    const size_t length = strcspn(word, "=");
    if (length == 0 || length >= HF_TUNE_WORD_BYTES || word[length] == '\0')
        return NULL;
    memcpy(name, word, length);
    name[length] = '\0';
    return word + length + 1;
}

static bool parse_types(const char *list, struct hf_tune_key *key) {
    char word[2 * HF_TUNE_WORD_BYTES];
    for (int i = 0; i < HF_KEY_TYPES; i++) {
        if (!next_word(&list, word))
            return false;
        if (word[0] == '\0')
            return i > 0;
        const char *value = value_of(word, key->type[i].name);
        key->type[i].dtype = value != NULL ? dtype_find(value) : HF_DTYPE_NONE;
        if (key->type[i].dtype == HF_DTYPE_NONE)
            return false;
    }
    return *list == '\0';
}

static bool parse_dims(const char *list, struct hf_tune_key *key) {
    char word[2 * HF_TUNE_WORD_BYTES];
    for (int i = 0; i < HF_KEY_DIMS; i++) {
        int used = 0;
        if (!next_word(&list, word))
            return false;
        if (word[0] == '\0')
            return i > 0;
        const char *value = value_of(word, key->dim[i].name);
        if (value == NULL || sscanf(value, "2^%2d%n", &key->dim[i].log2, &used) != 1 ||
            value[used] != '\0' || key->dim[i].log2 < 0 || key->dim[i].log2 > 62)
            return false;
    }
    return *list == '\0';
}

static bool parse_flags(const char *list, struct hf_tune_key *key) {
    char word[2 * HF_TUNE_WORD_BYTES];
    if (strcmp(list, "-") == 0)
        return true;
    for (int i = 0; i < HF_KEY_FLAGS; i++) {
        if (!next_word(&list, word) || strlen(word) >= HF_TUNE_WORD_BYTES)
            return false;
        copy_word(key->flag[i], word);
    }
    return *list == '\0';
}

static bool parse_line(const char *line, struct hf_tune_entry *e) {
    char types[MAX_LIST_BYTES], dims[MAX_LIST_BYTES], flags[MAX_LIST_BYTES], more[2];
    memset(e, 0, sizeof *e);
    return sscanf(line, "%31s %99s %99s %99s %79s %79s %lf %1s", e->key.op, types, dims, flags,
                  e->fingerprint, e->kernel, &e->ns, more) == 7 &&
           parse_types(types, &e->key) && parse_dims(dims, &e->key) &&
           parse_flags(flags, &e->key) && e->ns > 0.0 && isfinite(e->ns);
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

/* Why the text is of another format, or of another version, whose kernels are others; NULL: it is
 * not. Text whose first line names none is read line by line. */
static const char *refusal(const char *text) {
    static const char head[] = "# holdfast ";
    const char *version = hf_version();
    const size_t length = strlen(version);
    if (strncmp(text, head, sizeof head - 1) != 0)
        return NULL;
    text += sizeof head - 1;
    if (strncmp(text, version, length) != 0 || (text[length] != ':' && text[length] != ' '))
        return "of another version of holdfast; measure again with `holdfast tune`";
    if (strncmp(text + length, FORMAT, sizeof FORMAT - 1) != 0)
        return "of another format, which names no dimensions; measure again with `holdfast tune`";
    return NULL;
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
    tune->refused = refusal(text);
    char *rest = tune->refused != NULL ? NULL : text;
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
    *tune = (struct hf_tune){NULL, 0, NULL, 0};
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

/* Write "assign x=f32 n=2^17,k=2^8,d=2^6 - " to line, which has room for the longest. */
static int print_key(const struct hf_tune_key *key, char line[MAX_LINE_BYTES]) {
    size_t at = (size_t)snprintf(line, MAX_LINE_BYTES, "%s ", key->op);
    for (int i = 0; i < HF_KEY_TYPES && key->type[i].name[0] != '\0'; i++)
        at += (size_t)snprintf(line + at, MAX_LINE_BYTES - at, "%s%s=%s", i > 0 ? "," : "",
                               key->type[i].name, hf_dtype_name(key->type[i].dtype));
    for (int i = 0; i < HF_KEY_DIMS && key->dim[i].name[0] != '\0'; i++)
        at += (size_t)snprintf(line + at, MAX_LINE_BYTES - at, "%s%s=2^%d", i > 0 ? "," : " ",
                               key->dim[i].name, key->dim[i].log2);
    if (key->flag[0][0] == '\0')
        at += (size_t)snprintf(line + at, MAX_LINE_BYTES - at, " -");
    for (int i = 0; i < HF_KEY_FLAGS && key->flag[i][0] != '\0'; i++)
        at += (size_t)snprintf(line + at, MAX_LINE_BYTES - at, "%s%s", i > 0 ? "," : " ",
                               key->flag[i]);
    return (int)at;
}

static hf_status write_entry(hf_file *file, const struct hf_tune_entry *e, hf_error *err) {
    char line[MAX_LINE_BYTES];
    int len = print_key(&e->key, line);
    len += snprintf(line + len, sizeof line - (size_t)len, " %s %s %.0f\n", e->fingerprint,
                    e->kernel, e->ns);
    return hf_file_write(file, line, (size_t)len, err);
}

hf_status hf_tune_save(const char *path, const struct hf_tune *tune, hf_error *err) {
    hf_file *file = NULL;
    HF_TRY(hf_file_create(&file, path, err));
    char head[MAX_LINE_BYTES];
    const int len = snprintf(
        head, sizeof head, "# holdfast %s" FORMAT " op types dimensions flags machine kernel ns\n",
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
