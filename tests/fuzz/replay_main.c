/* SPDX-License-Identifier: Apache-2.0
 * Runs a fuzz target on the files of the folders (and the files) that are its arguments, without a
 * fuzzer. A crash, a failed check or a sanitizer's finding ends the program; so does an empty
 * corpus. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (f == NULL || fstat(fileno(f), &st) != 0) {
        perror(path);
        return -1;
    }
    /* As long as the input and no longer, so that a sanitizer sees what reads past it. */
    const size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (data == NULL || fread(data, 1, size, f) != size) {
        perror(path);
        return -1;
    }
    (void)fclose(f);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

static int replay_folder(const char *path) {
    DIR *dir = opendir(path);
    char name[4096];
    int files = 0;
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (replay_file(name) < 0)
            return -1;
        files++;
    }
    if (dir != NULL)
        (void)closedir(dir);
    return files;
}

int main(int argc, char **argv) {
    int files = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        const int is_folder = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
        const int n = is_folder ? replay_folder(argv[i]) : replay_file(argv[i]);
        if (n < 0)
            return 1;
        files += n;
    }
    if (files == 0) {
        fprintf(stderr, "no inputs to replay\n");
        return 1;
    }
    printf("%d inputs replayed\n", files);
    return 0;
}
