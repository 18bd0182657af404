/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"
#include "device/pipe.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define ABSENT(name, why)
#define DEVICE(name) extern const struct hf_device hf_##name##_device;
#include "device/device.def"
#undef DEVICE

static const struct hf_device *const devices[] = {
#define DEVICE(name) &hf_##name##_device,
#include "device/device.def"
#undef DEVICE
#undef ABSENT
};

static const struct hf_absent absent[] = {
#define DEVICE(name)
#define ABSENT(name, why) {#name, why},
#include "device/device.def"
#undef DEVICE
#undef ABSENT
    {NULL, NULL},
};

#define DEVICES ((int)(sizeof devices / sizeof devices[0]))

const struct hf_device *hf_device_at(int i) { return i >= 0 && i < DEVICES ? devices[i] : NULL; }

const struct hf_absent *hf_device_absent(int i) {
    const struct hf_absent *a = absent;
    while (a->name != NULL && i-- > 0)
        a++;
    return a->name != NULL ? a : NULL;
}

const struct hf_device *hf_device_of(int id) {
    for (int i = 0; i < DEVICES; i++)
        if (devices[i]->id == id)
            return devices[i];
    return NULL;
}

extern const struct hf_pipe_table hf_opencl_pipe;
#if HF_HAVE_CUDA
extern const struct hf_pipe_table hf_cuda_pipe;
#endif

const struct hf_pipe_table *hf_pipe_of(int id) {
#if HF_HAVE_CUDA
    if (id == HF_DEV_CUDA)
        return &hf_cuda_pipe;
#endif
    return id == HF_DEV_OPENCL ? &hf_opencl_pipe : NULL;
}

/* The number in "name:number"; -1 when there is something else. */
static int parse_index(const char *text) {
    char *stop = NULL;
    if (*text < '0' || *text > '9')
        return -1;
    const long v = strtol(text, &stop, 10);
    return *stop == '\0' && v <= INT_MAX ? (int)v : -1;
}

const struct hf_device *hf_device_find(const char *name, int *index) {
    const bool best = name == NULL || strcmp(name, "auto") == 0;
    *index = 0;
    for (int i = 0; i < DEVICES; i++) {
        const size_t len = strlen(devices[i]->name);
        char text[200];
        if (best) {
            if (devices[i]->probe(0, text, sizeof text) == HF_OK)
                return devices[i];
        } else if (strcmp(name, devices[i]->name) == 0) {
            return devices[i];
        } else if (strncmp(name, devices[i]->name, len) == 0 && name[len] == ':') {
            *index = parse_index(name + len + 1);
            if (*index < 0 && devices[i]->find != NULL)
                *index = devices[i]->find(name + len + 1);
            return *index >= 0 ? devices[i] : NULL;
        }
    }
    return NULL;
}
