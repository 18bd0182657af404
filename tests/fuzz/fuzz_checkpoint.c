/* SPDX-License-Identifier: Apache-2.0
 * Checkpoints. Length and checksum are put right first, or hardly any mutation would get past them;
 * then the parser alone, and a fit of fixed data that resumes from the file. */
#include "fuzz_io.h"

#include "algo/kmeans/checkpoint.h"
#include "base/file.h"

#define ROWS 24
#define COLS 2
#define LENGTH_AT 16

/* A parser that finds parts outside the memory makes the sanitizer speak here. */
static void read_part(const unsigned char *part, int64_t bytes) {
    static volatile unsigned char sum;
    for (int64_t i = 0; part != NULL && i < bytes; i++)
        sum = (unsigned char)(sum + part[i]);
}

static void parse(const uint8_t *data, size_t size) {
    struct hf_checkpoint c;
    hf_error err = {""};
    const hf_status status = hf_checkpoint_parse(data, size, &c, &err);
    require(status == HF_OK ||
                ((status == HF_E_CORRUPT || status == HF_E_DATA) && err.text[0] != '\0'),
            "parse status");
    if (status != HF_OK)
        return;
    const int64_t centers = c.k * c.d * c.element_bytes;
    read_part(c.current, centers);
    read_part(c.previous, centers);
    read_part(c.best, centers);
    read_part(c.history, c.iteration * 72);
    read_part(c.best_history, c.best_iterations * 72);
    read_part(c.relocations, c.relocated * 16);
}

static void resume(const uint8_t *data, size_t size) {
    float x[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++)
        x[i] = (float)(i * i % 37);
    require(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size, "no file");
    const hf_array a = hf_array_view(x, HF_F32, ROWS, COLS);
    const hf_kmeans_opts opts = {.k = 3, .seed = 1, .n_init = 2, .max_iter = 20, .resume = path};
    hf_kmeans_result fit;
    const hf_status status = hf_kmeans_fit(ctx, &a, &opts, &fit);
    require(status == HF_OK || status == HF_E_CORRUPT || status == HF_E_DATA || status == HF_E_ARG,
            "resume status");
    require(status == HF_OK || hf_last_error(ctx)[0] != '\0', "no words");
    if (status != HF_OK)
        return;
    for (int i = 0; i < ROWS; i++)
        require(fit.labels[i] >= 0 && fit.labels[i] < 3, "labels");
    hf_kmeans_result_clear(&fit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_begin("fuzz.ckpt");
    parse(data, size);
    if (size < LENGTH_AT + 8 + 4)
        return 0;
    uint8_t *copy = malloc(size);
    require(copy != NULL, "no memory");
    memcpy(copy, data, size);
    for (int b = 0; b < 8; b++)
        copy[LENGTH_AT + b] = (uint8_t)((uint64_t)size >> (8 * b));
    const uint32_t crc = hf_crc32c(0, copy, size - 4);
    for (int b = 0; b < 4; b++)
        copy[size - 4 + (size_t)b] = (uint8_t)(crc >> (8 * b));
    parse(copy, size);
    resume(copy, size);
    free(copy);
    return 0;
}
