/* SPDX-License-Identifier: Apache-2.0
 * The one walk over ops and cases. Nothing here knows an op by name but ops.def. */
#include "base/mem.h"
#include "harness/harness.h"
#include <string.h>

#define OP(NAME, name) extern const struct hf_op_cases hf_##name##_cases;
#include "ops/ops.def"
#undef OP

static const struct hf_op_cases *const all_cases[HF_OP_COUNT] = {
#define OP(NAME, name) [HF_OP_##NAME] = &hf_##name##_cases,
#include "ops/ops.def"
#undef OP
};

const struct hf_op_cases *hf_op_cases_at(int id) { return all_cases[id]; }

bool hf_subject_init(struct hf_subject *subject, int id) {
    int count = 0;
    while (hf_kernel_at(id, count))
        count++;
    const struct hf_kernel **kernels = hf_alloc((size_t)count * sizeof *kernels);
    if (!kernels)
        return false;
    for (int i = 0; i < count; i++)
        kernels[i] = hf_kernel_at(id, i);
    *subject = (struct hf_subject){hf_op_at(id), all_cases[id], kernels, count};
    return true;
}

void hf_subject_clear(struct hf_subject *subject) {
    hf_free((void *)(uintptr_t)subject->kernels);
    memset(subject, 0, sizeof *subject);
}

bool hf_kernel_takes(const struct hf_kernel *kernel, const struct hf_op *op,
                     const struct hf_call *call) {
    const struct hf_key key = hf_op_key(op, call->args);
    return (kernel->dtypes & HF_DT(key.dtype[0])) != 0 &&
           (!kernel->supports || kernel->supports(call));
}

/* Case `id`, *more = false past the last. Numbers depend on seed, op and id alone. */
static hf_status run_case(const struct hf_walk *walk, const struct hf_subject *subject, int stream,
                          int64_t id, bool *more) {
    struct hf_rng rng = {walk->seed, ((uint64_t)(unsigned)stream << 40) | (uint64_t)id, 0};
    struct hf_case c;
    hf_status status = HF_OK;
    if (!hf_case_init(&c, subject->op))
        return HF_E_NOMEM;
    *more = subject->cases->make_case(&rng, id, &c);
    if (c.failed || (*more && !hf_case_seal(&c, true)))
        status = HF_E_NOMEM;
    else if (*more)
        status = walk->run(walk->state, subject, &c);
    hf_case_clear(&c);
    return status;
}

hf_status hf_walk_subject(const struct hf_walk *walk, const struct hf_subject *subject,
                          int stream) {
    if (walk->begin)
        HF_TRY(walk->begin(walk->state, subject));
    bool more = true;
    hf_status status = HF_OK;
    for (int64_t id = 0; more && status == HF_OK; id++) {
        if (walk->max_cases > 0 && id >= walk->max_cases)
            break;
        status = run_case(walk, subject, stream, id, &more);
    }
    if (!walk->end)
        return status;
    const hf_status ended = walk->end(walk->state, subject);
    return status != HF_OK ? status : ended;
}

hf_status hf_walk_ops(const struct hf_walk *walk) {
    for (int id = 0; id < HF_OP_COUNT; id++) {
        struct hf_subject subject;
        if (walk->op && hf_op_find(walk->op) != id)
            continue;
        if (!hf_subject_init(&subject, id))
            return HF_E_NOMEM;
        const hf_status status = hf_walk_subject(walk, &subject, id);
        hf_subject_clear(&subject);
        HF_TRY(status);
    }
    return HF_OK;
}
