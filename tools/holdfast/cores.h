/* SPDX-License-Identifier: Apache-2.0
 * --cores LIST. */
#ifndef CORES_H
#define CORES_H

#include <argp.h>

/* The numbers of "0,2-5", each below `most`, which is how many there may be; returns how many. A
 * malformed list ends the program through argp_error. */
int tool_cores(struct argp_state *state, const char *text, int *core, int most);

#endif
