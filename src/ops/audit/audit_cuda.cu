/* SPDX-License-Identifier: Apache-2.0
 * audit on CUDA. Labels and book are read once, side by side; a block sums up what moves between
 * few clusters in shared memory first. Rows that left a cluster are listed, and a thread has one of
 * them while its two distances are computed in the order of the reference. */
#include "core/array.h"
#include "core/kernel.h"
#include "device/cuda/stage.h"
#include "ops/audit/audit.cuh"
#include "ops/chains.cuh"

#define THREADS 512
#define BLOCKS 2 /* of a multiprocessor */
#define EACH 8   /* rows of a thread, under way at once */
#define MOVE_THREADS 128
#define MOVE_BLOCKS 8

/* ---- the book */

/* The rows that the threads of a block have, in no fixed order: one global addition for all. */
static __device__ __forceinline__ void
list_rows(const struct hf_audit_job &job, const struct hf_audit_move (&move)[EACH], unsigned left) {
    __shared__ int count, first;
    if (threadIdx.x == 0)
        count = 0;
    __syncthreads();
    int at = left != 0 ? atomicAdd(&count, __popc(left)) : 0;
    __syncthreads();
    if (threadIdx.x == 0 && count > 0)
        first = atomicAdd(job.listed, count);
    __syncthreads();
#pragma unroll
    for (int u = 0; u < EACH; u++)
        if (left >> u & 1)
            job.list[first + at++] = move[u];
}

/* Rows [base, base + EACH * THREADS) of the block; returns how many of this thread's changed. */
static __device__ __forceinline__ int book_some(const struct hf_audit_job &job,
                                                const struct audit_bins &own, int64_t base) {
    struct hf_audit_move move[EACH];
    int32_t to[EACH];
    int changed = 0;
    unsigned left = 0; /* bit u: row u left a cluster */
#pragma unroll
    for (int u = 0; u < EACH; u++) {
        const int64_t i = base + u * THREADS + threadIdx.x;
        move[u] = {(int32_t)i, i < job.n ? job.booked[i] : 0};
        to[u] = i < job.n ? job.labels[i] : 0;
    }
#pragma unroll
    for (int u = 0; u < EACH; u++) {
        const bool moves = move[u].from != to[u];
        changed += moves;
        if (moves && audit_move_row(job, own, move[u].row, move[u].from, to[u]))
            left |= 1u << u;
    }
    if (job.list != NULL)
        list_rows(job, move, left);
    return changed;
}

static __global__ void __launch_bounds__(THREADS) audit_book(const struct hf_audit_job job) {
    extern __shared__ uint32_t shared[];
    const int k = (int)job.k;
    const struct audit_bins own = audit_bins_of(k <= AUDIT_BINS ? shared : NULL, k);
    if (job.stop != NULL && *job.stop != 0)
        return;
    audit_bins_clear(own, k, THREADS);
    int sum = 0;
    for (int64_t base = (int64_t)blockIdx.x * (EACH * THREADS); base < job.n;
         base += (int64_t)gridDim.x * (EACH * THREADS))
        sum += book_some(job, own, base);
    sum = __reduce_add_sync(~0u, sum);
    if (threadIdx.x % AUDIT_WARP == 0 && sum > 0)
        atomicAdd((hf_u64 *)&job.found->changed, (hf_u64)sum);
    audit_bins_add(job, own, k, THREADS);
}

hf_status hf_audit_book(struct hf_cuda *cuda, const struct hf_audit_job *job) {
    const int64_t rows = THREADS * EACH;
    const int64_t most = (job->n + rows - 1) / rows, full = (int64_t)cuda->sms * BLOCKS;
    const size_t shared = job->k <= AUDIT_BINS ? (size_t)job->k * 3 * sizeof(uint32_t) : 0;
    if (job->n > 0)
        audit_book<<<(unsigned)(most < full ? most : full), THREADS, shared, cuda->stream>>>(*job);
    return hf_cuda_launched(cuda, "audit_book");
}

/* ---- moves */

/* The reference distance of a row to a centroid, by one thread. */
static __device__ double distance_to(const struct hf_audit_job &job, const char *x,
                                     int64_t cluster) {
    const char *c = job.c + cluster * job.c_bytes;
    double sum = 0, xx = 0, cc = 0;
    for (int64_t f = 0; f < job.d; f++) {
        const double a = hf_device_load_any(x, job.dtype, f);
        const double b =
            job.dtype == HF_F64 ? ((const double *)c)[f] : (double)((const float *)c)[f];
        if (job.metric == HF_EUCLIDEAN) {
            const double diff = __dsub_rn(a, b);
            sum = __dadd_rn(sum, __dmul_rn(diff, diff));
        } else {
            sum = __dadd_rn(sum, __dmul_rn(a, b));
            xx = __dadd_rn(xx, __dmul_rn(a, a));
            cc = __dadd_rn(cc, __dmul_rn(b, b));
        }
    }
    if (job.metric == HF_COSINE)
        return hf_cosine_end(sum, xx, cc);
    return job.metric == HF_DOT ? -sum : sum;
}

