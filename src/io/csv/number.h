/* SPDX-License-Identifier: Apache-2.0
 * Decimal text to float64, correctly rounded, whatever the locale says. */
#ifndef HF_NUMBER_H
#define HF_NUMBER_H

#include <stdbool.h>

/* Is [text, end) a number: [+-] digits [. digits] [e [+-] digits], or nan, inf, infinity in any
 * case? *end must be writable (it is set to 0 and put back) and the caller must have chosen the "C"
 * locale with uselocale(). *named: nan or inf was written out. */
bool hf_parse_number(const char *text, char *end, double *value, bool *named);

#endif
