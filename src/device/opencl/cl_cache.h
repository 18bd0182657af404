/* SPDX-License-Identifier: Apache-2.0
 * Compiled kernels on disk, so that the second process starts fast: a file for each program, in
 * $HF_OPENCL_CACHE, $XDG_CACHE_HOME/holdfast/opencl or ~/.cache/holdfast/opencl. Files appear whole
 * or not at all. What cannot be read, is damaged or is of something else is the same as nothing. */
#ifndef HF_CL_CACHE_H
#define HF_CL_CACHE_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>

#define HF_CL_PATH 1024

/* Where the program with this key lies; `key` is all that decides what the compiler makes. false:
 * there is no such folder, and nothing is kept. */
bool hf_cl_cache_path(const char *key, char path[HF_CL_PATH]);
/* The binary kept at path for this key, to be freed with hf_free(); NULL: none. */
unsigned char *hf_cl_cache_load(const char *path, const char *key, size_t *bytes);
/* Keep it. A failure costs only time. */
void hf_cl_cache_store(const char *path, const char *key, const void *binary, size_t bytes);

/* A compiler that crashes takes the process with it. So a note lies beside the program while it
 * works, and what it says is known to the next process: begin() is false if two processes died over
 * this program, and *note then names the file. end() removes the note. */
bool hf_cl_cache_begin(const char *path, char note[HF_CL_PATH]);
void hf_cl_cache_end(const char *note);
/* Did a process die over the program at path, so that the next one had better be a child? */
bool hf_cl_cache_suspect(const char *path);

#endif
