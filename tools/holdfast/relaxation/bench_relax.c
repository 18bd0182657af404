/* SPDX-License-Identifier: Apache-2.0 */
#include "relaxation/relax_study.h"
#include "plain_file.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum key { KEY_RUNS = 256, KEY_ROUNDS, KEY_MATRICES, KEY_ONLY, KEY_DEVICES };

static const struct argp_option options[] = {
    {"device", 'd', "DEVICE", 0, "cpu (default) or cuda", 0},
    {"devices", KEY_DEVICES, "NAMES", 0,
     "Of Figure 11, one more at a time, such as cuda:0,cuda:1; default: up to four GPUs or groups "
     "of threads",
     0},
    {"matrices", KEY_MATRICES, "DIR", 0,
     "Folder of Chem97ZtZ_rebuilt.mtx.gz and s1rmt3m1.mtx.gz, which no rule makes", 0},
    {"only", KEY_ONLY, "LIST", 0,
     "Of table2,table3,table4,table5,table6,figure6,figure7,figure9,figure10,figure11", 0},
    {"output", 'o', "NAME", 0, "Write NAME.tsv and plots, NAME-*.svg (default: relax)", 0},
    {"rounds", KEY_ROUNDS, "R", 0, "Rounds of what is timed; medians count (3)", 0},
    {"runs", KEY_RUNS, "N", 0, "Runs of Tables 2 and 3 (1000)", 0},
    {"threads", 't', "T", 0, "Threads of the CPU; default: one for each usable core", 0},
    {0},
};

static const char *const parts[] = {"table2",   "table3",   "table4",  "table5",
                                    "table6",   "figure6",  "figure7", "figure9",
                                    "figure10", "figure11", NULL};

/* Each word must be a part. */
static const char *check_parts(struct argp_state *state, const char *list) {
    char word[32];
    for (const char *at = list; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)(length < 31 ? length : 31), at);
        (void)tool_choice(state, "--only", word, parts);
        at += length + (at[length] == ',');
    }
    return list;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct relax_study *s = state->input;
    switch (key) {
    case 'd':
        s->device = arg;
        return 0;
    case 'o':
        s->output = tool_path(state, "-o", arg);
        return 0;
    case 't':
        s->threads = (int)tool_int(state, "-t", arg, 1, 4096);
        return 0;
    case KEY_DEVICES:
        s->devices = arg;
        return 0;
    case KEY_MATRICES:
        s->matrices = tool_path(state, "--matrices", arg);
        return 0;
    case KEY_ONLY:
        s->only = check_parts(state, arg);
        return 0;
    case KEY_ROUNDS:
        s->rounds = (int)tool_int(state, "--rounds", arg, 1, 31);
        return 0;
    case KEY_RUNS:
        s->runs = tool_int(state, "--runs", arg, 1, 1000000);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Make Tables 2 to 6 and Figures 6, 7, 9, 10 and 11 of the paper on block-asynchronous "
    "relaxation (Anzt, Tomov, Dongarra, Heuveline, JPDC 73, 2013) on this machine, beside the "
    "paper's numbers.\v"
    "b is 1, x begins at 0. Tables 2 and 3: relative residual of async-(5), blocks of 128 that "
    "never wait, over many runs. Table 4: seconds of async-(k) on fv3. Table 5: seconds of an "
    "iteration. Table 6 and Figure 10: iterations to 1e-12 when a quarter of the blocks is frozen "
    "from iteration 10 on. Figures 6 and 7: convergence; 9: over time; 11: seconds to 1e-10 on "
    "several devices, by each way of exchange.",
    NULL,
    NULL,
    NULL};

bool relax_wanted(const struct relax_study *s, const char *table) {
    const char *at = s->only;
    const size_t length = strlen(table);
    while (at && (strncmp(at, table, length) != 0 || (at[length] != ',' && at[length] != '\0'))) {
        at = strchr(at, ',');
        at += at != NULL;
    }
    return s->only == NULL || at != NULL;
}

int relax_note(struct relax_study *s, const struct relax_number *number) {
    if (s->numbers == s->room) {
        const int64_t room = 2 * s->room + 1024;
        struct relax_number *more = realloc(s->number, (size_t)room * sizeof *more);
        if (!more)
            return tool_fail(NULL, HF_E_NOMEM, STAGE_COMPUTE);
        s->number = more;
        s->room = room;
    }
    s->number[s->numbers++] = *number;
    if (number->table[0] == 'F')
        return EXIT_DONE;
    printf("%s\t%s\t%s\t%g\t%.4g", number->table, number->matrix, number->series, number->at,
           number->ours);
    if (!isnan(number->paper))
        printf("\tpaper %.4g", number->paper);
    putchar('\n');
    fflush(stdout);
    return EXIT_DONE;
}

static int write_numbers(const struct relax_study *s) {
    FILE *out = plain_file_open(s->output, ".tsv");
    if (!out)
        return EXIT_FAILED;
    fprintf(out, "table\tmatrix\tseries\tat\tours\tpaper\n");
    for (int64_t i = 0; i < s->numbers; i++) {
        const struct relax_number *n = &s->number[i];
        fprintf(out, "%s\t%s\t%s\t%.9g\t%.9g\t", n->table, n->matrix, n->series, n->at, n->ours);
        if (!isnan(n->paper))
            fprintf(out, "%.9g", n->paper);
        fputc('\n', out);
    }
    return plain_file_close(out, s->output, ".tsv");
}

static int run(struct relax_study *s) {
    int code = relax_open(s);
    if (code == EXIT_DONE)
        code = relax_tables(s);
    if (code == EXIT_DONE)
        code = relax_figures(s);
    if (code == EXIT_DONE)
        code = write_numbers(s);
    if (code == EXIT_DONE)
        code = relax_plot(s);
    if (code == EXIT_DONE)
        printf("written: %s.tsv and plots of the figures\n", tool_name_text(s->output));
    return code;
}

int bench_relax(int argc, char **argv) {
    static struct relax_study s = {.output = "relax", .device = "cpu", .rounds = 3, .runs = 1000};
    tool_parse(&argp, argc, argv, &s);
    int code = plain_file_check(s.output, ".tsv"); /* before minutes are spent */
    if (code == EXIT_DONE)
        code = run(&s);
    relax_close(&s);
    return code;
}
