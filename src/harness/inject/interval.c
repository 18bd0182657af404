/* SPDX-License-Identifier: Apache-2.0
 * Intervals for probabilities: Clopper and Pearson (Biometrika 26, 1934), whose ends are quantiles
 * of beta distributions. */
#include <holdfast/dev_faults.h>
#include <math.h>

#define TERMS 100000 /* of the continued fraction: it needs about sqrt(max(a, b)) */

/* The continued fraction of the incomplete beta function, by Lentz's method (Thompson and Barnett,
 * J. Comput. Phys. 64, 1986); it converges fast for x < (a + 1) / (a + b + 2). */
static double fraction(double a, double b, double x) {
    const double tiny = 0x1p-1000;
    double c = 1;
    double d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double result = d;
    for (int m = 1; m < TERMS; m++) {
        double change = 1;
        for (int odd = 0; odd < 2; odd++) {
            const double term = odd ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
                                    : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
            d = 1 + term * d;
            c = 1 + term / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            change = d * c;
            result *= change;
        }
        if (fabs(change - 1) < 0x1p-50)
            break;
    }
    return result;
}

/* The regularised incomplete beta function I_x(a, b): the probability that a beta variable is at
 * most x. */
static double beta_below(double a, double b, double x) {
    if (!(x > 0))
        return 0;
    if (!(x < 1))
        return 1;
    const double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * fraction(a, b, x) / a;
    return 1 - front * fraction(b, a, 1 - x) / b;
}

/* The x with I_x(a, b) = p, by halving: 200 steps leave no bit open. */
static double beta_quantile(double a, double b, double p) {
    double low = 0;
    double high = 1;
    for (int i = 0; i < 200 && low < high; i++) {
        const double middle = 0.5 * (low + high);
        if (beta_below(a, b, middle) < p)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

void hf_dev_interval(int64_t hits, int64_t n, double confidence, double *low, double *high) {
    const double tail = 0.5 * (1 - confidence);
    const double k = (double)hits;
    const double rest = (double)(n - hits);
    *low = n == 0 || hits == 0 ? 0 : beta_quantile(k, rest + 1, tail);
    *high = n == 0 || hits == n ? 1 : beta_quantile(k + 1, rest, 1 - tail);
}
