/* SPDX-License-Identifier: Apache-2.0
 * Reports say what was asked for; here they become command lines again. */
#include "safety/replay.h"
#include <string.h>

struct option_of {
    const char *member, *option;
};

static const struct option_of fit_options[] = {{"k", "-k"},
                                               {"init_file", "--init"},
                                               {"n_init", "--n-init"},
                                               {"seed", "--seed"},
                                               {"max_iter", "--max-iter"},
                                               {"tol", "--tol"},
                                               {"metric", "--metric"},
                                               {"weights", "--weights"},
                                               {"empty", "--empty"},
                                               {"precision", "--precision"},
                                               {"centroids", "--centroids"},
                                               {"skipping", "--skipping"},
                                               {"nan", "--nan"},
                                               {"guard", "--guard"},
                                               {"labels_format", "--labels-format"},
                                               {NULL, NULL}};
static const struct option_of data_options[] = {{"header", "--header"},
                                                {"columns", "--columns"},
                                                {"skip_columns", "--skip-columns"},
                                                {"missing", "--missing"},
                                                {NULL, NULL}};

bool replay_is_product(const json_t *report) {
    const char *command = json_string_value(json_object_get(report, "command"));
    return command && strcmp(command, "gemm") == 0;
}

static void add(struct replay_words *w, const char *option, const char *value) {
    if (option)
        w->word[w->count++] = (char *)(uintptr_t)option;
    if (value)
        w->word[w->count++] = (char *)(uintptr_t)value;
}

/* A string, or a number written so that it reads back as itself; nothing for null. */
static void add_value(struct replay_words *w, const char *option, const json_t *value) {
    char *text = w->number[w->count];
    if (json_is_integer(value))
        snprintf(text, 64, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, 64, "%.17g", json_real_value(value));
    else
        text = (char *)(uintptr_t)json_string_value(value);
    if (text)
        add(w, option, text);
}

static void add_members(struct replay_words *w, const json_t *from,
                        const struct option_of *option) {
    for (; option->member; option++)
        add_value(w, option->option, json_object_get(from, option->member));
}

static void add_path(struct replay_words *w, const char *option, const json_t *of) {
    add_value(w, option, json_object_get(of, "path"));
}

static void fit_command(const struct replay *r, const json_t *report, struct replay_words *w) {
    const json_t *options = json_object_get(report, "options");
    const json_t *preparation = json_object_get(report, "preparation");
    add(w, "kmeans", NULL);
    if (json_is_null(json_object_get(options, "init_file")))
        add_value(w, "--init", json_object_get(options, "init"));
    add_members(w, options, fit_options);
    add_members(w, preparation, data_options);
    add_value(w, "--scale", json_object_get(json_object_get(preparation, "scaling"), "method"));
    add(w, "--device", r->device ? r->device : "cpu");
    add(w, "--chain", "on");
    add(w, "-o", r->folder);
}

/* After all options: names may begin like one. */
static void add_files(const struct replay *r, const json_t *report, struct replay_words *w) {
    add(w, "--", r->data);
    if (replay_is_product(report)) {
        add_path(w, NULL, json_object_get(report, "a"));
        add_path(w, NULL, json_object_get(report, "b"));
    } else if (!r->data) {
        add_path(w, NULL, json_object_get(report, "data"));
    }
}

static bool is(const json_t *value, const char *text) {
    const char *string = json_string_value(value);
    return string && strcmp(string, text) == 0;
}

static void product_command(const struct replay *r, const json_t *report, struct replay_words *w) {
    const json_t *type = json_object_get(report, "dtype");
    const json_t *added = json_object_get(report, "add");
    const json_t *protection = json_object_get(report, "protection");
    const bool half = is(type, "f16") || is(type, "bf16");
    add(w, "gemm", NULL);
    add(w, json_is_true(json_object_get(report, "transa")) ? "--transa" : NULL, NULL);
    add(w, json_is_true(json_object_get(report, "transb")) ? "--transb" : NULL, NULL);
    add_value(w, "--alpha", json_object_get(report, "alpha"));
    add_path(w, "--add", added);
    if (json_is_object(added))
        add_value(w, "--beta", json_object_get(report, "beta"));
    if (!half)
        add_value(w, "--type", type);
    else if (is(json_object_get(report, "out_dtype"), "f32"))
        add(w, "--out-type", "f32");
    /* What is summed as on any CPU is so again on a GPU or with AMX. */
    const char *const sum = json_string_value(json_object_get(report, "arithmetic"));
    add(w, half && sum && strstr(sum, "FMA chain") ? "--portable" : NULL, NULL);
    add_value(w, "--guard", json_object_get(protection, "guard"));
    add(w, r->device ? "--device" : NULL, r->device);
    add(w, "--json", NULL);
}

void replay_command(const struct replay *r, const json_t *report, struct replay_words *w) {
    char *threads = w->number[REPLAY_WORDS - 1];
    w->count = 0;
    add(w, "holdfast", NULL);
    if (replay_is_product(report))
        product_command(r, report, w);
    else
        fit_command(r, report, w);
    snprintf(threads, 64, "%d", r->threads);
    if (r->threads > 0)
        add(w, "--threads", threads);
    add(w, "--quiet", NULL);
    add_files(r, report, w);
    w->word[w->count] = NULL;
}
