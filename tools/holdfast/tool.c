/* SPDX-License-Identifier: Apache-2.0
 * Exit codes, messages, texts of numbers, JSON, clock and memory. */
#include "tool.h"
#include <ctype.h>
#include <errno.h>
#include <holdfast/dev.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool is_resource(int os_error) {
    switch (os_error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: /* a file size limit */
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return true;
    default:
        return false;
    }
}

int tool_exit_code(hf_status status, int os_error, enum tool_stage stage) {
    switch (status) {
    case HF_OK:
        return EXIT_DONE;
    case HF_E_ARG:
        return stage == STAGE_OPEN ? EXIT_USAGE : EXIT_INPUT;
    case HF_E_DATA:
        return EXIT_INPUT;
    case HF_E_IO:
        if (is_resource(os_error))
            return EXIT_RESOURCES;
        return stage == STAGE_READ ? EXIT_INPUT : EXIT_FAILED;
    case HF_E_NOMEM:
    case HF_E_UNSUPPORTED:
        return EXIT_RESOURCES;
    case HF_E_CORRUPT:
        return EXIT_CORRUPT;
    case HF_E_CANCELLED:
        return EXIT_INTERRUPTED;
    case HF_E_DEVICE:
    case HF_E_INTERNAL:
    case HF_E_BUSY:
        return EXIT_FAILED;
    }
    return EXIT_FAILED;
}

/* ? for control characters: a file name must not write to the terminal. */
static char *printable(char *text) {
    for (char *p = text; *p; p++)
        if (iscntrl((unsigned char)*p))
            *p = '?';
    return text;
}

void tool_error(const char *fmt, ...) {
    char text[8192];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "holdfast: %s\n", printable(text));
}

const char *tool_name_text(const char *name) {
    static char text[4200];
    snprintf(text, sizeof text, "%s", name);
    return printable(text);
}

int tool_fail_with(const hf_context *ctx, hf_status status, enum tool_stage stage,
                   const struct tool_word *words) {
    const int os_error = errno;
    const char *text = hf_last_error(ctx);
    tool_error("%s", tool_translate(text && text[0] ? text : hf_status_text(status), words));
    return tool_exit_code(status, os_error, stage);
}

int tool_fail(const hf_context *ctx, hf_status status, enum tool_stage stage) {
    return tool_fail_with(ctx, status, stage, NULL);
}

void tool_check_tuning(hf_context *ctx) {
    if (hf_dev_tune_check(ctx) != HF_OK)
        tool_error("warning: %s: kernels are chosen without it; 'holdfast tune' writes one",
                   hf_last_error(ctx));
}

/* A few buffers in turn, so that one printf can use several texts. */
static char *next_buffer(void) {
    enum { COUNT = 16, BYTES = 48 };
    static char buffers[COUNT][BYTES];
    static int next;
    next = (next + 1) % COUNT;
    return buffers[next];
}

const char *tool_count_text(int64_t n) {
    char digits[24];
    char *text = next_buffer();
    char *out = text;
    const int length = snprintf(digits, sizeof digits, "%" PRId64, n);
    const int first = n < 0;
    for (int i = 0; i < length; i++) {
        if (i > first && (length - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = '\0';
    return text;
}

const char *tool_things_text(int64_t n, const char *thing) {
    char *text = next_buffer();
    snprintf(text, 48, "%s %s%s", tool_count_text(n), thing, n == 1 ? "" : "s");
    return text;
}

const char *tool_bytes_text(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    char *text = next_buffer();
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 6) {
        value /= 1024;
        unit++;
    }
    snprintf(text, 48, value < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

const char *tool_percent_text(double percent) {
    char *text = next_buffer();
    snprintf(text, 48, percent < 9.95 ? "%.2g %%" : "%.0f %%", percent);
    return text;
}

const char *tool_seconds_text(double seconds) {
    char *text = next_buffer();
    if (!(seconds < 1e9))
        snprintf(text, 48, "?");
    else if (seconds < 0.9995)
        snprintf(text, 48, "%.*f ms",
                 seconds < 0.00995  ? 2
                 : seconds < 0.0995 ? 1
                                    : 0,
                 seconds * 1e3);
    else if (seconds < 99.5)
        snprintf(text, 48, "%.*f s", seconds < 9.95 ? 2 : 1, seconds);
    else if (seconds < 7200)
        snprintf(text, 48, "%d min %02d s", (int)seconds / 60, (int)seconds % 60);
    else
        snprintf(text, 48, "%d h %02d min", (int)(seconds / 3600), (int)(seconds / 60) % 60);
    return text;
}

json_t *tool_json_crc(const hf_array *x) {
    char digits[16];
    if (!x)
        return json_null();
    snprintf(digits, sizeof digits, "%08x", (unsigned)hf_dev_array_crc(x));
    return json_string(digits);
}

json_t *tool_json_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *tool_json_name(const char *name) {
    json_t *exact = name ? json_string(name) : json_null();
    char *copy = exact || !name ? NULL : strdup(name);
    if (!copy)
        return exact;
    for (char *p = copy; *p; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    json_t *text = json_string(copy);
    free(copy);
    return text;
}

json_t *tool_json_counts(const int64_t *counts, int64_t n) {
    json_t *list = json_array();
    for (int64_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, json_integer((json_int_t)counts[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* errno of a write that failed inside stdio, which has forgotten it: a closed stream still tells,
 * and so does a pipe without a reader; else it was the disk. */
static int lost_error(void) {
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)))
        return EPIPE;
    return write(STDOUT_FILENO, "", 0) == 0 ? ENOSPC : errno;
}

/* Says once that standard output is lost, and with which exit code the program should end. */
static int flush_stdout(void) {
    static int os_error;
    if (os_error == 0) {
        const bool failed_before = ferror(stdout) != 0;
        errno = 0;
        if (fflush(stdout) == 0 && !failed_before)
            return EXIT_DONE;
        os_error = failed_before || errno == 0 ? lost_error() : errno;
        tool_error("standard output could not be written: %s", strerror(os_error));
    }
    return tool_exit_code(HF_E_IO, os_error, STAGE_WRITE);
}

void tool_close_stdout(void) {
    const int code = flush_stdout();
    if (code != EXIT_DONE)
        _exit(code);
}

int tool_json_print(json_t *root) {
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!text) {
        tool_error("out of memory while writing the report");
        return EXIT_RESOURCES;
    }
    puts(text);
    free(text);
    return flush_stdout();
}

double tool_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Not getrusage(): its maximum survives exec(), so it would count the program that started us. */
uint64_t tool_peak_memory(void) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    uint64_t kib = 0;
    if (!status)
        return 0;
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %" SCNu64, &kib) == 1)
            break;
    fclose(status);
    return kib * 1024;
}
