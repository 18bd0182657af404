/* SPDX-License-Identifier: Apache-2.0
 * Products by the units that all types have: a thread sums the chains of a few rows and columns of
 * a tile, products in order, each block of 256 from 0, so that the bits are those of the CPU's
 * kernels. Two stages of a few products of the tile's lines lie in shared memory; while one is
 * multiplied the next is on its way through registers, where it is converted. The sums of the
 * blocks so far wait in shared memory, or two blocks of threads would not fit a multiprocessor. */
#ifndef HF_GEMM_SIMT_CUH
#define HF_GEMM_SIMT_CUH

#include "ops/gemm/cuda/gemm_sign.cuh"

/* What is multiplied: units of one product, or of four int8. */
template <hf_dtype T> struct simt_type {
    typedef float unit;
    typedef typename hf_element<T>::type element;
    static constexpr int PRODUCTS = 1, V = 4;
};
template <> struct simt_type<HF_F64> {
    typedef double unit;
    typedef double element;
    static constexpr int PRODUCTS = 1, V = 2;
};
template <> struct simt_type<HF_I8> {
    typedef int unit;
    typedef int8_t element;
    static constexpr int PRODUCTS = 4, V = 4;
};

/* V is the numbers of 16 bytes. A thread has two times V rows and columns. */
template <hf_dtype T_> struct simt_shape {
    static constexpr hf_dtype T = T_;
    typedef typename simt_type<T>::unit unit;
    typedef typename simt_type<T>::element element;
    static constexpr int V = simt_type<T>::V, PRODUCTS = simt_type<T>::PRODUCTS;
    static constexpr int TILE = 32 * V;    /* rows, and columns */
    static constexpr int DEPTH = 8;        /* units of a stage */
    static constexpr int PITCH = TILE + V; /* of a unit's line in a stage */
    static constexpr int WORDS = (int)sizeof(unit) / 4;
    static constexpr int SIDE = DEPTH * PITCH;                     /* units of a stage of A or B */
    static constexpr int BLOCK = HF_GEMM_BLOCK / PRODUCTS / DEPTH; /* stages of a block */
    static constexpr int BLOCKS = T == HF_F64 ? 0 : GEMM_THREADS / 32 * GEMM_BLOCK_BYTES;
    static constexpr int STAGED = 2 * 2 * SIDE * (int)sizeof(unit);
    static constexpr int STAGES = STAGED > BLOCKS ? STAGED : BLOCKS; /* bytes of both */
    static constexpr int TOTALS = 4 * V * V * GEMM_THREADS * (int)sizeof(unit);
    static constexpr int SIGN = GEMM_SIGN_BYTES; /* without what only the release needs: */
    static constexpr int SIGN_STAGED = SIGN - GEMM_WARPS * 32 * 16;
};

/* Unit `p` of a line as it is where there is nothing: products must not change a sum, not even the
 * sign of its zero. */
template <class S, bool OF_A>
static __device__ __forceinline__ typename S::unit simt_nothing(void) {
    if constexpr (S::T == HF_I8)
        return 0;
    else
        return OF_A ? (typename S::unit) - 0.0f : (typename S::unit)0;
}

template <class S>
static __device__ __forceinline__ typename S::unit simt_widen(typename S::element v) {
    if constexpr (S::T == HF_F16 || S::T == HF_BF16)
        return hf_widen<S::T>(v);
    else
        return v;
}

/* Unit p of a line at `at`, of which `left` products are there. */
template <class S, bool OF_A>
static __device__ __forceinline__ typename S::unit simt_unit(const typename S::element *at,
                                                             int64_t step, int64_t left) {
    if constexpr (S::T == HF_I8) {
        unsigned v = 0;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < left)
                v |= (unsigned)(uint8_t)at[i * step] << 8 * i;
        return (int)v;
    } else {
        return left > 0 ? simt_widen<S>(*at) : simt_nothing<S, OF_A>();
    }
}

/* 16 or 8 bytes that are read once: they shall not push what threads keep in local memory out of the
 * first cache. */
template <typename VEC> static __device__ __forceinline__ VEC simt_once(const void *at) {
    VEC v;
    if constexpr (sizeof(VEC) == 16) {
        uint4 w;
        asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                     : "l"(at));
        v = *(const VEC *)&w;
    } else {
        static_assert(sizeof(VEC) == 8, "a pair of words");
        uint2 w;
        asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                     : "=r"(w.x), "=r"(w.y)
                     : "l"(at));
        v = *(const VEC *)&w;
    }
    return v;
}

