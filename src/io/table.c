/* SPDX-License-Identifier: Apache-2.0 */
#include "io/table.h"

#include "base/mem.h"

#include <string.h>

static const struct {
    size_t bytes;
    hf_dtype dtype;
    bool same; /* the element in memory is that in the file, but for the order of its bytes */
    const char *name;
} wires[] = {
    [HF_WIRE_F32] = {4, HF_F32, true, "float32"}, [HF_WIRE_F64] = {8, HF_F64, true, "float64"},
    [HF_WIRE_F16] = {2, HF_F16, true, "float16"}, [HF_WIRE_BF16] = {2, HF_BF16, true, "bfloat16"},
    [HF_WIRE_U8] = {1, HF_U8, true, "uint8"},     [HF_WIRE_BOOL] = {1, HF_U8, false, "bool"},
    [HF_WIRE_I8] = {1, HF_F32, false, "int8"},    [HF_WIRE_I16] = {2, HF_F32, false, "int16"},
    [HF_WIRE_U16] = {2, HF_F32, false, "uint16"}, [HF_WIRE_I32] = {4, HF_F64, false, "int32"},
    [HF_WIRE_U32] = {4, HF_F64, false, "uint32"}, [HF_WIRE_I64] = {8, HF_F64, false, "int64"},
    [HF_WIRE_U64] = {8, HF_F64, false, "uint64"},
};

/* A read in progress. */
struct job {
    const struct hf_table *t;
    struct hf_input *in;
    unsigned char *scratch; /* [scratch_bytes] for elements that must be converted */
    size_t scratch_bytes;
    size_t wire_bytes, memory_bytes; /* of an element */
    bool swap;
    hf_error *err;
};

size_t hf_wire_bytes(enum hf_wire wire) { return wires[wire].bytes; }

hf_dtype hf_wire_dtype(enum hf_wire wire) { return wires[wire].dtype; }

const char *hf_wire_name(enum hf_wire wire) { return wires[wire].name; }

bool hf_table_size(const struct hf_table *t, int64_t *bytes, int64_t *memory) {
    int64_t row, all, in_memory;
    const int64_t wire = (int64_t)wires[t->wire].bytes;
    const int64_t element = (int64_t)hf_dtype_bytes(wires[t->wire].dtype);
    if (t->rows < 0 || t->cols < 0 || __builtin_mul_overflow(t->cols, wire, &row) ||
        __builtin_add_overflow(row, t->prefix, &row) ||
        __builtin_mul_overflow(row, t->rows, &all) || __builtin_add_overflow(all, t->offset, &all))
        return false;
    if (__builtin_mul_overflow(t->cols, element, &row) ||
        __builtin_mul_overflow(row, t->rows, &in_memory))
        return false;
    *bytes = all;
    *memory = in_memory;
    return true;
}

static bool host_is_big_endian(void) {
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 0;
}

static void swap_bytes(void *p, size_t width, int64_t count) {
    unsigned char *c = p;
    for (int64_t i = 0; i < count; i++, c += width)
        for (size_t a = 0, b = width - 1; a < b; a++, b--) {
            const unsigned char t = c[a];
            c[a] = c[b];
            c[b] = t;
        }
}

/* An element of a converted type; false when float64 cannot hold it. */
static bool element_value(const unsigned char *p, enum hf_wire wire, double *v) {
    int8_t i8;
    int16_t i16;
    uint16_t u16;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    switch (wire) {
    case HF_WIRE_BOOL:
        *v = p[0] != 0;
        return true;
    case HF_WIRE_I8:
        memcpy(&i8, p, sizeof i8);
        *v = i8;
        return true;
    case HF_WIRE_I16:
        memcpy(&i16, p, sizeof i16);
        *v = i16;
        return true;
    case HF_WIRE_U16:
        memcpy(&u16, p, sizeof u16);
        *v = u16;
        return true;
    case HF_WIRE_I32:
        memcpy(&i32, p, sizeof i32);
        *v = i32;
        return true;
    case HF_WIRE_U32:
        memcpy(&u32, p, sizeof u32);
        *v = u32;
        return true;
    case HF_WIRE_I64:
        memcpy(&i64, p, sizeof i64);
        *v = (double)i64;
        return *v < 0x1p63 && (int64_t)*v == i64;
    case HF_WIRE_U64:
        memcpy(&u64, p, sizeof u64);
        *v = (double)u64;
        return *v < 0x1p64 && (uint64_t)*v == u64;
    default:
        *v = 0;
        return false;
    }
}

