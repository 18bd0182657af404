/* SPDX-License-Identifier: Apache-2.0
 * Processes that work on one problem together. algo speaks to its communicator always, also when it
 * is alone, so that it has no branch for the number of them. */
#ifndef HF_COMM_H
#define HF_COMM_H

#include <holdfast/base.h>

enum hf_comm_reduction {
    HF_COMM_SUM_I64, /* int64_t, wraps: sums of fixed-point integers are exact and free of order */
    HF_COMM_MIN_F64,
    HF_COMM_MAX_F64
};

typedef struct hf_comm hf_comm;

struct hf_comm {
    const char *name; /* "self" */
    int (*rank)(const hf_comm *comm);
    int (*size)(const hf_comm *comm);
    /* Replace data[0 .. count) by its reduction over all ranks. */
    hf_status (*allreduce)(const hf_comm *comm, void *data, int64_t count,
                           enum hf_comm_reduction reduction);
    /* Replace data by that of rank `root`. */
    hf_status (*bcast)(const hf_comm *comm, void *data, size_t bytes, int root);
    hf_status (*barrier)(const hf_comm *comm);
    void (*close)(const hf_comm *comm);
};

/* One process alone. Nothing to close. */
const hf_comm *hf_comm_self(void);

#endif
