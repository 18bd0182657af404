/* SPDX-License-Identifier: Apache-2.0
 * holdfast inject WHAT: campaigns of faults. */
#include "inject/inject.h"
#include "tool.h"

#include <string.h>

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} campaigns[] = {
    {"kmeans", "fits of k-means, with and without protection", inject_kmeans},
    {"relax", "solutions of a sparse linear system", inject_relax},
    {"gemm", "products with execution signatures over their operands", inject_gemm},
};

enum { CAMPAIGNS = sizeof campaigns / sizeof *campaigns };

static void print_help(FILE *out) {
    fputs("Usage: holdfast inject WHAT [OPTION...]\n"
          "Inject faults and count which of them are noticed.\n\nWHAT is one of:\n",
          out);
    for (int i = 0; i < CAMPAIGNS; i++)
        fprintf(out, "  %-10s %s\n", campaigns[i].name, campaigns[i].summary);
    fputs("\n  -?, --help                 Print this list; 'holdfast inject WHAT --help' lists the "
          "options\n",
          out);
}

int cmd_inject(int argc, char **argv) {
    if (argc < 2) {
        tool_error("inject: say into what; 'holdfast inject --help' lists what there is");
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--usage") == 0) {
        puts("Usage: holdfast inject [-?] WHAT [OPTION...]");
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    for (int i = 0; i < CAMPAIGNS; i++)
        if (strcmp(argv[1], campaigns[i].name) == 0) {
            static char name[64];
            snprintf(name, sizeof name, "%s %s", argv[0], argv[1]);
            argv[1] = name;
            return campaigns[i].run(argc - 1, argv + 1);
        }
    tool_error("inject: there is no '%s'; 'holdfast inject --help' lists what there is", argv[1]);
    return EXIT_USAGE;
}
