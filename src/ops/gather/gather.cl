/* SPDX-License-Identifier: Apache-2.0
 * gather: some rows as float64 or float32; or as they are. */

__kernel void gather_rows(GLOBAL(x), int type, long stride, long d, GLOBAL(index), long count,
                          int wide, GLOBAL(out)) {
    __global const uchar *data = VIEW(const uchar, x);
    __global const long *row = VIEW(const long, index);
    FOR_MINE(i, count * d) {
        const f64 v = load(row_of(data, row[i / d], stride, type), i % d, type);
        if (wide)
            VIEW(f64, out)[i] = v;
        else
            VIEW(float, out)[i] = f64_to_float(v);
    }
}

/* Rows of `bytes` bytes, `step` bytes apart. */
__kernel void gather_bytes(GLOBAL(x), long step, long bytes, GLOBAL(index), long count,
                           GLOBAL(out)) {
    __global const uchar *data = VIEW(const uchar, x);
    __global const long *row = VIEW(const long, index);
    FOR_MINE(i, count * bytes)
        VIEW(uchar, out)[i] = data[row[i / bytes] * step + i % bytes];
}
