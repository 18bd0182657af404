/* SPDX-License-Identifier: Apache-2.0
 * One fit with a fault in it, compared with the fit without. What is compared with lies in pages
 * that cannot be written to, so that a fault that writes anywhere kills the process instead. */
#include "base/clock.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "core/context.h"
#include "harness/inject/campaign.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const char *const outcome_names[HF_DEV_OUTCOMES] = {
    "not_activated", "masked", "benign", "corrected", "detected",
    "misplaced",     "silent", "error",  "hang",      "crash"};

const char *hf_dev_outcome_name(int outcome) {
    return outcome >= 0 && outcome < HF_DEV_OUTCOMES ? outcome_names[outcome] : NULL;
}

int hf_dev_outcome_find(const char *name) {
    for (int i = 0; i < HF_DEV_OUTCOMES; i++)
        if (strcmp(name, outcome_names[i]) == 0)
            return i;
    return -1;
}

int hf_dev_outcome_matters(int outcome) {
    return outcome != HF_DEV_NOT_ACTIVATED && outcome != HF_DEV_MASKED && outcome != HF_DEV_BENIGN;
}

/* A copy that cannot be written to; NULL: no memory. */
static void *seal(const void *data, size_t bytes) {
    void *p = mmap(NULL, bytes > 0 ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    memcpy(p, data, bytes);
    return mprotect(p, bytes > 0 ? bytes : 1, PROT_READ) == 0 ? p : NULL;
}

static void unseal(const void *p, size_t bytes) {
    if (p)
        (void)munmap((void *)(uintptr_t)p, bytes > 0 ? bytes : 1);
}

static size_t labels_bytes(const hf_kmeans_result *r) { return (size_t)r->n * sizeof(int32_t); }

static size_t centers_bytes(const hf_kmeans_result *r) {
    return (size_t)(r->k * r->d) * hf_dtype_bytes(r->centroids.dtype);
}

static size_t history_bytes(const hf_kmeans_result *r) {
    return (size_t)r->iterations * sizeof *r->history;
}

static bool seal_clean(struct hf_trial *trial, hf_kmeans_result *r) {
    trial->clean = *r;
    trial->clean.labels = seal(r->labels, labels_bytes(r));
    trial->clean.centroids.data = seal(r->centroids.data, centers_bytes(r));
    trial->clean.sizes = seal(r->sizes, (size_t)r->k * sizeof(int64_t));
    trial->clean.history = seal(r->history, history_bytes(r));
    const hf_array *x = trial->campaign->x;
    const int64_t stride = x->row_stride ? x->row_stride : x->cols;
    trial->rows_bytes = (size_t)((x->rows - 1) * stride + x->cols) * hf_dtype_bytes(x->dtype);
    trial->rows = seal(x->data, trial->rows_bytes);
    hf_kmeans_result_clear(r);
    return trial->clean.labels && trial->clean.centroids.data && trial->clean.sizes &&
           trial->clean.history && trial->rows;
}

static bool same_bits(double a, double b) {
    uint64_t bits[2];
    memcpy(&bits[0], &a, sizeof a);
    memcpy(&bits[1], &b, sizeof b);
    return bits[0] == bits[1];
}

static bool same_result(const hf_kmeans_result *a, const hf_kmeans_result *b) {
    return a->stop == b->stop && same_bits(a->inertia, b->inertia) &&
           memcmp(a->labels, b->labels, labels_bytes(a)) == 0 &&
           memcmp(a->centroids.data, b->centroids.data, centers_bytes(a)) == 0 &&
           memcmp(a->sizes, b->sizes, (size_t)a->k * sizeof(int64_t)) == 0;
}

static bool same_path(const hf_kmeans_result *a, const hf_kmeans_result *b) {
    if (a->iterations != b->iterations)
        return false;
    for (int i = 0; i < a->iterations; i++)
        if (a->history[i].changed != b->history[i].changed ||
            !same_bits(a->history[i].inertia, b->history[i].inertia) ||
            !same_bits(a->history[i].shift, b->history[i].shift))
            return false;
    return true;
}

/* Is one of the notes about the row that was struck, or about none? Of a fault that is always there
 * the place is its worker. */
static void take_note(void *user, const hf_fault_note *note) {
    struct hf_trial *trial = user;
    const struct hf_fault_site *site = &hf_injector()->site;
    const int64_t struck = hf_injector()->row;
    trial->told_any = true;
    if ((int)note->kind >= trial->kind) {
        trial->kind = (int)note->kind;
        trial->unit = note->unit;
        trial->lane = note->lane;
    }
    if (site->always && site->worker >= 0)
        trial->told_here = trial->told_here || note->unit == site->worker;
    else if (note->row < 0 || struck < 0 || note->row == struck)
        trial->told_here = true;
}

static hf_kmeans_opts opts_of(struct hf_trial *trial, hf_guard guard) {
    hf_kmeans_opts opts = *trial->campaign->fit;
    opts.guard = guard;
    opts.on_fault = take_note;
    opts.on_fault_user = trial;
    trial->told_any = trial->told_here = false;
    trial->kind = 0;
    trial->unit = trial->lane = -1;
    return opts;
}

static hf_dev_outcome outcome_of(const struct hf_trial *trial, hf_status status,
                                 const hf_kmeans_result *r) {
    const bool misplaced = trial->told_any && !trial->told_here;
    if (status == HF_E_CORRUPT)
        return misplaced ? HF_DEV_MISPLACED : HF_DEV_DETECTED;
    if (status != HF_OK)
        return HF_DEV_ERROR;
    if (!same_result(&trial->clean, r))
        return HF_DEV_SILENT;
    if (r->faults.confirmed > 0 || r->faults.repaired > 0 || r->faults.rolled_back > 0)
        return misplaced ? HF_DEV_MISPLACED : HF_DEV_CORRECTED;
    return same_path(&trial->clean, r) ? HF_DEV_MASKED : HF_DEV_BENIGN;
}

/* A worker that an earlier fit left out works again. */
static void include_all(const struct hf_trial *trial) {
    hf_pool *pool = hf_ctx_pool(trial->ctx);
    for (int w = 0; w < hf_pool_workers(pool); w++)
        (void)hf_pool_exclude(pool, w, false);
}

hf_dev_outcome hf_trial_fit(struct hf_trial *trial, hf_guard guard, hf_guard_counts *counts) {
    include_all(trial);
    const hf_kmeans_opts opts = opts_of(trial, guard);
    hf_kmeans_result r = {0};
    trial->status = hf_kmeans_fit(trial->ctx, trial->campaign->x, &opts, &r);
    const hf_dev_outcome outcome = outcome_of(trial, trial->status, &r);
    if (counts)
        *counts = r.faults;
    hf_kmeans_result_clear(&r);
    return outcome;
}

/* Faults in the rows last until something writes the rows: here that is us. */
static void restore_rows(const struct hf_trial *trial) {
    void *rows = (void *)(uintptr_t)trial->campaign->x->data;
    if (memcmp(rows, trial->rows, trial->rows_bytes) != 0)
        memcpy(rows, trial->rows, trial->rows_bytes);
}

hf_dev_outcome hf_trial_fault(struct hf_trial *trial, const struct hf_fault_site *site,
                              hf_guard guard, hf_dev_fault_proof *proof, hf_guard_counts *counts) {
    hf_dev_fault_proof met;
    hf_inject_plant(site);
    const hf_dev_outcome outcome = hf_trial_fit(trial, guard, counts);
    hf_dev_fault_remove(&met);
    restore_rows(trial);
    if (proof)
        *proof = met;
    return met.altered == 0 && outcome == HF_DEV_MASKED ? HF_DEV_NOT_ACTIVATED : outcome;
}

bool hf_trial_sound(struct hf_trial *trial) {
    return hf_trial_fit(trial, HF_GUARD_OFF, NULL) == HF_DEV_MASKED;
}

static hf_status clean_fit(struct hf_trial *trial, hf_guard guard, char *why, size_t why_bytes) {
    const hf_kmeans_opts opts = opts_of(trial, guard);
    const double begin = hf_now_s();
    hf_kmeans_result r = {0};
    const hf_status status = hf_kmeans_fit(trial->ctx, trial->campaign->x, &opts, &r);
    const double seconds = hf_now_s() - begin;
    trial->status = status;
    if (status != HF_OK) {
        (void)snprintf(why, why_bytes, "the fit without faults failed: %s",
                       hf_last_error(trial->ctx));
        return status;
    }
    trial->clean_s = seconds > trial->clean_s ? seconds : trial->clean_s;
    if (!trial->rows) {
        const bool sealed = seal_clean(trial, &r);
        if (!sealed)
            (void)snprintf(why, why_bytes, "no memory for what fits are compared with");
        return sealed ? HF_OK : HF_E_NOMEM;
    }
    const hf_dev_outcome outcome = outcome_of(trial, status, &r);
    hf_kmeans_result_clear(&r);
    if (outcome == HF_DEV_MASKED)
        return HF_OK;
    (void)snprintf(
        why, why_bytes,
        "two fits without faults differ (guard %s: %s): the machine computes wrongly, or "
        "protection changes results",
        hf_guard_name(guard), outcome_names[outcome]);
    return HF_E_CORRUPT;
}

hf_status hf_trial_open(struct hf_trial *trial, const hf_dev_campaign *campaign, char *why,
                        size_t why_bytes) {
    *trial = (struct hf_trial){.campaign = campaign};
    const char *device = campaign->device ? campaign->device : "cpu";
    const hf_context_opts opts = {.device = device, .threads = campaign->threads};
    hf_status status = hf_context_create(&trial->ctx, &opts);
    if (status != HF_OK) {
        (void)snprintf(why, why_bytes, "%s", hf_last_error(NULL));
        return status;
    }
    status = clean_fit(trial, HF_GUARD_OFF, why, why_bytes);
    if (status == HF_OK)
        status = clean_fit(trial, campaign->fit->guard, why, why_bytes);
    if (status != HF_OK)
        hf_trial_close(trial);
    return status;
}

void hf_trial_close(struct hf_trial *trial) {
    const hf_kmeans_result *r = &trial->clean;
    unseal(r->labels, labels_bytes(r));
    if (r->centroids.data)
        unseal(r->centroids.data, centers_bytes(r));
    unseal(r->sizes, (size_t)r->k * sizeof(int64_t));
    unseal(r->history, history_bytes(r));
    unseal(trial->rows, trial->rows_bytes);
    hf_context_destroy(trial->ctx);
    *trial = (struct hf_trial){0};
}

hf_status hf_trial_count(struct hf_trial *trial, struct hf_visits *visits) {
    hf_inject_count(visits);
    const hf_dev_outcome outcome = hf_trial_fit(trial, HF_GUARD_OFF, NULL);
    hf_inject_remove();
    return outcome == HF_DEV_MASKED ? HF_OK : HF_E_CORRUPT;
}
