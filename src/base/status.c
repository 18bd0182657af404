/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

#ifndef HF_VERSION
#define HF_VERSION "0.1.0"
#endif

const char *hf_version(void) { return HF_VERSION; }

const char *hf_status_text(hf_status status) {
    switch (status) {
    case HF_OK:
        return "no error";
    case HF_E_ARG:
        return "invalid argument";
    case HF_E_DATA:
        return "unusable data";
    case HF_E_IO:
        return "input or output failed";
    case HF_E_NOMEM:
        return "out of memory";
    case HF_E_UNSUPPORTED:
        return "not supported here";
    case HF_E_DEVICE:
        return "device error";
    case HF_E_CORRUPT:
        return "corrupted";
    case HF_E_CANCELLED:
        return "cancelled";
    case HF_E_INTERNAL:
        return "internal error";
    case HF_E_BUSY:
        return "the context is at work for another call";
    }
    return "unknown status";
}

hf_status hf_fail(hf_error *err, hf_status status, const char *fmt, ...) {
    if (err != NULL) {
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(err->text, sizeof err->text, fmt, args);
        va_end(args);
    }
    return status;
}
