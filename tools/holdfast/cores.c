/* SPDX-License-Identifier: Apache-2.0 */
#include "cores.h"

#include <stdlib.h>

/* "4" or "2-5"; NULL: neither. */
static const char *read_range(const char *text, long *first, long *last) {
    char *end;
    *first = *last = strtol(text, &end, 10);
    if (end == text || *end != '-')
        return end == text ? NULL : end;
    const char *second = end + 1;
    *last = strtol(second, &end, 10);
    return end == second ? NULL : end;
}

int tool_cores(struct argp_state *state, const char *text, int *core, int most) {
    int count = 0;
    for (const char *at = text; at; at++) {
        long first, last;
        at = read_range(at, &first, &last);
        if (!at || first < 0 || last < first || last >= most)
            break;
        for (long c = first; c <= last && count < most; c++)
            core[count++] = (int)c;
        if (*at == '\0')
            return count;
        if (*at != ',')
            break;
    }
    argp_error(state, "--cores %s: not a list of cores such as 0,2-5", text);
    return 0;
}
