/* SPDX-License-Identifier: Apache-2.0
 * A driver that crashes takes the process with it. So a note lies beside a program while the driver
 * is at it, and what it says is known to the next process. The process holds a lock of the file,
 * which it loses by whatever it ends: a note that is there and not locked is of one that died. Who
 * finds it locked goes on without a note. */
#ifndef HF_CL_NOTE_H
#define HF_CL_NOTE_H

#include "device/opencl/cl_cache.h"

struct hf_cl_note {
    char path[HF_CL_PATH];
    int file;      /* -1: there is no note */
    int deaths;    /* before */
    char last[24]; /* the file that the last one died over; "" */
};

/* ---- Compiling: a note for each program, whose file is `path`. */

/* Did a process die over it, so that the next one had better be a child? */
bool hf_cl_note_suspects(const char *path);
/* The driver is about to compile; false: two processes died over this program, whose note is named
 * in note->path. */
bool hf_cl_note_compiling(const char *path, struct hf_cl_note *note);
void hf_cl_note_compiled(struct hf_cl_note *note);

/* ---- Loading: a note for each driver, in the folder of `path`. The file that a process died over
 * is removed. Deaths may be the user's doing, so they count only if no program was loaded well
 * between them, or if they are over the same file, made anew. After two no program of this driver
 * is loaded for a day; then one more process tries. */

/* The driver is about to take the program of the file `path`; false: it had better be compiled
 * anew. driver: what tells it from others. */
bool hf_cl_note_loading(const char *path, const char *driver, struct hf_cl_note *note);
void hf_cl_note_loaded(struct hf_cl_note *note);
/* Is none loaded today? The note is named in note->path then. */
bool hf_cl_note_refuses(const char *path, const char *driver, struct hf_cl_note *note);

#endif