/* count elements from src to dst; the number of the first that has no exact value, or count. */
static int64_t convert(void *dst, const unsigned char *src, enum hf_wire wire, int64_t count) {
    const hf_dtype dtype = wires[wire].dtype;
    const size_t bytes = wires[wire].bytes;
    for (int64_t i = 0; i < count; i++) {
        double v;
        if (!element_value(src + (size_t)i * bytes, wire, &v))
            return i;
        if (dtype == HF_F32)
            ((float *)dst)[i] = (float)v;
        else if (dtype == HF_F64)
            ((double *)dst)[i] = v;
        else
            ((uint8_t *)dst)[i] = (uint8_t)v;
    }
    return count;
}

/* Element `index` counted from (row, col) of the matrix cannot be converted. */
static hf_status fail_inexact(const struct job *j, const unsigned char *p, int64_t row, int64_t col,
                              int64_t index) {
    const int64_t step = j->t->fortran ? 0 : (col + index) / j->t->cols;
    const int64_t r = j->t->fortran ? row + index : row + step;
    const int64_t c = j->t->fortran ? col : (col + index) % j->t->cols;
    uint64_t u64;
    memcpy(&u64, p, sizeof u64);
    const bool negative = j->t->wire == HF_WIRE_I64 && (int64_t)u64 < 0;
    return hf_fail(
        j->err, HF_E_DATA,
        "%s: row %lld, column %lld (counted from 0) holds the %s %s%llu, which no float64 equals; "
        "if rounding is acceptable, save the array with .astype('float64')",
        j->in->name, (long long)r, (long long)c, wires[j->t->wire].name, negative ? "-" : "",
        (unsigned long long)(negative ? 0 - u64 : u64));
}

/* count elements that lie one after the other at `offset`; the first is (row, col). */
static hf_status read_elements(const struct job *j, int64_t offset, int64_t count, void *dst,
                               int64_t row, int64_t col) {
    if (wires[j->t->wire].same) {
        HF_TRY(hf_input_read_all_of(j->in, offset, dst, (size_t)count * j->wire_bytes, j->err));
        if (j->swap)
            swap_bytes(dst, j->wire_bytes, count);
        return HF_OK;
    }
    const int64_t block = (int64_t)(j->scratch_bytes / j->wire_bytes);
    for (int64_t done = 0; done < count; done += block) {
        const int64_t now = count - done < block ? count - done : block;
        HF_TRY(hf_input_read_all_of(j->in, offset + done * (int64_t)j->wire_bytes, j->scratch,
                                    (size_t)now * j->wire_bytes, j->err));
        if (j->swap)
            swap_bytes(j->scratch, j->wire_bytes, now);
        const int64_t good =
            convert((char *)dst + (size_t)done * j->memory_bytes, j->scratch, j->t->wire, now);
        if (good < now)
            return fail_inexact(j, j->scratch + (size_t)good * j->wire_bytes, row, col,
                                done + good);
    }
    return HF_OK;
}

static hf_status check_prefix(const struct job *j, const unsigned char *p, int64_t row) {
    const int64_t dim = (int64_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                                  (uint32_t)p[3] << 24);
    if (dim == j->t->cols)
        return HF_OK;
    const int64_t row_bytes = j->t->prefix + j->t->cols * (int64_t)j->wire_bytes;
    const int64_t at = j->t->offset + row * row_bytes;
    return hf_fail(
        j->err, HF_E_DATA,
        "%s: row %lld (counted from 0, at byte %lld) says it has %lld elements, the first "
        "row has %lld; all rows must have one length: the file is damaged or of another "
        "format",
        j->in->name, (long long)row, (long long)at, (long long)(int32_t)dim, (long long)j->t->cols);
}

