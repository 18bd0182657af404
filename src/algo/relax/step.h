/* SPDX-License-Identifier: Apache-2.0
 * Iterations on the matrix inside, one at a time. All vectors are in the order of places. */
#ifndef HF_RELAX_STEP_H
#define HF_RELAX_STEP_H

#include "algo/relax/setup.h"

#define HF_RELAX_RECORD 400 /* coefficients of CG that are kept */

struct hf_relax_work {
    hf_relax *relax;
    const double *b; /* [n] */
    double *x;       /* [n] where the iteration is; may change places with `other` */
    double *other, *r, *p, *q, *z;
    bool zero;            /* x counts as 0, whatever is in it */
    bool other_zero;      /* so did the x before */
    int64_t made;         /* iterations */
    int64_t earlier;      /* that were made before these */
    int64_t most;         /* that a step may make, where it makes several */
    double square;        /* |b - A x|^2 where the method knows it before a step */
    double square_before; /* Gauss-Seidel: of the sweep before */
    double low, high;     /* the spectrum that Chebyshev expects */
    double product;       /* CG: r.z */
    double factor;        /* Chebyshev: of the step before */
    bool stalled;         /* a call of many iterations got nowhere */
    bool quiet;           /* nobody reads sums: nothing need wait for them */
    bool broke;           /* CG: met a direction in which A is not positive */
    bool recording;       /* CG: note the coefficients */
    int recorded;
    double alpha[HF_RELAX_RECORD], beta[HF_RELAX_RECORD];
    double seconds;          /* of launches of many iterations */
    hf_relax_faults *faults; /* takeovers are counted here; NULL: nowhere */
};

/* Begin with b and x set, `zero` too, and `square` of that x where x is 0 or the method is CG or
 * Gauss-Seidel (any number above the limit does where nobody looks at it). */
void hf_relax_begin(struct hf_relax_work *w, hf_relax *relax);

/* Does a step leave the new x in `other`, and the old one in x, before they change places? */
bool hf_relax_swaps(const hf_relax *relax);

/* *square: |b - A x|^2 of the x before this call (Gauss-Seidel and free timing: about). Where it is
 * above `limit`, x is then moved on by one iteration; else it stays. */
hf_status hf_relax_step(struct hf_relax_work *w, double limit, double *square);

/* one_launch.c: many iterations at once, as free timing does; *square is that before them. Without
 * a limit (below 0) w->square is not known afterwards. */
hf_status hf_relax_step_march(struct hf_relax_work *w, double limit, double *square);

/* A takeover, counted and told. */
static inline void hf_relax_note_takeover(hf_relax_faults *faults, const hf_relax_takeover *seen) {
    faults->takeovers++;
    if (faults->taken_count < (int64_t)(sizeof faults->taken / sizeof faults->taken[0]))
        faults->taken[faults->taken_count++] = *seen;
}

/* Eigenvalue estimates from the coefficients that CG noted (spectrum.c); 0 where there are none. */
void hf_relax_read_spectrum(const struct hf_relax_work *w, double *least, double *most);

#endif
