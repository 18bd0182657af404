/* SPDX-License-Identifier: Apache-2.0
 * The campaigns of holdfast inject: each parses its own options and returns an exit code. */
#ifndef INJECT_H
#define INJECT_H

int inject_gemm(int argc, char **argv);
int inject_kmeans(int argc, char **argv);
int inject_relax(int argc, char **argv);

#endif
