/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/inject/device_door.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "core/array.h"
#include "device/device.h"
#include "harness/inject/lane_strike.h"
#include "ops/lloyd/lloyd.h"
#include <limits.h>
#include <string.h>

int hf_device_kernel_op(const struct hf_kernel *kernel) {
    const struct hf_kernel *other = NULL;
    for (int op = 0; kernel->device != HF_DEV_HOST && op < HF_OP_COUNT; op++)
        for (int i = 0; (other = hf_kernel_at(op, i)) != NULL; i++)
            if (other == kernel)
                return op;
    return -1;
}

void hf_device_copy(const struct hf_call *call, const struct hf_kernel *kernel, void *dst,
                    const void *src, size_t bytes) {
    if (kernel->device == HF_DEV_HOST)
        memcpy(dst, src, bytes);
    else
        (void)hf_device_of(kernel->device)->copy(call->stream, dst, src, bytes);
}

hf_status hf_device_run_lanes(const struct hf_call *call, const struct hf_fault_site *site) {
#if HF_HAVE_CUDA
    const uint32_t mask = (uint32_t)site->mask;
    const struct hf_struck_lane lane = {.unit = (int32_t)site->worker,
                                        .lane = (int32_t)site->lane,
                                        .keep = site->act == HF_ACT_STUCK0 ? ~mask : UINT32_MAX,
                                        .set = site->act == HF_ACT_STUCK1 ? mask : 0,
                                        .flip = site->act == HF_ACT_FLIP ? mask : 0};
    return hf_struck_lanes_run(call, &lane);
#else
    (void)call, (void)site;
    return HF_E_UNSUPPORTED;
#endif
}

/* ---- op lloyd */

#define MOVED 5 /* arrays that may lie in memory of the host */

struct moved {
    void *host, *device;
    size_t bytes;
};

/* A call at work. */
struct lloyd_run {
    const struct hf_device *device;
    void *stream;
    struct hf_lloyd_args args; /* with arrays of the device */
    struct hf_sums sums;
    const struct hf_lloyd_args *asked;
    const struct hf_device_striker *striker;
    struct moved moved[MOVED];
};

/* The workspace of the call at work: there is one at a time in a thread. */
static _Thread_local struct hf_place_array workspace;

struct hf_place_array hf_device_workspace_place(void) {
    return workspace;
}

static void *move(struct lloyd_run *run, int at, void *host, size_t bytes) {
    struct moved *m = &run->moved[at];
    if (!host || run->device->owns(run->stream, host))
        return host;
    *m = (struct moved){host, run->device->alloc(run->stream, bytes), bytes};
    if (!m->device)
        return host;
    (void)run->device->copy(run->stream, m->device, host, bytes);
    return m->device;
}

static void move_back(struct lloyd_run *run) {
    for (int i = 0; i < MOVED; i++) {
        const struct moved *m = &run->moved[i];
        if (!m->device)
            continue;
        (void)run->device->copy(run->stream, m->host, m->device, m->bytes);
        run->device->release(run->stream, m->device);
    }
}

static int after_iteration(void *user, int iteration, const hf_kmeans_iteration *it) {
    struct lloyd_run *run = user;
    const int stop =
        run->asked->progress ? run->asked->progress(run->asked->progress_user, iteration, it) : 0;
    run->striker->strike(run->striker->user, &run->args, 1);
    return stop;
}

static void take_arrays(struct lloyd_run *run) {
    struct hf_lloyd_args *a = &run->args;
    struct hf_sums *s = &run->sums;
    const size_t words = (size_t)(a->batch * s->limbs * s->k) * sizeof(int64_t);
    const size_t centers = (size_t)(a->batch * s->k * s->d) * hf_dtype_bytes(a->rule.type);
    s->sum = move(run, 0, s->sum, words * (size_t)s->d);
    s->count = move(run, 1, s->count, (size_t)(a->batch * s->k) * sizeof(int64_t));
    s->weight = move(run, 2, s->weight, words);
    a->current = move(run, 3, a->current, centers);
    a->previous = move(run, 4, a->previous, centers);
    a->sums = s;
}

/* Each iteration is told of. */
static hf_status run_slowly(struct lloyd_run *run, const struct hf_kernel *kernel,
                            const struct hf_call *call) {
    run->args.settle = false; /* it cannot be told of its iterations, too */
    run->args.progress = after_iteration;
    run->args.progress_user = run;
    return kernel->run(call);
}

/* In calls of as many iterations as pass until the next strike. */
static hf_status run_ahead(struct lloyd_run *run, const struct hf_kernel *kernel,
                           const struct hf_call *call, int ahead) {
    const struct hf_lloyd_args *asked = run->asked;
    struct hf_lloyd_args *a = &run->args;
    const int32_t calls = a->state->calls;
    int made = 0;
    while (ahead > 0) {
        const int left = asked->count - made;
        a->count = ahead < left ? ahead : left;
        a->settle = asked->settle && a->count == left;
        a->first = asked->first + made;
        a->history = asked->history + made;
        HF_TRY(kernel->run(call));
        made += a->state->iterations;
        run->striker->strike(run->striker->user, a, a->state->iterations);
        const bool more = a->state->stop == HF_STOP_NONE && made < asked->count;
        ahead = more ? run->striker->ahead(run->striker->user) : 0;
    }
    a->state->iterations = made;
    a->state->calls = calls + 1;
    return HF_OK;
}

