/* SPDX-License-Identifier: Apache-2.0
 * Tuning files: which kernel was measured to be the fastest for a kind of call on a machine. Text
 * of format 2, a line each, fields separated by blanks:
 *   # holdfast 0.1.0 tuning 2: op types dimensions flags machine kernel ns
 *   assign x=f32 n=2^17,k=2^8,d=2^6 - NVIDIA_H200 assign_f16_64x128_sm90_short 115936
 * Types, dimensions (powers of two, rounded down) and flags have the names that the op gives them,
 * in its order; - stands for none. A line says all that it needs, so that one of an op that this
 * build lacks, or that has other names today, matches no call. A file of another format or of
 * another version of the library is refused as a whole: its kernels are others. */
#ifndef HF_TUNE_H
#define HF_TUNE_H

#include "base/status.h"
#include "core/op.h"
#include <stdbool.h>

#define HF_TUNE_NAME_BYTES 80 /* of a machine or a kernel */
#define HF_TUNE_WORD_BYTES 16 /* of what an op names */

/* A kind of call. Names are "" after the last. */
struct hf_tune_key {
    char op[32];
    struct hf_tune_type {
        char name[HF_TUNE_WORD_BYTES];
        hf_dtype dtype;
    } type[HF_KEY_TYPES];
    struct hf_tune_dim {
        char name[HF_TUNE_WORD_BYTES];
        int log2;
    } dim[HF_KEY_DIMS];
    char flag[HF_KEY_FLAGS][HF_TUNE_WORD_BYTES]; /* those that are set */
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
    const char *refused; /* why nothing of the file was read; NULL: it was */
    int odd;             /* the first line that is no entry, from 1; 0: none */
};

/* The kind of call a key stands for. */
struct hf_tune_key hf_tune_bucket(const struct hf_op *op, const struct hf_key *key);

/* Factors of two between two kinds of call, over all dimensions; INT_MAX when they have nothing to
 * do with each other: another op, type, flag or name. */
int hf_tune_distance(const struct hf_tune_key *a, const struct hf_tune_key *b);

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
