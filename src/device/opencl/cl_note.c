/* SPDX-License-Identifier: Apache-2.0
 * A note is a line: how many have died if its process dies now, and while it loads of which file:
 * "deaths 1 over 0123456789abcdef.bin"; "after" once it is known that it died. */
#include "device/opencl/cl_note.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEATHS 2    /* one may have been the user's doing */
#define DAY 86400.0 /* s, after which a driver gets another try */
#define LINE 64

/* Write what it says from now on, over what it said. */
static void say(const struct hf_cl_note *note, int deaths, const char *word, const char *file) {
    char text[LINE];
    const int length = snprintf(text, sizeof text, "deaths %d %s %s\n", deaths, word, file);
    if (ftruncate(note->file, 0) != 0 || pwrite(note->file, text, (size_t)length, 0) != length)
        (void)unlink(note->path);
}

/* Lock the note, and read it: is it of a process that died? Without a note there are no deaths:
 * another process or thread has it, or no file can be here. */
static bool take(struct hf_cl_note *note) {
    char text[LINE] = "", word[8] = "";
    struct stat is;
    note->deaths = 0;
    note->last[0] = '\0';
    note->file = open(note->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    if (note->file < 0)
        return false;
    if (fstat(note->file, &is) != 0 || !S_ISREG(is.st_mode) ||
        flock(note->file, LOCK_EX | LOCK_NB) != 0) {
        (void)close(note->file);
        note->file = -1;
    } else if (pread(note->file, text, sizeof text - 1, 0) > 0) {
        (void)sscanf(text, "deaths %d %7s %23s", &note->deaths, word, note->last);
    }
    return strcmp(word, "over") == 0;
}

/* Let it go. One that is removed is emptied first: another may have opened it meanwhile. */
static void give_back(struct hf_cl_note *note, bool stays) {
    if (note->file < 0)
        return;
    if (stays)
        say(note, note->deaths, "after", note->last);
    else if (ftruncate(note->file, 0) == 0)
        (void)unlink(note->path);
    (void)close(note->file);
    note->file = -1;
}

static void name_note(const char *path, struct hf_cl_note *note) {
    (void)snprintf(note->path, sizeof note->path, "%.*s.note", HF_CL_PATH - 6, path);
}

bool hf_cl_note_suspects(const char *path) {
    struct hf_cl_note note;
    struct stat is;
    name_note(path, &note);
    if (stat(note.path, &is) != 0)
        return false;
    (void)take(&note);
    give_back(&note, note.deaths > 0);
    return note.deaths > 0 && note.deaths < DEATHS;
}

bool hf_cl_note_compiling(const char *path, struct hf_cl_note *note) {
    name_note(path, note);
    (void)take(note);
    if (note->deaths >= DEATHS) {
        give_back(note, true);
        return false;
    }
    if (note->file >= 0)
        say(note, note->deaths + 1, "over", "it");
    return true;
}

void hf_cl_note_compiled(struct hf_cl_note *note) { give_back(note, false); }

/* Remove a file beside `path`, by a name as the cache gives them. */
static void remove_beside(const char *path, const char *name) {
    char whole[HF_CL_PATH + sizeof((struct hf_cl_note *)0)->last];
    const size_t digits = strspn(name, "0123456789abcdef");
    if (digits != 16 || strcmp(name + digits, ".bin") != 0)
        return;
    (void)snprintf(whole, sizeof whole, "%.*s%s", (int)(hf_cl_cache_name(path) - path), path, name);
    (void)unlink(whole);
}

static void name_loading(const char *path, const char *driver, struct hf_cl_note *note) {
    (void)snprintf(note->path, sizeof note->path, "%.*s%016llx.loading",
                   (int)(hf_cl_cache_name(path) - path), path,
                   (unsigned long long)hf_cl_cache_hash(driver));
}

/* Of a note that says so since then. */
static bool refuses(int deaths, time_t since) {
    return deaths >= DEATHS && difftime(time(NULL), since) < DAY;
}

bool hf_cl_note_refuses(const char *path, const char *driver, struct hf_cl_note *note) {
    struct stat is;
    name_loading(path, driver, note);
    FILE *file = stat(note->path, &is) == 0 && S_ISREG(is.st_mode) ? fopen(note->path, "re") : NULL;
    note->deaths = 0;
    if (file == NULL)
        return false;
    const bool known = fscanf(file, "deaths %d", &note->deaths) == 1;
    (void)fclose(file);
    return known && refuses(note->deaths, is.st_mtime);
}

bool hf_cl_note_loading(const char *path, const char *driver, struct hf_cl_note *note) {
    const char *own = hf_cl_cache_name(path);
    struct stat is;
    name_loading(path, driver, note);
    const bool died = take(note);
    const bool again = strcmp(note->last, own) == 0;
    if (died)
        remove_beside(path, note->last);
    if (note->file >= 0 && fstat(note->file, &is) == 0 && refuses(note->deaths, is.st_mtime)) {
        if (died)
            say(note, note->deaths, "after", note->last);
        (void)close(note->file);
        return false;
    }
    if (died && again) {
        give_back(note, true);
        return false;
    }
    if (note->file >= 0)
        say(note, again || note->deaths >= DEATHS ? DEATHS : note->deaths + 1, "over", own);
    note->deaths = 0; /* once it is loaded well */
    if (again)
        note->last[0] = '\0';
    return true;
}

void hf_cl_note_loaded(struct hf_cl_note *note) { give_back(note, note->last[0] != '\0'); }
