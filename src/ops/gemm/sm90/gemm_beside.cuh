/* SPDX-License-Identifier: Apache-2.0
 * Sums of the rows and columns of A, B and C beside their product, by warps that multiply nothing:
 * first those of A and B whose weights are 1, then those that have these as weights, and C part by
 * part, as soon as it is stored. Who is done with multiplying helps. A warp takes 64 x 256 numbers
 * at a time and has eight rows of them on their way, of which a thread reads what it brought
 * itself: its own registers are too few to wait in. */
#ifndef HF_GEMM_BESIDE_CUH
#define HF_GEMM_BESIDE_CUH

#include "device/cuda/pack.cuh"
#include "device/cuda/ptx.cuh"
#include "ops/gemm/cuda/sums.cuh"

#define BESIDE_EACH 8 /* columns of a lane, of which it brings 16 bytes */
#define BESIDE_COLS (32 * BESIDE_EACH)
#define BESIDE_ROWS 64
#define BESIDE_SLOTS 8 /* rows on their way */
#define BESIDE_FEW 4   /* rows whose sums go through the warp together */
#define BESIDE_SLOT (BESIDE_COLS * 2)
#define BESIDE_RING (BESIDE_SLOTS * BESIDE_SLOT) /* bytes of a warp */

/* A pass over a matrix whose rows lie in one piece; along: the sums of rows, else of columns. */
struct gemm_beside_pass {
    const uint16_t *data;
    int64_t ld;
    int rows, cols;
    const double *by, *by_size; /* NULL: 1 */
    double *sum, *size;
    bool along;
    unsigned chunks, across; /* so many side by side */
};

struct gemm_beside {
    struct gemm_beside_pass pass[HF_SUMS_BESIDE];
    unsigned early, chunks; /* of the passes that need no weights; of all */
    unsigned *next;         /* [2]: the next chunk; early ones that are done. NULL: no sums */
    double *c[4];           /* of rows, their sizes, of columns, their sizes; NULL: not wanted */
};

/* In shared memory: warps that stored their part of a tile, counted over the tiles; parts of tiles
 * that somebody sums. */
struct gemm_beside_tiles {
    unsigned stored, taken;
};

/* What a warp takes: numbers, weights (NULL: 1) and what sums of rows and of columns are added to,
 * from its first row and column on. */
struct beside_chunk {
    const uint16_t *at;
    int64_t ld;
    int rows, cols; /* that there are; more than it takes: it takes all */
    const double *by, *by_size;
    double *row, *row_size, *col, *col_size;
};

static __device__ __forceinline__ float beside_weight(const double *by, int i, int count) {
    return i >= count ? 0 : by != NULL ? (float)__ldcg(by + i) : 1;
}

template <bool BF16>
static __device__ __forceinline__ void beside_widen(const uint4 &v, float (&x)[BESIDE_EACH]) {
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (BF16) {
            x[2 * i] = __uint_as_float(w[i] << 16);
            x[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
        } else {
            const float2 both = __half22float2(*(const __half2 *)&w[i]);
            x[2 * i] = both.x;
            x[2 * i + 1] = both.y;
        }
    }
}

/* What lanes have of their columns to memory, a row of a warp at a time. */
static __device__ __forceinline__ void beside_add_columns(char *ring, const float (&v)[BESIDE_EACH],
                                                          double *to, int cols) {
    const int lane = (int)threadIdx.x % 32;
    float *const all = (float *)ring;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < BESIDE_EACH; i += 4)
        *(float4 *)(all + lane * BESIDE_EACH + i) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < BESIDE_EACH; i++)
        if (i * 32 + lane < cols)
            atomicAdd(to + i * 32 + lane, (double)all[i * 32 + lane]);
}

