/* SPDX-License-Identifier: Apache-2.0
 * Generated rows for campaigns: the kinds of data of the ops' cases. */
#include "base/mem.h"
#include "ops/cases/data_case.h"
#include <holdfast/dev_faults.h>
#include <stdio.h>
#include <string.h>

static int find_kind(const char *name, char *why, size_t why_bytes) {
    for (int i = 0; i < HF_DATA_KINDS; i++)
        if (strcmp(name, hf_data_kind_name((enum hf_data_kind)i)) == 0)
            return i;
    size_t used =
        (size_t)snprintf(why, why_bytes, "there is no kind of data '%s'; there are", name);
    for (int i = 0; i < HF_DATA_KINDS && used < why_bytes; i++)
        used += (size_t)snprintf(why + used, why_bytes - used, "%s %s", i > 0 ? "," : "",
                                 hf_data_kind_name((enum hf_data_kind)i));
    return -1;
}

hf_status hf_dev_rows_make(const char *kind, hf_dtype dtype, int64_t n, int64_t k, int64_t d,
                           uint64_t seed, hf_array *x, char *why, size_t why_bytes) {
    struct hf_rng rng = {seed, UINT64_C(1) << 50, 0};
    const int id = find_kind(kind, why, why_bytes);
    struct hf_case c = {.args = NULL};
    size_t bytes;
    if (id < 0)
        return HF_E_ARG;
    const struct hf_data_shape shape = {
        .kind = (enum hf_data_kind)id, .dtype = dtype, .n = n, .k = k, .d = d};
    if (!hf_mul3_size(n, d, (int64_t)hf_dtype_bytes(dtype), &bytes) || bytes == 0) {
        (void)snprintf(why, why_bytes, "there are no %lld x %lld rows", (long long)n, (long long)d);
        return HF_E_ARG;
    }
    const hf_array made = hf_data_rows(&rng, &c, &shape);
    *x = hf_array_view(c.failed ? NULL : hf_alloc(bytes), dtype, n, d);
    if (x->data)
        memcpy(x->data, made.data, bytes);
    for (int i = 0; i < c.bufs; i++)
        hf_free(c.buf[i].block);
    if (x->data)
        return HF_OK;
    (void)snprintf(why, why_bytes, "no memory for %lld x %lld rows", (long long)n, (long long)d);
    return HF_E_NOMEM;
}

void hf_dev_rows_free(hf_array *x) {
    hf_free(x->data);
    x->data = NULL;
}
