/* SPDX-License-Identifier: Apache-2.0
 * All of the public API. */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <holdfast/array.h>
#include <holdfast/base.h>
#include <holdfast/context.h>
#include <holdfast/diagnose.h>
#include <holdfast/gemm.h>
#include <holdfast/guard.h>
#include <holdfast/io.h>
#include <holdfast/kmeans.h>
#include <holdfast/prep.h>
#include <holdfast/relax.h>
#include <holdfast/sparse.h>

#endif
