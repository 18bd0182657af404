/* SPDX-License-Identifier: Apache-2.0
 * Sparse matrices: Matrix Market and .npz, told by content. The first byte says whether the rest is
 * compressed first; an archive is one as it stands. What is read must be rows of ascending columns,
 * within bounds, finite, and the same through three threads as through one. */
#include "fuzz_io.h"

#include <math.h>
#include <zlib.h>

static hf_context *three;

static hf_sparse *open_one(hf_context *c) {
    hf_sparse *m = NULL;
    const hf_status status = hf_sparse_open(c, path, 0, &m);
    require((status == HF_OK) == (m != NULL), "status and matrix disagree");
    require(status == HF_OK || status == HF_E_DATA || status == HF_E_NOMEM, "unexpected status");
    require(status == HF_OK || strncmp(hf_last_error(c), folder, strlen(folder)) == 0,
            "the message does not begin with the file");
    return m;
}

static void check_rows(const hf_sparse *m) {
    const hf_csr *a = hf_sparse_csr(m);
    require(a->rows > 0 && a->cols > 0 && a->dtype == HF_F64 && a->row_start[0] == 0, "sizes");
    for (int64_t i = 0; i < a->rows; i++) {
        require(a->row_start[i] <= a->row_start[i + 1], "rows overlap");
        for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++) {
            require(a->column[e] >= 0 && a->column[e] < a->cols, "a column is out of range");
            require(e == a->row_start[i] || a->column[e - 1] < a->column[e], "columns descend");
        }
    }
    require(hf_sparse_about(m)->elements == a->row_start[a->rows], "the number of elements");
}

static void compare(const hf_sparse *one, const hf_sparse *other) {
    const hf_csr *a = hf_sparse_csr(one);
    const hf_csr *b = hf_sparse_csr(other);
    const size_t n = (size_t)a->row_start[a->rows];
    require(a->rows == b->rows && a->cols == b->cols, "shapes differ");
    require(memcmp(a->row_start, b->row_start, ((size_t)a->rows + 1) * 8) == 0, "rows differ");
    require(memcmp(a->column, b->column, n * 4) == 0, "columns differ");
    require(memcmp(a->value, b->value, n * 8) == 0, "values differ");
}

static void put_file(const uint8_t *data, size_t size, int packed) {
    const int copy = dup(file);
    require(ftruncate(file, 0) == 0 && copy >= 0 && lseek(copy, 0, SEEK_SET) == 0, "no file");
    if (!packed) {
        require(pwrite(file, data, size, 0) == (ssize_t)size && close(copy) == 0, "no file");
        return;
    }
    gzFile gz = gzdopen(copy, "wb1");
    require(gz != NULL && gzwrite(gz, data, (unsigned)size) == (int)size && gzclose(gz) == Z_OK,
            "no gzip");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    fuzz_begin("fuzz.mtx");
    const hf_context_opts opts = {.device = "cpu", .threads = 3, .memory_bytes = MEMORY};
    require(three != NULL || hf_context_create(&three, &opts) == HF_OK, "no context");
    put_file(data + 1, size - 1, data[0] & 1);
    hf_sparse *one = open_one(ctx);
    hf_sparse *other = open_one(three);
    require((one == NULL) == (other == NULL), "threads disagree");
    if (one != NULL) {
        check_rows(one);
        compare(one, other);
    }
    hf_sparse_close(other);
    hf_sparse_close(one);
    return 0;
}
