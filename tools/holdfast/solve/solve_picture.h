/* SPDX-License-Identifier: Apache-2.0
 * The residual over the iterations, as a picture. */
#ifndef SOLVE_PICTURE_H
#define SOLVE_PICTURE_H

#include "picture.h"

/* One curve for each right-hand side on a logarithmic scale, a line at every power of ten, one at
 * the tolerance. Failures are reported; an exit code. Free out->png. */
int solve_picture_draw(struct picture *out, const hf_relax_result *result, double tol);

#endif
