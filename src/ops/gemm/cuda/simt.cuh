/* SPDX-License-Identifier: Apache-2.0
 * Products by the units that all types have: a thread sums the chains of a few rows and columns of
 * a tile, products in order, each block of 256 from 0, so that the bits are those of the CPU's
 * kernels. Two stages of a few products of the tile's lines lie in shared memory; while one is
 * multiplied the next is on its way through registers, where it is converted. The sums of the
 * blocks so far wait in shared memory, or two blocks of threads would not fit a multiprocessor. */
#ifndef HF_GEMM_SIMT_CUH
#define HF_GEMM_SIMT_CUH

#include "ops/gemm/cuda/simt_sign.cuh"

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

/* V is the numbers of 16 bytes. A thread has R times V rows and columns. */
template <hf_dtype T_, int R_> struct simt_shape {
    static constexpr hf_dtype T = T_;
    typedef typename simt_type<T>::unit unit;
    typedef typename simt_type<T>::element element;
    static constexpr int V = simt_type<T>::V, PRODUCTS = simt_type<T>::PRODUCTS;
    static constexpr int R = R_, LINES = R * V;
    static constexpr int TILE = 16 * LINES; /* rows, and columns */
    static constexpr int DEPTH = 16 / R;    /* units of a stage: each thread brings V of a side */
    static constexpr int PITCH = TILE + V;  /* of a unit's line in a stage */
    static constexpr int WORDS = (int)sizeof(unit) / 4;
    static constexpr int SIDE = DEPTH * PITCH;                     /* units of a stage of A or B */
    static constexpr int BLOCK = HF_GEMM_BLOCK / PRODUCTS / DEPTH; /* stages of a block */
    static constexpr int BLOCKS = T == HF_F64 ? 0 : GEMM_THREADS / 32 * GEMM_BLOCK_BYTES;
    static constexpr int STAGED = 2 * 2 * SIDE * (int)sizeof(unit);
    static constexpr int STAGES = STAGED > BLOCKS ? STAGED : BLOCKS; /* bytes of both */
    static constexpr int TOTALS = LINES * LINES * GEMM_THREADS * (int)sizeof(unit);
    static constexpr int SIGN = GEMM_SIGN_BYTES;
    static constexpr bool ROOM =
        LINES * LINES * WORDS <= 32; /* sums leave registers to sign with */
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
        const gemm_vec<typename S::element, S::V> w =
            *(const gemm_vec<typename S::element, S::V> *)at;
#pragma unroll
        for (int i = 0; i < S::V; i++)
            v[i] = simt_widen<S>(w.e[i]);
    }
}

/* Where a thread's units of a side come from: they go on along whichever of products and lines lies
 * in one piece. */
template <class S> struct simt_source {
    const typename S::element *at; /* the first one of the stage that is fetched next */
    int line, unit;                /* its place in the tile and in the stage */
    int lines;                     /* of those from `line` on, how many are there */
    bool along;                    /* the products of a line lie in one piece */
};

