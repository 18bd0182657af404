/* SPDX-License-Identifier: Apache-2.0
 * A call of op gemm as kernels of a GPU see it: all pointers are the device's. */
#ifndef HF_GEMM_CUDA_JOB_H
#define HF_GEMM_CUDA_JOB_H

#include "device/cuda/cuda.h"
#include "device/slot.h"
#include "ops/gemm/sums.h"

#ifdef __cplusplus
extern "C" {
#endif

/* op(A), whose lines are its rows, or op(B), whose lines are its columns: element p of line i of
 * product b is element b * stride + i * line + p * step; one of line and step is 1. */
struct gemm_side {
    const void *data;
    int64_t stride, line, step;
    int64_t lines;
    bool wide; /* 16 bytes from a multiple of 16 on may be read at once */
};

/* What the block of a tile, or of some tiles, signed: sums modulo 2^64 of what its threads did. An
 * entry without its seal is of a tile that nobody computed, or has not reached the host whole. */
struct gemm_entry {
    uint64_t a, b, c, seal;
    int32_t panels, tiles, unit, unused;
    uint64_t changed[2]; /* the stamp: with L, a stage of it changed before it was used */
};

struct gemm_job {
    struct gemm_side a, b;
    void *c;
    int64_t stride_c, ldc;
    int64_t m, n, k;           /* k is 0 where A and B are not read */
    int64_t tiles_m, tiles_n;  /* of a product */
    int64_t tiles, first_tile; /* of all products; the first one of this launch */
    double alpha, beta;
    hf_dtype dtype_c;
    bool c_wide; /* 16 bytes of C from a multiple of 16 on may be written at once */
    /* Signatures; entries NULL: none. */
    struct gemm_entry *entries; /* [tiles], or [blocks]; locked memory of the host, or of the
                                   device if sums is not NULL */
    bool by_block;              /* the latter: one for all tiles of a block */
    unsigned *done;             /* tiles so far; 0 before the launch */
    uint64_t *sums;             /* five numbers as in hf_gemm_signatures, by the last block; NULL:
                                   the host makes them, and done is not there */
    int tile_rows, tile_cols;
    hf_gemm_tile *told; /* [tiles] in the order of their places, or NULL */
    uint64_t stamp;     /* of this call */
    int checksum, release;
    hf_gemm_plant plant;
    int64_t plant_at, plant_step;
    struct hf_slot *slot;
    uint32_t kernel;               /* as whose finding */
    struct hf_sums_beside *beside; /* the host's: sums wanted of a kernel that can; NULL: none */
};

/* What a kernel wants of a side that is not wide, or does not fill its last tile. */
enum gemm_wide {
    GEMM_AS_IT_IS, /* nothing */
    GEMM_WIDE,     /* a copy that is wide; also, if it pays, where rows share lines of the cache */
    GEMM_WIDE_PAYS /* a copy where it costs little beside the product */
};

/* A kernel of one shape of tile. */
struct gemm_launch {
    int64_t rows, cols; /* of a tile */
    enum gemm_wide wide;
    bool stays; /* a block for each multiprocessor, which takes tile after tile */
    hf_status (*launch)(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks);
};

/* Bytes of the workspace. */
size_t hf_gemm_cuda_workspace(const hf_gemm_args *args, const struct gemm_launch *how);

/* Copy a side into `to`, so that it is wide. (gemm_pack.cu) */
struct gemm_pack_args {
    struct gemm_side *side;
    hf_dtype dtype;
    int64_t tile, k, batch; /* tile: lines of one */
};
size_t hf_gemm_packed_bytes(const struct gemm_pack_args *args);
hf_status hf_gemm_pack(struct hf_cuda *cuda, const struct gemm_pack_args *args, void *to);

/* Stage the matrices, launch for all tiles, bring back C and the signatures. */
hf_status hf_gemm_cuda_run(const struct hf_call *call, const struct gemm_launch *how);

bool hf_gemm_cuda_supports(const struct hf_call *call);

/* simt.cu: one element is one thread's chain of fused multiply-adds, for all types. */
hf_status hf_gemm_simt_f32(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks);
hf_status hf_gemm_simt_f64(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks);
hf_status hf_gemm_simt_f16(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks);
hf_status hf_gemm_simt_bf16(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks);
hf_status hf_gemm_simt_i8(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks);
/* By tiles of 64 x 64. */
hf_status hf_gemm_simt_f32_small(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks);

/* gemm_mma.cu: tensor cores, tiles of 128 x 128; both sides wide. */
hf_status hf_gemm_mma_f16(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks);
hf_status hf_gemm_mma_bf16(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks);

/* sm90/dmma.cu: float64 by tensor cores, tiles of 128 x 128. */
hf_status hf_gemm_dmma(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks);
/* sm90/gemm_wgmma.cu: tiles of 128 x 256; both sides wide. */
hf_status hf_gemm_wgmma_f16(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks);
hf_status hf_gemm_wgmma_bf16(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks);

#ifdef __cplusplus
}
#endif
#endif
