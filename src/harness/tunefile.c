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
    if (tune.refused)
        return hf_ctx_fail(ctx, HF_E_DATA, "HF_TUNE_FILE=%s: %s", path, tune.refused);
    if (tune.odd > 0)
        return hf_ctx_fail(ctx, HF_E_DATA, "HF_TUNE_FILE=%s: line %d is no entry of a tuning file",
                           path, tune.odd);
    if (here == 0)
        return hf_ctx_fail(ctx, HF_E_DATA, "HF_TUNE_FILE=%s: it has nothing about this machine",
                           path);
    return HF_OK;
}

static bool same_key(const struct hf_tune_entry *a, const struct hf_tune_entry *b) {
    return hf_tune_distance(&a->key, &b->key) == 0 && strcmp(a->fingerprint, b->fingerprint) == 0;
}

/* Replace the entry of the same key or append; tune->entry has room. */
static void put(struct hf_tune *tune, const struct hf_tune_entry *entry) {
    int at = 0;
    while (at < tune->count && !same_key(&tune->entry[at], entry))
        at++;
    tune->entry[at] = *entry;
    tune->count += at == tune->count;
}

static struct hf_tune_entry entry_of(const hf_context *ctx, const struct hf_op *op,
                                     const hf_dev_timing *winner) {
    const struct hf_key key = hf_shape_key(&winner->shape);
    struct hf_tune_entry entry = {.key = hf_tune_bucket(op, &key), .ns = winner->median_s * 1e9};
    snprintf(entry.kernel, sizeof entry.kernel, "%s", winner->kernel);
    hf_plan_machine(ctx, entry.fingerprint);
    return entry;
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

/* The entries of both, those of `added` in place of older ones of their kind. */
static hf_status merge(hf_context *ctx, const struct hf_tune *old, const struct hf_tune *added,
                       struct hf_tune *all) {
    all->count = 0;
    all->entry = hf_alloc_zero(((size_t)old->count + (size_t)added->count) * sizeof *all->entry);
    if (!all->entry)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for the tuning file");
    for (int i = 0; i < old->count; i++)
        put(all, &old->entry[i]);
    for (int i = 0; i < added->count; i++)
        put(all, &added->entry[i]);
    return HF_OK;
}

static hf_status add(hf_context *ctx, const char *path, const struct hf_tune *added) {
    char own[PATH_BYTES];
    struct hf_tune old = {0};
    struct hf_tune all = {0};
    if (!path && !hf_tune_path(own, sizeof own))
        return hf_ctx_fail(ctx, HF_E_ARG, "no place for a tuning file: set HF_TUNE_FILE or HOME");
    if (!path)
        make_parents(path = own);
    HF_TRY(hf_tune_load(path, &old, &ctx->error));
    hf_status status = HF_OK;
    if (old.count == 0 && old.odd > 0 && !old.refused)
        status = hf_ctx_fail(ctx, HF_E_DATA,
                             "%s is there already and is no tuning file: name another", path);
    if (status == HF_OK && added->count > 0)
        status = merge(ctx, &old, added, &all);
    if (status == HF_OK && added->count > 0)
        status = hf_tune_save(path, &all, &ctx->error);
    hf_tune_clear(&old);
    hf_tune_clear(&all);
    return status;
}

hf_status hf_tune_winners(hf_context *ctx, const char *path, const struct hf_op *op,
                          const hf_dev_timing *winners, int count) {
    struct hf_tune added = {.entry = hf_alloc((size_t)count * sizeof *added.entry)};
    if (!added.entry)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for the tuning file");
    hf_status status = HF_OK;
    for (; status == HF_OK && added.count < count; added.count++) {
        const hf_dev_timing *winner = &winners[added.count];
        const struct hf_op *own = op ? op : hf_op_at(hf_op_find(winner->op));
        if (own)
            added.entry[added.count] = entry_of(ctx, own, winner);
        else
            status = hf_ctx_fail(ctx, HF_E_ARG, "there is no op called %s", winner->op);
    }
    if (status == HF_OK)
        status = add(ctx, path, &added);
    hf_tune_clear(&added);
    return status;
}

hf_status hf_dev_tune_write(hf_context *ctx, const char *path, const hf_dev_timing *winners,
                            int count) {
    return hf_tune_winners(ctx, path, NULL, winners, count);
}
