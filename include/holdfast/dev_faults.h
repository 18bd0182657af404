/* SPDX-License-Identifier: Apache-2.0
 * Campaigns of planted faults over whole fits: what becomes of each, with and without protection.
 * Found in libholdfast_dev only, like dev.h. */
#ifndef HF_DEV_FAULTS_H
#define HF_DEV_FAULTS_H

#include <holdfast/dev.h>
#include <holdfast/kmeans.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What became of a planted fault. */
typedef enum hf_dev_outcome {
    HF_DEV_NOT_ACTIVATED, /* its place was not reached, or the value was what it made of it */
    HF_DEV_MASKED,        /* result and path (labels that changed, inertia of each iteration) are
                             those of the fit without it, to the bit */
    HF_DEV_BENIGN,        /* the path is another one, the result the same to the bit */
    HF_DEV_CORRECTED,     /* it was told, and the result is the same to the bit */
    HF_DEV_DETECTED,      /* the fit ended with HF_E_CORRUPT */
    HF_DEV_MISPLACED,     /* corrected or detected, but every row that was told is another one */
    HF_DEV_SILENT,        /* the fit ended well, with another result */
    HF_DEV_ERROR,         /* the fit ended with another error */
    HF_DEV_HANG,          /* the fit did not end in time */
    HF_DEV_CRASH,         /* the process died */
    HF_DEV_OUTCOMES
} hf_dev_outcome;

/* "masked"; NULL past the last. The outcome from its name, or -1. */
HF_API const char *hf_dev_outcome_name(int outcome);
HF_API int hf_dev_outcome_find(const char *name);

/* Is the outcome of the fit without protection one that protection is for? */
HF_API int hf_dev_outcome_matters(int outcome);

/* One fault of a campaign. Texts live as long as the process. */
typedef struct hf_dev_injection {
    int64_t number;
    char line[300]; /* that plants it again: hf_dev_fault_plant() */
    const char *op, *place, *model;
    int bit;                /* the lowest it alters; -1: it is not of single bits */
    hf_dev_outcome off;     /* without protection */
    hf_dev_outcome guarded; /* with it; HF_DEV_OUTCOMES: it was not asked for */
    hf_dev_fault_proof proof;
    hf_guard_counts counts;
    hf_fault_kind kind; /* that the guard told, */
    int unit;           /* the worker; -1: none, */
    int lane;           /* and the lane of its vectors; -1: none */
    double seconds;
} hf_dev_injection;

/* What faults do, "flip,carry", and what each means; NULL past the last. */
HF_API const char *hf_dev_model_at(int i, const char **text);

/* What a campaign is made of, known before it begins. */
typedef struct hf_dev_campaign_size {
    int64_t strata; /* pairs of place and model */
    int64_t sites;  /* different faults in all of them */
    int iterations; /* of the fit without faults, */
    double seconds; /* and its time */
} hf_dev_campaign_size;

/* Rows and fit stay as they are during a campaign. */
typedef struct hf_dev_campaign {
    const hf_array *x;         /* in host memory */
    const hf_kmeans_opts *fit; /* its guard is what is measured */
    const char *device;        /* of the fits: "cuda", ...; NULL: "cpu" */
    int threads;               /* of a fit; 1: faults strike the same visit each time */
    int at_once;               /* fits side by side, at most 64, not on a CPU; 0: one */
    uint64_t seed;
    int64_t faults;        /* numbered from 0: each depends on the seed and its number alone */
    int64_t shard, shards; /* those whose number is `shard` modulo `shards`; shards 0: all */
    const char *places; /* "assign.*,means.next": op.place, or its beginning and a *; NULL: all */
    const char *models; /* "flip,carry"; NULL: all */
    int64_t words;      /* of an array the first ones alone; 0: all */
    const char *line;   /* this one fault, number 0, in place of all others; or NULL */
    double limit_s;     /* a fit that takes longer hangs; 0: 50 times one without faults, but
                                at least 2 s */
    int (*known)(void *user, int64_t number); /* non-zero: leave that fault out; NULL: none */
    int (*each)(void *user, const hf_dev_injection *one);        /* non-zero: stop */
    void (*begun)(void *user, const hf_dev_campaign_size *size); /* NULL: not told */
    int (*stop)(void *user); /* likewise, asked now and then; NULL */
    void *user;
} hf_dev_campaign;

/* Runs it, in child processes: none but the calling thread may be at work. size may be NULL.
 * HF_E_ARG: no place or model has such a name; HF_E_CORRUPT: fits without faults differ, or tell
 * faults; what the fit fails with; `why` has words for it. */
HF_API hf_status hf_dev_campaign_run(const hf_dev_campaign *campaign, hf_dev_campaign_size *size,
                                     char *why, size_t why_bytes);

/* Faults at a rate for a whole fit: every `interval_s` the next of the campaign's faults strikes
 * the next call of its op. */
typedef struct hf_dev_rate {
    double interval_s;
    int64_t struck, altered;  /* out: faults */
    hf_dev_outcome outcome;   /* out */
    hf_guard_counts counts;   /* out */
    double clean_s, struck_s; /* out: the fit without faults, cut in the same way, and with them */
} hf_dev_rate;

/* In this process, which wild faults may end. Statuses as above. */
HF_API hf_status hf_dev_campaign_rate(const hf_dev_campaign *campaign, hf_dev_rate *rate, char *why,
                                      size_t why_bytes);

/* Single bits of scores in the tensor-core filter of an NVIDIA GPU, of 512 rows and 96 centroids:
 * bit i of each number is struck `faults` / 32 times. */
typedef struct hf_dev_tile_bit {
    int64_t struck;
    int64_t consequential; /* without checksums a row is decided wrongly */
    int64_t told, placed;  /* with them: told; told with row and centroid */
    int64_t silent;        /* with them a row is decided wrongly */
} hf_dev_tile_bit;

/* HF_E_UNSUPPORTED: the context is of no such GPU; HF_E_CORRUPT: tiles without faults are told. */
HF_API hf_status hf_dev_tiles_struck(hf_context *ctx, int64_t faults, uint64_t seed,
                                     hf_dev_tile_bit bits[32]);

/* Rows of generated data, "blobs", "cauchy", ...; freed with hf_dev_rows_free(). HF_E_ARG: no such
 * kind, and `why` lists them. */
HF_API hf_status hf_dev_rows_make(const char *kind, hf_dtype dtype, int64_t n, int64_t k, int64_t d,
                                  uint64_t seed, hf_array *x, char *why, size_t why_bytes);
HF_API void hf_dev_rows_free(hf_array *x);

/* The interval of Clopper and Pearson for the probability of what happened `hits` times of `n`, at
 * this confidence, such as 0.95. n 0: from 0 to 1. */
HF_API void hf_dev_interval(int64_t hits, int64_t n, double confidence, double *low, double *high);

#ifdef __cplusplus
}
#endif
#endif
