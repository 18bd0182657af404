/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans/preparation.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const preparation_scale_names[] = {"none", "standard", "robust", "minmax", NULL};
static const char *const header_names[] = {"auto", "yes", "no", NULL};

enum option_key { KEY_COLUMNS = 256, KEY_SKIP_COLUMNS, KEY_MISSING, KEY_HEADER };

static const struct argp_option table[] = {
    {NULL, 0, NULL, 0, "How to prepare the data:", 5},
    {"columns", KEY_COLUMNS, "LIST", 0,
     "Use these columns only: numbers from 1, ranges, and names of a header, such as 2,5-9,age", 5},
    {"skip-columns", KEY_SKIP_COLUMNS, "LIST", 0, "Leave these columns out", 5},
    {"missing", KEY_MISSING, "LIST", 0,
     "Values that mean a missing one, such as -9999 or -1,?; treated as --nan says", 5},
    {"header", KEY_HEADER, "NAME", 0,
     "Is the first line of CSV one of names? auto (default: if it has text and no number), yes or "
     "no",
     5},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct preparation *p = state->input;
    switch (key) {
    case KEY_COLUMNS:
        p->opts.columns = arg;
        return 0;
    case KEY_SKIP_COLUMNS:
        p->opts.skip_columns = arg;
        return 0;
    case KEY_MISSING:
        p->opts.missing = arg;
        return 0;
    case KEY_HEADER:
        p->opts.header = (hf_header)tool_choice(state, "--header", arg, header_names);
        p->header_given = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp preparation_argp = {table, parse, NULL, NULL, NULL, NULL, NULL};

/* Columns that have other names than those of the fit would get its labels in silence. */
static int check_names(const struct preparation *p, const char *path, const hf_dataset *data) {
    const char *name = NULL;
    int64_t number;
    for (int64_t j = 0; (number = hf_dataset_column(data, j, &name)) > 0; j++) {
        json_t *fitted = json_array_get(p->names, (size_t)j);
        json_t *own = tool_json_name(name);
        const bool other = name && json_is_string(fitted) && !json_equal(own, fitted);
        json_decref(own);
        if (!other)
            continue;
        tool_error("%s: column %lld is '%s', that of the fit was '%s': say with --columns which "
                   "columns to take, in the order of the fit",
                   path, (long long)number, name, json_string_value(fitted));
        return EXIT_INPUT;
    }
    return EXIT_DONE;
}

int preparation_open(const struct preparation *p, hf_context *ctx, uint64_t memory,
                     const char *path, hf_dataset **data) {
    hf_open_opts opts = p->opts;
    opts.memory_bytes = memory;
    errno = 0;
    const hf_status status = hf_dataset_open(ctx, path, &opts, data);
    /* the only arguments here are those of options, wrong whatever the data are */
    if (status != HF_OK)
        return tool_fail(ctx, status, status == HF_E_ARG ? STAGE_OPEN : STAGE_READ);
    if (hf_dataset_warning(*data)[0] != '\0')
        tool_error("warning: %s", tool_translate(hf_dataset_warning(*data), NULL));
    return check_names(p, path, *data);
}

static json_t *json_or_null(const char *text) { return text ? tool_json_name(text) : json_null(); }

/* The numbers of the columns used, and their names; null where all are used, or have none. */
static void json_columns(json_t *root, const hf_open_opts *o, const hf_dataset *data) {
    const bool all = !o->columns && !o->skip_columns;
    json_t *numbers = json_array();
    json_t *names = json_array();
    bool named = false;
    const char *name = NULL;
    int64_t number;
    for (int64_t j = 0; (number = hf_dataset_column(data, j, &name)) > 0; j++) {
        named = named || name;
        json_array_append_new(numbers, json_integer(number));
        json_array_append_new(names, json_or_null(name));
    }
    json_object_set_new(root, "columns_used", all ? json_null() : json_incref(numbers));
    json_object_set_new(root, "names_used", named ? json_incref(names) : json_null());
    json_decref(numbers);
    json_decref(names);
}

static json_t *json_reals(const double *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        json_array_append_new(list, json_real(values[i]));
    return list;
}

static json_t *json_scaling(const hf_scaling *s) {
    if (!s)
        return json_null();
    return json_pack("{s:s, s:o, s:o, s:s}", "method", hf_scale_name(s->method), "shift",
                     json_reals(s->shift, s->cols), "unit", json_reals(s->unit, s->cols),
                     "centroids", PREPARATION_CENTROIDS);
}

json_t *preparation_json(const struct preparation *p, const hf_dataset *data) {
    const hf_open_opts *o = &p->opts;
    const char *warning = hf_dataset_warning(data);
    json_t *root =
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "header", header_names[o->header], "columns",
                  json_or_null(o->columns), "skip_columns", json_or_null(o->skip_columns),
                  "missing", json_or_null(o->missing), "warning",
                  warning[0] ? json_or_null(tool_translate(warning, NULL)) : json_null(), "scaling",
                  json_scaling(hf_dataset_scaling(data)));
    if (root)
        json_columns(root, o, data);
    return root;
}

/* A string or null into *text, unless the command line has said it. */
static bool take_text(const json_t *from, const char *member, bool given, const char **text) {
    const json_t *value = json_object_get(from, member);
    if (value && !json_is_null(value) && !json_is_string(value))
        return false;
    if (!given)
        *text = json_string_value(value);
    return true;
}

static bool take_header(const json_t *from, struct preparation *p) {
    const char *text = json_string_value(json_object_get(from, "header"));
    for (int i = 0; text && header_names[i]; i++)
        if (strcmp(text, header_names[i]) == 0) {
            p->opts.header = p->header_given ? p->opts.header : (hf_header)i;
            return true;
        }
    return false;
}

static bool take_method(const json_t *from, hf_scale *method) {
    const char *text = json_string_value(json_object_get(from, "method"));
    for (int i = 1; text && preparation_scale_names[i]; i++)
        if (strcmp(text, preparation_scale_names[i]) == 0) {
            *method = (hf_scale)i;
            return true;
        }
    return false;
}

/* null or absent: no scaling. */
static bool take_scaling(const json_t *from, struct preparation *p) {
    if (!from || json_is_null(from))
        return true;
    const json_t *shift = json_object_get(from, "shift");
    const json_t *unit = json_object_get(from, "unit");
    const size_t cols = json_array_size(shift);
    if (!take_method(from, &p->scaling.method) || cols == 0 || json_array_size(unit) != cols)
        return false;
    free(p->parameters);
    p->parameters = calloc(2 * cols, sizeof *p->parameters);
    for (size_t j = 0; p->parameters && j < cols; j++) {
        if (!json_is_number(json_array_get(shift, j)) || !json_is_number(json_array_get(unit, j)))
            return false;
        p->parameters[j] = json_number_value(json_array_get(shift, j));
        p->parameters[cols + j] = json_number_value(json_array_get(unit, j));
        if (p->parameters[cols + j] == 0)
            return false;
    }
    if (!p->parameters)
        return false;
    p->scaling.cols = (int64_t)cols;
    p->scaling.shift = p->parameters;
    p->scaling.unit = p->parameters + cols;
    p->opts.scaling = &p->scaling;
    return true;
}

int preparation_read(struct preparation *p, json_t *report, const char *path) {
    const json_t *from = json_object_get(report, "preparation");
    if (!from)
        return EXIT_DONE;
    json_decref(p->report);
    p->report = json_incref(report);
    const bool chosen = p->opts.columns || p->opts.skip_columns;
    p->names = chosen ? NULL : json_object_get(from, "names_used");
    if (take_text(from, "columns", chosen, &p->opts.columns) &&
        take_text(from, "skip_columns", chosen, &p->opts.skip_columns) &&
        take_text(from, "missing", p->opts.missing, &p->opts.missing) && take_header(from, p) &&
        take_scaling(json_object_get(from, "scaling"), p))
        return EXIT_DONE;
    tool_error("%s: its member \"preparation\" is not as a fit writes it: it was changed, or is of "
               "another version; run the fit again",
               path);
    return EXIT_INPUT;
}

const char *preparation_centroids(const struct preparation *p) {
    return p->opts.scaling ? PREPARATION_CENTROIDS : "centroids.npy";
}

void preparation_clear(struct preparation *p) {
    free(p->parameters);
    json_decref(p->report);
    memset(p, 0, sizeof *p);
}
