/* SPDX-License-Identifier: Apache-2.0
 * Elements of a sparse matrix on their way from a file to compressed rows. */
#ifndef HF_IO_SPARSE_H
#define HF_IO_SPARSE_H

#include "base/parallel.h"
#include "io/input.h"
#include <holdfast/sparse.h>

#define HF_SPARSE_MAX_SIZE (INT32_MAX - 1) /* rows and columns */

/* What an element (i, j) of the file also says of (j, i). */
enum hf_mirror { HF_MIRROR_NONE, HF_MIRROR_SAME, HF_MIRROR_NEGATED };

/* Elements in the order of the file. Indices are checked by whoever puts them here. */
struct hf_triplets {
    int64_t rows, cols;
    enum hf_mirror mirror;
    int64_t count, room;
    int32_t *row, *col; /* [room], from hf_alloc */
    double *value;
};

/* Memory and threads of a reader. */
struct hf_sparse_job {
    const char *name; /* of the file, for messages */
    uint64_t limit;   /* bytes that all of it may take */
    uint64_t held;    /* bytes of it that buffers of the reader take */
    hf_pool *pool;    /* may be NULL */
    hf_error *err;
};

struct hf_sparse {
    hf_csr csr;
    hf_sparse_info info;
};

/* Room for `room` elements; t->rows, cols and mirror are set. HF_E_NOMEM when these and the rows
 * that will be made of them take more than the limit. hf_triplets_free() in any case. */
hf_status hf_triplets_alloc(struct hf_triplets *t, int64_t room, const struct hf_sparse_job *job);
void hf_triplets_free(struct hf_triplets *t);

/* Compressed rows of all elements, which are freed. */
hf_status hf_triplets_to_csr(struct hf_triplets *t, const struct hf_sparse_job *job,
                             struct hf_sparse *out);

/* Do these first bytes begin a Matrix Market file? */
bool hf_mtx_probe(const unsigned char *head, size_t bytes);

/* The banner and the sizes of a Matrix Market file. */
struct hf_mtx_head {
    bool coordinate, pattern, integer;
    enum hf_mirror mirror;
    const char *symmetry; /* as said to the user */
    int64_t rows, cols;
    int64_t elements; /* that the file promises */
};

struct hf_lines;

/* Read up to and with the line of sizes. The locale is "C". */
hf_status hf_mtx_read_head(struct hf_lines *lines, struct hf_mtx_head *head, hf_error *err);

/* Whole files. */
hf_status hf_mtx_read(struct hf_input *in, struct hf_sparse_job *job, struct hf_sparse *out);
hf_status hf_npz_sparse_read(hf_context *ctx, const char *path, struct hf_sparse_job *job,
                             struct hf_sparse *out);

#endif
