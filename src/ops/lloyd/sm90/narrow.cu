/* SPDX-License-Identifier: Apache-2.0
 * The kernel for narrow rows. */
#include "ops/lloyd/sm90/narrow_label.cuh"
#include "ops/lloyd/sm90/small_frame.cuh"

template <class S>
static __global__ void __launch_bounds__(S::THREADS, 1)
    lloyd_narrow(const __grid_constant__ small_args a) {
    extern __shared__ __align__(1024) uint8_t memory[];
    struct small_memory<S> *const m = (struct small_memory<S> *)memory;
    if (threadIdx.x == 0) {
        hf_mbar_init(hf_shared(&m->ready), 1);
        hf_mbar_init_fence();
    }
    __syncthreads();
    small_problems(a, m, NULL);
}

/* ---- host */

bool hf_lloyd_narrow_supports(const struct hf_lloyd_args *a) {
    return a->rule.metric == HF_EUCLIDEAN && a->exact && a->sums->k <= HF_LLOYD_SMALL_K &&
           a->sums->d <= HF_LLOYD_NARROW_D && a->skipping != HF_SKIP_ON;
}

template <int KS, int TILES>
static hf_status narrow_start(struct hf_cuda *cuda, struct small_args a) {
    typedef struct narrow_shape<KS, TILES> S;
    const void *kernel = (const void *)lloyd_narrow<S>;
    const int bytes = (int)sizeof(struct small_memory<S>);
    static_assert(sizeof(struct small_memory<S>) <= 232448, "a block's shared memory");
    void *args[] = {&a};
    cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error == cudaSuccess)
        error = cudaLaunchCooperativeKernel(kernel, dim3((unsigned)(a.groups * a.blocks)),
                                            dim3(S::THREADS), args, (size_t)bytes, cuda->stream);
    return hf_cuda_check(cuda, error, "lloyd_narrow");
}

static hf_status narrow_choose(struct hf_cuda *cuda, const struct small_args &a) {
    const int k = (int)a.job.update.k;
    if (a.job.update.d > 16)
        return k <= 64    ? narrow_start<2, 8>(cuda, a)
               : k <= 104 ? narrow_start<2, 13>(cuda, a)
                          : narrow_start<2, 16>(cuda, a);
    if (k <= 64)
        return k <= 32 ? narrow_start<1, 4>(cuda, a) : narrow_start<1, 8>(cuda, a);
    return k <= 104 ? narrow_start<1, 13>(cuda, a) : narrow_start<1, 16>(cuda, a);
}

hf_status hf_lloyd_narrow_run(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                              const struct hf_assign_rows *rows, void *memory) {
    const int d = (int)job->update.d;
    struct small_args a = small_make_args(cuda, job, rows, d <= 16 ? 16 : 32, memory);
    /* mma.sync: see docs/numerics/gpu-filter.md */
    a.filter.acc = (float)((d + 15) / 16 + 4) * 0x1p-18f;
    a.filter.tiny = a.pieces.unit[0] * FILTER_TINY; /* what the pieces of a bias may lack */
    a.x16 = rows->x16;
    a.stride = rows->ld;
    a.ld = (d + 7) / 8 * 8;
    HF_TRY(small_clear(cuda, a));
    return narrow_choose(cuda, a);
}
