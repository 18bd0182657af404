/* SPDX-License-Identifier: Apache-2.0
 * march on CUDA: the call. Its kernels: march_kernels.cuh, in two forms. */
#include "device/cuda/room.h"
#include "ops/march/march_forms.cuh"

#define SILENCE_S 10e-6 /* signs of life come at least every 2 us */

static bool march_supports(const struct hf_call *call) {
    const struct hf_march_args *args = (const struct hf_march_args *)call->args;
    struct march_job job = {};
    job.map = args->map;
    job.factors = args->factors;
    const size_t most = call->device->sm >= 90 ? (size_t)227 << 10 : (size_t)99 << 10;
    return args->map.blocks <= call->device->sms && near_bytes(job) <= most &&
           args->a.rows < INT32_MAX / 2;
}

static struct hf_march_map stage_map(struct hf_stage *stage, const struct hf_march_map *map) {
    struct hf_march_map seen = *map;
    const size_t blocks = (size_t)map->blocks, starts = (blocks + 1) * sizeof(int64_t);
    const size_t places = blocks * (size_t)map->width * (size_t)map->threads;
    seen.block_start = (const int64_t *)hf_stage_in(stage, map->block_start, starts);
    seen.row_count = (const int32_t *)hf_stage_in(stage, map->row_count, blocks * sizeof(int32_t));
    seen.source_start = (const int64_t *)hf_stage_in(stage, map->source_start, starts);
    seen.source =
        (const int32_t *)hf_stage_in(stage, map->source, (size_t)map->sources * sizeof(int32_t));
    seen.value = (const double *)hf_stage_in(stage, map->value, places * sizeof(double));
    seen.column = (const uint16_t *)hf_stage_in(stage, map->column, places * sizeof(uint16_t));
    if (map->rhs_map == NULL)
        return seen;
    seen.rhs_start = (const int64_t *)hf_stage_in(stage, map->rhs_start, starts);
    seen.rhs_place = (const int32_t *)hf_stage_in(stage, map->rhs_place,
                                                  (size_t)map->rhs_places * sizeof(int32_t));
    seen.rhs_map_start = (const int64_t *)hf_stage_in(stage, map->rhs_map_start, starts);
    seen.rhs_map =
        (const double *)hf_stage_in(stage, map->rhs_map, hf_vector_bytes(map->rhs_elements));
    return seen;
}

static struct march_job stage_job(struct hf_stage *stage, const struct hf_march_args *args) {
    const int64_t n = args->a.rows, blocks = args->map.blocks;
    const size_t bytes = hf_march_state_bytes(n, blocks);
    struct march_job job = {};
    job.map = stage_map(stage, &args->map);
    job.a = hf_stage_sparse(stage, &args->a);
    job.inverse = (const double *)hf_stage_in(stage, args->inverse, hf_vector_bytes(n));
    job.b = (const double *)hf_stage_in(stage, args->b, hf_vector_bytes(n));
    job.x = (double *)hf_stage_inout(stage, args->x, hf_vector_bytes(n));
    job.factor =
        (const double *)hf_stage_in(stage, args->factor, hf_vector_bytes(2 * args->factors));
    job.sweeps = args->sweeps;
    job.factors = args->factors;
    job.every = args->every;
    job.lead = args->lead;
    job.most = (int)args->most;
    job.momentum = args->momentum;
    job.free = args->free;
    job.tested = args->goal >= 0;
    job.target = args->target;
    job.goal = args->goal;
    job.limit = (long long)(args->limit_s * CLOCK);
    job.silence = args->spares > 0
                      ? (long long)(CLOCK * (args->silence_s > 0 ? args->silence_s : SILENCE_S))
                      : INT64_MAX;
    job.spares = args->spares < HF_MARCH_SPARES ? args->spares : HF_MARCH_SPARES;
    job.tells_p = args->momentum || (job.spares > 0 && args->factors > 1);
    job.first = args->first;
    job.n = n;
    job.x_tag = (struct tag *)hf_stage_inout(stage, args->state, bytes);
    job.p_tag = job.x_tag + 2 * n;
    job.sum = job.p_tag + 2 * n;
    job.arrival = job.sum + SLOTS * blocks;
    job.round = job.arrival + 2 * blocks;
    job.verdict = job.round + 4 * blocks;
    job.beat = (hf_u64 *)(job.verdict + 8 * blocks);
    job.claim = job.beat + blocks;
    job.report =
        (struct hf_march_report *)hf_stage_inout(stage, args->report, sizeof *args->report);
    if (args->loss.blocks == NULL)
        return job;
    job.loss = args->loss;
    job.loss.blocks = (const uint8_t *)hf_stage_in(stage, args->loss.blocks, (size_t)blocks);
    job.pause = (long long)(args->loss.pause_s * CLOCK);
    job.lose_epoch = job.loss.moment <= HF_MARCH_HALF_TOLD ? (int)job.loss.at : 0;
    return job;
}

