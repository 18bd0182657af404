/* SPDX-License-Identifier: Apache-2.0
 * Ctrl-C: the first asks to stop, the second kills at once. A hang-up asks to stop. */
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <stdbool.h>
#include <sys/types.h>

/* From now on SIGINT, SIGTERM and SIGHUP set a flag; after one of them SIGINT and SIGTERM have
 * their default effect. A signal that whoever started the program had set to be ignored (as shells
 * do for background jobs, and nohup) stays ignored. */
void interrupt_watch(void);

/* fork(). The child does not watch: a signal ends it even in the moment before it runs another
 * program, which would not know of one that was only noted. */
pid_t interrupt_fork(void);

/* Was there a signal? */
bool interrupt_seen(void);

#endif
