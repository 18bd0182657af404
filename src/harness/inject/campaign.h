/* SPDX-License-Identifier: Apache-2.0
 * The inside of a campaign: its strata, and one fit with a fault in it. */
#ifndef HF_CAMPAIGN_H
#define HF_CAMPAIGN_H

#include "harness/inject/fault.h"
#include <holdfast/dev_faults.h>

enum hf_model {
#define MODEL(NAME, name, text) HF_MODEL_##NAME,
#include "harness/inject/models.def"
#undef MODEL
    HF_MODEL_COUNT
};

#define HF_STRATA_MOST 2048

/* Faults of one model in one place. */
struct hf_stratum {
    int op;
    struct hf_place place;
    enum hf_model model;
    bool after;       /* arrays */
    int bits;         /* of a value */
    int variants;     /* of what the model does to a value; without single bits 1 */
    int64_t elements; /* visits, or words, in all calls */
};

struct hf_strata {
    int count;
    int64_t sites; /* different faults; of models with random bits one each */
    struct hf_visits visits;
    struct hf_stratum stratum[HF_STRATA_MOST];
};

/* All strata that the visits allow. False, and why: the campaign's filters leave none. */
bool hf_strata_make(const hf_dev_campaign *campaign, struct hf_strata *strata, char *why,
                    size_t why_bytes);

/* Fault `number` of a campaign. False: all of its stratum have lower numbers. */
bool hf_strata_fault(const struct hf_strata *strata, const hf_dev_campaign *campaign,
                     int64_t number, struct hf_fault_site *site, hf_dev_injection *one);

/* Fits of a campaign in this process. */
struct hf_trial {
    const hf_dev_campaign *campaign;
    hf_context *ctx;
    hf_kmeans_result clean; /* in memory that cannot be written to, */
    void *rows;             /* like a copy of the rows */
    size_t rows_bytes;
    double clean_s;           /* of the slower of the fits without and with protection */
    bool told_any, told_here; /* a fault was told; one of the row that was struck, or of none */
    int kind, unit, lane;     /* of the note that says most: hf_fault_kind, worker, lane */
    hf_status status;         /* of the last fit */
};

/* The context, and the fit without faults, with and without protection. */
hf_status hf_trial_open(struct hf_trial *trial, const hf_dev_campaign *campaign, char *why,
                        size_t why_bytes);
void hf_trial_close(struct hf_trial *trial);
/* Visits of all places in the fit without protection. */
hf_status hf_trial_count(struct hf_trial *trial, struct hf_visits *visits);
/* The fit with this fault, under `guard`; proof and counts may be NULL. */
hf_dev_outcome hf_trial_fault(struct hf_trial *trial, const struct hf_fault_site *site,
                              hf_guard guard, hf_dev_fault_proof *proof, hf_guard_counts *counts);
/* The fit as it is now, with whatever is planted. */
hf_dev_outcome hf_trial_fit(struct hf_trial *trial, hf_guard guard, hf_guard_counts *counts);
/* Is a fit without faults still what it was? */
bool hf_trial_sound(struct hf_trial *trial);

/* ---- the process that makes the fits */

#define HF_LANES_MOST 64 /* fits side by side */

enum hf_said {
    HF_SAID_OPENED, /* size is set */
    HF_SAID_FAILED, /* status and text are */
    HF_SAID_BEGINS, /* one.number and one.line are */
    HF_SAID_HALF,   /* one.off is: the protected fit follows */
    HF_SAID_ENDED,  /* one is */
    HF_SAID_UNSOUND /* one is, and the process is of no use any more */
};

/* What it says, in one write to a pipe, which is not cut. */
struct hf_record {
    enum hf_said said;
    int lane; /* which of the fits side by side */
    hf_status status;
    char text[300];
    hf_dev_campaign_size size;
    hf_dev_injection one;
};

_Static_assert(sizeof(struct hf_record) <= 4096, "a write of it to a pipe must not be cut");

/* What it is to do. */
struct hf_child {
    const hf_dev_campaign *asked;
    int pipe;
    int lanes;                 /* fits side by side */
    int64_t next;              /* all faults before it are done, */
    const unsigned char *done; /* and those whose bit is set */
    const int64_t *only;       /* these alone; only_count 0: all that are not done */
    int only_count;
    int64_t died;       /* this one ended a process in the fit without protection, -1: none; */
    hf_dev_outcome how; /* that is its outcome, and the protected fit is left to be made */
};

static inline bool hf_fault_is_done(const unsigned char *done, int64_t number) {
    return done[number / 8] >> number % 8 & 1;
}

/* Makes them in this process, which then ends. */
_Noreturn void hf_child_run(const struct hf_child *child);

#endif
