/* SPDX-License-Identifier: Apache-2.0
 * holdfast replay: the same fit again, on other cores. Every number of an iteration has the same
 * bits on every machine, so the first that differs is where one of the two computed wrongly. */
#include "cores.h"
#include "tool.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CORES 1024
#define WORDS 48

enum key { KEY_CORES = 256, KEY_DATA, KEY_JSON };

struct replay {
    const char *report, *data; /* data: in place of the report's; NULL */
    int core[CORES], cores, threads;
    bool json;
    char folder[4096]; /* of the second fit; "": none yet */
};

static const struct argp_option options[] = {
    {"cores", KEY_CORES, "LIST", 0, "Run on these cores, such as 0,2-5 (default: all)", 0},
    {"threads", 't', "T", 0, "Worker threads; default: one for each usable core", 0},
    {"data", KEY_DATA, "FILE", 0, "The data, if they are not where the report says", 0},
    {"json", KEY_JSON, NULL, 0, "Print the result as JSON", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct replay *r = state->input;
    switch (key) {
    case KEY_CORES:
        r->cores = tool_cores(state, arg, r->core, CORES);
        break;
    case 't':
        r->threads = (int)tool_int(state, "--threads", arg, 1, 1024);
        break;
    case KEY_DATA:
        r->data = tool_path(state, "--data", arg);
        break;
    case KEY_JSON:
        r->json = true;
        break;
    case ARGP_KEY_ARG:
        if (r->report)
            argp_error(state, "one report at a time, not also '%s'", arg);
        r->report = tool_path(state, "REPORT", arg);
        break;
    case ARGP_KEY_END:
        if (!r->report)
            argp_error(state, "which fit? give its report.json");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp argp = {
    options,
    parse,
    "REPORT",
    "Run the fit of a report.json of holdfast kmeans again, and compare each iteration (inertia, "
    "how far the centroids moved, changed labels, empty clusters) and the files written, bit by "
    "bit. Exit codes: 0 the same; 5 not the same: one of the two runs computed wrongly.",
    NULL,
    NULL,
    NULL};

/* A command line that owns its numbers. */
struct words {
    char *word[WORDS];
    char number[WORDS][64];
    int count;
};

static void add(struct words *w, const char *option, const char *value) {
    if (option)
        w->word[w->count++] = (char *)(uintptr_t)option;
    w->word[w->count++] = (char *)(uintptr_t)value;
}

static void add_number(struct words *w, const char *option, const json_t *value) {
    char *text = w->number[w->count];
    if (json_is_integer(value))
        snprintf(text, 64, "%lld", (long long)json_integer_value(value));
    else
        snprintf(text, 64, "%.17g", json_number_value(value));
    add(w, option, text);
}

/* What the report says of the options, as options. */
static void add_options(struct words *w, const json_t *options_of) {
    static const struct {
        const char *member, *option;
    } named[] = {{"k", "-k"},
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
                 {"labels_format", "--labels-format"}};
    if (json_is_null(json_object_get(options_of, "init_file")))
        add(w, "--init", json_string_value(json_object_get(options_of, "init")));
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const json_t *value = json_object_get(options_of, named[i].member);
        if (json_is_number(value))
            add_number(w, named[i].option, value);
        else if (json_is_string(value))
            add(w, named[i].option, json_string_value(value));
    }
}

static bool was_prepared(const json_t *report) {
    static const char *const members[] = {"columns", "skip_columns", "missing", "scaling"};
    const json_t *preparation = json_object_get(report, "preparation");
    for (int i = 0; i < 4; i++) {
        const json_t *value = json_object_get(preparation, members[i]);
        if (value && !json_is_null(value))
            return true;
    }
    return false;
}

static int read_report(const char *path, json_t **report) {
    json_error_t error;
    *report = json_load_file(path, 0, &error);
    if (!*report) {
        tool_error("%s cannot be read as a report: %s", tool_name_text(path), error.text);
        return EXIT_INPUT;
    }
    const char *command =
        json_string_value(json_object_get(json_object_get(*report, "holdfast"), "command"));
    if (command && strcmp(command, "kmeans") == 0 &&
        json_is_array(json_object_get(*report, "history")))
        return EXIT_DONE;
    tool_error("%s is no report of holdfast kmeans; other verbs have no iterations to compare",
               tool_name_text(path));
    return EXIT_INPUT;
}

static void use_cores(const struct replay *r) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < r->cores; i++)
        CPU_SET((unsigned)r->core[i], &set);
    if (r->cores > 0 && sched_setaffinity(0, sizeof set, &set) != 0) {
        tool_error("this process cannot be moved to these cores: %s", strerror(errno));
        _exit(EXIT_RESOURCES);
    }
}

