/* SPDX-License-Identifier: Apache-2.0
 * Small factorisations, float64. */
#include "algo/relax/dense.h"

#include <math.h>

static void swap_rows(double *a, int64_t m, int64_t i, int64_t j) {
    for (int64_t c = 0; c < m && i != j; c++) {
        const double other = a[i * m + c];
        a[i * m + c] = a[j * m + c];
        a[j * m + c] = other;
    }
}

static int64_t largest_below(const double *a, int64_t m, int64_t k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < m; i++)
        if (fabs(a[i * m + k]) > fabs(a[best * m + k]))
            best = i;
    return best;
}

/* Column k becomes that of the identity; what it was takes its place. */
static void eliminate(double *a, int64_t m, int64_t k) {
    const double pivot = 1 / a[k * m + k];
    a[k * m + k] = 1;
    for (int64_t c = 0; c < m; c++)
        a[k * m + c] *= pivot;
    for (int64_t i = 0; i < m; i++) {
        if (i == k)
            continue;
        const double factor = a[i * m + k];
        a[i * m + k] = 0;
        for (int64_t c = 0; c < m && factor != 0; c++)
            a[i * m + c] -= factor * a[k * m + c];
    }
}

bool hf_dense_invert(double *a, int64_t m, int64_t *pivot) {
    double largest = 0;
    for (int64_t e = 0; e < m * m; e++)
        largest = fmax(largest, fabs(a[e]));
    for (int64_t k = 0; k < m; k++) {
        pivot[k] = largest_below(a, m, k);
        swap_rows(a, m, k, pivot[k]);
        if (!(fabs(a[k * m + k]) > 1e-14 * largest))
            return false;
        eliminate(a, m, k);
    }
    for (int64_t k = m - 1; k >= 0; k--)
        for (int64_t i = 0; i < m && pivot[k] != k; i++) {
            const double other = a[i * m + k];
            a[i * m + k] = a[i * m + pivot[k]];
            a[i * m + pivot[k]] = other;
        }
    return true;
}

#define LANES 8
static double dot(const double *a, const double *b, int64_t count) {
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    for (; i < count; i++)
        sum += a[i] * b[i];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

bool hf_envelope_factor(double *a, const int64_t *envelope, int64_t m) {
    for (int64_t i = 0; i < m; i++) {
        double *row = a + envelope[i] - envelope[0];
        const int64_t first = i + 1 - (envelope[i + 1] - envelope[i]);
        for (int64_t j = first; j < i; j++) {
            const double *other = a + envelope[j] - envelope[0];
            const int64_t start = j + 1 - (envelope[j + 1] - envelope[j]);
            const int64_t from = first > start ? first : start;
            row[j - first] -= dot(row + from - first, other + from - start, j - from);
            row[j - first] *= other[j - start];
        }
        const double left = row[i - first] - dot(row, row, i - first);
        if (!(left > 1e-14 * row[i - first]))
            return false;
        row[i - first] = 1 / sqrt(left);
    }
    return true;
}
