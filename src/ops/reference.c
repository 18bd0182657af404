/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/reference.h"
#include <math.h>

static double ordered_dot(const double *x, const double *y, int64_t d) {
    double sum = 0;
    for (int64_t j = 0; j < d; j++)
        sum += x[j] * y[j];
    return sum;
}

double hf_reference_norm(const double *x, int64_t d) { return sqrt(ordered_dot(x, x, d)); }

double hf_reference_distance(hf_metric metric, const double *x, const double *c, int64_t d) {
    if (metric == HF_DOT)
        return -ordered_dot(x, c, d);
    if (metric == HF_COSINE)
        return hf_cosine_distance(ordered_dot(x, c, d), hf_reference_norm(x, d),
                                  hf_reference_norm(c, d));
    double sum = 0;
    for (int64_t j = 0; j < d; j++) {
        const double diff = x[j] - c[j];
        sum += diff * diff;
    }
    return sum;
}

void hf_fixed_limbs(double v, double mult, int bits, int64_t limb[HF_MAX_LIMBS]) {
    const double t = v * mult;
    const double high = rint(t);
    limb[0] = (int64_t)high;
    limb[1] = (int64_t)rint(ldexp(t - high, bits));
}
