/* SPDX-License-Identifier: Apache-2.0
 * Parts of the checks of an iteration (check.cu). */
#ifndef HF_LLOYD_CUDA_CHECK_CUH
#define HF_LLOYD_CUDA_CHECK_CUH

#include "device/cuda/rng.cuh"
#include "ops/lloyd/cuda/moves.cuh"

#define ROW_SEED 0x726f7773ull
#define ROW_LANES 8
#define ROW_VALUES 1024 /* of centroids that a warp compares a row with: 1 us */

/* ---- clusters */

/* What value i of centroids adds to their signature. */
static __device__ __forceinline__ hf_u64 sign_center(double value, hf_dtype type, int64_t i) {
    if (type != HF_F64)
        return audit_sign(__float_as_uint((float)value), i);
    const hf_u64 bits = (hf_u64)__double_as_longlong(value);
    return audit_sign((uint32_t)bits, 2 * i) + audit_sign((uint32_t)(bits >> 32), 2 * i + 1);
}

static __device__ __forceinline__ bool same(double a, double b) {
    return __double_as_longlong(a) == __double_as_longlong(b);
}

/* The words of second limbs and of the weight, a part of each lane. */
static __device__ __forceinline__ hf_u64 other_words(const struct hf_update_job &u,
                                                     const uint64_t *factor, int64_t j) {
    const int lane = (int)threadIdx.x % UPDATE_WARP;
    hf_u64 word = 0;
    for (int64_t f = lane; u.limbs > 1 && f < u.d; f += UPDATE_WARP)
        word += factor[u.d + 1 + f] * (hf_u64)u.sum[(u.k + j) * u.d + f];
    if (u.weight == NULL || lane >= u.limbs)
        return word;
    return word + factor[lane * (u.d + 1) + u.d] * (hf_u64)u.weight[lane * u.k + j];
}

/* ---- rows */

/* |x - c_j|^2, in all lanes of a group of ROW_LANES. */
template <hf_dtype T>
static __device__ __forceinline__ double distance_to(const struct hf_lloyd_job &job, const char *x,
                                                     int64_t j, int side) {
    const struct hf_update_job &u = job.update;
    double sum = 0;
#pragma unroll 4
    for (int64_t f = threadIdx.x % ROW_LANES; f < u.d; f += ROW_LANES) {
        const double diff =
            hf_device_load<T>(x, f) - center_at(job.centers[side], job.rule.type, j * u.d + f);
        sum += diff * diff;
    }
    for (int step = ROW_LANES / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(ALL, sum, step);
    return sum;
}

/* Is a row that the lot chooses in this step nearer to another centroid than to its own, by more
 * than rounding? Warp number `spare` of those without a cluster looks at some of the centroids; the
 * rows of an iteration find a multiprocessor that computes wrongly again and again. */
template <hf_dtype T>
static __device__ void look_at_row(const struct hf_lloyd_job &job,
                                   const struct hf_lloyd_checks &checks, int side, int64_t spare) {
    constexpr int GROUPS = UPDATE_WARP / ROW_LANES;
    const struct hf_update_job &u = job.update;
    const int64_t some = max(ROW_VALUES / u.d, (int64_t)1), parts = (u.k + some - 1) / some;
    const uint64_t lot =
        hf_device_rng_bits(ROW_SEED, (uint64_t)checks.ledger->moves, (uint64_t)(spare / parts));
    const int64_t row = (int64_t)(lot % (uint64_t)u.n);
    const int32_t label = checks.audit.booked[row];
    const int64_t begin = spare % parts * some, end = min(begin + some, u.k);
    const char *x = u.x + row * u.row_bytes;
    if ((uint32_t)label >= (uint32_t)u.k)
        return; /* told as outside */
    const double own = distance_to<T>(job, x, label, side);
    const double most = own - 2 * rounding(u.d) * own - (double)u.d * 0x1p-1000;
    bool nearer = false;
    for (int64_t base = begin; base < end; base += GROUPS) {
        const int64_t j = base + threadIdx.x % UPDATE_WARP / ROW_LANES;
        nearer |= distance_to<T>(job, x, min(j, end - 1), side) < most;
    }
    if (nearer)
        audit_note(&checks.ledger->stray, row);
}

/* Does this step look for rows that should have moved, then or before? */
static __device__ __forceinline__ bool looks_for_rest(const struct hf_lloyd_job &job,
                                                      const struct hf_lloyd_checks &checks) {
    return (job.first + job.control->steps) % checks.every == 0;
}

static __device__ __forceinline__ bool looks_at_rows(const struct hf_lloyd_job &job,
                                                     const struct hf_lloyd_checks &checks) {
    return looks_for_rest(job, checks) && job.exact && job.rule.metric == HF_EUCLIDEAN &&
           (checks.checks & HF_CHECK_BIT(HF_FAULT_INDEX)) != 0;
}

/* ---- the verdict */

/* Did the centroids move? */
static __device__ __forceinline__ bool moved(int32_t stop) {
    return stop == HF_STOP_NONE || stop == HF_STOP_TOL;
}

/* A row of which a check tells, -1: of none. */
static __device__ __forceinline__ int64_t row_of(const struct hf_lloyd_ledger &l) {
    return l.found.outside >= 0   ? l.found.outside
           : l.found.farther >= 0 ? l.found.farther
           : l.stray >= 0         ? l.stray
                                  : l.late;
}

/* HF_CHECK_BIT() of the check that tells of it. What is behind a label that was wrong before this
 * iteration is older: the fit begins anew, as after labels that the end does not confirm. */
static __device__ __forceinline__ uint32_t wrong_row(const struct hf_lloyd_ledger &l) {
    return l.found.outside >= 0   ? HF_CHECK_BIT(HF_FAULT_RANGE)
           : l.found.farther >= 0 ? HF_CHECK_BIT(HF_FAULT_MOVES)
           : l.stray >= 0         ? HF_CHECK_BIT(HF_FAULT_INDEX)
                                  : HF_CHECK_BIT(HF_FAULT_FINISH);
}

/* The iteration was wrong: it did not happen. */
static __device__ void end_with(const struct hf_lloyd_job &job,
                                const struct hf_lloyd_checks &checks,
                                const struct hf_lloyd_ledger &l, uint32_t wrong, int64_t row) {
    struct hf_finding finding;
    finding.fault = (uint32_t)__ffs((int)wrong) - 1;
    finding.kernel = checks.kernel;
    finding.unit = -1;
    finding.column = l.cluster;
    finding.row = row;
    hf_slot_tell(checks.slot, finding);
    struct hf_lloyd_state state = job.state[0];
    state.stop = HF_LLOYD_FAULT;
    state.iterations = l.iterations;
    job.state[0] = state;
    job.control->state = state;
    job.control->moves = l.moves;
    job.control->halt = 1;
    checks.ledger->ended = 1;
}

#endif
