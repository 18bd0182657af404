/* SPDX-License-Identifier: Apache-2.0
 * Do two names mean one file, be it there or yet to be made? */
#ifndef PLACE_H
#define PLACE_H

#include <stdbool.h>

/* "jo/labels.npy", "./jo//labels.npy" and what a link to it is called are the same, also while the
 * folder jo is missing. Two hard links to one file are the same, too. NULL is the same as nothing;
 * names that cannot be followed count as different. */
bool place_same(const char *a, const char *b);

#endif