/* The fit in a process of its own, on the cores asked for; an exit code. */
static int run_again(struct replay *r, const json_t *report) {
    struct words w = {.count = 0};
    char threads[24];
    const json_t *data = json_object_get(report, "data");
    snprintf(threads, sizeof threads, "%d", r->threads);
    add(&w, NULL, "holdfast");
    add(&w, NULL, "kmeans");
    add(&w, NULL, r->data ? r->data : json_string_value(json_object_get(data, "path")));
    add_options(&w, json_object_get(report, "options"));
    add(&w, "--device", "cpu");
    if (r->threads > 0)
        add(&w, "--threads", threads);
    add(&w, "-o", r->folder);
    add(&w, NULL, "--quiet");
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        use_cores(r);
        execv("/proc/self/exe", w.word);
        _exit(EXIT_FAILED);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        tool_error("the fit could not be started again: %s", strerror(errno));
        return EXIT_RESOURCES;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}

/* The first member of an iteration that differs; NULL: none. */
static const char *differing(const json_t *a, const json_t *b) {
    static const char *const members[] = {"inertia", "shift", "changed", "empty"};
    for (int i = 0; i < 4; i++)
        if (!json_equal(json_object_get(a, members[i]), json_object_get(b, members[i])))
            return members[i];
    return NULL;
}

static bool same_files(const json_t *first, const json_t *second) {
    const char *name;
    json_t *file;
    json_object_foreach(json_object_get((json_t *)(uintptr_t)first, "files"), name, file) {
        const json_t *other = json_object_get(json_object_get(second, "files"), name);
        if (!json_equal(json_object_get(file, "crc32"), json_object_get(other, "crc32")))
            return false;
    }
    return true;
}

static int compare(const struct replay *r, const json_t *first, const json_t *second) {
    const json_t *a = json_object_get(first, "history"), *b = json_object_get(second, "history");
    const size_t count = json_array_size(a), again = json_array_size(b);
    const char *what = NULL;
    size_t at = 0;
    for (; at < count && at < again && !what; at++)
        what = differing(json_array_get(a, at), json_array_get(b, at));
    if (!what && count != again) {
        what = "number of iterations";
        at = (count < again ? count : again) + 1;
    }
    const bool files = same_files(first, second);
    if (r->json)
        (void)tool_json_print(
            json_pack("{s:b, s:o, s:o, s:I, s:I, s:b}", "same", !what && files, "first_iteration",
                      what ? json_integer((json_int_t)at) : json_null(), "first_member",
                      what ? json_string(what) : json_null(), "iterations", (json_int_t)count,
                      "iterations_again", (json_int_t)again, "same_files", files));
    else if (what)
        printf("not the same: iteration %zu is the first that differs, in its %s\n", at, what);
    else
        printf("%zu iterations are the same%s\n", count,
               files ? ", and so are the files" : ", but the files are not");
    return what || !files ? EXIT_CORRUPT : EXIT_DONE;
}

static void remove_folder(const struct replay *r) {
    static const char *const names[] = {"centroids.npy", "labels.npy", "labels.csv", "report.json"};
    char path[4200];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", r->folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(r->folder);
}

static int replay(struct replay *r, const json_t *report) {
    const char *tmp = getenv("TMPDIR");
    json_t *second = NULL;
    char path[4200];
    if (was_prepared(report)) {
        tool_error("%s: its data were prepared (columns, missing values, scaling), which replay "
                   "does not repeat: run kmeans again with the same options and compare",
                   tool_name_text(r->report));
        return EXIT_INPUT;
    }
    snprintf(r->folder, sizeof r->folder, "%s/holdfast-replay-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(r->folder)) {
        tool_error("cannot make a folder in %s: %s", tmp ? tmp : "/tmp", strerror(errno));
        return EXIT_RESOURCES;
    }
    int code = run_again(r, report);
    snprintf(path, sizeof path, "%s/report.json", r->folder);
    if (code == EXIT_DONE)
        code = read_report(path, &second);
    if (code == EXIT_DONE)
        code = compare(r, report, second);
    json_decref(second);
    remove_folder(r);
    return code;
}

int cmd_replay(int argc, char **argv) {
    static struct replay r;
    json_t *report = NULL;
    tool_parse(&argp, argc, argv, &r);
    int code = read_report(r.report, &report);
    if (code == EXIT_DONE)
        code = replay(&r, report);
    json_decref(report);
    return code;
}
