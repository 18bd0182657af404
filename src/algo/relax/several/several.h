/* SPDX-License-Identifier: Apache-2.0
 * One system on several devices of this process. The set-up is the host's (setup.h); each device
 * has a part of the rows and a whole x, of which it writes its own rows and gets from the others
 * those that it reads. A thread of the host drives each. */
#ifndef HF_RELAX_SEVERAL_H
#define HF_RELAX_SEVERAL_H

#include "algo/relax/solve.h"
#include <pthread.h>
#include <stdatomic.h>

#define HF_RELAX_DEVICES 16 /* at most */
#define HF_RELAX_LOOK 8     /* iterations from one look at the residual to the next */
#define HF_RELAX_SPANS 64   /* of places that one part reads of another, at most */

struct hf_relax_span {
    int64_t first, last;
};

/* Places of another part that are read. */
struct hf_relax_reading {
    struct hf_relax_span *span; /* [count] ascending */
    int count;
};

struct hf_relax_part {
    struct hf_relax_several *several;
    hf_context *ctx;
    int number;          /* in several->part, */
    int device;          /* and among those that were named */
    int64_t block;       /* its first block, and */
    int64_t blocks;      /* how many it has */
    int64_t first, last; /* its places */
    /* In memory of the device, rows outside first .. last are empty. */
    struct hf_sparse a, truth;
    const double *inverse;
    const int32_t *inner;
    const int64_t *block_start;
    double *b, *rest, *x[2]; /* [n] */
    double *board[2];        /* HF_EXCHANGE_DC, of the first part: [n]; else NULL */
    double *square;          /* of the last sweep, or of the true residual */
    struct hf_relax_held held;
    const struct hf_kernel *sweep, *spmv;
    struct hf_relax_reading reads[HF_RELAX_DEVICES]; /* of each other part */
    /* of a leg; what is not atomic is the team's, under its mutex */
    pthread_t thread;
    hf_status status;
    int64_t made;   /* iterations */
    double seen;    /* squared residual at the last look */
    int64_t looks;  /* so far */
    double life;    /* when it was last heard of, and */
    double longest; /* the longest time between two looks */
    bool waits;     /* for others */
    bool ended, lost;
};

/* What the threads of a leg share. */
struct hf_relax_team {
    pthread_mutex_t mutex;
    pthread_cond_t all;  /* everybody has come, or the leg is over */
    pthread_cond_t news; /* for the thread that looks on */
    int arrived;
    int64_t meeting;
    bool asked;           /* to leave, by the thread that looks on */
    bool leave;           /* at the next look (tagged: all at the same one) */
    bool broken;          /* a part is lost: leave at once */
    hf_relax_stop stop;   /* why, if not for the target */
    int64_t most;         /* iterations */
    bool tested;          /* there is a target */
    double target, begin; /* squared estimates: aimed at, at the start */
    double estimate;      /* the last one */
    double least, window; /* the least so far, and that when the window of a stall began */
    int64_t window_start;
    hf_relax_column *column; /* takes the history */
    int64_t before;          /* iterations before this leg */
    double scale;            /* |b| */
    double told;             /* when progress was called last */
};

struct hf_relax_several {
    hf_relax *relax;
    struct hf_relax_part *part[HF_RELAX_DEVICES];
    int count;
    struct hf_relax_part *gone[HF_RELAX_DEVICES]; /* devices that were left behind */
    int lost;                                     /* how many */
    hf_relax_exchange exchange;
    struct hf_relax_matrix full; /* a copy of the caller's values; empty: the set-up's are those */
    double *x;                   /* [n] of the host, in the order of places */
    double *board[2];            /* HF_EXCHANGE_AMC: [n], locked */
    struct hf_relax_team team;
};

/* several.c: devices "cuda:0,cuda:1" get their parts of a set-up of the host. */
hf_status hf_relax_several_open(hf_relax *relax, const char *devices);
void hf_relax_several_close(struct hf_relax_several *several);
/* Parts anew, from the set-up as it is, on the devices that are left. */
hf_status hf_relax_several_load(struct hf_relax_several *several);
/* fn for each part, on a thread of its own; the first failure, told on the set-up's context. */
hf_status hf_relax_each_part(struct hf_relax_several *several,
                             hf_status (*fn)(struct hf_relax_part *));

/* several_exchange.c: what part has computed in x[side], to where the others find it (which is side
 * or, in free timing, wherever they look), and the other way round. */
hf_status hf_relax_send(struct hf_relax_part *part, int side);
hf_status hf_relax_receive(struct hf_relax_part *part, int side);
/* x[0] of all parts is what each has computed last, wherever it is read. All parts rest. */
hf_status hf_relax_settle(struct hf_relax_several *several);

/* several_run.c: iterations on all parts until the target or something else is reached. Whatever
 * ended them is in the team and in the parts; a part that is lost is no failure. */
hf_status hf_relax_run_parts(struct hf_relax_several *several,
                             const struct hf_relax_request *request);

/* several_solve.c: as hf_relax_solve_column(). */
hf_status hf_relax_several_column(hf_relax *relax, const struct hf_relax_request *request);

#endif
