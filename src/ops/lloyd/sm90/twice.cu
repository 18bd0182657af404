/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/load.cuh"
#include "device/cuda/slot_note.cuh"
#include "ops/lloyd/cuda/follow.cuh"
#include "ops/lloyd/cuda/twice.h"

/* Words of the arrays. */
struct twin_words {
    int64_t sum, count, weight;
};

static __host__ __device__ struct twin_words words_of(const struct hf_update_job &u) {
    return {u.batch * u.limbs * u.k * u.d, u.batch * u.k,
            u.weight != NULL ? u.batch * u.limbs * u.k : 0};
}

size_t hf_lloyd_twin_carve(const struct hf_lloyd_args *a, void *memory,
                           struct hf_lloyd_twin *twin) {
    const struct hf_sums *s = a->sums;
    size_t used = 0;
    auto take = [&](int64_t words) {
        void *p = memory != NULL && words > 0 ? (char *)memory + used : NULL;
        used += ((size_t)words * sizeof(int64_t) + 255) / 256 * 256;
        return p;
    };
    twin->sum = (int64_t *)take(a->batch * s->limbs * s->k * s->d);
    twin->count = (int64_t *)take(a->batch * s->k);
    twin->weight = (int64_t *)take(s->weight != NULL ? a->batch * s->limbs * s->k : 0);
    twin->differ = (int32_t *)take(1);
    return used;
}

static hf_status copy(struct hf_cuda *cuda, int64_t *to, const int64_t *from, int64_t words) {
    if (words == 0)
        return HF_OK;
    return hf_cuda_check(
        cuda,
        cudaMemcpyAsync(to, from, (size_t)words * sizeof *to, cudaMemcpyDefault, cuda->stream),
        "lloyd: second sums");
}

hf_status hf_lloyd_twin_begin(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                              const struct hf_lloyd_twin *twin) {
    const struct hf_update_job &u = job->update;
    const struct twin_words words = words_of(u);
    HF_TRY(copy(cuda, twin->sum, u.sum, words.sum));
    HF_TRY(copy(cuda, twin->count, u.count, words.count));
    HF_TRY(copy(cuda, twin->weight, u.weight, words.weight));
    return hf_cuda_check(cuda, cudaMemsetAsync(twin->differ, 0, sizeof *twin->differ, cuda->stream),
                         "lloyd: second sums");
}

/* ---- the kernel */

static __device__ bool differ(const int64_t *a, const int64_t *b, int64_t words) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    bool any = false;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step)
        any |= __ldcg(a + i) != __ldcg(b + i);
    return any;
}

/* All blocks are done with a run of update, and its scratch is ready for another one. */
static __device__ void end_run(const struct hf_update_job &job) {
    hf_grid_wait(job.scratch.barrier);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        update_release(job);
    hf_grid_wait(job.scratch.barrier);
}

/* The sums of all rows, from nothing but their labels. */
template <hf_dtype T>
static __device__ void sum_anew(const struct hf_update_job &job, const int32_t *labels,
                                uint32_t *shared) {
    struct update_source from = {labels, NULL, NULL, (uint32_t)(job.batch * job.n), false};
    clear_sums(job);
    update_many<T>(job, from, shared);
    end_run(job);
}

static __device__ void tell(const struct hf_lloyd_twin &twin) {
    const struct hf_event event = {
        {HF_FAULT_TWICE, twin.kernel, -1, -1, -1}, HF_BEHAVIOUR_TRANSIENT, 0};
    hf_slot_note(twin.slot, event);
    atomicAdd((unsigned long long *)&twin.slot->suspected, 1ull);
    atomicAdd((unsigned long long *)&twin.slot->confirmed, 1ull);
    atomicAdd((unsigned long long *)&twin.slot->repaired, 1ull);
}

template <hf_dtype T>
static __global__ void __launch_bounds__(HF_UPDATE_THREADS, HF_UPDATE_BLOCKS)
    lloyd_twice(const __grid_constant__ struct hf_lloyd_job job,
                const __grid_constant__ struct hf_lloyd_job second,
                const __grid_constant__ struct hf_lloyd_twin twin, int side) {
    extern __shared__ uint32_t shared[];
    if (job.control->halt)
        return;
    const struct hf_update_job &u = job.update;
    const struct twin_words words = words_of(u);
#pragma unroll 1
    for (int i = 0; i < 2; i++) {
        follow_labels<T>(i == 0 ? job : second, side, shared);
        end_run(u);
    }
    bool any = differ(u.sum, twin.sum, words.sum) | differ(u.count, twin.count, words.count);
    any |= words.weight > 0 && differ(u.weight, twin.weight, words.weight);
    if (any)
        atomicOr(twin.differ, 1);
    hf_grid_wait(u.scratch.barrier);
    if (__ldcg(twin.differ) != 0) {
#pragma unroll 1
        for (int i = 0; i < 2; i++)
            sum_anew<T>(i == 0 ? u : second.update, job.labels[1 - side], shared);
        if (blockIdx.x == 0 && threadIdx.x == 0) {
            tell(twin);
            *twin.differ = 0;
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        atomicAdd((unsigned long long *)&twin.slot->checked, 1ull);
        job.control->moved = 0; /* they have */
    }
}

hf_status hf_lloyd_follow_twice(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                                const struct hf_lloyd_twin *twin, int side) {
    const dim3 grid((unsigned)cuda->sms * HF_UPDATE_BLOCKS);
    const size_t shared = hf_update_bins_bytes(job->update.batch, job->update.k);
    struct hf_lloyd_job second = *job;
    second.update.sum = twin->sum;
    second.update.count = twin->count;
    second.update.weight = twin->weight;
    void *args[] = {(void *)job, &second, (void *)twin, &side};
    cudaError_t error = cudaSuccess;
    hf_for_dtype(job->update.dtype, [&](auto type) {
        error = cudaLaunchCooperativeKernel((const void *)lloyd_twice<decltype(type)::value>, grid,
                                            dim3(HF_UPDATE_THREADS), args, shared, cuda->stream);
    });
    return hf_cuda_check(cuda, error, "lloyd_twice");
}
