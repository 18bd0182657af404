/* SPDX-License-Identifier: Apache-2.0
 * Shapes and benchmark problems in the words of their op. */
#include "base/mem.h"
#include "harness/harness.h"
#include <stdio.h>
#include <string.h>

_Static_assert(HF_DEV_TYPES == HF_KEY_TYPES, "dev.h and core/op.h have the same numbers");
_Static_assert(HF_DEV_DIMS == HF_KEY_DIMS, "dev.h and core/op.h have the same numbers");
_Static_assert(HF_DEV_FLAGS == HF_KEY_FLAGS, "dev.h and core/op.h have the same numbers");
_Static_assert(HF_DEV_DATA == HF_CASE_DATA, "dev.h and core/case.h have the same numbers");

struct hf_key hf_shape_key(const hf_dev_shape *shape) {
    struct hf_key key = {.flags = shape->flags};
    memcpy(key.dtype, shape->dtype, sizeof key.dtype);
    memcpy(key.dim, shape->dim, sizeof key.dim);
    return key;
}

hf_dev_shape hf_key_shape(const struct hf_key *key) {
    hf_dev_shape shape = {.flags = key->flags};
    memcpy(shape.dtype, key->dtype, sizeof shape.dtype);
    memcpy(shape.dim, key->dim, sizeof shape.dim);
    return shape;
}

double hf_key_size(const struct hf_op *op, const struct hf_key *key) {
    double size = 1;
    for (int i = 0; i < HF_KEY_DIMS && op->dim[i]; i++)
        size *= (double)key->dim[i];
    return size;
}

/* Are the dimensions at least 1, and small enough that a matrix of any two has an address? */
static hf_status check_dims(const struct hf_op *op, const struct hf_key *key, hf_error *err) {
    size_t bytes;
    for (int i = 0; i < HF_KEY_DIMS; i++) {
        if (!op->dim[i] && key->dim[i] != 0)
            return hf_fail(err, HF_E_ARG, "%s: it has no dimension number %d", op->name, i + 1);
        if (op->dim[i] && key->dim[i] < 1)
            return hf_fail(err, HF_E_ARG, "%s: %s is %lld; it must be at least 1", op->name,
                           op->dim[i], (long long)key->dim[i]);
        for (int j = 0; op->dim[i] && j < i; j++)
            if (!hf_mul3_size(key->dim[i], key->dim[j], 8, &bytes))
                return hf_fail(err, HF_E_ARG,
                               "%s: %s = %lld and %s = %lld together are more than can be "
                               "addressed",
                               op->name, op->dim[j], (long long)key->dim[j], op->dim[i],
                               (long long)key->dim[i]);
    }
    return HF_OK;
}

static hf_status check_key(const struct hf_op *op, const struct hf_key *key, hf_error *err) {
    int flags = 0;
    for (int i = 0; i < HF_KEY_TYPES; i++)
        if (!op->type[i] != (key->dtype[i] == HF_DTYPE_NONE))
            return hf_fail(err, HF_E_ARG,
                           op->type[i] ? "%s: type %d is missing" : "%s: it has no type number %d",
                           op->name, i + 1);
    while (flags < HF_KEY_FLAGS && op->flag[flags])
        flags++;
    if (key->flags >> flags)
        return hf_fail(err, HF_E_ARG, "%s: flags %#x are set; it has %d", op->name, key->flags,
                       flags);
    return check_dims(op, key, err);
}

static hf_status find_data(const struct hf_subject *subject, const char *name, int *data,
                           hf_error *err) {
    const char *const *names = subject->cases->data;
    char known[128] = "";
    for (int i = 0; i < HF_CASE_DATA && names[i]; i++) {
        if (!name || strcmp(names[i], name) == 0) {
            *data = i;
            return HF_OK;
        }
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                 names[i]);
    }
    return hf_fail(err, HF_E_ARG, "%s has no data called %s; it has %s", subject->op->name, name,
                   known);
}

static hf_status fill(const struct hf_subject *subject, const struct hf_bench *bench, uint64_t seed,
                      struct hf_case *c, hf_error *err) {
    struct hf_rng rng = {seed, (uint64_t)0xBE << 48, 0};
    const bool made = subject->cases->make_bench(&rng, bench, c);
    if (c->failed || (made && !hf_case_seal(c, false)))
        return hf_fail(err, HF_E_NOMEM, "%s: no memory for a problem of this shape",
                       subject->op->name);
    if (!made)
        return hf_fail(err, HF_E_UNSUPPORTED, "%s: no problem of %s data can be made for it",
                       subject->op->name, hf_dtype_name(bench->key.dtype[0]));
    return HF_OK;
}

hf_status hf_problem_make(const struct hf_subject *subject, const struct hf_problem *problem,
                          struct hf_case *c, hf_error *err) {
    const char *op = subject->op->name;
    struct hf_bench bench = {.key = hf_shape_key(problem->shape), .plan_only = problem->plan_only};
    memset(c, 0, sizeof *c);
    if (!subject->cases->make_bench)
        return hf_fail(err, HF_E_UNSUPPORTED,
                       "%s is not timed by itself: it has no benchmark problem", op);
    HF_TRY(check_key(subject->op, &bench.key, err));
    HF_TRY(find_data(subject, problem->data, &bench.data, err));
    if (!hf_case_init(c, subject->op))
        return hf_fail(err, HF_E_NOMEM, "%s: no memory for the problem", op);
    const hf_status status = fill(subject, &bench, problem->seed, c, err);
    if (status != HF_OK)
        hf_case_clear(c);
    return status;
}
