/* SPDX-License-Identifier: Apache-2.0
 * Text files that the library does not write: NAME with an ending. */
#ifndef PLAIN_FILE_H
#define PLAIN_FILE_H

#include <stdio.h>

/* Begin a file under another name beside its place. NULL, and a message: it cannot be written. */
FILE *plain_file_open(const char *name, const char *ending);

/* Give it its name, in place of an older one; an exit code. */
int plain_file_close(FILE *file, const char *name, const char *ending);

/* Could it be written? What is there stays; an exit code. */
int plain_file_check(const char *name, const char *ending);

#endif
