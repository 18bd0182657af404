/* SPDX-License-Identifier: Apache-2.0
 * The library speaks to programmers, in the names of its C interface; here they become options. */
#include "tool.h"
#include <ctype.h>
#include <string.h>

static const struct tool_word general[] = {
    {"memory_bytes", "--memory"},
    {"HF_NAN_DROP", "--nan drop"},
    {"HF_GUARD_OFF", "--guard off"},
    {"HF_EMPTY_RELOCATE", "--empty relocate"},
    {"HF_CENTROIDS_SAME", "--centroids same"},
    {"HF_HEADER_YES", "--header yes"},
    {"HF_HEADER_NO", "--header no"},
    {"HF_SCALE_ROBUST", "--scale robust"},
    {"HF_SCALE_STANDARD", "--scale standard"},
    {"opts.memory_bytes", "--memory"},
    {"block_rows", "--block"},
    {"local_sweeps", "--sweeps"},
    {"max_seconds", "--time-limit"},
    {"opts.columns", "--columns"},
    {"opts.skip_columns", "--skip-columns"},
    {"opts.missing", "--missing"},
    {"n_init", "--n-init"},
    {"max_iter", "--max-iter"},
    {"devices has a name", "--devices has a name"},
    {"of devices:", "of --devices:"},
    {"leave one_launch to the library", "leave --one-launch out"},
    {"open a context on the cpu or on cuda", "use --device cpu or cuda"},
    {"set k to their number", "leave -k out to have as many"},
    {NULL, NULL},
};

/* Part of a longer name or of a path. */
static bool is_inside(char c) { return isalnum((unsigned char)c) || (c && strchr("_/.-", c)); }

/* The word that stands at text + at, as a whole. */
static const struct tool_word *word_at(const char *text, size_t at, const struct tool_word *words) {
    if (at > 0 && is_inside(text[at - 1]))
        return NULL;
    for (; words && words->library; words++) {
        const size_t length = strlen(words->library);
        if (strncmp(text + at, words->library, length) == 0 && !is_inside(text[at + length]))
            return words;
    }
    return NULL;
}

const char *tool_translate(const char *text, const struct tool_word *words) {
    static char out[8192];
    size_t used = 0;
    for (size_t at = 0; text[at] && used + 1 < sizeof out;) {
        const struct tool_word *word = word_at(text, at, words);
        word = word ? word : word_at(text, at, general);
        const int length = snprintf(out + used, sizeof out - used, "%.*s", word ? 4096 : 1,
                                    word ? word->command : text + at);
        used += (size_t)length < sizeof out - used ? (size_t)length : sizeof out - used - 1;
        at += word ? strlen(word->library) : 1;
    }
    out[used] = '\0';
    return out;
}
