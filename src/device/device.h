/* SPDX-License-Identifier: Apache-2.0
 * How to reach a device. One table of functions per backend, listed in device.def. */
#ifndef HF_DEVICE_H
#define HF_DEVICE_H

#include "base/status.h"

#define HF_MAX_OPS 32

enum hf_device_id { HF_DEV_HOST = 0, HF_DEV_COUNT };

struct hf_device {
    const char *name; /* "cpu" */
    int id;
    /* Is it there? Writes one line about it, or why not. */
    hf_status (*probe)(char *text, size_t text_bytes);
    /* threads > 0 */
    hf_status (*open)(int threads, void **stream, hf_error *err);
    void (*close)(void *stream);
    int (*workers)(const void *stream);
    void *(*alloc)(size_t bytes);
    void (*release)(void *p);
    hf_status (*copy)(void *stream, void *dst, const void *src, size_t bytes);
    hf_status (*sync)(void *stream);
};

/* The device called name ("cpu"), or the best one for "auto" and NULL; NULL if there is none. */
const struct hf_device *hf_device_find(const char *name);
/* Device i, NULL past the last. */
const struct hf_device *hf_device_at(int i);

#endif
