/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "core/context.h"
#include "io/dataset.h"
#include "io/sparse/sparse.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static hf_status wrong_kind(const struct hf_input *in, hf_error *err) {
    const bool npy = in->head_bytes >= 6 && memcmp(in->head, "\x93NUMPY", 6) == 0;
    return hf_fail(err, HF_E_DATA,
                   "%s: %s; a sparse matrix is read from Matrix Market (scipy.io.mmwrite) or .npz "
                   "(scipy.sparse.save_npz)",
                   in->name,
                   npy ? "is a dense array" : "does not begin with %%MatrixMarket and is no .npz");
}

/* Is it one, of whose members hf_input_open() would want one alone? O_NONBLOCK: as there. */
static bool is_archive(const char *path) {
    unsigned char head[4];
    const int fd = strcmp(path, "-") == 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool read = fd >= 0 && pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head;
    if (fd >= 0)
        (void)close(fd);
    return read && hf_zip_probe(head, sizeof head);
}

static void set_name(const char *path, char *name, size_t room) {
    (void)snprintf(name, room, "%s", path);
    for (char *c = name; *c != '\0'; c++)
        if ((unsigned char)*c < 32 || *c == 127)
            *c = '?';
}

static hf_status read_text(const char *path, struct hf_sparse_job *job, hf_sparse *m) {
    const char *name = job->name;
    struct hf_input in;
    HF_TRY(hf_input_open(&in, path, job->limit, job->err));
    job->name = in.name; /* cut where it is long, or "standard input" */
    const hf_status status =
        hf_mtx_probe(in.head, in.head_bytes) ? hf_mtx_read(&in, job, m) : wrong_kind(&in, job->err);
    hf_input_close(&in);
    job->name = name;
    return status;
}

hf_status hf_sparse_open(hf_context *ctx, const char *path, uint64_t memory_bytes,
                         hf_sparse **matrix) {
    if (matrix != NULL)
        *matrix = NULL;
    if (ctx == NULL)
        return HF_E_ARG;
    if (matrix == NULL || path == NULL || path[0] == '\0')
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "hf_sparse_open: a file name and a place for the matrix are needed");
    char name[256];
    set_name(path, name, sizeof name);
    struct hf_sparse_job job = {.name = name,
                                .limit = memory_bytes > 0 ? memory_bytes : hf_io_limit(ctx),
                                .pool = hf_ctx_pool(ctx),
                                .err = &ctx->error};
    hf_sparse *m = hf_alloc_zero(sizeof *m);
    if (m == NULL)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory to open %.200s", name);
    const hf_status status =
        is_archive(path) ? hf_npz_sparse_read(ctx, path, &job, m) : read_text(path, &job, m);
    if (status != HF_OK) {
        hf_free(m);
        return status;
    }
    *matrix = m;
    return HF_OK;
}

void hf_sparse_close(hf_sparse *matrix) {
    if (matrix == NULL)
        return;
    hf_free((void *)(uintptr_t)matrix->csr.row_start);
    hf_free((void *)(uintptr_t)matrix->csr.column);
    hf_free((void *)(uintptr_t)matrix->csr.value);
    hf_free(matrix);
}

const hf_csr *hf_sparse_csr(const hf_sparse *matrix) {
    return matrix != NULL ? &matrix->csr : NULL;
}

const hf_sparse_info *hf_sparse_about(const hf_sparse *matrix) {
    return matrix != NULL ? &matrix->info : NULL;
}

hf_status hf_sparse_dense(const hf_sparse *matrix, const hf_array *x) {
    if (matrix == NULL || x == NULL || x->data == NULL || x->dtype != HF_F64 ||
        x->rows != matrix->csr.rows || x->cols != matrix->csr.cols)
        return HF_E_ARG;
    const hf_csr *a = &matrix->csr;
    const double *value = a->value;
    const int64_t stride = x->row_stride != 0 ? x->row_stride : x->cols;
    for (int64_t i = 0; i < a->rows; i++) {
        double *row = (double *)x->data + i * stride;
        memset(row, 0, (size_t)x->cols * sizeof *row);
        for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++)
            row[a->column[e]] += value[e];
    }
    return HF_OK;
}
