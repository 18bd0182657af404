/* SPDX-License-Identifier: Apache-2.0
 * Extreme eigenvalues of M^-1 A: those of the tridiagonal matrix that the coefficients of CG make,
 * which is the one of Lanczos' method (Saad 2003, 6.7.3). */
#include "algo/relax/step.h"

#include "base/mem.h"
#include "base/rng.h"
#include <float.h>
#include <math.h>

/* How many eigenvalues of the tridiagonal matrix are below `at`: negative pivots of T - at I. */
static int count_below(const double *diagonal, const double *beside, int n, double at) {
    int below = 0;
    double pivot = 1;
    for (int i = 0; i < n; i++) {
        const double square = i > 0 ? beside[i - 1] * beside[i - 1] : 0;
        pivot = diagonal[i] - at - (i > 0 ? square / pivot : 0);
        if (pivot == 0)
            pivot = DBL_MIN;
        below += pivot < 0;
    }
    return below;
}

#define BISECTIONS 60
/* Extreme eigenvalues of a symmetric tridiagonal matrix. */
static void extremes(const double *diagonal, const double *beside, int n, double *least,
                     double *most) {
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < n; i++) {
        const double radius = (i > 0 ? fabs(beside[i - 1]) : 0) + (i + 1 < n ? fabs(beside[i]) : 0);
        low = fmin(low, diagonal[i] - radius);
        high = fmax(high, diagonal[i] + radius);
    }
    double left = low, right = high;
    for (int i = 0; i < BISECTIONS; i++) {
        const double middle = (left + right) / 2;
        *(count_below(diagonal, beside, n, middle) > 0 ? &right : &left) = middle;
    }
    *least = right;
    left = low, right = high;
    for (int i = 0; i < BISECTIONS; i++) {
        const double middle = (left + right) / 2;
        *(count_below(diagonal, beside, n, middle) == n ? &right : &left) = middle;
    }
    *most = right;
}

void hf_relax_read_spectrum(const struct hf_relax_work *w, double *least, double *most) {
    double diagonal[HF_RELAX_RECORD], beside[HF_RELAX_RECORD];
    const int n = w->recorded;
    for (int i = 0; i < n; i++) {
        diagonal[i] = 1 / w->alpha[i] + (i > 0 ? w->beta[i - 1] / w->alpha[i - 1] : 0);
        beside[i] = i + 1 < n ? sqrt(fmax(w->beta[i], 0)) / w->alpha[i] : 0;
    }
    *least = 0;
    *most = 0;
    if (n > 0)
        extremes(diagonal, beside, n, least, most);
}

#define LOOK_EVERY 10 /* steps between two looks at the eigenvalues */
#define SETTLED 0.005 /* relative change of the least one between two looks */

hf_status hf_relax_make_spectrum(hf_relax *relax, int steps, int smooth) {
    const hf_relax_method method = relax->opts.method;
    const int64_t n = relax->m.n;
    double *start = hf_relax_on_device(relax) ? relax->scratch : relax->vector[6];
    struct hf_relax_work w = {.b = relax->vector[6], .zero = true};
    for (int64_t i = 0; i < n; i++)
        start[i] = hf_rng_unit(7, 0, (uint64_t)i) - 0.5;
    if (hf_relax_on_device(relax))
        HF_TRY(hf_ctx_copy(relax->ctx, relax->vector[6], start, (size_t)n * sizeof *start));
    hf_relax_begin(&w, relax);
    w.recording = true;
    relax->opts.method = HF_RELAX_CG;
    hf_status status = HF_OK;
    double first = 0, before = 0, square = 0;
    for (int i = 0; i < steps && i < HF_RELAX_RECORD && status == HF_OK && !w.broke; i++) {
        status = hf_relax_step(&w, i == 0 ? 0 : 1e-26 * first, &square);
        first = i == 0 ? square : first;
        if (i + 1 == smooth)
            hf_relax_read_spectrum(&w, &relax->smooth_min, &relax->smooth_max);
        if (square <= 1e-26 * first)
            break;
        if ((i + 1) % LOOK_EVERY != 0)
            continue;
        hf_relax_read_spectrum(&w, &relax->lambda_min, &relax->lambda_max);
        if (fabs(before - relax->lambda_min) <= SETTLED * relax->lambda_min)
            break;
        before = relax->lambda_min;
    }
    relax->opts.method = method;
    HF_TRY(status);
    if (w.broke || w.recorded == 0)
        return hf_ctx_fail(relax->ctx, HF_E_DATA,
                           "the matrix is not positive definite (found by Lanczos step %d): choose "
                           "damping yourself, or another method",
                           w.recorded + 1);
    hf_relax_read_spectrum(&w, &relax->lambda_min, &relax->lambda_max);
    if (w.recorded < smooth) {
        relax->smooth_min = relax->lambda_min;
        relax->smooth_max = relax->lambda_max;
    }
    return HF_OK;
}
