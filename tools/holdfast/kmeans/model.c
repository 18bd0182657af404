/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans/model.h"
#include "kmeans/outputs.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum match { MATCH, OTHER, UNREADABLE };

static int no_memory(void) {
    tool_error("out of memory");
    return EXIT_RESOURCES;
}

/* The file against the entry that a report has for it. */
static enum match compare_file(const json_t *entry, const char *path) {
    static unsigned char block[1 << 16];
    FILE *f = fopen(path, "rb");
    uint32_t crc = 0;
    json_int_t bytes = 0;
    if (!f)
        return UNREADABLE;
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0; bytes += (json_int_t)n)
        crc = (uint32_t)crc32_z(crc, block, n);
    const bool failed = ferror(f) != 0;
    fclose(f);
    char digits[9];
    snprintf(digits, sizeof digits, "%08x", (unsigned)crc);
    const char *wanted = json_string_value(json_object_get(entry, "crc32"));
    const bool same = wanted && strcmp(wanted, digits) == 0 &&
                      json_integer_value(json_object_get(entry, "bytes")) == bytes;
    return failed ? UNREADABLE : same ? MATCH : OTHER;
}

static bool is_fit(const json_t *root) {
    const json_t *program = json_object_get(root, "holdfast");
    const char *command = json_string_value(json_object_get(program, "command"));
    return command && strcmp(command, "kmeans") == 0 &&
           json_is_object(json_object_get(root, "options")) &&
           json_is_object(json_object_get(root, "files"));
}

int model_read(struct model *m, const char *folder) {
    m->folder = strdup(folder);
    m->report = outputs_path(folder, "report.json");
    if (!m->folder || !m->report)
        return no_memory();
    FILE *f = fopen(m->report, "rb");
    if (!f) {
        tool_error("%s cannot be opened: %s; --from takes the folder that a fit wrote with -o",
                   m->report, strerror(errno));
        return EXIT_INPUT;
    }
    json_error_t error;
    m->root = json_loadf(f, JSON_REJECT_DUPLICATES, &error);
    fclose(f);
    if (m->root && is_fit(m->root))
        return EXIT_DONE;
    if (m->root)
        tool_error(
            "%s is not the report of a fit; --from takes the folder that a fit wrote with -o",
            m->report);
    else
        tool_error("%s: line %d: %s; the file is cut off or damaged: run the fit again", m->report,
                   error.line, error.text);
    return EXIT_INPUT;
}

int model_take(struct model *m, const char *name) {
    const json_t *entry = json_object_get(json_object_get(m->root, "files"), name);
    m->centroids = outputs_path(m->folder, name);
    if (!m->centroids)
        return no_memory();
    errno = 0;
    switch (entry ? compare_file(entry, m->centroids) : OTHER) {
    case MATCH:
        return EXIT_DONE;
    case UNREADABLE:
        tool_error("%s cannot be read: %s; run the fit again", m->centroids, strerror(errno));
        return EXIT_INPUT;
    case OTHER:
        break;
    }
    tool_error(
        "%s is not the file that %s was written with: its %s; run the fit again, or name the "
        "centroids with --centroids",
        m->centroids, m->report, entry ? "size or checksum differs" : "name is not in the report");
    return EXIT_INPUT;
}

int model_find(struct model *m, const char *centroids) {
    const char *slash = strrchr(centroids, '/');
    const char *name = slash ? slash + 1 : centroids;
    m->centroids = strdup(centroids);
    m->folder = slash ? strndup(centroids, (size_t)(slash - centroids) + 1) : strdup(".");
    m->report = m->folder ? outputs_path(m->folder, "report.json") : NULL;
    if (!m->centroids || !m->report)
        return no_memory();
    json_error_t error;
    m->root = json_load_file(m->report, JSON_REJECT_DUPLICATES, &error);
    const json_t *entry = json_object_get(json_object_get(m->root, "files"), name);
    if (m->root && is_fit(m->root) && entry && compare_file(entry, centroids) == MATCH)
        return EXIT_DONE;
    json_decref(m->root);
    free(m->report);
    m->root = NULL;
    m->report = NULL;
    return EXIT_DONE;
}

int model_choice(const struct model *m, const char *member, const char *const *names) {
    const json_t *options = json_object_get(m->root, "options");
    const char *text = json_string_value(json_object_get(options, member));
    for (int i = 0; text && names[i]; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    return -1;
}

bool model_is_scaled(const struct model *m) {
    const json_t *preparation = json_object_get(m->root, "preparation");
    return json_is_object(json_object_get(preparation, "scaling"));
}

void model_clear(struct model *m) {
    json_decref(m->root);
    free(m->folder);
    free(m->report);
    free(m->centroids);
    memset(m, 0, sizeof *m);
}
