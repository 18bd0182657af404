/* SPDX-License-Identifier: Apache-2.0
 * Values of options: whole numbers, reals, sizes, names. A malformed one is a usage error. */
#include "suggest.h"
#include "tool.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *argp_program_bug_address = NULL;

void tool_parse(const struct argp *argp, int argc, char **argv, void *input) {
    /* argp's remark on short and long options is longer than it is useful; a filter of its help
     * does not see it */
    (void)setenv("ARGP_HELP_FMT", "no-dup-args-note", 0);
    suggest_option(argp, argc, argv);
    const error_t failed = argp_parse(argp, argc, argv, 0, NULL, input);
    if (failed) {
        tool_error("%s", strerror(failed));
        exit(failed == ENOMEM ? EXIT_RESOURCES : EXIT_USAGE);
    }
}

int64_t tool_int(struct argp_state *state, const char *option, const char *text, int64_t least,
                 int64_t most) {
    char *end;
    errno = 0;
    const intmax_t value = strtoimax(text, &end, 10);
    if (end == text || *end != '\0' || isspace((unsigned char)text[0]))
        argp_error(state, "%s %s: not a whole number", option, text);
    else if (errno == ERANGE || value < least || value > most)
        argp_error(state, "%s %s: must lie between %" PRId64 " and %" PRId64, option, text, least,
                   most);
    return (int64_t)value;
}

uint64_t tool_u64(struct argp_state *state, const char *option, const char *text) {
    char *end;
    errno = 0;
    const uintmax_t value = strtoumax(text, &end, 0);
    if (!isdigit((unsigned char)text[0]) || *end != '\0')
        argp_error(state, "%s %s: not a whole number of 0 or more", option, text);
    else if (errno == ERANGE || value > UINT64_MAX)
        argp_error(state, "%s %s: more than %" PRIu64, option, text, UINT64_MAX);
    return (uint64_t)value;
}

double tool_real(struct argp_state *state, const char *option, const char *text, double least,
                 double most) {
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || isspace((unsigned char)text[0]) || isnan(value))
        argp_error(state, "%s %s: not a number", option, text);
    else if (value < least || value > most)
        argp_error(state, "%s %s: must lie between %g and %g", option, text, least, most);
    return value;
}

/* The unit after a size as a power of 1024: "", B, K, M, MB, MiB, ...; -1 for anything else. */
static int unit_power(const char *unit) {
    static const char letters[] = "KMGTPE";
    if (unit[0] == '\0' || strcasecmp(unit, "B") == 0)
        return 0;
    const char *letter = strchr(letters, toupper((unsigned char)unit[0]));
    if (!letter)
        return -1;
    const char *rest = unit + 1;
    if (rest[0] == '\0' || strcasecmp(rest, "B") == 0 || strcasecmp(rest, "iB") == 0)
        return (int)(letter - letters) + 1;
    return -1;
}

uint64_t tool_bytes(struct argp_state *state, const char *option, const char *text) {
    char *end;
    const double value = strtod(text, &end);
    const int power = end == text ? -1 : unit_power(end);
    if (power < 0 || !isdigit((unsigned char)text[0])) {
        argp_error(state, "%s %s: not a size; write bytes or 512M, 1.5G, 2GiB (powers of 1024)",
                   option, text);
        return 0;
    }
    const double bytes = ldexp(value, 10 * power);
    if (!(bytes >= 0x1p20) || bytes >= 0x1p63)
        argp_error(state, "%s %s: must be at least 1M and less than 8E", option, text);
    return (uint64_t)bytes;
}

int tool_choice(struct argp_state *state, const char *option, const char *text,
                const char *const *names) {
    char list[256] = "";
    for (int i = 0; names[i]; i++) {
        if (strcmp(text, names[i]) == 0)
            return i;
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    argp_error(state, "%s %s: must be one of %s", option, text, list);
    return 0;
}

const char *tool_path(struct argp_state *state, const char *option, const char *text) {
    if (text[0] == '\0')
        argp_error(state, "%s: the name is empty", option);
    return text;
}

const char *tool_out_path(struct argp_state *state, const char *option, const char *text) {
    if (strcmp(text, "-") == 0)
        argp_error(state,
                   "%s -: standard output is not written to; name a file (./- for one called -)",
                   option);
    return tool_path(state, option, text);
}

const char *tool_npy_out_path(struct argp_state *state, const char *option, const char *text) {
    static const char *const texts[] = {".csv", ".tsv", ".txt", ".mtx"};
    const char *ending = strrchr(text, '.');
    for (size_t i = 0; ending && i < sizeof texts / sizeof *texts; i++)
        if (strcasecmp(ending, texts[i]) == 0)
            argp_error(state, "%s %s: only .npy is written, not text; name the file ...npy", option,
                       text);
    return tool_out_path(state, option, text);
}
