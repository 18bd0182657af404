/* SPDX-License-Identifier: Apache-2.0
 * A note is a line: how many have died if its process dies now, and while it loads of which file:
 * "deaths 1 over 0123456789abcdef.bin"; "after" once it is known that it died. */
#include "device/opencl/cl_note.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEATHS 2 /* one may have been the user's doing */
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

bool hf_cl_note_loading(const char *path, const char *driver, struct hf_cl_note *note) {
    const char *own = hf_cl_cache_name(path);
    (void)snprintf(note->path, sizeof note->path, "%.*s%016llx.loading", (int)(own - path), path,
                   (unsigned long long)hf_cl_cache_hash(driver));
    const bool died = take(note);
    const bool again = strcmp(note->last, own) == 0;
    if (died)
        remove_beside(path, note->last);
    if ((died && again) || note->deaths >= DEATHS) {
        give_back(note, true);
        return false;
    }
    if (note->file >= 0)
        say(note, note->deaths + 1, "over", own);
    if (again) /* and it goes well now */
        note->deaths = 0;
    return true;
}

void hf_cl_note_loaded(struct hf_cl_note *note) { give_back(note, note->deaths > 0); }
