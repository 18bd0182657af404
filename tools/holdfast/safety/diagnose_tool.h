/* SPDX-License-Identifier: Apache-2.0
 * The options of holdfast diagnose, and its second half. */
#ifndef DIAGNOSE_TOOL_H
#define DIAGNOSE_TOOL_H

#include <holdfast/diagnose.h>
#include <stdbool.h>

#define DIAGNOSE_CORES 4096

struct diagnose {
    hf_diagnose_opts opts;
    int core[DIAGNOSE_CORES];
    int cores;
    const char *safe_state; /* a command; NULL: none */
    bool json;
    const char *file[2], *out; /* A and B; C */
    int replicas;
    bool same_core;
    const char *device;
};

/* The product of the files by replicas; an exit code. */
int diagnose_replicas(const struct diagnose *d);

#endif
