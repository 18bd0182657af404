/* SPDX-License-Identifier: Apache-2.0
 * Work on a few multiprocessors alone: blocks that leave no room for others hold the rest of the
 * device until they are told to go or their time is up. */
#include "device/cuda/pin.h"

#include "base/mem.h"
#include "device/cuda/cuda.h"

#include <time.h>

#define THREADS 1024 /* two blocks have all threads of a multiprocessor */
#define BLOCKS 2     /* of a multiprocessor */

/* In memory of the device. */
struct pin_state {
    unsigned arrived, stayed; /* blocks so far */
    int go;                   /* 1: all have come, 2: all may leave */
};

/* In locked memory of the host. */
struct pin_word {
    volatile unsigned held, late; /* by the device */
    volatile unsigned stop;       /* by the host */
};

struct hf_pin {
    cudaStream_t stream;
    struct pin_state *state;
    struct pin_word *word;
    int shared; /* bytes of a block */
    int sms;    /* of the whole device */
};

static __device__ __forceinline__ unsigned long long now_ns(void) {
    unsigned long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

static __device__ __forceinline__ int read_now(const int *p) { return *(const volatile int *)p; }

/* Blocks on multiprocessors [first, first + count) leave as soon as all blocks have a place. The
 * first of those that stay looks for the host's word, the others wait for its. */
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    pin_kernel(struct pin_state *state, struct pin_word *word, int first, int count,
               unsigned long long limit_ns) {
    if (threadIdx.x == 0) {
        const unsigned long long end = now_ns() + limit_ns;
        unsigned unit;
        asm("mov.u32 %0, %%smid;" : "=r"(unit));
        const bool stays = (int)unit < first || (int)unit >= first + count;
        const bool leads = stays && atomicAdd(&state->stayed, 1) == 0;
        if (atomicAdd(&state->arrived, 1) == gridDim.x - 1)
            atomicExch(&state->go, 1);
        while (read_now(&state->go) == 0 && now_ns() < end)
            __nanosleep(200);
        if (leads) {
            word->held = 1;
            while (word->stop == 0 && now_ns() < end)
                __nanosleep(500);
            if (word->stop == 0)
                word->late = 1;
            __threadfence_system();
            atomicExch(&state->go, 2);
        }
        while (stays && read_now(&state->go) != 2 && now_ns() < end)
            __nanosleep(500);
    }
    __syncthreads();
}

static void nap(void) {
    const struct timespec t = {0, 2000};
    (void)nanosleep(&t, NULL);
}

static cudaError_t make(struct hf_pin *pin, const struct hf_cuda *cuda) {
    int most = 0, kept = 0;
    cudaError_t error = cudaStreamCreateWithFlags(&pin->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&pin->state, sizeof *pin->state);
    if (error == cudaSuccess)
        error = cudaHostAlloc((void **)&pin->word, sizeof *pin->word, cudaHostAllocMapped);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerMultiprocessor,
                                       cuda->device);
    if (error == cudaSuccess)
        error =
            cudaDeviceGetAttribute(&kept, cudaDevAttrReservedSharedMemoryPerBlock, cuda->device);
    pin->shared = most / BLOCKS - kept;
    if (error == cudaSuccess)
        error = cudaFuncSetAttribute(pin_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     pin->shared);
    return error;
}

void hf_cuda_pin_close(struct hf_pin *pin) {
    if (pin == NULL)
        return;
    if (pin->word != NULL)
        pin->word->stop = 1;
    if (pin->stream != NULL) {
        (void)cudaStreamSynchronize(pin->stream);
        (void)cudaStreamDestroy(pin->stream);
    }
    (void)cudaFree(pin->state);
    (void)cudaFreeHost(pin->word);
    (void)cudaGetLastError();
    hf_free(pin);
}

hf_status hf_cuda_pin_open(void *stream, struct hf_pin **pin) {
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    struct hf_pin *p = (struct hf_pin *)hf_alloc_zero(sizeof *p);
    if (p == NULL)
        return HF_E_NOMEM;
    const int before = hf_cuda_enter(cuda);
    p->sms = cuda->sms;
    const hf_status status = hf_cuda_check(cuda, make(p, cuda), "pin");
    hf_cuda_leave(before);
    if (status == HF_OK)
        *pin = p;
    else
        hf_cuda_pin_close(p);
    return status;
}

hf_status hf_cuda_pin_begin(void *stream, struct hf_pin *pin, int first, int count,
                            double limit_s) {
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    struct pin_word *word = pin->word;
    unsigned long long limit_ns = (unsigned long long)(limit_s * 1e9);
    void *args[] = {&pin->state, &word, &first, &count, &limit_ns};
    pin->word->held = pin->word->late = pin->word->stop = 0;
    HF_TRY(hf_cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "pin"));
    HF_TRY(hf_cuda_check(cuda, cudaMemsetAsync(pin->state, 0, sizeof *pin->state, pin->stream),
                         "pin"));
    HF_TRY(hf_cuda_check(
        cuda,
        cudaLaunchCooperativeKernel((const void *)pin_kernel, dim3((unsigned)(pin->sms * BLOCKS)),
                                    dim3(THREADS), args, (size_t)pin->shared, pin->stream),
        "pin"));
    while (pin->word->held == 0 && cudaStreamQuery(pin->stream) == cudaErrorNotReady)
        nap();
    (void)cudaGetLastError();
    cuda->sms = count;
    return HF_OK;
}

hf_status hf_cuda_pin_end(void *stream, struct hf_pin *pin, bool *kept) {
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    pin->word->stop = 1;
    const hf_status status =
        hf_cuda_check(cuda, cudaStreamSynchronize(pin->stream), "multiprocessors held");
    cuda->sms = pin->sms;
    *kept = pin->word->held != 0 && pin->word->late == 0;
    return status;
}

double hf_cuda_clock(void *stream) {
    int khz = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate,
                                                     ((const struct hf_cuda *)stream)->device);
    return error == cudaSuccess ? 1e3 * khz : 0;
}