/* Sum `rows` rows of a chunk, a multiple of 8: along rows, columns, or both without weights. */
template <bool BF16, bool ROW, bool COL>
static __device__ __forceinline__ void beside_sum(const struct beside_chunk &chunk, int rows,
                                                  char *ring) {
    const int lane = (int)threadIdx.x % 32;
    char *const own = ring + lane * 16;
    const int bytes = min(max((chunk.cols - lane * BESIDE_EACH) * 2, 0), 16);
    const int there = min(chunk.rows, rows);
    const uint16_t *at = chunk.at + lane * BESIDE_EACH;
    float col[BESIDE_EACH] = {}, col_size[BESIDE_EACH] = {};
    float by[BESIDE_EACH], by_size[BESIDE_EACH], down[2], down_size[2];
    int ahead = 0;
    const auto fetch = [&](int slot) {
        hf_copy_async(hf_shared(own + slot * BESIDE_SLOT), at, ahead < there ? (uint32_t)bytes : 0);
        at += chunk.ld;
        ahead++;
    };
#pragma unroll
    for (int i = 0; i < BESIDE_SLOTS; i += 2) {
        fetch(i);
        fetch(i + 1);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
#pragma unroll
    for (int i = 0; i < BESIDE_EACH && ROW && !COL; i++) {
        by[i] = beside_weight(chunk.by, lane * BESIDE_EACH + i, chunk.cols);
        by_size[i] = beside_weight(chunk.by_size, lane * BESIDE_EACH + i, chunk.cols);
    }
#pragma unroll
    for (int i = 0; i < 2 && COL && !ROW; i++) {
        down[i] = beside_weight(chunk.by, i * 32 + lane, chunk.rows);
        down_size[i] = beside_weight(chunk.by_size, i * 32 + lane, chunk.rows);
    }
#pragma unroll 1
    for (int row = 0; row < rows; row += BESIDE_SLOTS) {
        float of[2 * BESIDE_FEW]; /* of some rows, then their sizes */
#pragma unroll
        for (int i = 0; i < BESIDE_SLOTS; i += 2) {
            uint4 v[2];
            asm volatile("cp.async.wait_group %0;" ::"n"(BESIDE_SLOTS / 2 - 1) : "memory");
#pragma unroll
            for (int j = 0; j < 2; j++)
                v[j] = *(const uint4 *)(own + (i + j) * BESIDE_SLOT);
            fetch(i);
            fetch(i + 1);
            asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll
            for (int j = 0; j < 2; j++) {
                float x[BESIDE_EACH], weight = 1, weight_size = 1;
                beside_widen<BF16>(v[j], x);
                if (COL && !ROW) {
                    const int from = (row + i + j) % 32;
                    weight = __shfl_sync(0xffffffffu, row < 32 ? down[0] : down[1], from);
                    weight_size =
                        __shfl_sync(0xffffffffu, row < 32 ? down_size[0] : down_size[1], from);
                }
                float sum = 0, size = 0;
#pragma unroll
                for (int e = 0; e < BESIDE_EACH; e++) {
                    if (ROW) {
                        sum = COL ? sum + x[e] : fmaf(x[e], by[e], sum);
                        size = COL ? size + fabsf(x[e]) : fmaf(fabsf(x[e]), by_size[e], size);
                    }
                    if (COL) {
                        col[e] = ROW ? col[e] + x[e] : fmaf(x[e], weight, col[e]);
                        col_size[e] = ROW ? col_size[e] + fabsf(x[e])
                                          : fmaf(fabsf(x[e]), weight_size, col_size[e]);
                    }
                }
                of[(i + j) % BESIDE_FEW] = sum;
                of[BESIDE_FEW + (i + j) % BESIDE_FEW] = size;
            }
            if (ROW && i % BESIDE_FEW == BESIDE_FEW - 2) {
                const float one = hf_warp_sums(of);
                const int number = lane / (16 / BESIDE_FEW);
                const int which = row + i + 2 - BESIDE_FEW + number % BESIDE_FEW;
                if (lane % (16 / BESIDE_FEW) == 0 && which < there)
                    atomicAdd((number < BESIDE_FEW ? chunk.row : chunk.row_size) + which,
                              (double)one);
            }
        }
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    if (COL) {
        beside_add_columns(ring, col, chunk.col, chunk.cols);
        beside_add_columns(ring, col_size, chunk.col_size, chunk.cols);
    }
    __syncwarp();
}

/* A chunk of the operands. */
template <bool BF16>
static __device__ __forceinline__ void beside_operands(const struct gemm_beside &b, unsigned number,
                                                       char *ring) {
    unsigned rest = number;
    int i = 0;
    while (rest >= b.pass[i].chunks)
        rest -= b.pass[i++].chunks;
    const struct gemm_beside_pass &p = b.pass[i];
    const int row = (int)(rest / p.across) * BESIDE_ROWS;
    const int col = (int)(rest % p.across) * BESIDE_COLS;
    const int from = p.along ? col : row, to = p.along ? row : col;
    const struct beside_chunk chunk = {p.data + row * p.ld + col,
                                       p.ld,
                                       p.rows - row,
                                       p.cols - col,
                                       p.by != NULL ? p.by + from : NULL,
                                       p.by_size != NULL ? p.by_size + from : NULL,
                                       p.sum + to,
                                       p.size + to,
                                       p.sum + to,
                                       p.size + to};
    if (p.along)
        beside_sum<BF16, true, false>(chunk, BESIDE_ROWS, ring);
    else
        beside_sum<BF16, false, true>(chunk, BESIDE_ROWS, ring);
    if (number < b.early) {
        __threadfence();
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            atomicAdd(b.next + 1, 1u);
    }
}

/* `rows` rows of C, which others may have stored. */
template <bool BF16>
static __device__ __forceinline__ void beside_c(const struct gemm_job &job,
                                                const struct gemm_beside &b, int row, int col,
                                                int rows, char *ring) {
    const struct beside_chunk chunk = {(const uint16_t *)job.c + row * job.ldc + col,
                                       job.ldc,
                                       (int)job.m - row,
                                       (int)job.n - col,
                                       NULL,
                                       NULL,
                                       b.c[0] + row,
                                       b.c[1] + row,
                                       b.c[2] + col,
                                       b.c[3] + col};
    beside_sum<BF16, true, true>(chunk, rows, ring);
}

/* May a chunk be summed now? Early ones always. */
static __device__ __forceinline__ bool beside_may(const struct gemm_beside &b, unsigned chunk) {
    unsigned done;
    if (chunk < b.early)
        return true;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(done) : "l"(b.next + 1) : "memory");
    return __all_sync(0xffffffffu, done >= b.early);
}

#endif
