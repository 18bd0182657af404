/* SPDX-License-Identifier: Apache-2.0
 * Protection against wrong arithmetic: what a call does about it, and what it tells.
 * docs/fault-model.md says what each check sees and what is not covered. */
#ifndef HF_GUARD_H
#define HF_GUARD_H

#include <holdfast/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call does about wrong arithmetic. */
typedef enum hf_guard {
    HF_GUARD_DEFAULT = 0, /* HF_GUARD_CORRECT */
    HF_GUARD_OFF = 1,     /* only what costs nothing is checked, and ends the call */
    HF_GUARD_DETECT = 2,  /* a fault ends the call with HF_E_CORRUPT */
    HF_GUARD_CORRECT = 3, /* a fault is repaired: the result is that of a call without one */
    HF_GUARD_SAMPLED = 4, /* the same, but checks of single scores look at a share of them */
    HF_GUARD_WEIGHTED = 5 /* the scheme of FT K-Means, to compare with: k-means alone */
} hf_guard;

/* How a fault behaves when its work is done again. */
typedef enum hf_fault_kind {
    HF_FAULT_KIND_UNKNOWN = 0, /* nothing was done again */
    HF_FAULT_TRANSIENT = 1,    /* it did not come back */
    HF_FAULT_INTERMITTENT = 2, /* it came back, but not always */
    HF_FAULT_PERMANENT = 3     /* it came back each time, in the same place */
} hf_fault_kind;

/* Counters of a call. All of them count what the checks look at: rows, sums, centroids, labels. */
typedef struct hf_guard_counts {
    int64_t checked;     /* looked at */
    int64_t suspected;   /* a check did not agree */
    int64_t confirmed;   /* of these: wrong, as doing it again showed */
    int64_t repaired;    /* of these: done again, with the result of a call without faults */
    int64_t rolled_back; /* iterations that were made again from a verified state */
    int64_t beyond;      /* suspected, but right: rounding went beyond a check's threshold */
} hf_guard_counts;

/* A confirmed fault. Texts live until the function that is told returns. */
typedef struct hf_fault_note {
    const char *check;  /* its name in docs/fault-model.md: "rows", "sums", ... */
    const char *kernel; /* that was at work; "" when that is not known */
    const char *text;   /* a sentence */
    int64_t row;        /* of the data; -1: not known, so for the next three */
    int64_t column;     /* of the data, or the centroid */
    int iteration;      /* from 1; 0 outside iterations */
    int unit;           /* worker of the CPU, multiprocessor of a GPU */
    hf_fault_kind kind; /* what doing the work again showed */
    int repaired;       /* 0: the call ends with HF_E_CORRUPT */
    int lane;           /* place in the vectors of that worker, or of the four parts of that
                         * multiprocessor, 32 each; -1: not known */
} hf_fault_note;

/* Called for confirmed faults, from the calling thread, when the step that they happened in is
 * done; of very many in one step not for all. */
typedef void (*hf_on_fault)(void *user, const hf_fault_note *note);

/* "off", "detect", "correct", "sampled", "weighted"; HF_GUARD_DEFAULT is "correct"; "unknown" for
 * others. */
HF_API const char *hf_guard_name(hf_guard guard);

/* The name of check i, 0 to 31; NULL: there is none. hf_kmeans_result.checks has bit i. */
HF_API const char *hf_guard_check_name(int i);

/* "transient", "intermittent", "permanent"; "unknown" for others. */
HF_API const char *hf_fault_kind_text(hf_fault_kind kind);

#ifdef __cplusplus
}
#endif
#endif
