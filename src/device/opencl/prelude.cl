/* SPDX-License-Identifier: Apache-2.0
 * What every OpenCL source of the library begins with, behind float64.cl or float64_soft.cl. OpenCL
 * C 1.2. Options:
 *   HF_WIDE      the device is a CPU: work-items are few, and each works on vectors
 *   HF_ATOMIC64  the device has 64-bit atomics
 *   HF_FMA       it has a fast fused multiply-add of float */
#if HF_ATOMIC64
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#endif
#pragma OPENCL FP_CONTRACT OFF

#define EUCLIDEAN 0
#define COSINE 1
#define DOT 2

/* A pointer argument: a memory object and the distance from its beginning; VIEW() is the pointer,
 * or NULL. */
#define GLOBAL(name) __global uchar *name##_object, ulong name##_offset
#define VIEW(type, name)                                                                           \
    (name##_offset == ULONG_MAX ? (__global type *)0                                               \
                                : (__global type *)(name##_object + name##_offset))

/* Types of elements, as hf_dtype counts. They are arguments, not options: compiling a kernel takes
 * longer than most calls, and compilers take what depends on them out of the loops. */
#define F32 1
#define F64 2
#define F16 3
#define BF16 4

/* Element i, exactly; load_single() not of float64. */
static float load_single(__global const uchar *p, long i, int type) {
    if (type == F32)
        return ((__global const float *)p)[i];
    if (type == F16)
        return vload_half(i, (__global const half *)p);
    if (type == BF16)
        return as_float((uint)((__global const ushort *)p)[i] << 16);
    return (float)p[i];
}

static f64 load(__global const uchar *p, long i, int type) {
    return type == F64 ? ((__global const f64 *)p)[i] : f64_of(load_single(p, i, type));
}

/* 8 floats. GPUs load four at once only if the compiler knows where they lie. */
static float8 load_floats(__global const float *p) {
#if !HF_WIDE
    if ((ulong)p % 16 == 0)
        return (float8)(((__global const float4 *)p)[0], ((__global const float4 *)p)[1]);
#endif
    return vload8(0, p);
}

/* 8 elements from i on. */
static f64x8 load_8(__global const uchar *p, long i, int type) {
    if (type == F64)
        return f64x8_load((__global const f64 *)p + i);
    if (type == F32)
        return f64x8_of(load_floats((__global const float *)p + i));
    if (type == F16)
        return f64x8_of(vload_half8(0, (__global const half *)p + i));
    if (type == BF16)
        return f64x8_of(as_float8(convert_uint8(vload8(0, (__global const ushort *)p + i)) << 16));
    return f64x8_of(convert_float8(vload8(0, p + i)));
}

/* Row i of a matrix whose rows lie `stride` elements apart. */
static __global const uchar *row_of(__global const uchar *p, long i, long stride, int type) {
    const long size = type == F64 ? 8 : type == F32 ? 4 : type == F16 || type == BF16 ? 2 : 1;
    return p + i * stride * size;
}

/* The numbers from 0 to n - 1 that this work-item takes: a range of them on a CPU, which reads
 * ahead; elsewhere every G-th, so that neighbours read neighbours. */
#if HF_WIDE
#define FOR_MINE(i, n)                                                                             \
    for (long i = (n) * (long)get_global_id(0) / (long)get_global_size(0),                         \
              i##_end = (n) * ((long)get_global_id(0) + 1) / (long)get_global_size(0);             \
         i < i##_end; i++)
#else
#define FOR_MINE(i, n)                                                                             \
    for (long i = (long)get_global_id(0); i < (n); i += (long)get_global_size(0))
#endif

/* Bring what is needed soon into a CPU's cache; p need not be a place in an object. */
#if HF_FETCH
#define FETCH_AHEAD(p) __builtin_prefetch((const void *)(size_t)(p))
#else
#define FETCH_AHEAD(p) (void)0
#endif

/* The sum of v over the work-items of a group, for the first of them. part: one for each. */
static f64 sum_of_group(f64 v, __local f64 *part) {
    const int own = (int)get_local_id(0), size = (int)get_local_size(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    part[own] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 1; own == 0 && i < size; i++)
        v = f64_add(v, part[i]);
    return v;
}

/* Add to a 64-bit sum that others add to. Without 64-bit atomics the halves are added one by one:
 * whoever makes the lower one wrap carries. */
static void add_long(__global long *sum, long v) {
#if HF_ATOMIC64
    (void)atom_add(sum, v);
#else
    __global volatile uint *half_of = (__global volatile uint *)sum;
    const uint low = (uint)(ulong)v;
    const uint before = atomic_add(half_of, low);
    const uint carry = before + low < before;
    const uint high = (uint)((ulong)v >> 32) + carry;
    if (high != 0)
        (void)atomic_add(half_of + 1, high);
#endif
}

/* The limbs of v: base/fixed.h, whose HF_RINT_MAGIC this is. scale: 2^bits. Also of 8 numbers. */
#define MAGIC 0x1.8p52f
#define MAGIC_BITS 0x4338000000000000L

static long2 limbs_of(f64 v, f64 mult, f64 scale) {
    const f64 magic = f64_of(MAGIC), t = f64_mul(v, mult), moved = f64_add(t, magic);
    const f64 left = f64_sub(t, f64_sub(moved, magic));
    const f64 rest = f64_add(f64_mul(left, scale), magic);
    return (long2)(f64_bits(moved) - MAGIC_BITS, f64_bits(rest) - MAGIC_BITS);
}

static void limbs_of_8(f64x8 v, f64x8 mult, f64 scale, long8 limb[2]) {
    const f64x8 magic = f64x8_all(f64_of(MAGIC));
    const f64x8 t = f64x8_mul(v, mult), moved = f64x8_add(t, magic);
    const f64x8 left = f64x8_sub(t, f64x8_sub(moved, magic));
    const f64x8 rest = f64x8_add(f64x8_mul(left, f64x8_all(scale)), magic);
    limb[0] = f64x8_bits(moved) - MAGIC_BITS;
    limb[1] = f64x8_bits(rest) - MAGIC_BITS;
}

/* hf_seed_quantum() */
static ulong quantum(f64 v, f64 weight, f64 unit, f64 limit) {
    const f64 scaled = f64_mul(f64_mul(weight, v), unit), whole = f64_of(0x1p52f);
    if (f64_less(scaled, limit))
        return (ulong)f64_to_long(
            f64_less(scaled, whole) ? f64_sub(f64_add(scaled, whole), whole) : scaled);
    return f64_less(f64_of(0), weight) ? (ulong)f64_to_long(limit) : 0;
}

static int is_zero(f64 v) { return f64_equal(v, f64_of(0)); }

static int is_above_zero(f64 v) { return f64_less(f64_of(0), v); }

/* What the cosine distance makes of dot product and lengths. */
static f64 cosine(f64 dot, f64 norm_x, f64 norm_c) {
    if (is_zero(norm_x) || is_zero(norm_c))
        return f64_of(1);
    return f64_sub(f64_of(1), f64_div(dot, f64_mul(norm_x, norm_c)));
}

/* sum + a * b, both rounded */
static f64 add_product(f64 sum, f64 a, f64 b) { return f64_add(sum, f64_mul(a, b)); }

/* sums: of the distance or product; of cosine's |x|^2 and |c|^2. */
static void add_pair(int metric, f64 x, f64 c, f64 sums[3]) {
    const f64 t = metric == EUCLIDEAN ? f64_sub(x, c) : x;
    sums[0] = add_product(sums[0], t, metric == EUCLIDEAN ? t : c);
    if (metric == COSINE) {
        sums[1] = add_product(sums[1], x, x);
        sums[2] = add_product(sums[2], c, c);
    }
}

/* The reference distance: features in order, one rounding for each operation. Eight are loaded at
 * once, as a work-item waits for little else. */
static f64 reference_distance(int metric, __global const uchar *x, int x_type,
                              __global const uchar *c, int c_type, long d) {
    f64 sums[3] = {f64_of(0), f64_of(0), f64_of(0)}, a[8], b[8];
    long j = 0;
    for (; j + 8 <= d; j += 8) {
        f64x8_store(load_8(x, j, x_type), a);
        f64x8_store(load_8(c, j, c_type), b);
#pragma unroll
        for (int i = 0; i < 8; i++)
            add_pair(metric, a[i], b[i], sums);
    }
    for (; j < d; j++)
        add_pair(metric, load(x, j, x_type), load(c, j, c_type), sums);
    return metric == EUCLIDEAN ? sums[0]
           : metric == DOT     ? f64_neg(sums[0])
                               : cosine(sums[0], f64_sqrt(sums[1]), f64_sqrt(sums[2]));
}

static f64x8 add_term(int metric, f64x8 sum, f64 v, f64x8 c) {
    if (metric != EUCLIDEAN)
        return f64x8_add(sum, f64x8_mul(f64x8_all(v), c));
    const f64x8 t = f64x8_sub(f64x8_all(v), c);
    return f64x8_add(sum, f64x8_mul(t, t));
}

/* Distances of a row to the 8 centroids of a panel [d, 8] (panels.cl), each as the reference has
 * it. norm_x: |x|, norms: those of the centroids; of use with COSINE alone. Four columns are loaded
 * at once, as a work-item that has the only row waits for little else. */
static f64x8 distances8(int metric, __global const uchar *x, int type, f64 norm_x,
                        __global const f64 *panel, __global const f64 *norms, long d) {
    f64x8 sum = f64x8_all(f64_of(0));
    long j = 0;
    for (; j + 4 <= d; j += 4) {
        f64 v[4];
        f64x8 c[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[i] = load(x, j + i, type);
            c[i] = f64x8_load(panel + (j + i) * 8);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum = add_term(metric, sum, v[i], c[i]);
    }
    for (; j < d; j++)
        sum = add_term(metric, sum, load(x, j, type), f64x8_load(panel + j * 8));
    if (metric == EUCLIDEAN)
        return sum;
    if (metric == DOT)
        return f64x8_neg(sum);
    const f64x8 one = f64x8_all(f64_of(1)), norm_c = f64x8_load(norms);
    const f64x8 away =
        f64x8_sub(one, f64x8_div(sum, f64x8_mul(f64x8_all(norm_x), norm_c)));
    return is_zero(norm_x) ? one : f64x8_if_zero(norm_c, f64_of(1), away);
}

/* sqrt of the ordered sum of squares */
static f64 norm_of(__global const uchar *row, int type, long d) {
    f64 sum = f64_of(0);
    long j = 0;
    for (; j + 8 <= d; j += 8) {
        f64 v[8];
        f64x8_store(load_8(row, j, type), v);
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum = add_product(sum, v[i], v[i]);
    }
    for (; j < d; j++) {
        const f64 v = load(row, j, type);
        sum = add_product(sum, v, v);
    }
    return f64_sqrt(sum);
}

/* hf_rng_bits(): Philox4x32-10 */
static ulong random_bits(ulong seed, ulong stream, ulong counter) {
    uint4 c = (uint4)((uint)counter, (uint)(counter >> 32), (uint)stream, (uint)(stream >> 32));
    uint k0 = (uint)seed, k1 = (uint)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const ulong p0 = (ulong)0xD2511F53u * c.x, p1 = (ulong)0xCD9E8D57u * c.z;
        c = (uint4)((uint)(p1 >> 32) ^ c.y ^ k0, (uint)p1, (uint)(p0 >> 32) ^ c.w ^ k1, (uint)p0);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (ulong)c.x | (ulong)c.y << 32;
}

/* Take the next number of those that others take too. */
static long next_number(__global long *count) {
#if HF_ATOMIC64
    return atom_add(count, 1L);
#else
    __global volatile uint *half_of = (__global volatile uint *)count;
    const uint before = atomic_add(half_of, 1u);
    if (before == UINT_MAX)
        (void)atomic_add(half_of + 1, 1u);
    return (long)before | (long)half_of[1] << 32;
#endif
}
