/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include <string.h>

#define DEVICE(name) extern const struct hf_device hf_##name##_device;
#include "device/device.def"
#undef DEVICE

static const struct hf_device *const devices[] = {
#define DEVICE(name) &hf_##name##_device,
#include "device/device.def"
#undef DEVICE
};

#define DEVICES ((int)(sizeof devices / sizeof devices[0]))

const struct hf_device *hf_device_at(int i) { return i >= 0 && i < DEVICES ? devices[i] : NULL; }

const struct hf_device *hf_device_find(const char *name) {
    const int best = name == NULL || strcmp(name, "auto") == 0;
    for (int i = 0; i < DEVICES; i++) {
        char text[200];
        if (best ? devices[i]->probe(text, sizeof text) == HF_OK
                 : strcmp(devices[i]->name, name) == 0)
            return devices[i];
    }
    return NULL;
}
