/* SPDX-License-Identifier: Apache-2.0
 * The memory of a set-up. */
#include "algo/relax/setup.h"

#include "base/mem.h"

void *hf_relax_take(hf_relax *relax, int64_t count, size_t size) {
    size_t bytes;
    if (!hf_mul_size(count, (int64_t)size, &bytes))
        return NULL;
    if (relax->bytes + bytes > hf_ctx_host_limit(relax->ctx))
        return NULL;
    void *p = hf_alloc(bytes);
    relax->bytes += p != NULL ? bytes : 0;
    return p;
}

hf_status hf_relax_no_memory(hf_relax *relax, const char *what) {
    return hf_ctx_fail(relax->ctx, HF_E_NOMEM,
                       "no memory for %s of %lld rows and %lld elements: %llu bytes are held, the "
                       "context may use %llu",
                       what, (long long)relax->a.rows, (long long)relax->a.row_start[relax->a.rows],
                       (unsigned long long)relax->bytes,
                       (unsigned long long)hf_ctx_host_limit(relax->ctx));
}

void hf_relax_forget_blocks(hf_relax *relax) {
    hf_free(relax->blocks.start);
    hf_free(relax->perm);
    relax->blocks = (struct hf_relax_blocks){0};
    relax->perm = NULL;
    relax->partition[0] = '\0';
}

uint64_t hf_relax_matrix_bytes(const struct hf_relax_matrix *m) {
    const uint64_t elements = (uint64_t)m->row_start[m->n], rows = (uint64_t)m->n;
    if (m->borrowed)
        return 8 * rows;
    return 8 * (rows + 1) + (m->dtype == HF_F32 ? 8 : 12) * elements + 8 * rows;
}
