/* SPDX-License-Identifier: Apache-2.0
 * Compiled kernels on disk, so that the second process starts fast: a file for each program, in
 * $HF_OPENCL_CACHE, $XDG_CACHE_HOME/holdfast/opencl or ~/.cache/holdfast/opencl. Files appear whole
 * or not at all. What cannot be read, is damaged or is of something else is the same as nothing. */
#ifndef HF_CL_CACHE_H
#define HF_CL_CACHE_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define HF_CL_PATH 1024

uint64_t hf_cl_cache_hash(const char *key);
/* The name of a path in its folder. */
static inline const char *hf_cl_cache_name(const char *path) { return strrchr(path, '/') + 1; }
/* Where the program with this key lies; `key` is all that decides what the compiler makes. false:
 * there is no such folder, and nothing is kept. */
bool hf_cl_cache_path(const char *key, char path[HF_CL_PATH]);
/* The binary kept at path for this key, to be freed with hf_free(); NULL: none. */
unsigned char *hf_cl_cache_load(const char *path, const char *key, size_t *bytes);
/* Keep it. A failure costs only time. */
void hf_cl_cache_store(const char *path, const char *key, const void *binary, size_t bytes);

#endif