static __global__ void __launch_bounds__(MOVE_THREADS) audit_moves(const struct hf_audit_job job) {
    if (job.stop != NULL && *job.stop != 0)
        return;
    const int count = *job.listed;
    for (int i = (int)(blockIdx.x * MOVE_THREADS + threadIdx.x); i < count;
         i += (int)(gridDim.x * MOVE_THREADS)) {
        const struct hf_audit_move move = job.list[i];
        const int32_t to = job.booked[move.row];
        const char *const x = job.x + move.row * job.x_bytes;
        const double was = distance_to(job, x, move.from), is = distance_to(job, x, to);
        if (was < is || (was == is && move.from < to))
            audit_note(&job.found->farther, move.row);
    }
}

/* One kernel for all types and metrics: rows that move are few. */
hf_status hf_audit_moves(struct hf_cuda *cuda, const struct hf_audit_job *job) {
    const int64_t most = (job->n + MOVE_THREADS - 1) / MOVE_THREADS;
    const int64_t full = (int64_t)cuda->sms * MOVE_BLOCKS;
    if (job->n > 0)
        audit_moves<<<(unsigned)(most < full ? most : full), MOVE_THREADS, 0, cuda->stream>>>(*job);
    return hf_cuda_launched(cuda, "audit_moves");
}

/* ---- sums and signatures */

static __global__ void __launch_bounds__(THREADS)
    audit_clusters(const struct audit_sums s, const int64_t *count, const struct hf_audit_job job) {
    const int64_t j = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / AUDIT_WARP;
    if (j >= s.k)
        return;
    const hf_u64 word = audit_word(s, j);
    if (threadIdx.x % AUDIT_WARP != 0)
        return;
    if (word != job.word[j])
        audit_note(&job.found->sum, j);
    if (count[j] != job.rows[j])
        audit_note(&job.found->count, j);
}

static __global__ void __launch_bounds__(THREADS)
    audit_words(const uint32_t *words, int64_t count, int64_t times, uint64_t *sign) {
    hf_u64 sum = 0;
#pragma unroll 8
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * THREADS)
        sum += audit_sign(words[i], i);
    sum = hf_warp_sum(sum);
    if (threadIdx.x % AUDIT_WARP == 0 && sum != 0)
        atomicAdd((hf_u64 *)sign, (hf_u64)times * sum);
}

hf_status hf_audit_sign(struct hf_cuda *cuda, const void *data, size_t bytes, int64_t times,
                        uint64_t *sign) {
    const int64_t words = (int64_t)(bytes / sizeof(uint32_t));
    const int64_t most = words / (THREADS * EACH) + 1, full = (int64_t)cuda->sms * 4;
    if (words > 0)
        audit_words<<<(unsigned)(most < full ? most : full), THREADS, 0, cuda->stream>>>(
            (const uint32_t *)data, words, times, sign);
    return hf_cuda_launched(cuda, "audit_words");
}

/* ---- the op */

/* Device views of a call, and what it works with. */
struct audit {
    const struct hf_audit_args *args;
    struct hf_cuda *cuda;
    struct hf_audit_job job;
    struct audit_sums sums;
    const int64_t *count;
    const uint32_t *words;
};

/* Measured with ws == NULL. */
static size_t carve(const struct hf_audit_args *args, char *ws, struct hf_audit_job *job) {
    job->listed = (int32_t *)ws;
    job->list = args->x.data != NULL ? (struct hf_audit_move *)(ws + HF_ALIGN) : NULL;
    return HF_ALIGN + (args->x.data != NULL ? (size_t)args->n * sizeof *job->list : 0);
}

