/* SPDX-License-Identifier: Apache-2.0
 * Efficiencies, and Phi: S. J. Pennycook, J. D. Sewall, V. W. Lee: Implications of a metric for
 * performance portability. */
#include "portability/portability.h"

static enum platform platform_of(const struct study *s, const struct study_row *row) {
    return s->backend[row->backend].platform;
}

void study_judge(struct study *s) {
    for (int i = 0; i < s->rows; i++) {
        struct study_row *row = &s->row[i];
        const double peak = s->peak[platform_of(s, row)];
        double best = row->iteration_s;
        for (int j = 0; j < s->rows; j++) {
            const struct study_row *other = &s->row[j];
            if (other->set == row->set && other->k == row->k &&
                platform_of(s, other) == platform_of(s, row) && other->iteration_s < best)
                best = other->iteration_s;
        }
        const double flops = 2.0 * (double)row->n * (double)row->k * (double)row->d;
        row->application = best / row->iteration_s;
        if (s->backend[row->backend].ctx) /* of another machine it is known already */
            row->architectural = peak > 0 ? flops / row->iteration_s / peak : -1;
    }
}

unsigned study_platform_mask(const struct study *s) {
    unsigned mask = 0;
    for (int i = 0; i < s->backends; i++)
        mask |= 1U << s->backend[i].platform;
    return mask;
}

/* C and CUDA are one code for two platforms. */
static bool is_code(enum code asked, enum code own) {
    return own == asked || (asked == CODE_CUDA && own == CODE_C) ||
           (asked == CODE_C && own == CODE_CUDA);
}

double study_phi(const struct study *s, enum code code, unsigned platforms, int set,
                 bool architectural) {
    double inverse[PLATFORMS] = {0};
    int count[PLATFORMS] = {0};
    int wanted = 0;
    double sum = 0;
    for (int i = 0; i < s->rows; i++) {
        const struct study_row *row = &s->row[i];
        const enum platform p = platform_of(s, row);
        const double e = architectural ? row->architectural : row->application;
        if (!is_code(code, s->backend[row->backend].code) || (set >= 0 && row->set != set))
            continue;
        if (e < 0)
            return 0;
        inverse[p] += 1 / e;
        count[p]++;
    }
    for (int p = 0; p < PLATFORMS; p++) {
        if (!(platforms >> p & 1))
            continue;
        if (count[p] == 0)
            return 0;
        wanted++;
        sum += inverse[p] / count[p];
    }
    return wanted / sum;
}
