/* SPDX-License-Identifier: Apache-2.0 */
#include "slot_toy.h"
#include "device/cuda/cuda.h"
#include "device/cuda/slot.cuh"

#define THREADS 128

static __global__ void toy_kernel(struct hf_slot *slot, uint32_t number, struct toy_args toy) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
    if (toy.breaks)
        asm volatile("trap;");
    if (i >= toy.n)
        return;
    atomicAdd((unsigned long long *)&slot->checked, 1ull);
    if (i != toy.wrong && !toy.all_wrong)
        return;
    hf_slot_tell(slot, {HF_FAULT_CHECK, number, hf_slot_unit(), toy.column, i});
    atomicAdd((unsigned long long *)&slot->suspected, 1ull);
}

static hf_status toy_run(const struct hf_call *call) {
    struct hf_cuda *cuda = (struct hf_cuda *)call->stream;
    const struct toy_args *toy = (const struct toy_args *)call->args;
    const int before = hf_cuda_enter(cuda);
    toy_kernel<<<(unsigned)((toy->n + THREADS - 1) / THREADS), THREADS, 0, cuda->stream>>>(
        call->slot, call->kernel, *toy);
    const hf_status status = hf_cuda_launched(cuda, "toy");
    hf_cuda_leave(before);
    return status;
}

static const struct hf_kernel toy = {"toy_cuda", HF_DEV_CUDA, HF_DT_DATA, 80,      0,    0,
                                     {0, 0, 0},  NULL,        NULL,       toy_run, NULL, NULL};

extern "C" {
const struct hf_kernel *const hf_toy_cuda = &toy;
}
