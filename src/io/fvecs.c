/* SPDX-License-Identifier: Apache-2.0
 * Reading .fvecs and .bvecs (corpus-texmex.irisa.fr): each row is an int32, the number of elements
 * that follow, then the elements, float32 or bytes, all little-endian. */
#include "io/dataset.h"

static int64_t dim_at(const unsigned char *p) {
    const uint32_t dim =
        (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return (int32_t)dim;
}

static int64_t first_dim(const struct hf_input *in) {
    return in->head_bytes < 4 ? 0 : dim_at(in->head);
}

static enum hf_probe probe(const struct hf_input *in, int64_t element_bytes) {
    const int64_t dim = first_dim(in);
    if (dim < 1)
        return HF_PROBE_NO;
    const bool fits = in->gz == NULL && in->size % (4 + dim * element_bytes) == 0;
    return fits ? HF_PROBE_LIKELY : HF_PROBE_MAYBE;
}

enum hf_probe hf_fvecs_probe(const struct hf_input *in) { return probe(in, 4); }

enum hf_probe hf_bvecs_probe(const struct hf_input *in) { return probe(in, 1); }

/* The file is no whole number of rows as long as the first: the second tells whether the rows
 * differ or the last is cut off. */
static hf_status fail_size(struct hf_input *in, int64_t dim, int64_t row_bytes, hf_error *err) {
    unsigned char second[4];
    size_t got = 0;
    HF_TRY(hf_input_read(in, row_bytes, second, sizeof second, &got, err));
    if (got == sizeof second && dim_at(second) != dim)
        return hf_fail(err, HF_E_DATA,
                       "%s: row 1 (counted from 0, at byte %lld) says it has %lld elements, the "
                       "first row has %lld; all rows must have one length: write it again",
                       in->name, (long long)row_bytes, (long long)dim_at(second), (long long)dim);
    return hf_fail(
        err, HF_E_DATA,
        "%s: row %lld (counted from 0) is cut off: %lld of the %lld bytes of a row of %lld "
        "elements are there; write or copy the file again",
        in->name, (long long)(in->size / row_bytes), (long long)(in->size % row_bytes),
        (long long)row_bytes, (long long)dim);
}

static hf_status open_vecs(struct hf_input *in, enum hf_wire wire, const char *format,
                           struct hf_opened *opened, hf_error *err) {
    if (in->gz != NULL)
        return hf_fail(err, HF_E_DATA,
                       "%s: a compressed .%s file does not tell how many rows it has; "
                       "unpack it with gunzip first",
                       in->name, format);
    const int64_t dim = first_dim(in);
    if (dim < 1)
        return hf_fail(err, HF_E_DATA,
                       "%s: is not a .%s file: its first row says it has %lld elements; "
                       "write it again, or as .npy",
                       in->name, format, (long long)dim);
    const int64_t row_bytes = 4 + dim * (int64_t)hf_wire_bytes(wire);
    const int64_t rows = in->size / row_bytes;
    if (in->size % row_bytes != 0)
        return fail_size(in, dim, row_bytes, err);
    opened->is_table = true;
    opened->table = (struct hf_table){.rows = rows, .cols = dim, .prefix = 4, .wire = wire};
    return HF_OK;
}

hf_status hf_fvecs_open(struct hf_input *in, const struct hf_format_limits *limits,
                        struct hf_opened *opened, hf_error *err) {
    (void)limits;
    return open_vecs(in, HF_WIRE_F32, "fvecs", opened, err);
}

hf_status hf_bvecs_open(struct hf_input *in, const struct hf_format_limits *limits,
                        struct hf_opened *opened, hf_error *err) {
    (void)limits;
    return open_vecs(in, HF_WIRE_U8, "bvecs", opened, err);
}
