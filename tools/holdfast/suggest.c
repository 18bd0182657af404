/* SPDX-License-Identifier: Apache-2.0 */
#include "suggest.h"
#include "tool.h"
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MAX = 96 };

/* The options of a parser and its children, as getopt wants them. */
struct flat {
    struct option list[OPTIONS_MAX + 1];
    char letters[3 * OPTIONS_MAX];
    int count;
};

/* Edits (insert, delete, replace) that turn a into b; words are cut at 31 letters. */
static int edit_distance(const char *a, const char *b) {
    int row[32];
    const int m = (int)strnlen(b, 31);
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 0; i < (int)strnlen(a, 31); i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int j = 1; j <= m; j++) {
            const int replace = diagonal + (a[i] != b[j - 1]);
            const int gap = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = replace < gap ? replace : gap;
        }
    }
    return row[m];
}

int suggest(const char *word, const char *const *names, int count) {
    int best = -1;
    int best_distance = 4; /* farther than three edits is no misspelling */
    const size_t length = strlen(word);
    for (int i = 0; i < count; i++) {
        const bool prefix = length > 0 && strncmp(names[i], word, length) == 0;
        const int distance = prefix ? 0 : edit_distance(word, names[i]);
        if (distance < best_distance && distance < (int)strlen(names[i])) {
            best = i;
            best_distance = distance;
        }
    }
    return best;
}

static void add(struct flat *f, const char *name, int key, bool value) {
    if (f->count == OPTIONS_MAX)
        return;
    if (name)
        f->list[f->count++] =
            (struct option){name, value ? required_argument : no_argument, NULL, 1};
    if (key > ' ' && key < 127) {
        const size_t used = strlen(f->letters);
        f->letters[used] = (char)key;
        f->letters[used + 1] = value ? ':' : '\0';
    }
}

static void flatten(struct flat *f, const struct argp *argp) {
    const struct argp_option *o = argp->options;
    for (; o && (o->name || o->key || o->doc); o++)
        if (!(o->flags & OPTION_DOC))
            add(f, o->name, o->key, o->arg != NULL);
    for (const struct argp_child *c = argp->children; c && c->argp; c++)
        flatten(f, c->argp);
}

/* Options that begin with these letters. */
static int beginning_with(const struct flat *f, const char *word, size_t length) {
    int found = 0;
    for (int i = 0; i < f->count; i++)
        found += strncmp(f->list[i].name, word, length) == 0;
    return found;
}

static void unknown(const struct flat *f, const char *verb, const char *argument) {
    const char *names[OPTIONS_MAX];
    const char *word = argument + strspn(argument, "-");
    const size_t length = strcspn(word, "=");
    for (int i = 0; i < f->count; i++)
        names[i] = f->list[i].name;
    char *given = strndup(word, length);
    const int best = given ? suggest(given, names, f->count) : -1;
    free(given);
    if (best < 0)
        return;
    fprintf(stderr,
            "%s: there is no option '%.*s'; did you mean '--%s'?\nTry `%s --help' for more "
            "information.\n",
            verb, (int)(word - argument + (int)length), argument, names[best], verb);
    exit(EXIT_USAGE);
}

void suggest_option(const struct argp *argp, int argc, char *const *argv) {
    struct flat f = {.letters = ":"};
    char **copy = calloc((size_t)argc + 1, sizeof *copy); /* getopt moves what is no option */
    if (!copy)
        return;
    memcpy(copy, argv, (size_t)argc * sizeof *copy);
    flatten(&f, argp);
    add(&f, "help", '?', false);
    add(&f, "usage", 0, false);
    int got = 0;
    optind = 0;
    while (got != -1) {
        const int at = optind > 0 ? optind : 1;
        got = getopt_long(argc, copy, f.letters, f.list, NULL);
        const char *argument = optind > at ? copy[optind - 1] : copy[at < argc ? at : argc - 1];
        const bool wide = argument[0] == '-' && strlen(argument) > 2 && argument[2] != '=';
        if (got != '?' || !wide || optopt == '?')
            continue;
        const char *word = argument + strspn(argument, "-");
        if (beginning_with(&f, word, strcspn(word, "=")) == 0 || argument[1] != '-')
            unknown(&f, argv[0], argument);
    }
    free(copy);
}
