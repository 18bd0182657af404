/* SPDX-License-Identifier: Apache-2.0
 * Diagnosis of the arithmetic while a system is in service: a periodic test with fixed data whose
 * signatures are known, and a product that several replicas compute and a voter compares. Both are
 * the patterns of Fernandez et al. (2022); docs/safety.md says what they cover. */
#ifndef HF_DIAGNOSE_H
#define HF_DIAGNOSE_H

#include <holdfast/base.h>
#include <holdfast/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What did not run is neither: it must not count as passed. */
typedef enum hf_verdict {
    HF_VERDICT_NOT_RUN = 0,
    HF_VERDICT_PASS = 1,
    HF_VERDICT_FAIL = 2
} hf_verdict;

/* A test. It is passed only if every part of it ran, on time, and gave the known signature. */
typedef struct hf_diagnosis {
    hf_verdict verdict; /* of the whole test */
    int64_t number;     /* of the test, from 1 */
    int parts;       /* products that were to be computed: each kernel on each pattern and core */
    int passed;      /* of them */
    int failed;      /* of them; the others did not run */
    int cores;       /* tested */
    int core;        /* of the first part that failed or did not run; -1: none */
    double begin_s;  /* since the first test began */
    double seconds;  /* that the test took */
    char kernel[64]; /* of that part */
    char text[200];  /* what is wrong, where, what to do; "" for PASS */
} hf_diagnosis;

/* Called after each test. Return non-zero to end the diagnosis. */
typedef int (*hf_diagnose_report)(void *user, const hf_diagnosis *test);

/* Asked ten times a second between two tests. Return non-zero to end the diagnosis. */
typedef int (*hf_diagnose_wait)(void *user);

/* All zero means default. */
typedef struct hf_diagnose_opts {
    double interval_s; /* diagnostic time interval: each test begins so long after the one before;
                          one that is not done within it is late, which is NOT_RUN. 0: one test */
    int64_t tests;     /* 0: until told to end, or a safe state is reached; without interval 1 */
    const int *cores;  /* numbers of the cores to test; NULL: all that the caller may use */
    int core_count;    /* of cores */
    int go_on;         /* after a test that is not passed: else the diagnosis ends */
    hf_diagnose_report report;     /* after each test; NULL: none */
    hf_diagnose_report safe_state; /* at once for a test that is not passed, before report; it ends
                                      the diagnosis if it returns non-zero. NULL: none */
    hf_diagnose_wait waiting;      /* NULL: none */
    void *user;                    /* first argument of all three */
    int plant;                     /* flip a bit of a result on core plant - 1, to prove that the
                                      system reacts; 0: none */
    const char *device; /* "cpu", which is NULL, or a GPU of CUDA: "cuda", "cuda:1", whose
                           multiprocessors are the cores then. Nobody else may use it meanwhile */
} hf_diagnose_opts;

/* Test until told to end. The calling thread visits the cores and does all the work. `last` is the
 * last test that was not passed, else the last; it is written whatever is returned. opts may be
 * NULL. On a GPU all multiprocessors but one are held while that one is tested. HF_OK: all tests
 * were passed. HF_E_CORRUPT: one failed. HF_E_CANCELLED: one did not run.
 * HF_E_ARG (also: a plant on a core that is not tested), HF_E_NOMEM: nothing was tested, `last`
 * says NOT_RUN. */
HF_API hf_status hf_diagnose(const hf_diagnose_opts *opts, hf_diagnosis *last);

/* The most replicas of a vote. */
#define HF_MAX_REPLICAS 3

/* C = A B by several replicas, each with copies of its own, each by another path: the
 * first in order, the second with the rows of A from last to first, the third as the transposed
 * product. Their results are equal bit by bit. On a GPU each has multiprocessors of its own, while
 * all others are held, one replica after the other; nobody else may use the GPU meanwhile. */
typedef struct hf_redundant_args {
    int64_t m;      /* rows of A, at least 1 */
    int64_t n;      /* columns of B, at least 1 */
    int64_t k;      /* columns of A, at least 1 */
    const void *a;  /* [m, k] of dtype, rows without gaps */
    const void *b;  /* [k, n] likewise */
    void *c;        /* [m, n] of dtype, I32 for I8, out: that of the majority; untouched if there is
                       none */
    int replicas;   /* 2 or 3; 0 means 3 */
    int same_core;  /* one after the other on the caller's core, or on the whole GPU (redundancy in
                        time), else each on a core, or on multiprocessors, of its own (in space) */
    int plant;      /* flip a bit of the result of replica plant - 1; 0: none */
    hf_dtype dtype; /* F32, F64, F16, BF16 or I8; 0 means F32 */
    const char *device; /* "cpu", which is NULL, a GPU of CUDA ("cuda", "cuda:1"), or one for each
                           replica, at once: "cpu,cuda:0,cuda:1"; F16 and BF16 are summed as on a
                           CPU then */
} hf_redundant_args;

/* What one replica did. */
typedef struct hf_replica {
    int core;           /* of a GPU the first of its multiprocessors; -1: none of its own */
    int units;          /* cores, or multiprocessors, from there on */
    hf_verdict verdict; /* PASS: with the majority */
    uint64_t operands;  /* signatures: of its copies of A and B after the product, */
    uint64_t result;    /* and of C */
    int64_t row;        /* first element that differs from the majority's; -1: none */
    int64_t column;     /* likewise */
    char kernel[64];    /* that computed, */
    char device[32];    /* and where: "cpu", "cuda:1" */
} hf_replica;

/* What the vote came to. */
typedef struct hf_vote {
    hf_verdict verdict; /* PASS: all agree; FAIL: not all; NOT_RUN: fewer than were asked for ran */
    int majority;       /* replicas that agree; 0: no two do */
    int outvoted;       /* the replica to isolate; -1: none, or no majority says which */
    int replicas;       /* that were asked for */
    hf_replica replica[3]; /* HF_MAX_REPLICAS */
    char text[200];        /* what is wrong, what to do; "" for PASS */
} hf_vote;

/* Compute and vote. HF_OK: all agree, or a majority does and *vote names the other. HF_E_CORRUPT:
 * no two of them agree, of two none is in the majority. HF_E_ARG, HF_E_NOMEM: nothing was computed.
 * HF_E_UNSUPPORTED: there are not as many cores as replicas, or no such GPU. */
HF_API hf_status hf_redundant(const hf_redundant_args *args, hf_vote *vote);

/* "not run", "pass", "fail". */
HF_API const char *hf_verdict_text(hf_verdict verdict);

#ifdef __cplusplus
}
#endif
#endif
