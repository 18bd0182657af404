/* SPDX-License-Identifier: Apache-2.0
 * The file that lets a fit go on after it was stopped. Numbers are little-endian, but the
 * centroids are in the byte order of the machine:
 *   0    8  magic "HFKMCKPT"
 *   8    4  version, 4
 *   12   4  bytes of a centroid element, 4 or 8
 *   16   8  bytes of the file
 *   24      HF_CHECKPOINT_FIELDS in their order, 8 bytes each: int64, or float64 where marked
 *   then    current [k, d]; previous [k, d] if iteration > 0; best [k, d] if best_restart >= 0;
 *           history [iteration] and best history [best_iterations] of 9 numbers each;
 *           relocated [relocated] of (row, cluster); start [start_entries]: struct hf_init_log of
 *           a restart whose first centroids are being chosen
 *   last 4  CRC-32C of all before
 * A resumed fit gives the labels, centroids, inertia, iteration counts and the history (inertia,
 * shift, changed, empty) of one that was never stopped, bit for bit; times and the counters of
 * skipped work, which begin anew with the bounds, may differ. With HF_FAST that is so where the
 * kernel is the same. */
#ifndef HF_CHECKPOINT_H
#define HF_CHECKPOINT_H

#include "base/status.h"
#include <limits.h>
#include <stdint.h>

struct hf_fit;
struct hf_restart;

#define HF_CHECKPOINT_MAGIC "HFKMCKPT"
#define HF_CHECKPOINT_VERSION 4
/* opts.checkpoint_every of a fit that writes only when it is cancelled: longer than any fit. */
#define HF_CHECKPOINT_NEVER INT_MAX

/* FIELD(member, type, text): what must be the same on resume has a text for the message, the rest
 * NULL. */
#define HF_CHECKPOINT_FIELDS(FIELD)                                                                \
    FIELD(byte_order, int64_t, "byte order of the machine")                                        \
    FIELD(n_all, int64_t, "number of rows")                                                        \
    FIELD(n, int64_t, "number of rows that take part")                                             \
    FIELD(d, int64_t, "number of columns")                                                         \
    FIELD(dtype, int64_t, "element type of the data")                                              \
    FIELD(k, int64_t, "number of clusters")                                                        \
    FIELD(metric, int64_t, "metric")                                                               \
    FIELD(init, int64_t, "initialisation")                                                         \
    FIELD(n_init, int64_t, "number of restarts")                                                   \
    FIELD(seed, int64_t, "seed")                                                                   \
    FIELD(tol, double, "tolerance")                                                                \
    FIELD(empty, int64_t, "policy for empty clusters")                                             \
    FIELD(precision, int64_t, "precision")                                                         \
    FIELD(store, int64_t, "storage of the centroids")                                              \
    FIELD(nan, int64_t, "policy for NaN")                                                          \
    FIELD(data_crc, int64_t, "data (range, mean or variance of a column)")                         \
    FIELD(rows_crc, int64_t, "data (rows, or their order)")                                        \
    FIELD(weights_crc, int64_t, "weights")                                                         \
    FIELD(given_crc, int64_t, "initial centroids")                                                 \
    FIELD(restart, int64_t, NULL)                                                                  \
    FIELD(iteration, int64_t, NULL)                                                                \
    FIELD(best_restart, int64_t, NULL)                                                             \
    FIELD(best_iterations, int64_t, NULL)                                                          \
    FIELD(best_stop, int64_t, NULL)                                                                \
    FIELD(best_inertia, double, NULL)                                                              \
    FIELD(relocated, int64_t, NULL)                                                                \
    FIELD(start_entries, int64_t, NULL)                                                            \
    FIELD(start_unit, double, NULL)

/* A checkpoint in memory. The pointers go into the memory it was parsed from, are NULL where the
 * part is missing, and need not be aligned: copy from them. */
struct hf_checkpoint {
#define FIELD(member, type, text) type member;
    HF_CHECKPOINT_FIELDS(FIELD)
#undef FIELD
    int64_t element_bytes;
    const unsigned char *current, *previous, *best; /* [k, d] */
    const unsigned char *history, *best_history;    /* [iteration], [best_iterations] */
    const unsigned char *relocations;               /* [relocated] */
    const unsigned char *start;                     /* [start_entries] */
};

/* Check the form of `bytes` bytes, whatever they are, and find the parts. Data and options are
 * compared by hf_checkpoint_resume(). HF_E_DATA when it is not a checkpoint or one of another
 * version, HF_E_CORRUPT when it is cut or damaged; out is untouched then. */
hf_status hf_checkpoint_parse(const void *data, size_t bytes, struct hf_checkpoint *out,
                              hf_error *err);

/* Look at some rows from all over the data, so that a checkpoint knows them and their order: before
 * the centroids are chosen, whose memory is used. Does nothing when no file is written or read. */
hf_status hf_checkpoint_mark(struct hf_fit *fit);

/* Write opts.checkpoint, whole or not at all: the state after run->iteration iterations, or, when
 * that is 0, restart run->number as far as fit->saves.log has its start. best->number < 0: no
 * restart is finished. Does nothing when no file is wanted. That it cannot be written is no failure
 * of the fit: it is counted, and opts.warn is called the first time. */
void hf_checkpoint_write(struct hf_fit *fit, const struct hf_restart *run,
                         const struct hf_restart *best);

/* Read opts.resume into the fit, the restart to go on with and the best of the finished ones.
 * HF_E_CORRUPT  damaged
 * HF_E_ARG      of other data or options; the message names the first that differs */
hf_status hf_checkpoint_resume(struct hf_fit *fit, struct hf_restart *run, struct hf_restart *best);

#endif
