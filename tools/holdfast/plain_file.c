/* SPDX-License-Identifier: Apache-2.0 */
#include "plain_file.h"
#include "tool.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4200
#define PART ".part"

static int failed(const char *name, const char *ending) {
    const int os_error = errno;
    tool_error("%s%s cannot be written: %s", tool_name_text(name), ending, strerror(os_error));
    return tool_exit_code(HF_E_IO, os_error, STAGE_WRITE);
}

FILE *plain_file_open(const char *name, const char *ending) {
    char part[PATH_BYTES];
    snprintf(part, sizeof part, "%s%s" PART, name, ending);
    FILE *file = fopen(part, "w");
    if (!file)
        (void)failed(name, ending);
    return file;
}

int plain_file_close(FILE *file, const char *name, const char *ending) {
    char path[PATH_BYTES], part[PATH_BYTES];
    snprintf(path, sizeof path, "%s%s", name, ending);
    snprintf(part, sizeof part, "%s%s" PART, name, ending);
    const bool bad = ferror(file) != 0;
    if (fclose(file) == 0 && !bad && rename(part, path) == 0)
        return EXIT_DONE;
    const int code = failed(name, ending);
    (void)unlink(part);
    return code;
}

int plain_file_check(const char *name, const char *ending) {
    char part[PATH_BYTES];
    FILE *file = plain_file_open(name, ending);
    if (!file)
        return EXIT_FAILED;
    (void)fclose(file);
    snprintf(part, sizeof part, "%s%s" PART, name, ending);
    (void)unlink(part);
    return EXIT_DONE;
}
