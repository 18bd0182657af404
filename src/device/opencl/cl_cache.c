/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/cl_cache.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC "HFCL0001"
#define MOST_BYTES ((uint64_t)256 << 20)

struct head {
    char magic[8];
    uint64_t key_bytes, binary_bytes;
    uint32_t crc; /* of key and binary */
    uint32_t unused;
};

/* FNV-1a. Two keys with one hash are told apart by the key in the file. */
uint64_t hf_cl_cache_hash(const char *key) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *key != '\0'; key++)
        h = (h ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
    return h;
}

/* Make the folder and those it lies in. */
static bool make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const bool there = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!there)
            return false;
    }
    return true;
}

bool hf_cl_cache_path(const char *key, char path[HF_CL_PATH]) {
    const char *own = getenv("HF_OPENCL_CACHE"), *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    const unsigned long long hash = hf_cl_cache_hash(key);
    int len = -1;
    if (own != NULL)
        len = *own == '/' ? snprintf(path, HF_CL_PATH, "%s/%016llx.bin", own, hash) : -1;
    else if (xdg != NULL && *xdg == '/')
        len = snprintf(path, HF_CL_PATH, "%s/holdfast/opencl/%016llx.bin", xdg, hash);
    else if (home != NULL && *home == '/')
        len = snprintf(path, HF_CL_PATH, "%s/.cache/holdfast/opencl/%016llx.bin", home, hash);
    return len > 0 && len < HF_CL_PATH - 16 && make_folders(path);
}

static uint32_t crc_of(const char *key, const void *binary, size_t bytes) {
    return hf_crc32c(hf_crc32c(0, key, strlen(key)), binary, bytes);
}

unsigned char *hf_cl_cache_load(const char *path, const char *key, size_t *bytes) {
    void *data = NULL;
    size_t size = 0;
    struct head head;
    struct stat is;
    if (stat(path, &is) != 0 || !S_ISREG(is.st_mode)) /* opening a pipe would wait for a writer */
        return NULL;
    if (hf_file_read_all(path, MOST_BYTES, &data, &size, NULL) != HF_OK)
        return NULL;
    const size_t key_bytes = strlen(key);
    bool good = size >= sizeof head + key_bytes;
    if (good) {
        memcpy(&head, data, sizeof head);
        good = memcmp(head.magic, MAGIC, sizeof head.magic) == 0 && head.key_bytes == key_bytes &&
               head.binary_bytes == size - sizeof head - key_bytes && head.binary_bytes > 0;
    }
    const char *kept = (const char *)data + sizeof head;
    if (!good || memcmp(kept, key, key_bytes) != 0 ||
        crc_of(key, kept + key_bytes, size - sizeof head - key_bytes) != head.crc) {
        hf_free(data);
        return NULL;
    }
    *bytes = (size_t)head.binary_bytes;
    memmove(data, kept + key_bytes, *bytes);
    return data;
}

void hf_cl_cache_store(const char *path, const char *key, const void *binary, size_t bytes) {
    hf_file *file = NULL;
    const struct head head = {.magic = MAGIC,
                              .key_bytes = strlen(key),
                              .binary_bytes = bytes,
                              .crc = crc_of(key, binary, bytes)};
    if (hf_file_create(&file, path, NULL) != HF_OK)
        return;
    if (hf_file_write(file, &head, sizeof head, NULL) == HF_OK &&
        hf_file_write(file, key, strlen(key), NULL) == HF_OK &&
        hf_file_write(file, binary, bytes, NULL) == HF_OK)
        (void)hf_file_commit(file, NULL);
    else
        hf_file_abort(file);
}
