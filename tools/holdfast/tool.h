/* SPDX-License-Identifier: Apache-2.0
 * What the verbs of the command share: exit codes, messages, option values, JSON. */
#ifndef TOOL_H
#define TOOL_H

#include <argp.h>
#include <holdfast/holdfast.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,    /* nothing below says it better */
    EXIT_USAGE = 2,     /* options that are wrong whatever the data are */
    EXIT_INPUT = 3,     /* a file cannot be read or used, or options contradict the data */
    EXIT_RESOURCES = 4, /* memory, disk space, threads, a device */
    EXIT_CORRUPT = 5,   /* a damaged checkpoint, or wrong arithmetic that could not be repaired */
    EXIT_NOT_RUN = 6,   /* a test, or a part of one, did not run: neither passed nor failed */
    EXIT_BUSY = 7,      /* nothing wrong, but other programs kept the cores from being tested hot */
    EXIT_NOT_CONVERGED = 8, /* solve: the best x so far was written */
    EXIT_INTERRUPTED = 130
};

/* What a call was about: the same status means another exit code when opening a context, reading
 * an input, computing, or writing an output. */
enum tool_stage { STAGE_OPEN, STAGE_READ, STAGE_COMPUTE, STAGE_WRITE };

/* The verbs, one for each line of commands.def. */
#define COMMAND(name, summary) int cmd_##name(int argc, char **argv);
#include "commands.def"
#undef COMMAND

/* The checksum of an array in memory for a report; NULL gives null. */
json_t *tool_json_crc(const hf_array *x);

/* holdfast bench portability */
int bench_portability(int argc, char **argv);
/* holdfast bench relax */
int bench_relax(int argc, char **argv);

/* The exit code of a status. os_error is errno as the call left it (0 when not known). */
int tool_exit_code(hf_status status, int os_error, enum tool_stage stage);

/* "holdfast: ..." on standard error. */
void tool_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* What the library calls something, and what the user of the command knows it as. */
struct tool_word {
    const char *library, *command; /* NULL: the end of a list */
};

/* A printable copy of a file name; lives until the next call. */
const char *tool_name_text(const char *name);

/* Report hf_last_error(ctx) or, where that is empty, the status; return the exit code. Set errno to
 * 0 before the call whose status this is. */
int tool_fail(const hf_context *ctx, hf_status status, enum tool_stage stage);

/* The same with words of this call put in place of the library's, such as the name of a file. */
int tool_fail_with(const hf_context *ctx, hf_status status, enum tool_stage stage,
                   const struct tool_word *words);

/* text in the words of the command; words may be NULL. The result lives until the next call. */
const char *tool_translate(const char *text, const struct tool_word *words);

/* Open a data file that may take `memory` bytes (0: the default). With an option named it must be
 * in memory as a whole. Failures are reported; an exit code. */
int tool_open(hf_context *ctx, uint64_t memory, const char *path, const char *option,
              hf_dataset **data);

/* Say so when HF_TUNE_FILE names a file that plans cannot follow: they go on without it. */
void tool_check_tuning(hf_context *ctx);

/* Could `path` (NULL: yes) be written? Reported if not; an exit code. */
int tool_writable(hf_context *ctx, const char *path);

/* Refuse to write where one of `count` inputs (NULL: none) is read from: EXIT_USAGE and a
 * message. */
int tool_spare(const char *output, const char *const *inputs, int count);

/* Standard input can be one of the inputs only: `names` of options or arguments, and what each was
 * given (NULL: nothing). EXIT_USAGE and a message if two of them are "-". */
int tool_one_standard_input(const char *const *names, const char *const *files, int count);

/* Values of options; a malformed one ends the program through argp_error (exit code 2). */
int64_t tool_int(struct argp_state *state, const char *option, const char *text, int64_t least,
                 int64_t most);
uint64_t tool_u64(struct argp_state *state, const char *option, const char *text);
double tool_real(struct argp_state *state, const char *option, const char *text, double least,
                 double most);
uint64_t tool_bytes(struct argp_state *state, const char *option,
                    const char *text); /* 512M, 2GiB */
/* The place of text in a NULL-ended list of names. */
int tool_choice(struct argp_state *state, const char *option, const char *text,
                const char *const *names);

/* The name of a file or folder: not empty. */
const char *tool_path(struct argp_state *state, const char *option, const char *text);

/* The same of a file to write: not "-", since standard output is for summaries; .npy where only
 * that format is written: no ending of a text format. */
const char *tool_out_path(struct argp_state *state, const char *option, const char *text);
const char *tool_npy_out_path(struct argp_state *state, const char *option, const char *text);

/* Help of --device and --memory, the same for every verb. */
#define TOOL_DEVICE_HELP                                                                           \
    "cpu, cuda, cuda:N, opencl, opencl:N or auto (default: the fastest; see 'holdfast info')"
#define TOOL_MEMORY_HELP                                                                           \
    "Most that data may take, and workspace beside them and the results, such as 512M or 2GiB "    \
    "(default: half of what is free); larger files are read in chunks"

/* Parse with the verb's own table; never returns on a usage error. */
void tool_parse(const struct argp *argp, int argc, char **argv, void *input);

/* "1,234,567", "0.12 %", "12.3 MiB" and "1.5 s" into one of a few static buffers. */
const char *tool_percent_text(double percent);
const char *tool_count_text(int64_t n);
const char *tool_things_text(int64_t n, const char *thing); /* "1 row", "1,234 rows" */
const char *tool_bytes_text(uint64_t bytes);
const char *tool_seconds_text(double seconds);

/* JSON has no NaN and no infinity: null stands for them. */
json_t *tool_json_real(double value);
/* A file name need not be UTF-8, JSON must be: odd bytes become question marks. NULL becomes null.
 */
json_t *tool_json_name(const char *name);
json_t *tool_json_counts(const int64_t *counts, int64_t n); /* a list; NULL: out of memory */
/* Print root on standard output with a final newline and drop the reference; an exit code. */
int tool_json_print(json_t *root);

/* For atexit(): a full disk shows when the last of standard output is flushed, also after --help.
 */
void tool_close_stdout(void);

double tool_now(void); /* seconds of the monotonic clock */

/* The most resident memory this process ever had, in bytes; 0 where it cannot be told. */
uint64_t tool_peak_memory(void);

#endif
