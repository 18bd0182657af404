/* SPDX-License-Identifier: Apache-2.0
 * Rows that lie in host memory, copied to the device because kernels looked at them over the bus:
 * they want many of them again. When all places are taken the oldest copies make room. */
#ifndef HF_ROW_CACHE_H
#define HF_ROW_CACHE_H

#include "base/mem.h"
#include "device/cuda/cuda.h"

struct hf_row_cache {
    char *data;     /* [room, row_bytes] NULL: no copies are kept */
    int32_t *where; /* [n] place of a row, -1: it has none */
    int32_t *owner; /* [room] row of a place, -1: none */
    uint32_t *soon; /* [words] marks of rows that are not wanted yet, but soon: bit i of word w is
                       row 32 w + i */
    uint32_t *now;  /* [words] and of those that a fetch is to copy */
    int32_t *turn;  /* [HF_ROW_TURNS] */
    int64_t room;   /* fewer than 2^31 */
    int64_t words;  /* 2 for each 64 rows */
    int64_t row_bytes;
    cudaStream_t side;        /* on which rows are copied ahead; NULL: none are */
    cudaEvent_t begin, ended; /* of such a copy */
    int sms;                  /* multiprocessors that it takes from everything else */
};

/* What is in turn. */
enum {
    HF_ROW_PLACE, /* given away next */
    HF_ROW_GIVEN, /* places, in this fetch */
    HF_ROW_HASTE, /* of a copy ahead: see enum haste */
    HF_ROW_TURNS
};

/* Lay it out; room 0: no copies are kept. */
void hf_row_cache_carve(hf_carve *carve, int64_t n, int64_t room, int64_t row_bytes,
                        struct hf_row_cache *cache);

/* Nothing is there yet. */
hf_status hf_row_cache_clear(struct hf_cuda *cuda, const struct hf_row_cache *cache, int64_t n);

/* Rows to copy. */
struct hf_row_list {
    const int32_t *row;     /* of entry i: row[i], all different */
    const int32_t *entry;   /* [*count] the entries, NULL: 0, 1, 2, ... */
    const int32_t *choices; /* not those with choices[i] == 1, NULL: all */
    const int32_t *count;
    int64_t most; /* none if they are more */
};

/* Copy the rows of a list as far as there is room. x: locked memory, `step` bytes from row to row.
 * Nothing is done where no copies are kept, and with *stop != 0 (NULL: 0). */
hf_status hf_row_cache_fetch(struct hf_cuda *cuda, const struct hf_row_cache *cache, const void *x,
                             int64_t step, const struct hf_row_list *list, const int32_t *stop);

/* Rows noted as wanted soon can be copied while the stream does something else, on a stream of
 * their own. close: it ends there; harmless where nothing was opened. */
hf_status hf_row_cache_open(struct hf_cuda *cuda, struct hf_row_cache *cache);
void hf_row_cache_close(struct hf_row_cache *cache);

/* Begin with that behind all that the stream has been given. It ends when the stream gets to
 * hf_row_cache_join(), done or not (rows that it did not look for stay noted); but where *moved >
 * patient it is waited for. Other arguments as above. Nothing is done without a side stream. */
hf_status hf_row_cache_ahead(struct hf_cuda *cuda, const struct hf_row_cache *cache, const void *x,
                             int64_t step, const int32_t *moved, int64_t patient,
                             const int32_t *stop);

/* Likewise, up to `most` rows that are marked in marks[cache->words], 8-byte aligned: they will be
 * wanted when the stream has joined, which waits for them. A copy ahead ends before. */
hf_status hf_row_cache_early(struct hf_cuda *cuda, const struct hf_row_cache *cache, const void *x,
                             int64_t step, const uint32_t *marks, int64_t most,
                             const int32_t *stop);

/* To be called before anything else looks at the copies again. */
hf_status hf_row_cache_join(struct hf_cuda *cuda, const struct hf_row_cache *cache);

#ifdef __CUDACC__
/* One thread: this row is likely to be wanted. */
static __device__ __forceinline__ void hf_row_note(const struct hf_row_cache &cache, int32_t row) {
    if (cache.side != NULL && cache.where[row] < 0)
        atomicOr(cache.soon + row / 32, 1u << row % 32);
}

/* Where a kernel reads a row that lies at x. */
static __device__ __forceinline__ const char *hf_row_cached(const struct hf_row_cache &cache,
                                                            const char *x, int64_t row) {
    if (cache.data == NULL || cache.where[row] < 0)
        return x;
    return cache.data + cache.where[row] * cache.row_bytes;
}
#endif

#endif
