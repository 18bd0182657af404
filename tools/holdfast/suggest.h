/* SPDX-License-Identifier: Apache-2.0
 * "Did you mean": for verbs and options that do not exist. */
#ifndef SUGGEST_H
#define SUGGEST_H

#include <argp.h>

/* The place among `count` names of the one that word may be a misspelling or the beginning of; -1:
 * none. */
int suggest(const char *word, const char *const *names, int count);

/* Ends the program with a message if an argument is an option like one that the parser has, but
 * not that one. All else is left to argp. */
void suggest_option(const struct argp *argp, int argc, char *const *argv);

#endif