/* One problem. */
static hf_status run_alone(const struct hf_kernel *kernel, const struct hf_call *call,
                           const struct hf_device_striker *striker) {
    const struct hf_lloyd_args *asked = call->args;
    struct lloyd_run run = {.device = hf_device_of(kernel->device),
                            .stream = call->stream,
                            .args = *asked,
                            .sums = *asked->sums,
                            .asked = asked,
                            .striker = striker};
    take_arrays(&run);
    struct hf_call struck = hf_call_part(call, &run.args);
    memcpy(struck.step, call->step, sizeof struck.step);
    workspace = (struct hf_place_array){call->ws, kernel->workspace(call) / 4 * 4, 4, false};
    striker->strike(striker->user, &run.args, 0);
    const int ahead = asked->progress ? 0 : striker->ahead(striker->user);
    const hf_status status =
        ahead > 0 ? run_ahead(&run, kernel, &struck, ahead) : run_slowly(&run, kernel, &struck);
    workspace = (struct hf_place_array){.data = NULL};
    move_back(&run);
    return status;
}

/* Problem p of a batch alone. */
static struct hf_lloyd_args problem_of(const struct hf_lloyd_args *a, int64_t p,
                                       struct hf_sums *sums) {
    const int64_t n = a->x.rows / a->batch;
    const size_t centers = (size_t)(a->sums->k * a->sums->d) * hf_dtype_bytes(a->rule.type);
    struct hf_lloyd_args one = *a;
    *sums = hf_lloyd_sums(a, p);
    one.batch = 1;
    one.x = hf_array_slice(&a->x, p * n, n);
    one.sums = sums;
    one.rule.unit += p * a->sums->d;
    one.tol += p;
    one.total_square += p;
    one.slack += p;
    one.weights = a->weights ? a->weights + p * n : NULL;
    one.weight_mult += p;
    one.labels += p * n;
    one.current = (char *)a->current + (size_t)p * centers;
    one.previous = (char *)a->previous + (size_t)p * centers;
    one.state += p;
    one.unit = a->unit ? a->unit + p : NULL;
    one.history += p * a->count;
    return one;
}

static void no_strike(void *user, const void *args, int made) {
    (void)user, (void)args, (void)made;
}

static int no_end(void *user) {
    (void)user;
    return INT_MAX;
}

static int64_t no_unit(void *user) {
    (void)user;
    return -1;
}

/* All at once, as it is shipped. Of problems that share multiprocessors each has a share of their
 * numbers. */
static hf_status run_on_unit(const struct hf_kernel *kernel, const struct hf_call *call,
                             const struct hf_device_striker *striker, int64_t unit) {
    const struct hf_lloyd_args *a = call->args;
    struct hf_lloyd_args *units = hf_alloc(sizeof *units + (size_t)a->batch * sizeof *a->unit);
    if (!units)
        return HF_E_NOMEM;
    *units = *a;
    units->unit = (int32_t *)(void *)(units + 1);
    memset(units->unit, 0xff, (size_t)a->batch * sizeof *a->unit);
    struct hf_call own = hf_call_part(call, units);
    memcpy(own.step, call->step, sizeof own.step);
    const hf_status status = kernel->run(&own);
    for (int64_t p = 0; status == HF_OK && p < a->batch; p++) {
        struct hf_sums sums;
        const struct hf_lloyd_args one = problem_of(a, p, &sums);
        const bool alone = units->unit[p] >= 0;
        if (a->unit)
            a->unit[p] = units->unit[p];
        if (alone ? units->unit[p] == unit : p == unit % a->batch)
            striker->strike(striker->user, &one, one.state->iterations);
    }
    hf_free(units);
    return status;
}

/* One after the other, as they do not depend on each other; the first one is struck. */
static hf_status run_batch(const struct hf_kernel *kernel, const struct hf_call *call,
                           const struct hf_device_striker *striker) {
    static const struct hf_device_striker none = {no_strike, no_end, no_unit, NULL};
    const struct hf_lloyd_args *a = call->args;
    for (int64_t p = 0; p < a->batch; p++) {
        struct hf_sums sums;
        const struct hf_lloyd_args one = problem_of(a, p, &sums);
        struct hf_call part = hf_call_part(call, &one);
        memcpy(part.step, call->step, sizeof part.step);
        HF_TRY(run_alone(kernel, &part, p == 0 ? striker : &none));
    }
    return HF_OK;
}

/* What a call says on the host must be there when the next one is decided upon. */
static bool leave_joint_calls(const struct hf_device *device, void *stream) {
    if (!device->begin_calls)
        return false;
    const bool joint = !device->begin_calls(stream);
    (void)device->end_calls(stream, HF_OK);
    return joint;
}

hf_status hf_device_run_lloyd(const struct hf_kernel *kernel, const struct hf_call *call,
                              const struct hf_device_striker *striker) {
    const struct hf_device *device = hf_device_of(kernel->device);
    const struct hf_lloyd_args *asked = call->args;
    const int64_t unit = striker->unit(striker->user);
    const bool joint = leave_joint_calls(device, call->stream);
    hf_status status = HF_OK;
    if (unit >= 0 && asked->batch > 1)
        status = run_on_unit(kernel, call, striker, unit);
    else
        status =
            asked->batch > 1 ? run_batch(kernel, call, striker) : run_alone(kernel, call, striker);
    if (joint && !device->begin_calls(call->stream) && status == HF_OK)
        status = HF_E_NOMEM;
    return status;
}
