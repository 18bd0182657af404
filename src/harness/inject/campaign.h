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

#endif
