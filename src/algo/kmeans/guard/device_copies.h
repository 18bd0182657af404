/* SPDX-License-Identifier: Apache-2.0
 * A call of op lloyd whose problem is there several times: copies of the rows and of all else,
 * which the device works on side by side. Each copy gives the same bits, or something is wrong. */
#ifndef HF_DEVICE_COPIES_H
#define HF_DEVICE_COPIES_H

#include "algo/kmeans/fit.h"
#include "ops/lloyd/lloyd.h"

struct hf_copies {
    struct hf_fit *fit;
    const struct hf_lloyd_args *asked; /* the problem */
    int count;
    struct hf_lloyd_args args;   /* of all copies */
    struct hf_sums sums;         /* likewise */
    struct hf_lloyd_state state; /* as it came in */
    void *host, *device;         /* memory; device NULL: that of somebody else */
    uint64_t *sign;              /* [count] of the labels */
    uint64_t *rows;              /* NULL, or: of the first copy of the rows before the call */
    bool given;                  /* the labels of copy 0 are where those of the problem belong */
    int32_t *unit;               /* [count] see hf_lloyd_args */
};

/* The arguments alone, as the planner sees them: rows and labels are somewhere else. */
void hf_copies_describe(struct hf_copies *c, struct hf_fit *fit, const struct hf_lloyd_args *asked,
                        int count);

/* Bytes of rows and labels on the device, and copies of the rows into such memory. */
size_t hf_copies_device_bytes(const struct hf_lloyd_args *asked, int count);
hf_status hf_copies_take_rows(hf_context *ctx, const struct hf_lloyd_args *asked, int count,
                              void *device);

/* device: memory with copies of the rows, which stays the caller's; NULL: own memory. HF_E_NOMEM */
hf_status hf_copies_open(struct hf_copies *c, struct hf_fit *fit, const struct hf_lloyd_args *asked,
                         int count, void *device);
void hf_copies_close(struct hf_copies *c);

/* Was a call of op lloyd, whose state began with calls 0, made once? HF_E_CORRUPT */
hf_status hf_copies_once(hf_context *ctx, const struct hf_lloyd_state *state);

/* Make the call, from what `asked` has. */
hf_status hf_copies_run(struct hf_copies *c);

/* Do two copies agree in everything? */
bool hf_copies_agree(const struct hf_copies *c, int i, int j);

/* The problem's labels as the call found them, if it gives nothing. */
hf_status hf_copies_take_back(const struct hf_copies *c);

/* What copy i came to becomes what the call gives. */
hf_status hf_copies_give(const struct hf_copies *c, int i);

#endif
