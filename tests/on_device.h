/* SPDX-License-Identifier: Apache-2.0
 * What tests that need a device begin with. */
#ifndef HF_TEST_ON_DEVICE_H
#define HF_TEST_ON_DEVICE_H

#include "unit.h"

#include <holdfast/holdfast.h>
#include <stdbool.h>

#define SKIPPED 77

/* A context of the device; false, and the reason is printed: it is not to be had. argc, argv: of
 * main(); its first argument is the test that is to run, or a pattern of several. */
static inline bool open_for_tests(hf_context **ctx, const char *device, int argc, char **argv) {
    const hf_context_opts opts = {.device = device, .threads = 2};
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (hf_context_create(ctx, &opts) == HF_OK)
        return true;
    printf("skipped: %s\n", hf_last_error(NULL));
    return false;
}

#endif
