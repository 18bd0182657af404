/* SPDX-License-Identifier: Apache-2.0
 * Ctrl-C: the first asks to stop, the second kills at once. */
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <stdbool.h>

/* From now on SIGINT and SIGTERM set a flag; a second one has its default effect. A
 * signal that whoever started the program had set to be ignored (as shells do for background jobs)
 * stays ignored. */
void interrupt_watch(void);

/* Was there a signal? */
bool interrupt_seen(void);

#endif
