/* SPDX-License-Identifier: Apache-2.0
 * What was measured goes into the tuning file, among what it already holds. */
#include "base/mem.h"
#include "core/plan.h"
#include "core/tune.h"
#include "harness/harness.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096

int hf_dev_tune_path(char *path, size_t bytes) { return hf_tune_path(path, bytes); }

/* Entries of this machine. */
static int count_here(const hf_context *ctx, const struct hf_tune *tune) {
    char here[HF_TUNE_NAME_BYTES];
    int count = 0;
    hf_plan_machine(ctx, here);
    for (int i = 0; i < tune->count; i++)
        count += strcmp(tune->entry[i].fingerprint, here) == 0;
    return count;
}

hf_status hf_dev_tune_check(hf_context *ctx) {
    const char *path = getenv("HF_TUNE_FILE");
    struct hf_tune tune = {0};
    if (!path || !*path)
        return HF_OK;
    if (access(path, R_OK) != 0)
        return hf_ctx_fail(ctx, HF_E_IO, "HF_TUNE_FILE=%s: %s", path, strerror(errno));
    HF_TRY(hf_tune_load(path, &tune, &ctx->error));
    const int here = count_here(ctx, &tune);
    hf_tune_clear(&tune);
    if (tune.foreign)
        return hf_ctx_fail(ctx, HF_E_DATA, "HF_TUNE_FILE=%s: of another version of holdfast", path);
    if (tune.odd > 0)
        return hf_ctx_fail(ctx, HF_E_DATA, "HF_TUNE_FILE=%s: line %d is no entry of a tuning file",
                           path, tune.odd);
    if (here == 0)
        return hf_ctx_fail(ctx, HF_E_DATA, "HF_TUNE_FILE=%s: it has nothing about this machine",
                           path);
    return HF_OK;
}

static bool same_key(const struct hf_tune_entry *a, const struct hf_tune_entry *b) {
    return a->key.op == b->key.op && a->key.dtype == b->key.dtype && a->key.log2n == b->key.log2n &&
           a->key.log2k == b->key.log2k && a->key.log2d == b->key.log2d &&
           strcmp(a->fingerprint, b->fingerprint) == 0;
}

/* Replace the entry of the same key or append; tune->entry has room. */
static void put(struct hf_tune *tune, const struct hf_tune_entry *entry) {
    int at = 0;
    while (at < tune->count && !same_key(&tune->entry[at], entry))
        at++;
    tune->entry[at] = *entry;
    tune->count += at == tune->count;
}

static hf_status merge(hf_context *ctx, const struct hf_tune *old, const hf_dev_timing *winners,
                       int count, struct hf_tune *all) {
    all->count = 0;
    all->entry = hf_alloc_zero(((size_t)old->count + (size_t)count) * sizeof *all->entry);
    if (!all->entry)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for the tuning file");
    for (int i = 0; i < old->count; i++)
        put(all, &old->entry[i]);
    for (int i = 0; i < count; i++) {
        const hf_dev_timing *w = &winners[i];
        const struct hf_key key = {w->shape.dtype, w->shape.n, w->shape.k, w->shape.d};
        struct hf_tune_entry entry = {.key = hf_tune_bucket(hf_op_find(w->op), &key),
                                      .ns = w->median_s * 1e9};
        if (entry.key.op < 0)
            return hf_ctx_fail(ctx, HF_E_ARG, "there is no op called %s", w->op);
        snprintf(entry.kernel, sizeof entry.kernel, "%s", w->kernel);
        hf_plan_machine(ctx, entry.fingerprint);
        put(all, &entry);
    }
    return HF_OK;
}

/* Folders above the default path may not be there yet; what is wrong shows when the file is made.
 */
static void make_parents(const char *path) {
    char part[PATH_BYTES];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return;
        *slash = '/';
    }
}

hf_status hf_dev_tune_write(hf_context *ctx, const char *path, const hf_dev_timing *winners,
                            int count) {
    char own[PATH_BYTES];
    struct hf_tune old = {0};
    struct hf_tune all = {0};
    if (!path && !hf_tune_path(own, sizeof own))
        return hf_ctx_fail(ctx, HF_E_ARG, "no place for a tuning file: set HF_TUNE_FILE or HOME");
    if (!path)
        make_parents(path = own);
    HF_TRY(hf_tune_load(path, &old, &ctx->error));
    hf_status status = merge(ctx, &old, winners, count, &all);
    if (status == HF_OK)
        status = hf_tune_save(path, &all, &ctx->error);
    hf_tune_clear(&old);
    hf_tune_clear(&all);
    return status;
}
