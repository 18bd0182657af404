/* SPDX-License-Identifier: Apache-2.0
 * What every OpenCL source of the library begins with. OpenCL C 1.2 with float64. Options:
 *   HF_WIDE      the device is a CPU: work-items are few, and each works on vectors
 *   HF_ATOMIC64  the device has 64-bit atomics
 *   HF_FMA       it has a fast fused multiply-add of float */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
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

static double load(__global const uchar *p, long i, int type) {
    return type == F64 ? ((__global const double *)p)[i] : (double)load_single(p, i, type);
}

/* 8 elements from i on. */
static double8 load_8(__global const uchar *p, long i, int type) {
    if (type == F64)
        return vload8(0, (__global const double *)p + i);
    if (type == F32)
        return convert_double8(vload8(0, (__global const float *)p + i));
    if (type == F16)
        return convert_double8(vload_half8(0, (__global const half *)p + i));
    if (type == BF16)
        return convert_double8(
            as_float8(convert_uint8(vload8(0, (__global const ushort *)p + i)) << 16));
    return convert_double8(vload8(0, p + i));
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

/* The sum of v over the work-items of a group, for the first of them. part: one for each. */
static double sum_of_group(double v, __local double *part) {
    const int own = (int)get_local_id(0), size = (int)get_local_size(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    part[own] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 1; own == 0 && i < size; i++)
        v += part[i];
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
#define MAGIC 6755399441055744.0
#define MAGIC_BITS 0x4338000000000000L

static long2 limbs_of(double v, double mult, double scale) {
    const double t = v * mult, moved = t + MAGIC;
    const double rest = (t - (moved - MAGIC)) * scale + MAGIC;
    return (long2)(as_long(moved) - MAGIC_BITS, as_long(rest) - MAGIC_BITS);
}

static void limbs_of_8(double8 v, double8 mult, double scale, long8 limb[2]) {
    const double8 t = v * mult, moved = t + MAGIC;
    const double8 rest = (t - (moved - MAGIC)) * scale + MAGIC;
    limb[0] = as_long8(moved) - MAGIC_BITS;
    limb[1] = as_long8(rest) - MAGIC_BITS;
}

/* hf_seed_quantum() */
static ulong quantum(double v, double weight, double unit, double limit) {
    const double scaled = weight * v * unit;
    if (scaled < limit)
        return (ulong)(long)(scaled < 0x1p52 ? (scaled + 0x1p52) - 0x1p52 : scaled);
    return weight > 0 ? (ulong)limit : 0;
}

/* What the cosine distance makes of dot product and lengths. */
static double cosine(double dot, double norm_x, double norm_c) {
    if (norm_x == 0 || norm_c == 0)
        return 1;
    return 1 - dot / (norm_x * norm_c);
}

/* The reference distance: features in order, one rounding for each operation. */
static double reference_distance(int metric, __global const uchar *x, int x_type,
                                 __global const uchar *c, int c_type, long d) {
    double sum = 0, xx = 0, cc = 0;
    if (metric == EUCLIDEAN) {
        for (long j = 0; j < d; j++) {
            const double t = load(x, j, x_type) - load(c, j, c_type);
            sum += t * t;
        }
        return sum;
    }
    for (long j = 0; j < d; j++) {
        const double a = load(x, j, x_type), b = load(c, j, c_type);
        sum += a * b;
        xx += a * a;
        cc += b * b;
    }
    return metric == DOT ? -sum : cosine(sum, sqrt(xx), sqrt(cc));
}

static double8 add_term(int metric, double8 sum, double v, double8 c) {
    if (metric != EUCLIDEAN)
        return sum + v * c;
    const double8 t = v - c;
    return sum + t * t;
}

/* Distances of a row to the 8 centroids of a panel [d, 8] (panels.cl), each as the reference has
 * it. norm_x: |x|, norms: those of the centroids; of use with COSINE alone. Four columns are loaded
 * at once, as a work-item that has the only row waits for little else. */
static double8 distances8(int metric, __global const uchar *x, int type, double norm_x,
                          __global const double *panel, __global const double *norms, long d) {
    double8 sum = 0;
    long j = 0;
    for (; j + 4 <= d; j += 4) {
        double v[4];
        double8 c[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[i] = load(x, j + i, type);
            c[i] = vload8(j + i, panel);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum = add_term(metric, sum, v[i], c[i]);
    }
    for (; j < d; j++)
        sum = add_term(metric, sum, load(x, j, type), vload8(j, panel));
    if (metric == EUCLIDEAN)
        return sum;
    if (metric == DOT)
        return -sum;
    const double8 norm_c = vload8(0, norms);
    const double8 away = 1 - sum / (norm_x * norm_c);
    return norm_x == 0 ? (double8)1 : select(away, (double8)1, norm_c == 0);
}

/* sqrt of the ordered sum of squares */
static double norm_of(__global const uchar *row, int type, long d) {
    double sum = 0;
    long j = 0;
    for (; j + 8 <= d; j += 8) {
        double v[8];
        vstore8(load_8(row, j, type), 0, v);
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum += v[i] * v[i];
    }
    for (; j < d; j++) {
        const double v = load(row, j, type);
        sum += v * v;
    }
    return sqrt(sum);
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
