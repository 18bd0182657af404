/* SPDX-License-Identifier: Apache-2.0
 * For the command: campaigns of faults against products with execution signatures over their
 * operands (Fernandez et al. 2022), and what the signatures cost. Found in libholdfast_dev only.
 * Unstable: may change in any release. */
#ifndef HF_DEV_CAMPAIGN_H
#define HF_DEV_CAMPAIGN_H

#include <holdfast/base.h>
#include <holdfast/context.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hf_dev_es_level {
    HF_DEV_ES_NONE = 0, /* unprotected */
    HF_DEV_ES_E = 1,    /* external loop */
    HF_DEV_ES_M = 2,    /* intermediate loop */
    HF_DEV_ES_I = 3,    /* internal loop */
    HF_DEV_ES_PAIR = 4  /* one checksum in the internal, another in the intermediate loop */
} hf_dev_es_level;

/* A protected product. */
typedef struct hf_dev_es {
    int avx; /* the form with eight lanes; else sequential */
    hf_dev_es_level level;
    int checksum; /* of a pair that of the internal loop */
    int outer;    /* of a pair that of the intermediate loop */
} hf_dev_es;

typedef struct hf_dev_dims {
    int64_t m, n, k; /* A is m x k, B is k x n */
} hf_dev_dims;

/* The checksums of the catalogue that products take: "xor", ...; NULL for other ids. */
HF_API const char *hf_dev_checksum(int id);
/* What it is, in words. */
HF_API const char *hf_dev_checksum_text(int id);

/* Scheme i of those of the paper (every checksum at every level, then every pair), and its name:
 * "xor_e", "xor+fletcher". 0 past the last, else 1. */
HF_API int hf_dev_es_at(int i, hf_dev_es *es, char name[32]);

typedef struct hf_dev_es_count {
    int64_t faults;   /* bits of A and B, each flipped once */
    int64_t detected; /* of them: another signature */
    int64_t computed; /* of a random sample, for which the product was really computed, */
    int64_t differed; /* and did not agree with what was counted */
} hf_dev_es_count;

/* The exhaustive campaign over single bits of A and B in memory. How a signature changes follows
 * from the places at which a word is signed, so that the product is computed for `sample` faults
 * only, to verify that; on a device it is computed for all. HF_E_ARG: dimensions below 1;
 * HF_E_UNSUPPORTED: no kernel of this form. */
HF_API hf_status hf_dev_es_count_bits(hf_context *ctx, const hf_dev_es *es, hf_dev_dims dims,
                                      uint64_t seed, int64_t sample, hf_dev_es_count *count);

/* Faults while the product is computed; see hf_dev_es_fault_name(). */
typedef struct hf_dev_es_faults {
    int64_t faults;
    int64_t changed;  /* of them: C is not as it should be */
    int64_t detected; /* of those: the signature differs */
    int64_t latent;   /* C is right all the same, but the signature differs */
} hf_dev_es_faults;

/* Class i of faults: its name and what it is; 0 past the last, else 1. */
HF_API int hf_dev_es_fault_at(int i, const char **name, const char **text);

/* `trials` random faults of class `fault`, each in a product of its own. */
HF_API hf_status hf_dev_es_inject(hf_context *ctx, const hf_dev_es *es, hf_dev_dims dims, int fault,
                                  uint64_t seed, int64_t trials, hf_dev_es_faults *faults);

typedef struct hf_dev_es_timing {
    double plain_s; /* median time of the unprotected product of the same form */
    double ratio;   /* median of the ratios to it, in turns */
} hf_dev_es_timing;

/* Time a protected product, one thread; at least 3 rounds, then until budget_s has passed. */
HF_API hf_status hf_dev_es_time(hf_context *ctx, const hf_dev_es *es, hf_dev_dims dims,
                                double budget_s, hf_dev_es_timing *timing);

/* Faults of one kind, each in a product of op gemm. */
typedef struct hf_dev_signed_kind {
    int64_t faults;
    int64_t changed;  /* of them: C differs */
    int64_t detected; /* of those: another signature, or the call ended with HF_E_CORRUPT */
} hf_dev_signed_kind;

/* Carry, address, stuck, dropped: HF_GEMM_PLANT_CARRY and those after it. */
#define HF_DEV_SIGNED_KINDS 4
HF_API const char *hf_dev_signed_kind_name(int i);

/* A product of op gemm with signatures of its own (include/holdfast/gemm.h). */
typedef struct hf_dev_signed_count {
    int64_t operand_faults;   /* bits of A and B, each flipped once */
    int64_t operand_detected; /* of them: another signature */
    int64_t staged_faults;   /* bits of A, flipped after they were staged and signed; 0 without L */
    int64_t staged_detected; /* of them: the call ended with HF_E_CORRUPT */
    int64_t sum_faults;      /* bits of the sums, before they are stored */
    int64_t sum_detected;    /* of them: another signature */
    int64_t changed;         /* of operand_faults: C differs */
    int same;                /* C has the same bits with and without signatures */
    hf_dev_signed_kind kind[HF_DEV_SIGNED_KINDS];
} hf_dev_signed_count;

typedef struct hf_dev_signed {
    const char *checksum;
    int release;    /* L+O instead of T+O */
    hf_dtype dtype; /* HF_F32, HF_F16 or HF_BF16: of A, B and C */
} hf_dev_signed;

/* The exhaustive campaign over single bits, each fault in a product that is computed; on a GPU many
 * of them at once, as a batch, and of the types of 16 bits faults in A and B, in sums and carries
 * alone. every: only each so-many-th bit; 1: all. */
HF_API hf_status hf_dev_signed_count_bits(hf_context *ctx, const hf_dev_signed *how,
                                          hf_dev_dims dims, int64_t every,
                                          hf_dev_signed_count *count);

/* As hf_dev_es_time(), against op gemm without signatures. */
HF_API hf_status hf_dev_signed_time(hf_context *ctx, const hf_dev_signed *how, hf_dev_dims dims,
                                    double budget_s, hf_dev_es_timing *timing);

/* A product that hf_gemm_guarded() checks and repairs, float32. */
typedef struct hf_dev_guarded_count {
    int64_t faults;        /* bits of sums, flipped before these are stored; each changes C */
    int64_t repaired;      /* of them: C has its bits again */
    int64_t left;          /* of them: C is wrong, and nothing was said */
    int64_t failed;        /* of them: HF_E_CORRUPT, no result */
    int64_t consequential; /* of those left: the sum of the row, or of the column, is off by more
                              than its bound: 0 */
    double worst_left;     /* largest error left of such a sum, in units of its bound */
    int64_t suspected;     /* lines of the product without a fault, */
    int64_t false_alarms;  /* and how many of them were called wrong: 0 */
} hf_dev_guarded_count;

/* All 32 bits of the sums of `places` elements of C, drawn without repetition, each in a product
 * of its own. */
HF_API hf_status hf_dev_guarded_count_bits(hf_context *ctx, hf_dev_dims dims, int64_t places,
                                           hf_dev_guarded_count *count);

/* As hf_dev_es_time(), against hf_gemm(). */
HF_API hf_status hf_dev_guarded_time(hf_context *ctx, hf_dev_dims dims, double budget_s,
                                     hf_dev_es_timing *timing);

#ifdef __cplusplus
}
#endif
#endif
