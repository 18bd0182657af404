/* SPDX-License-Identifier: Apache-2.0
 * A CPU and a GPU of different machines: the table that another run wrote joins this one's. */
#include "portability/portability.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE 1024

/* The fields of a line, cut in place; how many. */
static int cut(char *line, char *field[STUDY_HEADS]) {
    int count = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *at = line; at && count < STUDY_HEADS;) {
        field[count++] = at;
        at = strchr(at, '\t');
        if (at)
            *at++ = '\0';
    }
    return count;
}

static int place_in(const char *const *words, int count, const char *word) {
    int i = 0;
    while (i < count && strcmp(words[i], word) != 0)
        i++;
    return i < count ? i : -1;
}

/* The backend without a device that stands for the code there; -1: there is no room. */
static int backend_of(struct study *s, int code, int platform) {
    for (int i = 0; i < s->backends; i++)
        if (!s->backend[i].ctx && (int)s->backend[i].code == code &&
            (int)s->backend[i].platform == platform)
            return i;
    if (s->backends == STUDY_BACKENDS)
        return -1;
    s->backend[s->backends] =
        (struct backend){.code = (enum code)code, .platform = (enum platform)platform};
    snprintf(s->backend[s->backends].device, sizeof s->backend->device, "another machine's");
    return s->backends++;
}

static bool is_measured_here(const struct study *s, int platform) {
    for (int i = 0; i < s->backends; i++)
        if (s->backend[i].ctx && (int)s->backend[i].platform == platform)
            return true;
    return false;
}

static double number(const char *text) { return strcmp(text, "-") == 0 ? -1 : strtod(text, NULL); }

/* NULL: the row is added; else what is wrong. */
static const char *add_row(struct study *s, char *const field[STUDY_HEADS]) {
    const int set = place_in(study_sets, STUDY_SETS, field[0]);
    const int code = place_in(study_codes, CODES, field[4]);
    const int platform = place_in(study_platforms, PLATFORMS, field[5]);
    if (set < 0 || code < 0 || platform < 0)
        return "names a set, a code or a platform that the study does not have";
    if (is_measured_here(s, platform))
        return "is of a platform that this run measures itself; leave it out with --platforms";
    const int backend = backend_of(s, code, platform);
    if (backend < 0 || s->rows == STUDY_ROWS)
        return "is one too many";
    struct study_row *row = &s->row[s->rows];
    *row = (struct study_row){.set = set,
                              .backend = backend,
                              .n = strtoll(field[1], NULL, 10),
                              .d = strtoll(field[2], NULL, 10),
                              .k = strtoll(field[3], NULL, 10),
                              .iteration_s = number(field[7]),
                              .least_s = number(field[8]),
                              .most_s = number(field[9]),
                              .assign_s = number(field[10]),
                              .update_s = number(field[11]),
                              .architectural = number(field[12]),
                              .differ = (int64_t)number(field[14]),
                              .labels = strtoull(field[15], NULL, 16),
                              .steps = (int)strtol(field[16], NULL, 10)};
    snprintf(row->kernel, sizeof row->kernel, "%s", field[6]);
    if (row->n < 1 || row->d < 1 || row->k < 1 || !(row->iteration_s > 0))
        return "has a size or a time that is not positive";
    for (int i = 0; i < s->rows; i++) {
        const struct study_row *own = &s->row[i];
        if (own->set != set || own->k != row->k)
            continue;
        if (own->n != row->n || own->d != row->d)
            return "is of another --scale";
        if (own->steps == row->steps && own->labels != 0 && row->labels != 0 &&
            own->labels != row->labels)
            return "has other labels than this machine after as many steps";
    }
    s->options.set[set] = true;
    s->rows++;
    return NULL;
}

static int read_table(struct study *s, FILE *file) {
    char line[LINE];
    char *field[STUDY_HEADS];
    int number_of = 0;
    while (fgets(line, sizeof line, file)) {
        number_of++;
        const int count = cut(line, field);
        const char *wrong = count == STUDY_HEADS ? NULL : "is no row of a table of the study";
        for (int i = 0; number_of == 1 && !wrong && i < STUDY_HEADS; i++)
            if (strcmp(field[i], study_heads[i]) != 0)
                wrong = "is no heading of a table of the study";
        if (!wrong && number_of > 1)
            wrong = add_row(s, field);
        if (wrong) {
            tool_error("%s, line %d %s", tool_name_text(s->options.with), number_of, wrong);
            return EXIT_INPUT;
        }
    }
    if (ferror(file) || number_of < 2) {
        tool_error("%s is no table of the study: it has no rows", tool_name_text(s->options.with));
        return EXIT_INPUT;
    }
    return EXIT_DONE;
}

static FILE *open_table(const struct study *s) {
    FILE *file = fopen(s->options.with, "r");
    if (!file)
        tool_error("%s cannot be read: %s", tool_name_text(s->options.with), strerror(errno));
    return file;
}

bool study_can_join(const struct study *s) {
    FILE *file = s->options.with ? open_table(s) : NULL;
    if (file)
        fclose(file);
    return !s->options.with || file;
}

int study_join(struct study *s) {
    FILE *file = s->options.with ? open_table(s) : NULL;
    if (!file)
        return s->options.with ? EXIT_INPUT : EXIT_DONE;
    const int code = read_table(s, file);
    fclose(file);
    return code;
}
