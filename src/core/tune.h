/* SPDX-License-Identifier: Apache-2.0
 * Tuning files: which kernel row was measured to be the fastest for a kind of call on a machine.
 * Text, one entry a line after a comment: op dtype log2(n) log2(k) log2(d) fingerprint kernel
 * nanoseconds assign f32 17 8 6 Intel(R)_Xeon(R)_Processor:amx assign_f32_14x2_avx512 18700000
 * Logarithms are rounded down. Lines that name an unknown op or dtype, or that cannot be read, are
 * ignored, and so are entries of other machines and of rows that cannot serve a call. */
#ifndef HF_TUNE_H
#define HF_TUNE_H

#include "base/status.h"
#include "core/op.h"
#include <stdbool.h>

#define HF_TUNE_NAME_BYTES 80

struct hf_tune_key {
    int op;
    hf_dtype dtype;
    int log2n, log2k, log2d;
};

struct hf_tune_entry {
    struct hf_tune_key key;
    char fingerprint[HF_TUNE_NAME_BYTES];
    char kernel[HF_TUNE_NAME_BYTES];
    double ns;
};

struct hf_tune {
    struct hf_tune_entry *entry; /* [count] */
    int count;
    bool foreign; /* all of the file is another version's */
    int odd;      /* the first line that is no entry, from 1; 0: none */
};

/* The kind of call a key stands for. */
struct hf_tune_key hf_tune_bucket(int op, const struct hf_key *key);

/* This machine: CPU name without blanks, a colon, the best instruction set in use. */
void hf_tune_fingerprint(char text[HF_TUNE_NAME_BYTES]);

/* $HF_TUNE_FILE, else $XDG_CONFIG_HOME/holdfast/cpu.tune, else ~/.config/holdfast/cpu.tune. False
 * when there is no such path or it is too long. */
bool hf_tune_path(char *path, size_t bytes);

/* Read a file; one that is not there gives no entries. Free with hf_tune_clear(). */
hf_status hf_tune_load(const char *path, struct hf_tune *tune, hf_error *err);
void hf_tune_clear(struct hf_tune *tune);

/* Write a file, whole or not at all. */
hf_status hf_tune_save(const char *path, const struct hf_tune *tune, hf_error *err);

#endif
