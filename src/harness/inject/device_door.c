/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/inject/device_door.h"
#include "base/dtype.h"
#include "device/device.h"
#include "ops/lloyd/lloyd.h"
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
    hf_device_strike *strike;
    void *user;
    struct moved moved[MOVED];
};

/* The workspace of the call at work: there is one at a time. */
static struct hf_place_array workspace;

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
    run->strike(run->user, &run->args, false);
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

hf_status hf_device_run_lloyd(const struct hf_kernel *kernel, const struct hf_call *call,
                              hf_device_strike *strike, void *user) {
    const struct hf_lloyd_args *asked = call->args;
    struct lloyd_run run = {.device = hf_device_of(kernel->device),
                            .stream = call->stream,
                            .args = *asked,
                            .sums = *asked->sums,
                            .asked = asked,
                            .strike = strike,
                            .user = user};
    if (asked->batch > 1) /* whose iterations nobody hears of */
        return kernel->run(call);
    take_arrays(&run);
    run.args.settle = false; /* it cannot be told of its iterations, too */
    run.args.progress = after_iteration;
    run.args.progress_user = &run;
    struct hf_call struck = hf_call_part(call, &run.args);
    memcpy(struck.step, call->step, sizeof struck.step);
    workspace = (struct hf_place_array){call->ws, kernel->workspace(call) / 4 * 4, 4, false};
    strike(user, &run.args, true);
    const hf_status status = kernel->run(&struck);
    workspace = (struct hf_place_array){.data = NULL};
    move_back(&run);
    return status;
}
