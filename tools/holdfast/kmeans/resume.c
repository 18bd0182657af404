/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans/resume.h"
#include "kmeans/outputs.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A pipe or a device would be read for ever. */
int resume_check(const char *path) {
    struct stat about;
    if (access(path, R_OK) != 0 || stat(path, &about) != 0) {
        tool_error("--resume %s: %s: name a checkpoint, or start anew without it", path,
                   strerror(errno));
        return EXIT_INPUT;
    }
    if (S_ISREG(about.st_mode))
        return EXIT_DONE;
    tool_error("--resume %s: not a regular file: name a checkpoint", path);
    return EXIT_INPUT;
}

int checkpoint_choose(struct checkpoint *c, struct kmeans_options *o, hf_context *ctx) {
    o->fit.checkpoint = o->checkpoint;
    if (!o->checkpoint && !o->out_dir)
        return EXIT_DONE;
    if (!o->checkpoint) {
        c->own = outputs_path(o->out_dir, "checkpoint.hfc");
        if (!c->own) {
            tool_error("out of memory");
            return EXIT_RESOURCES;
        }
        o->fit.checkpoint = c->own;
        if (o->fit.checkpoint_every == 0)
            o->fit.checkpoint_every = -1;
    }
    if (stat(o->fit.checkpoint, &c->before) != 0)
        memset(&c->before, 0, sizeof c->before);
    return o->checkpoint || o->fit.checkpoint_every > 0 ? tool_writable(ctx, o->fit.checkpoint)
                                                        : EXIT_DONE;
}

bool checkpoint_written(const struct checkpoint *c, const struct kmeans_options *o) {
    struct stat now;
    const struct stat *old = &c->before;
    if (!o->fit.checkpoint || stat(o->fit.checkpoint, &now) != 0)
        return false;
    return now.st_ino != old->st_ino || now.st_dev != old->st_dev ||
           now.st_mtim.tv_sec != old->st_mtim.tv_sec || now.st_mtim.tv_nsec != old->st_mtim.tv_nsec;
}

void checkpoint_drop(const struct checkpoint *c, const struct kmeans_options *o) {
    struct stat resumed;
    const char *resume = o->fit.resume;
    const bool same = resume && stat(resume, &resumed) == 0 && resumed.st_ino == c->before.st_ino &&
                      resumed.st_dev == c->before.st_dev;
    if (c->own && (same || checkpoint_written(c, o)))
        unlink(c->own);
}

/* A word for the shell: in quotes unless it needs none; control characters as $'\\012'. */
static void print_word(const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=./,:@%";
    if (word[0] && strspn(word, plain) == strlen(word)) {
        fputs(word, stderr);
        return;
    }
    fputc('\'', stderr);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", stderr);
        else if (iscntrl((unsigned char)*word))
            fprintf(stderr, "'$'\\%03o''", (unsigned)(unsigned char)*word);
        else
            fputc(*word, stderr);
    fputc('\'', stderr);
}

static void print_option(const char *checkpoint) {
    fputs(" --resume ", stderr);
    print_word(checkpoint);
}

/* Behind "--" there are no options. */
void resume_print(const char *checkpoint, const char *what, int argc, char **argv) {
    bool printed = false;
    fprintf(stderr, "holdfast: %s; go on with:\n  %s", what, argv[0]); /* "holdfast kmeans" */
    for (int i = 1; i < argc; i++) {
        if (!printed && strcmp(argv[i], "--") == 0) {
            print_option(checkpoint);
            printed = true;
        }
        fputc(' ', stderr);
        print_word(argv[i]);
    }
    if (!printed)
        print_option(checkpoint);
    fputc('\n', stderr);
}