/* Rows with prefixes: many at once through the scratch memory, or one by one where they are long.
 */
static hf_status read_prefixed(const struct job *j, int64_t first, int64_t count, char *dst) {
    const struct hf_table *t = j->t;
    const size_t data_bytes = (size_t)t->cols * j->wire_bytes;
    const size_t prefix = (size_t)t->prefix;
    const size_t row_bytes = prefix + data_bytes;
    const int64_t block = (int64_t)(j->scratch_bytes / row_bytes);
    for (int64_t i = 0; i < count && block == 0; i++) {
        const int64_t at = t->offset + (first + i) * (int64_t)row_bytes;
        HF_TRY(hf_input_read_all_of(j->in, at, j->scratch, prefix, j->err));
        HF_TRY(check_prefix(j, j->scratch, first + i));
        HF_TRY(
            read_elements(j, at + t->prefix, t->cols, dst + (size_t)i * data_bytes, first + i, 0));
    }
    for (int64_t done = 0; done < count && block > 0; done += block) {
        const int64_t now = count - done < block ? count - done : block;
        HF_TRY(hf_input_read_all_of(j->in, t->offset + (first + done) * (int64_t)row_bytes,
                                    j->scratch, (size_t)now * row_bytes, j->err));
        for (int64_t i = 0; i < now; i++) {
            const unsigned char *row = j->scratch + (size_t)i * row_bytes;
            HF_TRY(check_prefix(j, row, first + done + i));
            memcpy(dst + (size_t)(done + i) * data_bytes, row + prefix, data_bytes);
        }
        if (j->swap)
            swap_bytes(dst + (size_t)done * data_bytes, j->wire_bytes, now * t->cols);
    }
    return HF_OK;
}

/* Put count elements into column 0 of dst, whose rows are row_bytes long. */
static void scatter(char *dst, size_t row_bytes, const char *column, size_t bytes, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        memcpy(dst + (size_t)i * row_bytes, column + (size_t)i * bytes, bytes);
}

/* A block of rows is a piece of every column: read the pieces one by one and scatter them. */
static hf_status read_fortran(const struct job *all, int64_t first, int64_t count, char *dst) {
    const struct hf_table *t = all->t;
    struct job j = *all;
    j.scratch_bytes = all->scratch_bytes / 2;
    char *column = (char *)all->scratch + j.scratch_bytes;
    const int64_t block = (int64_t)(j.scratch_bytes / j.memory_bytes);
    const size_t row_bytes = (size_t)t->cols * j.memory_bytes;
    for (int64_t done = 0; done < count; done += block) {
        const int64_t now = count - done < block ? count - done : block;
        char *rows = dst + (size_t)done * row_bytes;
        for (int64_t c = 0; c < t->cols; c++) {
            const int64_t at = (c * t->rows + first + done) * (int64_t)j.wire_bytes;
            HF_TRY(read_elements(&j, t->offset + at, now, column, first + done, c));
            scatter(rows + (size_t)c * j.memory_bytes, row_bytes, column, j.memory_bytes, now);
        }
    }
    return HF_OK;
}

hf_status hf_table_read(const struct hf_table_reader *reader, int64_t first, int64_t count,
                        void *dst, hf_error *err) {
    const struct hf_table *t = reader->table;
    const struct job j = {.t = t,
                          .in = reader->in,
                          .scratch = reader->scratch,
                          .scratch_bytes = HF_TABLE_SCRATCH,
                          .wire_bytes = wires[t->wire].bytes,
                          .memory_bytes = hf_dtype_bytes(wires[t->wire].dtype),
                          .swap = t->big_endian != host_is_big_endian() && wires[t->wire].bytes > 1,
                          .err = err};
    if (t->fortran)
        return read_fortran(&j, first, count, dst);
    if (t->prefix > 0)
        return read_prefixed(&j, first, count, dst);
    return read_elements(&j, t->offset + first * t->cols * (int64_t)j.wire_bytes, count * t->cols,
                         dst, first, 0);
}
