/* SPDX-License-Identifier: Apache-2.0
 * Reading .npy, formats 1.0 to 3.0 (NumPy enhancement proposal 1 and numpy.lib.format). */
#include "io/dataset.h"

#include "base/mem.h"
#include "io/npy_header.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "\x93NUMPY"
#define MAGIC_BYTES 6
#define HEADER_MAX ((int64_t)1 << 20) /* a plain array needs about 100 bytes */

/* A file that ends inside the signature is one that was cut off: no text begins with its byte. */
enum hf_probe hf_npy_probe(const struct hf_input *in) {
    const size_t bytes = in->head_bytes < MAGIC_BYTES ? in->head_bytes : MAGIC_BYTES;
    return memcmp(in->head, MAGIC, bytes) == 0 ? HF_PROBE_SURE : HF_PROBE_NO;
}

static const struct {
    const char *descr; /* without the byte order */
    enum hf_wire wire;
} types[] = {
    {"f4", HF_WIRE_F32},        {"f8", HF_WIRE_F64}, {"f2", HF_WIRE_F16},  {"V2", HF_WIRE_BF16},
    {"bfloat16", HF_WIRE_BF16}, {"u1", HF_WIRE_U8},  {"b1", HF_WIRE_BOOL}, {"i1", HF_WIRE_I8},
    {"i2", HF_WIRE_I16},        {"u2", HF_WIRE_U16}, {"i4", HF_WIRE_I32},  {"u4", HF_WIRE_U32},
    {"i8", HF_WIRE_I64},        {"u8", HF_WIRE_U64},
};

static const char *type_kind(const char *descr) {
    switch (descr[0] == '<' || descr[0] == '>' || descr[0] == '|' || descr[0] == '=' ? descr[1]
                                                                                     : descr[0]) {
    case '[':
        return "records of several fields; numpy.lib.recfunctions.structured_to_unstructured "
               "makes a plain array of them";
    case 'O':
        return "Python objects, which are never loaded; save numbers with .astype('float32')";
    case 'U':
    case 'S':
    case 'a':
        return "text; save numbers with .astype('float32')";
    case 'c':
        return "complex numbers; save the real and imaginary parts as columns";
    case 'M':
    case 'm':
        return "dates or times; save them as numbers with .astype('float64')";
    default:
        return "elements of a kind that is not read; save the array with .astype('float32')";
    }
}

static hf_status set_type(struct hf_table *t, const char *descr, const char *name, hf_error *err) {
    const char *rest = descr;
    const uint16_t one = 1;
    unsigned char low;
    memcpy(&low, &one, 1);
    t->big_endian = descr[0] == '>' || (low == 0 && descr[0] != '<');
    if (descr[0] != '\0' && strchr("<>|=", descr[0]) != NULL)
        rest++;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(rest, types[i].descr) == 0) {
            t->wire = types[i].wire;
            return HF_OK;
        }
    }
    return hf_fail(err, HF_E_DATA, "%s: the dtype '%s' holds %s", name,
                   descr[0] == '[' ? "[...]" : descr, type_kind(descr));
}

/* "(3, 4)"; cut with dots when long. */
static void shape_text(const struct hf_npy_header *h, char *text, size_t room) {
    size_t used = (size_t)snprintf(text, room, "(");
    for (int i = 0; i < h->dims && used + 32 < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)h->shape[i]);
    (void)snprintf(text + used, room - used, used + 32 < room ? "%s)" : "%s...)",
                   h->dims == 1 ? "," : "");
}

/* [n] is a column, [n, a, b] has rows of a * b. */
static hf_status set_shape(struct hf_table *t, const struct hf_npy_header *h, const char *name,
                           hf_error *err) {
    char shape[160];
    shape_text(h, shape, sizeof shape);
    if (h->dims == 0)
        return hf_fail(err, HF_E_DATA,
                       "%s: holds a single number (shape ()), not rows; save a matrix "
                       "[rows, columns]",
                       name);
    t->rows = h->shape[0];
    t->cols = 1;
    bool fits = true;
    bool none = t->rows == 0;
    int wide = 0; /* dimensions that a row is made of */
    for (int i = 1; i < h->dims; i++) {
        none = none || h->shape[i] == 0;
        wide += h->shape[i] > 1;
        fits = fits && !__builtin_mul_overflow(t->cols, h->shape[i], &t->cols);
    }
    if (none)
        return hf_fail(err, HF_E_DATA,
                       "%s: holds no data: its shape is %s; at least one row and one "
                       "column are needed",
                       name, shape);
    /* A single row or column lies the same way in both orders, a row of several sizes does not. */
    t->fortran = h->fortran && fits && t->rows > 1 && t->cols > 1;
    if (h->fortran && wide > 1)
        return hf_fail(err, HF_E_DATA,
                       "%s: is in Fortran order with %d dimensions; save it with "
                       "numpy.ascontiguousarray",
                       name, h->dims);
    int64_t bytes, memory;
    if (!fits || !hf_table_size(t, &bytes, &memory))
        return hf_fail(err, HF_E_DATA,
                       "%s: its header promises more than 2^63 bytes: shape %s; the "
                       "header is damaged: save the array again",
                       name, shape);
    return HF_OK;
}

static hf_status read_header(struct hf_input *in, struct hf_npy_header *h, int64_t *data,
                             hf_error *err) {
    unsigned char fixed[12];
    HF_TRY(hf_input_read_all_of(in, 0, fixed, 10, err));
    if (memcmp(fixed, MAGIC, MAGIC_BYTES) != 0)
        return hf_fail(err, HF_E_DATA,
                       "%s: is not a .npy file, though its name says so; save the array "
                       "with numpy.save",
                       in->name);
    const int major = fixed[6];
    if (major < 1 || major > 3)
        return hf_fail(err, HF_E_DATA,
                       "%s: .npy format %d.%d is not known (1.0 to 3.0 are); save the "
                       "array again with numpy.save",
                       in->name, major, fixed[7]);
    int64_t start = 10;
    int64_t length = fixed[8] | fixed[9] << 8;
    if (major > 1) {
        HF_TRY(hf_input_read_all_of(in, 10, fixed + 10, 2, err));
        start = 12;
        length |= (int64_t)fixed[10] << 16 | (int64_t)fixed[11] << 24;
    }
    if (length > HEADER_MAX)
        return hf_fail(err, HF_E_DATA,
                       "%s: a .npy header of %lld bytes is not that of an array; save the "
                       "array again with numpy.save",
                       in->name, (long long)length);
    *data = start + length;
    char *text = hf_alloc((size_t)length);
    if (text == NULL)
        return hf_fail(err, HF_E_NOMEM, "%s: no memory for its header", in->name);
    hf_status status = hf_input_read_all_of(in, start, text, (size_t)length, err);
    if (status == HF_OK)
        status = hf_npy_parse(h, text, (size_t)length, in->name, start, err);
    hf_free(text);
    return status;
}

hf_status hf_npy_open(struct hf_input *in, const struct hf_format_limits *limits,
                      struct hf_opened *opened, hf_error *err) {
    (void)limits;
    struct hf_npy_header header;
    struct hf_table *t = &opened->table;
    opened->is_table = true;
    memset(&header, 0, sizeof header);
    HF_TRY(read_header(in, &header, &t->offset, err));
    HF_TRY(set_type(t, header.descr, in->name, err));
    return set_shape(t, &header, in->name, err);
}