/* first: the tile's first line. */
template <class S>
static __device__ __forceinline__ struct simt_source<S>
simt_source_of(const struct gemm_side &side, int64_t batch, int64_t first) {
    constexpr int PER = S::DEPTH / S::V, ACROSS = S::TILE / S::V;
    const int t = (int)threadIdx.x;
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
static __device__ __forceinline__ void simt_multiply(typename S::unit (&sum)[S::LINES][S::LINES],
                                                     const typename S::unit *a,
                                                     const typename S::unit *b, int ty, int tx) {
    typedef gemm_vec<typename S::unit, S::V> vec;
#pragma unroll
    for (int u = 0; u < S::DEPTH; u++) {
        vec x[S::R], y[S::R];
#pragma unroll
        for (int h = 0; h < S::R; h++) {
            x[h] = *(const vec *)(a + u * S::PITCH + simt_line<S>(ty, h * S::V));
            y[h] = *(const vec *)(b + u * S::PITCH + simt_line<S>(tx, h * S::V));
        }
#pragma unroll
        for (int i = 0; i < S::LINES; i++)
#pragma unroll
            for (int j = 0; j < S::LINES; j++)
                sum[i][j] = simt_fma(x[i / S::V].e[i % S::V], y[j / S::V].e[j % S::V], sum[i][j]);
    }
}

/* The sums of a block of products join those before, which lie in shared memory. */
template <class S>
static __device__ __forceinline__ void simt_add(typename S::unit (&sum)[S::LINES][S::LINES],
                                                typename S::unit *totals, bool begin, bool end) {
#pragma unroll
    for (int i = 0; i < S::LINES * S::LINES; i++) {
        typename S::unit &s = sum[i / S::LINES][i % S::LINES];
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

/* Is it a fault of what is staged? */
static __device__ __forceinline__ bool simt_plants(const struct gemm_job &job) {
    return job.plant == HF_GEMM_PLANT_A || job.plant == HF_GEMM_PLANT_ADDRESS ||
           job.plant == HF_GEMM_PLANT_STUCK;
}

/* A fault on purpose: staged words change after they were signed. */
template <class S>
static __device__ __noinline__ void simt_plant(const struct gemm_job &job,
                                               const struct gemm_place &place, int64_t stage,
                                               typename S::unit *a) {
    const int64_t at = gemm_plant_at(job, place.batch);
    const int64_t element = at / 32, row = element / job.k, p = element % job.k;
    const int64_t unit = p / S::PRODUCTS - stage * S::DEPTH, line = row - place.row * S::TILE;
    __syncthreads();
    if (threadIdx.x == 0 && place.col == 0 && at >= 0 && unit >= 0 && unit < S::DEPTH &&
        line >= 0 && line < S::TILE) {
        uint32_t *const words = (uint32_t *)(a + unit * S::PITCH);
        const int own = (int)line * S::WORDS;
        if (job.plant == HF_GEMM_PLANT_ADDRESS)
            words[own] = words[(own ^ 1 << at % 32 % 6) % (S::TILE * S::WORDS)];
        for (int i = own % 32; job.plant == HF_GEMM_PLANT_STUCK && i < S::TILE * S::WORDS; i += 32)
            words[i] |= 1u << at % 32;
        if (job.plant == HF_GEMM_PLANT_A)
            words[own] ^= 1u << at % 32;
    }
    __syncthreads();
}

/* Is this tile not to be computed, on purpose? */
template <class S>
static __device__ __forceinline__ bool simt_drops(const struct gemm_job &job,
                                                  const struct gemm_place &place) {
    const int64_t at = gemm_plant_at(job, place.batch), element = at / 32;
    return job.plant == HF_GEMM_PLANT_DROPPED && at >= 0 &&
           element / job.n / S::TILE == place.row && element % job.n / S::TILE == place.col;
}

/* A sum changes before it is signed, on purpose. */
template <class S>
static __device__ __forceinline__ void
simt_plant_sum(const struct gemm_job &job, const struct gemm_place &place,
               typename S::unit (&sum)[S::LINES][S::LINES], int ty, int tx) {
    int64_t at[2];
    if (!gemm_plants(job, place, S::TILE, S::TILE, at))
        return;
#pragma unroll
    for (int i = 0; i < S::LINES; i++)
#pragma unroll
        for (int j = 0; j < S::LINES; j++)
            if (at[0] == simt_line<S>(ty, i) && at[1] == simt_line<S>(tx, j)) {
                uint32_t *const word = (uint32_t *)&sum[i][j];
                word[0] = gemm_planted(job, word[0], gemm_plant_at(job, place.batch));
            }
}

/* Those of float64. */
template <class S>
static __device__ __forceinline__ void
simt_sign_sums(const struct gemm_job &job, const struct gemm_signer &s, struct gemm_sign *sign,
               const typename S::unit (&sum)[S::LINES][S::LINES]) {
    uint32_t w[2 * S::LINES * S::LINES];
#pragma unroll
    for (int at = 0; at < S::LINES * S::LINES; at++) {
        w[2 * at] = (uint32_t)__double2loint(sum[at / S::LINES][at % S::LINES]);
        w[2 * at + 1] = (uint32_t)__double2hiint(sum[at / S::LINES][at % S::LINES]);
    }
    gemm_sign_begin(sign, job.checksum);
    gemm_sign_words(sign, job.checksum, s.table, w);
    gemm_sign_fold(sign, job.checksum);
}

/* Of float64, from registers. */
template <class S>
static __device__ __forceinline__ void
simt_store(const struct gemm_job &job, const struct gemm_place &place,
           const typename S::unit (&sum)[S::LINES][S::LINES], int ty, int tx) {
    const int64_t row = (int64_t)place.row * S::TILE, col = (int64_t)place.col * S::TILE;
#pragma unroll
    for (int i = 0; i < S::LINES; i++)
#pragma unroll
        for (int h = 0; h < S::R; h++) {
            typename S::unit v[S::V];
#pragma unroll
            for (int j = 0; j < S::V; j++)
                v[j] = sum[i][h * S::V + j];
            gemm_store<typename S::unit, S::V>(job, place.batch, row + simt_line<S>(ty, i),
                                               col + simt_line<S>(tx, h * S::V), v);
        }
}

/* Through shared memory, which needs much less code: a warp has R x R blocks of 16 x 32. */
template <class S, typename SEE>
static __device__ __forceinline__ void
simt_store_blocks(const struct gemm_job &job, const struct gemm_place &place,
                  const typename S::unit (&sum)[S::LINES][S::LINES], char *shared, SEE see) {
    typedef gemm_vec<typename S::unit, 4> vec;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    typename S::unit *const block = (typename S::unit *)(shared + warp * GEMM_BLOCK_BYTES);
    typename S::unit *const own = block + lane / 8 * 4 * GEMM_BLOCK_PITCH + lane % 8 * 4;
    const int64_t row = (int64_t)place.row * S::TILE + warp / 2 * 16;
    const int64_t col = (int64_t)place.col * S::TILE + warp % 2 * 32;
#pragma unroll 1
    for (int r = 0; r < S::R * S::R; r++) {
#pragma unroll
        for (int b = 0; b < S::R * S::R; b++)
#pragma unroll
            for (int i = 0; i < 4 && b == r; i++) {
                vec v;
#pragma unroll
                for (int j = 0; j < 4; j++)
                    v.e[j] = sum[b / S::R * 4 + i][b % S::R * 4 + j];
                *(vec *)(own + i * GEMM_BLOCK_PITCH) = v;
            }
        gemm_block_store(
            job, {place.batch, row + r / S::R * (S::TILE / 2), col + r % S::R * (S::TILE / 2)},
            block, see);
    }
}

/* The tile of this block. Of signed products each caller finds it anew: nothing of it is kept
 * through the loop over stages. */
template <enum gemm_mode MODE>
static __device__ __forceinline__ struct gemm_place simt_place(const struct gemm_job &job) {
    unsigned block = blockIdx.x;
    if (MODE != GEMM_PLAIN)
        asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return gemm_place_of(job, job.first_tile + block);
}

template <class S, enum gemm_mode MODE>
static __global__ void __launch_bounds__(GEMM_THREADS, S::R == 1 && MODE == GEMM_PLAIN ? 3 : 2)
    simt_kernel(const __grid_constant__ struct gemm_job job) {
    typedef typename S::unit unit;
    extern __shared__ __align__(16) char simt_shared[];
    unit *const stages = (unit *)simt_shared; /* [2][A, B][DEPTH][PITCH] */
    char *const signs = simt_shared + S::STAGES;
    unit *const totals = (unit *)(signs + (MODE != GEMM_PLAIN ? S::SIGN : 0));
    constexpr bool SIGNED = MODE != GEMM_PLAIN, ROOM = SIGNED && S::ROOM;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int ty = warp / 2 * 4 + lane / 8, tx = warp % 2 * 8 + lane % 8;
    constexpr int STEP = S::DEPTH * S::PRODUCTS;
    const int count = (int)((job.k + STEP - 1) / STEP);
    unit sum[S::LINES][S::LINES] = {};
    struct simt_part<S> part_a, part_b;
    const struct gemm_place first = simt_place<MODE>(job);
    struct simt_source<S> a = simt_source_of<S>(job.a, first.batch, (int64_t)first.row * S::TILE);
    struct simt_source<S> b = simt_source_of<S>(job.b, first.batch, (int64_t)first.col * S::TILE);
    if (MODE == GEMM_RELEASED && simt_drops<S>(job, first))
        return;
    if (count > 0) {
        simt_fetch<S, true>(part_a, a, job.a, job.k);
        simt_fetch<S, false>(part_b, b, job.b, job.k);
    }
    struct simt_own signed_own = {{}, {}, (unsigned)first.col, (unsigned)first.row};
    uint64_t key = 0;
    if (SIGNED && !ROOM)
        simt_begin<S>(job, first, signs);
    if (SIGNED && gemm_is_crc(job.checksum)) {
        gemm_crc_fill(simt_signer<S>(signs).table, job.checksum);
        __syncthreads();
    }
    if (ROOM) {
        gemm_sign_begin(&signed_own.a, job.checksum);
        gemm_sign_begin(&signed_own.b, job.checksum);
        key = gemm_key(first);
    }
    for (int stage = 0; stage < count; stage++) {
        unit *const own_a = stages + stage % 2 * 2 * S::SIDE, *const own_b = own_a + S::SIDE;
        const bool last = stage + 1 == count;
        simt_keep<S>(own_a, part_a, a);
        simt_keep<S>(own_b, part_b, b);
        if (SIGNED && !ROOM) {
            const struct gemm_kept next = simt_next<S>(signs);
            if ((unsigned)stage == next.a || (unsigned)stage == next.b)
                simt_sign_parts<S>(job, part_a, part_b, (unsigned)stage, signs);
        }
        __syncthreads();
        if (ROOM)
            simt_sign_own<S>(job, part_a, part_b, (unsigned)stage, &signed_own, signs);
        if (!last) {
            const int64_t left = job.k - (int64_t)(stage + 1) * STEP;
            simt_fetch<S, true>(part_a, a, job.a, left);
            simt_fetch<S, false>(part_b, b, job.b, left);
        }
        if (MODE == GEMM_RELEASED && job.release)
            simt_staged<S>(job, own_a, signs);
        if (MODE == GEMM_RELEASED && simt_plants(job))
            simt_plant<S>(job, simt_place<MODE>(job), stage, own_a);
        simt_multiply<S>(sum, own_a, own_b, ty, tx);
        if (MODE == GEMM_RELEASED && job.release)
            simt_released<S>(job, simt_place<MODE>(job), own_a, signs);
        if (S::T != HF_I8 && count > S::BLOCK && ((stage + 1) % S::BLOCK == 0 || last))
            simt_add<S>(sum, totals, stage < S::BLOCK, last);
        if (ROOM && (stage + 1) % S::BLOCK == 0) {
            gemm_sign_fold(&signed_own.a, job.checksum);
            gemm_sign_fold(&signed_own.b, job.checksum);
        }
    }
    const struct gemm_place place = MODE == GEMM_PLAIN || ROOM ? first : simt_place<MODE>(job);
    struct gemm_sign sums;
    struct gemm_signer signer = {};
    if (SIGNED) {
        signer = simt_signer<S>(signs);
        signer.stages = count;
    }
    if (ROOM) {
        gemm_keep(&signer, GEMM_KEPT_A, signed_own.a, job.checksum);
        gemm_keep(&signer, GEMM_KEPT_B, signed_own.b, job.checksum);
    }
    __syncthreads(); /* the table is there, the stages are free */
    if constexpr (S::T == HF_F64) {
        if (MODE == GEMM_RELEASED && job.plant != HF_GEMM_PLANT_NONE)
            simt_plant_sum<S>(job, place, sum, ty, tx);
        if (SIGNED)
            simt_sign_sums<S>(job, signer, &sums, sum);
        simt_store<S>(job, place, sum, ty, tx);
    } else {
        const auto see = [&](const struct gemm_spot &spot, unit(&v)[4]) {
            if (SIGNED)
                gemm_sign_four<MODE == GEMM_RELEASED>(job, signer, &sums, spot, v);
        };
        gemm_sign_begin(&sums, job.checksum);
        simt_store_blocks<S>(job, place, sum, simt_shared, see);
        gemm_sign_fold(&sums, job.checksum);
    }
    if (SIGNED) {
        gemm_signer_end<0>(job, &signer, &sums, place, ROOM ? key : gemm_key(place),
                           (uint64_t *)signs);
        gemm_finish<0>(job, 1, (uint64_t *)signs);
    }
}

template <class S, enum gemm_mode MODE>
static hf_status simt_start(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    const bool folds = S::T != HF_I8 && job->k > HF_GEMM_BLOCK;
    const int shared = S::STAGES + (MODE != GEMM_PLAIN ? S::SIGN : 0) + (folds ? S::TOTALS : 0);
    return gemm_start(cuda, simt_kernel<S, MODE>, job, blocks, shared);
}

/* Float32 and float64 have a kernel for T and O alone. */
template <hf_dtype T, int R>
static hf_status simt_launch(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    typedef simt_shape<T, R> S;
    const enum gemm_mode mode = gemm_mode_of(job);
    if (mode == GEMM_PLAIN)
        return simt_start<S, GEMM_PLAIN>(cuda, job, blocks);
    if constexpr (T == HF_F32 || T == HF_F64)
        if (mode == GEMM_SIGNED)
            return simt_start<S, GEMM_SIGNED>(cuda, job, blocks);
    return simt_start<S, GEMM_RELEASED>(cuda, job, blocks);
}

#endif