/* Blocks of threads beside those of the map, as many as are wanted and find room. */
static cudaError_t fit_spares(const struct hf_cuda *cuda, struct march_job *job,
                              march_kernel *kernel) {
    const int threads = job->map.threads + 32;
    int each = 1;
    if (job->spares + job->map.blocks > cuda->sms) {
        const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &each, (const void *)kernel, threads, near_bytes(*job));
        if (error != cudaSuccess)
            return error;
    }
    const int room = each * cuda->sms - (int)job->map.blocks;
    job->spares = job->spares < room ? job->spares : room;
    return cudaSuccess;
}

static hf_status launch(struct hf_cuda *cuda, struct march_job *job, bool timed) {
    const struct hf_device *device = hf_device_of(HF_DEV_CUDA);
    if (cuda->sm / 10 != 9) { /* march_guarded_sm90.cu */
        job->spares = 0;
        job->loss.blocks = NULL;
    }
    march_kernel *kernel = job->spares > 0 || job->loss.blocks != NULL ? hf_march_guarded(&job->map)
                                                                       : hf_march_plain(&job->map);
    void *list[] = {job};
    cudaError_t error = hf_cuda_room(cuda, (const void *)kernel);
    if (error == cudaSuccess && job->spares > 0)
        error = fit_spares(cuda, job, kernel);
    if (error == cudaSuccess && job->first == 0)
        error = cudaMemsetAsync(job->x_tag, 0, hf_march_state_bytes(job->n, job->map.blocks),
                                cuda->stream);
    HF_TRY(hf_cuda_check(cuda, error, "march"));
    if (timed)
        HF_TRY(device->mark(cuda, 0));
    const dim3 grid((unsigned)job->map.blocks + (unsigned)job->spares);
    error = cudaLaunchCooperativeKernel((const void *)kernel, grid,
                                        dim3((unsigned)job->map.threads + 32), list,
                                        near_bytes(*job), cuda->stream);
    HF_TRY(hf_cuda_check(cuda, error, "march"));
    return timed ? device->mark(cuda, 1) : HF_OK;
}

static hf_status march_run(const struct hf_call *call) {
    const struct hf_march_args *args = (const struct hf_march_args *)call->args;
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    struct march_job job = stage_job(&stage, args);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    return hf_stage_end(&stage, launch(stage.cuda, &job, args->timed));
}

static double march_estimate(const struct hf_call *call) {
    const struct hf_march_args *args = (const struct hf_march_args *)call->args;
    return hf_cuda_pass_ns(hf_sparse_bytes(&args->a)) +
           (double)args->most * (500.0 + 200.0 * args->sweeps);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("march_blocks_cuda", HF_DT(HF_F32) | HF_DT(HF_F64), 80, 0, HF_NO_TILE,
                   march_supports, NULL, march_run, march_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_march_kernels_cuda;
const struct hf_kernel_table hf_march_kernels_cuda = {kernels, 1};
}
