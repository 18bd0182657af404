/* SPDX-License-Identifier: Apache-2.0 */
#include "io/csv/number.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Powers of ten that float64 holds exactly. */
static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                               1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                               1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
#define MAX_POWER 22

/* A number taken apart: digits * 10^exponent when `exact`. */
struct parts {
    uint64_t digits;
    int64_t exponent;
    bool negative;
    bool exact; /* all digits are in `digits` */
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Digits from *p on into parts; the number of characters. */
static int64_t take_digits(const char **p, const char *end, struct parts *n) {
    const char *from = *p;
    for (; *p < end && is_digit(**p); (*p)++) {
        if (n->digits >= 100000000000000000u) /* 10^17: the next digit makes 19 */
            n->exact = false;
        else
            n->digits = n->digits * 10 + (uint64_t)(**p - '0');
    }
    return *p - from;
}

static bool take_exponent(const char *p, const char *end, struct parts *n) {
    const bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    if (p == end)
        return false;
    int64_t e = 0;
    for (; p < end && is_digit(*p); p++)
        e = e < 100000 ? e * 10 + (*p - '0') : e;
    n->exponent += negative ? -e : e;
    return p == end;
}

static bool take_apart(const char *p, const char *end, struct parts *n) {
    *n = (struct parts){.exact = true};
    n->negative = *p == '-';
    if (*p == '-' || *p == '+')
        p++;
    int64_t digits = take_digits(&p, end, n);
    if (p < end && *p == '.') {
        p++;
        const int64_t fraction = take_digits(&p, end, n);
        n->exponent -= fraction;
        digits += fraction;
    }
    if (digits == 0)
        return false;
    if (p == end)
        return true;
    return (*p == 'e' || *p == 'E') && take_exponent(p + 1, end, n);
}

static bool take_name(const char *text, const char *end, double *value) {
    static const struct {
        const char *name;
        double value;
    } names[] = {{"nan", NAN}, {"inf", HUGE_VAL}, {"infinity", HUGE_VAL}};
    const bool negative = *text == '-';
    if (*text == '-' || *text == '+')
        text++;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t bytes = strlen(names[i].name);
        if ((size_t)(end - text) == bytes && strncasecmp(text, names[i].name, bytes) == 0) {
            *value = negative ? -names[i].value : names[i].value;
            return true;
        }
    }
    return false;
}

bool hf_parse_number(const char *text, char *end, double *value, bool *named) {
    struct parts n;
    *named = false;
    if (text == end)
        return false;
    if (!take_apart(text, end, &n)) {
        *named = take_name(text, end, value);
        return *named;
    }
    /* Clinger (How to read floating point numbers accurately, 1990): both factors are exact, so one
     * operation rounds once. */
    if (n.exact && n.digits <= (uint64_t)1 << 53 && n.exponent >= -MAX_POWER &&
        n.exponent <= MAX_POWER) {
        const double v = (double)n.digits;
        *value = n.exponent < 0 ? v / power[-n.exponent] : v * power[n.exponent];
        *value = n.negative ? -*value : *value;
        return true;
    }
    const int saved = errno;
    const char kept = *end;
    *end = '\0';
    *value = strtod(text, NULL);
    *end = kept;
    errno = saved;
    return true;
}