/* V neighbouring units of a line, or one unit of V neighbouring lines: all there, from an address
 * that is a multiple of their size on. */
template <class S>
static __device__ __forceinline__ void simt_wide(typename S::unit (&v)[S::V],
                                                 const typename S::element *at, int64_t step) {
    if constexpr (S::T == HF_I8) {
        if (step == 1) {
            const int4 w = __ldg((const int4 *)at);
            v[0] = w.x, v[1] = w.y, v[2] = w.z, v[3] = w.w;
            return;
        }
        unsigned r[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            r[i] = __ldg((const unsigned *)(at + i * step));
        const unsigned low = __byte_perm(r[0], r[1], 0x5140),
                       high = __byte_perm(r[2], r[3], 0x5140);
        const unsigned low2 = __byte_perm(r[0], r[1], 0x7362),
                       high2 = __byte_perm(r[2], r[3], 0x7362);
        v[0] = (int)__byte_perm(low, high, 0x5410);
        v[1] = (int)__byte_perm(low, high, 0x7632);
        v[2] = (int)__byte_perm(low2, high2, 0x5410);
        v[3] = (int)__byte_perm(low2, high2, 0x7632);
    } else {
        const auto w = simt_once<gemm_vec<typename S::element, S::V>>(at);
#pragma unroll
        for (int i = 0; i < S::V; i++)
            v[i] = simt_widen<S>(w.e[i]);
    }
}

/* This thread's V units of a stage of one side. */
template <class S> struct simt_part { typename S::unit v[S::V]; };

/* Where a thread's units of a side come from: they go on along whichever of products and lines lies
 * in one piece. */
template <class S> struct simt_source {
    const typename S::element *at; /* the first one of the stage that is fetched next */
    int line, unit;                /* its place in the tile and in the stage */
    int lines;                     /* of those from `line` on, how many are there */
    bool along;                    /* the products of a line lie in one piece */
};

/* first: the tile's first line; t: number of the thread. */
template <class S>
static __device__ __forceinline__ struct simt_source<S>
simt_source_of(const struct gemm_side &side, int64_t batch, int64_t first, int t) {
    constexpr int PER = S::DEPTH / S::V, ACROSS = S::TILE / S::V;
    struct simt_source<S> s;
    s.along = side.step == 1;
    s.line = s.along ? t / PER : t % ACROSS * S::V;
    s.unit = s.along ? t % PER * S::V : t / ACROSS;
    s.lines = (int)max((int64_t)0, min(side.lines - first - s.line, (int64_t)S::V));
    s.at = (const typename S::element *)side.data + batch * side.stride +
           (first + s.line) * side.line + s.unit * S::PRODUCTS * side.step;
    return s;
}

/* left: products from the stage's first one on. */
template <class S, bool OF_A>
static __device__ __forceinline__ void simt_fetch(struct simt_part<S> &part,
                                                  struct simt_source<S> &s,
                                                  const struct gemm_side &side, int64_t left) {
    constexpr int STEP = S::DEPTH * S::PRODUCTS;
    const bool all = left >= STEP && s.lines >= (s.along ? 1 : S::V);
    const int apart = s.along ? S::PRODUCTS : 1;
    if (all && side.wide) {
        simt_wide<S>(part.v, s.at, side.step);
    } else if (all) {
#pragma unroll
        for (int i = 0; i < S::V; i++)
            part.v[i] = simt_unit<S, OF_A>(s.at + i * apart, side.step, STEP);
    } else {
#pragma unroll
        for (int i = 0; i < S::V; i++) {
            const int64_t rest = left - (s.unit + (s.along ? i : 0)) * S::PRODUCTS;
            part.v[i] = simt_nothing<S, OF_A>();
            if ((s.along ? 0 : i) < s.lines && rest > 0)
                part.v[i] = simt_unit<S, OF_A>(s.at + i * apart, side.step, rest);
        }
    }
    s.at += STEP * side.step;
}

template <class S>
static __device__ __forceinline__ void simt_keep(typename S::unit *stage,
                                                 const struct simt_part<S> &part,
                                                 const struct simt_source<S> &spot) {
    typename S::unit *at = stage + spot.unit * S::PITCH + spot.line;
    if (!spot.along) {
        *(gemm_vec<typename S::unit, S::V> *)at = *(const gemm_vec<typename S::unit, S::V> *)&part;
        return;
    }
#pragma unroll
    for (int i = 0; i < S::V; i++)
        at[i * S::PITCH] = part.v[i];
}

static __device__ __forceinline__ float simt_fma(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}
static __device__ __forceinline__ double simt_fma(double a, double b, double c) {
    return __fma_rn(a, b, c);
}
static __device__ __forceinline__ int simt_fma(int a, int b, int c) { return __dp4a(a, b, c); }

/* Row (or column) i of a thread whose place along the tile is t. */
template <class S> static __device__ __forceinline__ constexpr int simt_line(int t, int i) {
    return t * S::V + i % S::V + i / S::V * (S::TILE / 2);
}

template <class S>
static __device__ __forceinline__ void simt_multiply(typename S::unit (&sum)[2 * S::V][2 * S::V],
                                                     const typename S::unit *a,
                                                     const typename S::unit *b, int ty, int tx) {
    typedef gemm_vec<typename S::unit, S::V> vec;
#pragma unroll
    for (int u = 0; u < S::DEPTH; u++) {
        vec x[2], y[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            x[h] = *(const vec *)(a + u * S::PITCH + simt_line<S>(ty, h * S::V));
            y[h] = *(const vec *)(b + u * S::PITCH + simt_line<S>(tx, h * S::V));
        }
#pragma unroll
        for (int i = 0; i < 2 * S::V; i++)
#pragma unroll
            for (int j = 0; j < 2 * S::V; j++)
                sum[i][j] = simt_fma(x[i / S::V].e[i % S::V], y[j / S::V].e[j % S::V], sum[i][j]);
    }
}

/* The sums of a block of products join those before, which lie in shared memory. */
template <class S>
static __device__ __forceinline__ void simt_add(typename S::unit (&sum)[2 * S::V][2 * S::V],
                                                typename S::unit *totals, bool begin, bool end) {
#pragma unroll
    for (int i = 0; i < 4 * S::V * S::V; i++) {
        typename S::unit &s = sum[i / (2 * S::V)][i % (2 * S::V)];
        typename S::unit *const at = totals + i * GEMM_THREADS + (int)threadIdx.x;
        const typename S::unit t = begin ? s : *at + s;
        if (end)
            s = t;
        else {
            *at = t;
            s = 0;
        }
    }
}

/* The words of a stage of one side that this thread signs. */
template <class S>
static __device__ __forceinline__ void simt_sign(struct gemm_sign *sign, int checksum,
                                                 const uint32_t *table,
                                                 const typename S::unit *side) {
    constexpr int LINE = S::TILE * S::WORDS, N = S::DEPTH * LINE / GEMM_THREADS;
    uint32_t w[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int at = (int)threadIdx.x + i * GEMM_THREADS;
        w[i] = ((const uint32_t *)(side + at / LINE * S::PITCH))[at % LINE];
    }
    gemm_sign_words(sign, checksum, table, w);
}

/* Which tile this block has, found anew: kept over the products it would cost them registers, which
 * lie so far away, beside so much shared memory, that each stage would wait for them. */
static __device__ __forceinline__ struct gemm_place simt_place(const struct gemm_job &job) {
    int64_t tile = job.first_tile + blockIdx.x;
    asm volatile("" : "+l"(tile));
    return gemm_place_of(job, tile);
}

/* A fault on purpose: a staged word changes after it was signed. */
template <class S>
static __device__ __forceinline__ void simt_plant(const struct gemm_job &job, int64_t stage,
                                                  typename S::unit *a) {
    const struct gemm_place place = simt_place(job);
    const int64_t element = job.plant_at / 32, row = element / job.k, p = element % job.k;
    const int64_t unit = p / S::PRODUCTS - stage * S::DEPTH, line = row - place.row * S::TILE;
    __syncthreads();
    if (threadIdx.x == 0 && place.col == 0 && place.batch == 0 && unit >= 0 && unit < S::DEPTH &&
        line >= 0 && line < S::TILE)
        *(uint32_t *)(a + unit * S::PITCH + line) ^= 1u << job.plant_at % 32;
    __syncthreads();
}

/* A sum changes before it is signed, on purpose. */
template <class S>
static __device__ __forceinline__ void
simt_plant_sum(const struct gemm_job &job, const struct gemm_place &place,
               typename S::unit (&sum)[2 * S::V][2 * S::V], int ty, int tx) {
    int64_t at[2];
    if (!gemm_plants(job, place, S::TILE, S::TILE, at))
        return;
#pragma unroll
    for (int i = 0; i < 2 * S::V; i++)
#pragma unroll
        for (int j = 0; j < 2 * S::V; j++)
            if (at[0] == simt_line<S>(ty, i) && at[1] == simt_line<S>(tx, j)) {
                uint32_t *const word = (uint32_t *)&sum[i][j];
                word[0] ^= 1u << job.plant_at % 32;
            }
}

/* Those of float64. */
template <class S>
static __device__ __forceinline__ void
simt_sign_sums(const struct gemm_job &job, const struct gemm_signer &s, struct gemm_sign *sign,
               const typename S::unit (&sum)[2 * S::V][2 * S::V]) {
    uint32_t w[8 * S::V * S::V];
#pragma unroll
    for (int at = 0; at < 4 * S::V * S::V; at++) {
        w[2 * at] = (uint32_t)__double2loint(sum[at / (2 * S::V)][at % (2 * S::V)]);
        w[2 * at + 1] = (uint32_t)__double2hiint(sum[at / (2 * S::V)][at % (2 * S::V)]);
    }
    gemm_sign_begin(sign, job.checksum);
    gemm_sign_words(sign, job.checksum, s.table, w);
    gemm_sign_fold(sign, job.checksum);
}

/* Of float64, from registers. */
template <class S>
static __device__ __forceinline__ void
simt_store(const struct gemm_job &job, const struct gemm_place &place,
           const typename S::unit (&sum)[2 * S::V][2 * S::V], int ty, int tx) {
    const int64_t row = (int64_t)place.row * S::TILE, col = (int64_t)place.col * S::TILE;
#pragma unroll
    for (int i = 0; i < 2 * S::V; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            typename S::unit v[S::V];
#pragma unroll
            for (int j = 0; j < S::V; j++)
                v[j] = sum[i][h * S::V + j];
            gemm_store<typename S::unit, S::V>(job, place.batch, row + simt_line<S>(ty, i),
                                               col + simt_line<S>(tx, h * S::V), v);
        }
}

/* Through shared memory, which needs much less code: a warp has four blocks of 16 x 32. */
template <class S, typename SEE>
static __device__ __forceinline__ void
simt_store_blocks(const struct gemm_job &job, const struct gemm_place &place,
                  const typename S::unit (&sum)[8][8], char *shared, SEE see) {
    typedef gemm_vec<typename S::unit, 4> vec;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    typename S::unit *const block = (typename S::unit *)(shared + warp * GEMM_BLOCK_BYTES);
    typename S::unit *const own = block + lane / 8 * 4 * GEMM_BLOCK_PITCH + lane % 8 * 4;
    const int64_t row = (int64_t)place.row * S::TILE + warp / 2 * 16;
    const int64_t col = (int64_t)place.col * S::TILE + warp % 2 * 32;
#pragma unroll 1
    for (int r = 0; r < 4; r++) {
#pragma unroll
        for (int b = 0; b < 4; b++)
#pragma unroll
            for (int i = 0; i < 4 && b == r; i++) {
                vec v;
#pragma unroll
                for (int j = 0; j < 4; j++)
                    v.e[j] = sum[b / 2 * 4 + i][b % 2 * 4 + j];
                *(vec *)(own + i * GEMM_BLOCK_PITCH) = v;
            }
        gemm_block_store(job,
                         {place.batch, row + r / 2 * (S::TILE / 2), col + r % 2 * (S::TILE / 2)},
                         block, see);
    }
}

/* Of a block; what it keeps is in shared memory at `signs`. */
template <bool RELEASES>
static __device__ __forceinline__ struct gemm_signer simt_signer(char *signs) {
    constexpr int PITCH = RELEASES ? GEMM_KEPT_BYTES : GEMM_KEPT_BYTES - 32 * 16;
    struct gemm_signer s = {};
    s.table = (uint32_t *)(signs + GEMM_SUMS_BYTES);
    s.kept = signs + GEMM_SUMS_BYTES + GEMM_CRC_WORDS * 4 + (int)threadIdx.x / 32 * PITCH;
    return s;
}

/* Does the tile sign all stages of its A, of its B? Of those that read one panel one does: a loop
 * that signs has too few registers for its products, so that few tiles shall have it. */
static __device__ __forceinline__ bool simt_signs_a(const struct gemm_job &job,
                                                    const struct gemm_place &place) {
    return place.col == place.row % (int)job.tiles_n;
}
static __device__ __forceinline__ bool simt_signs_b(const struct gemm_job &job,
                                                    const struct gemm_place &place) {
    return place.row == place.col % (int)job.tiles_m;
}

/* Sign a stage, as far as that is this tile's, and for the release. */
template <class S, bool RELEASES>
static __device__ __forceinline__ void simt_staged(const struct gemm_job &job, int stage,
                                                   const typename S::unit *own_a, char *signs) {
    const struct gemm_place place = simt_place(job);
    struct gemm_signer signer = simt_signer<RELEASES>(signs);
    signer.next_a = simt_signs_a(job, place) ? stage : -1;
    signer.next_b = simt_signs_b(job, place) ? stage : -1;
    gemm_staged(job, &signer, stage, [&](struct gemm_sign *state, bool of_a) {
        simt_sign<S>(state, job.checksum, signer.table, of_a ? own_a : own_a + S::SIDE);
    });
}

template <class S>
static __device__ __forceinline__ void simt_released(const struct gemm_job &job,
                                                     const typename S::unit *own_a, char *signs) {
    const struct gemm_place place = simt_place(job);
    const struct gemm_signer signer = simt_signer<true>(signs);
    gemm_released(job, &signer, (int64_t)place.row * S::TILE, (int64_t)place.col * S::TILE,
                  [&](struct gemm_sign *state, bool of_a) {
                      simt_sign<S>(state, job.checksum, signer.table,
                                   of_a ? own_a : own_a + S::SIDE);
                  });
}

/* What is signed beside the sums: nothing; stages; stages before and after their products, or with
 * faults on purpose between. */
enum simt_signed { SIMT_NOT, SIMT_STAGED, SIMT_RELEASED };

template <class S, enum simt_signed SIGNS>
static __host__ __device__ __forceinline__ constexpr int simt_sign_bytes(void) {
    return SIGNS == SIMT_NOT ? 0 : SIGNS == SIMT_STAGED ? S::SIGN_STAGED : S::SIGN;
}

struct simt_yes {
    static constexpr bool value = true;
};
struct simt_no {
    static constexpr bool value = false;
};

template <class S, enum simt_signed SIGNS>
static __global__ void __launch_bounds__(GEMM_THREADS, 2)
    simt_kernel(const __grid_constant__ struct gemm_job job) {
    typedef typename S::unit unit;
    constexpr bool SIGNED = SIGNS != SIMT_NOT, RELEASES = SIGNS == SIMT_RELEASED;
    extern __shared__ __align__(16) char simt_shared[];
    unit *const stages = (unit *)simt_shared; /* [2][A, B][DEPTH][PITCH] */
    char *const signs = simt_shared + S::STAGES;
    unit *const totals = (unit *)(signs + simt_sign_bytes<S, SIGNS>());
    constexpr int STEP = S::DEPTH * S::PRODUCTS;
    const int count = (int)((job.k + STEP - 1) / STEP);
    unit sum[2 * S::V][2 * S::V] = {};
    if (SIGNED) {
        struct gemm_signer signer = simt_signer<RELEASES>(signs);
        gemm_signer_begin(&signer, signer.kept, signer.table, job.checksum, simt_place(job));
        if (gemm_is_crc(job.checksum))
            gemm_crc_fill(signer.table, job.checksum);
    }
    /* What products need beside their sums is found in each of both loops anew: what both had would
     * live through the one that signs, and has no register there. */
    const auto products = [&](auto signing) {
        const struct gemm_place own = simt_place(job);
        int t = (int)threadIdx.x;
        asm volatile("" : "+r"(t));
        const int ty = t / 64 * 4 + t % 32 / 8, tx = t / 32 % 2 * 8 + t % 8;
        struct simt_part<S> part_a, part_b;
        struct simt_source<S> a =
            simt_source_of<S>(job.a, own.batch, (int64_t)own.row * S::TILE, t);
        struct simt_source<S> b =
            simt_source_of<S>(job.b, own.batch, (int64_t)own.col * S::TILE, t);
        if (count > 0) {
            simt_fetch<S, true>(part_a, a, job.a, job.k);
            simt_fetch<S, false>(part_b, b, job.b, job.k);
        }
        for (int stage = 0; stage < count; stage++) {
            unit *const own_a = stages + stage % 2 * 2 * S::SIDE, *const own_b = own_a + S::SIDE;
            const bool last = stage + 1 == count;
            simt_keep<S>(own_a, part_a, a);
            simt_keep<S>(own_b, part_b, b);
            __syncthreads();
            if (!last) {
                const int64_t left = job.k - (int64_t)(stage + 1) * STEP;
                simt_fetch<S, true>(part_a, a, job.a, left);
                simt_fetch<S, false>(part_b, b, job.b, left);
            }
            if constexpr (signing.value)
                simt_staged<S, RELEASES>(job, stage, own_a, signs);
            if (SIGNS == SIMT_RELEASED && job.plant == HF_GEMM_PLANT_A)
                simt_plant<S>(job, stage, own_a);
            simt_multiply<S>(sum, own_a, own_b, ty, tx);
            if (SIGNS == SIMT_RELEASED)
                simt_released<S>(job, own_a, signs);
            if (S::T != HF_I8 && count > S::BLOCK && ((stage + 1) % S::BLOCK == 0 || last))
                simt_add<S>(sum, totals, stage < S::BLOCK, last);
        }
    };
    if constexpr (SIGNS == SIMT_NOT) {
        products(simt_no());
    } else if constexpr (SIGNS == SIMT_RELEASED) {
        products(simt_yes());
    } else {
        const struct gemm_place place = simt_place(job);
        if (simt_signs_a(job, place) || simt_signs_b(job, place))
            products(simt_yes());
        else
            products(simt_no());
    }
    struct gemm_sign sums;
    struct gemm_signer signer = {};
    const struct gemm_place end = simt_place(job);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int ty = warp / 2 * 4 + lane / 8, tx = warp % 2 * 8 + lane % 8;
    if (SIGNED)
        signer = simt_signer<RELEASES>(signs);
    __syncthreads(); /* the table is there, the stages are free */
    if constexpr (S::T == HF_F64) {
        if (SIGNED && job.plant != HF_GEMM_PLANT_NONE)
            simt_plant_sum<S>(job, end, sum, ty, tx);
        if (SIGNED)
            simt_sign_sums<S>(job, signer, &sums, sum);
        simt_store<S>(job, end, sum, ty, tx);
    } else {
        const auto see = [&](const struct gemm_spot &spot, unit(&v)[4]) {
            if (SIGNED)
                gemm_sign_four(job, signer, &sums, spot, v);
        };
        gemm_sign_begin(&sums, job.checksum);
        simt_store_blocks<S>(job, end, sum, simt_shared, see);
        gemm_sign_fold(&sums, job.checksum);
    }
    if (SIGNED) {
        signer.panels = count * (simt_signs_a(job, end) + simt_signs_b(job, end));
        gemm_signer_end<0>(job, &signer, &sums, end, job.first_tile + blockIdx.x,
                           (uint64_t *)signs);
        gemm_finish<0>(job, 1, (uint64_t *)signs);
    }
}

template <class S, enum simt_signed SIGNS>
static hf_status simt_start(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    const bool folds = S::T != HF_I8 && job->k > HF_GEMM_BLOCK;
    const int shared = S::STAGES + simt_sign_bytes<S, SIGNS>() + (folds ? S::TOTALS : 0);
    return gemm_start(cuda, simt_kernel<S, SIGNS>, job, blocks, shared);
}

template <hf_dtype T>
static hf_status simt_launch(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    typedef simt_shape<T> S;
    if (job->entries == NULL)
        return simt_start<S, SIMT_NOT>(cuda, job, blocks);
    return job->release || job->plant == HF_GEMM_PLANT_A
               ? simt_start<S, SIMT_RELEASED>(cuda, job, blocks)
               : simt_start<S, SIMT_STAGED>(cuda, job, blocks);
}

#endif