static void stage_book(struct hf_stage *stage, struct audit *a) {
    const struct hf_audit_args *args = a->args;
    struct hf_audit_job *job = &a->job;
    const size_t n = (size_t)args->n, k = (size_t)args->k;
    job->word = (uint64_t *)hf_stage_inout(stage, args->word, k * sizeof(uint64_t));
    job->rows = (int64_t *)hf_stage_inout(stage, args->rows, k * sizeof(int64_t));
    if (args->labels == NULL)
        return;
    job->labels = (const int32_t *)hf_stage_in(stage, args->labels, n * sizeof(int32_t));
    job->booked = (int32_t *)hf_stage_inout(stage, args->booked, n * sizeof(int32_t));
    job->hash = (const uint64_t *)hf_stage_in(stage, args->hash, n * sizeof(uint64_t));
    if (args->x.data == NULL)
        return;
    const hf_array x = hf_stage_array(stage, &args->x), c = hf_stage_array(stage, &args->c);
    job->x = (const char *)x.data;
    job->c = (const char *)c.data;
    job->x_bytes = hf_array_stride(&x) * (int64_t)hf_dtype_bytes(x.dtype);
    job->c_bytes = hf_array_stride(&c) * (int64_t)hf_dtype_bytes(c.dtype);
    job->dtype = x.dtype;
    job->d = x.cols;
}

static void stage_sums(struct hf_stage *stage, struct audit *a) {
    const struct hf_sums *s = a->args->sums;
    const size_t clusters = (size_t)(s->limbs * s->k) * sizeof(int64_t);
    a->sums.sum = (const int64_t *)hf_stage_in(stage, s->sum, clusters * (size_t)s->d);
    a->sums.weight = (const int64_t *)hf_stage_in(stage, s->weight, s->weight ? clusters : 0);
    a->sums.factor = (const hf_u64 *)hf_stage_in(stage, a->args->factor,
                                                 (size_t)(s->limbs * (s->d + 1)) * sizeof(hf_u64));
    a->count = (const int64_t *)hf_stage_in(stage, s->count, (size_t)s->k * sizeof(int64_t));
    a->sums.k = s->k;
    a->sums.d = s->d;
    a->sums.limbs = s->limbs;
}

static hf_status launch(struct audit *a) {
    struct hf_cuda *cuda = a->cuda;
    const struct hf_audit_job *job = &a->job;
    if (job->list != NULL)
        HF_TRY(hf_cuda_check(cuda, cudaMemsetAsync(job->listed, 0, sizeof(int32_t), cuda->stream),
                             "audit"));
    if (job->labels != NULL)
        HF_TRY(hf_audit_book(cuda, job));
    if (job->labels != NULL && job->x != NULL)
        HF_TRY(hf_audit_moves(cuda, job));
    if (a->args->sums != NULL)
        audit_clusters<<<(unsigned)((job->k * AUDIT_WARP + THREADS - 1) / THREADS), THREADS, 0,
                         cuda->stream>>>(a->sums, a->count, *job);
    if (a->words != NULL)
        HF_TRY(hf_audit_sign(cuda, a->words, (size_t)a->args->n_words * 4, 1, &job->found->sign));
    return hf_cuda_launched(cuda, "audit");
}

static hf_status audit_run(const struct hf_call *call) {
    const struct hf_audit_args *args = (const struct hf_audit_args *)call->args;
    struct audit a = {};
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    a.args = args;
    a.cuda = (struct hf_cuda *)call->stream;
    a.job.n = args->n;
    a.job.k = args->k;
    a.job.metric = args->metric;
    memset(args->found, 0, sizeof *args->found);
    args->found->outside = args->found->farther = args->found->sum = args->found->count = -1;
    if (args->labels != NULL || args->sums != NULL)
        stage_book(&stage, &a);
    if (args->sums != NULL)
        stage_sums(&stage, &a);
    a.words = (const uint32_t *)hf_stage_in(&stage, args->words, (size_t)args->n_words * 4);
    a.job.found = (struct hf_audit_found *)hf_stage_inout(&stage, args->found, sizeof *args->found);
    (void)carve(args, (char *)call->ws, &a.job);
    return hf_stage_end(&stage, hf_stage_ready(&stage) ? launch(&a) : HF_OK);
}

static size_t audit_workspace(const struct hf_call *call) {
    struct hf_audit_job job;
    return carve((const struct hf_audit_args *)call->args, NULL, &job);
}

static bool audit_supports(const struct hf_call *call) {
    const struct hf_audit_args *args = (const struct hf_audit_args *)call->args;
    const bool doubles = args->x.dtype == HF_F64;
    return args->n < INT32_MAX && args->k < INT32_MAX &&
           (args->x.data == NULL || args->c.dtype == (doubles ? HF_F64 : HF_F32));
}

static double audit_estimate(const struct hf_call *call) {
    const struct hf_audit_args *args = (const struct hf_audit_args *)call->args;
    return hf_cuda_pass_ns(8 * (double)args->n + 4 * (double)args->n_words);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("audit_any_cuda", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE,
                   audit_supports, audit_workspace, audit_run, audit_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_audit_kernels_cuda;
const struct hf_kernel_table hf_audit_kernels_cuda = {kernels, 1};
}
