/* SPDX-License-Identifier: Apache-2.0
 * Reading IDX, the format of MNIST: 0, 0, type, number of sizes, the sizes as big-endian uint32,
 * then the elements, big-endian. */
#include "io/dataset.h"

static bool find_type(unsigned code, enum hf_wire *wire) {
    switch (code) {
    case 0x08:
        *wire = HF_WIRE_U8;
        return true;
    case 0x09:
        *wire = HF_WIRE_I8;
        return true;
    case 0x0B:
        *wire = HF_WIRE_I16;
        return true;
    case 0x0C:
        *wire = HF_WIRE_I32;
        return true;
    case 0x0D:
        *wire = HF_WIRE_F32;
        return true;
    case 0x0E:
        *wire = HF_WIRE_F64;
        return true;
    default:
        return false;
    }
}

enum hf_probe hf_idx_probe(const struct hf_input *in) {
    enum hf_wire wire;
    const unsigned char *p = in->head;
    return in->head_bytes >= 4 && p[0] == 0 && p[1] == 0 && find_type(p[2], &wire) && p[3] > 0
               ? HF_PROBE_LIKELY
               : HF_PROBE_NO;
}

/* Sizes [n], [n, h, w], ... to n rows of h * w. */
static hf_status read_sizes(struct hf_input *in, int dims, struct hf_table *t, hf_error *err) {
    unsigned char sizes[255 * 4];
    HF_TRY(hf_input_read_all_of(in, 4, sizes, (size_t)dims * 4, err));
    bool fits = true;
    t->cols = 1;
    for (int i = 0; i < dims; i++) {
        const unsigned char *p = sizes + 4 * (size_t)i;
        const int64_t size = (int64_t)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
                                       (uint32_t)p[2] << 8 | (uint32_t)p[3]);
        if (size == 0)
            return hf_fail(err, HF_E_DATA,
                           "%s: holds no data: size %d of its IDX header is 0; at least "
                           "one row and one column are needed",
                           in->name, i + 1);
        if (i == 0)
            t->rows = size;
        else
            fits = fits && !__builtin_mul_overflow(t->cols, size, &t->cols);
    }
    t->offset = 4 + 4 * dims;
    int64_t bytes, memory;
    if (!fits || !hf_table_size(t, &bytes, &memory))
        return hf_fail(err, HF_E_DATA,
                       "%s: its IDX header promises more than 2^63 bytes; the file is "
                       "damaged: write it again",
                       in->name);
    return HF_OK;
}

hf_status hf_idx_open(struct hf_input *in, const struct hf_format_limits *limits,
                      struct hf_opened *opened, hf_error *err) {
    (void)limits;
    unsigned char start[4];
    struct hf_table *t = &opened->table;
    HF_TRY(hf_input_read_all_of(in, 0, start, sizeof start, err));
    if (start[0] != 0 || start[1] != 0 || start[3] == 0)
        return hf_fail(err, HF_E_DATA,
                       "%s: is not an IDX file, though its name says so: it begins with "
                       "bytes %02x %02x %02x %02x; write it again, or as .npy",
                       in->name, start[0], start[1], start[2], start[3]);
    if (!find_type(start[2], &t->wire))
        return hf_fail(err, HF_E_DATA,
                       "%s: its IDX header names an unknown element type 0x%02x at byte 2; "
                       "write it again, or as .npy",
                       in->name, start[2]);
    opened->is_table = true;
    t->big_endian = true;
    return read_sizes(in, start[3], t, err);
}
