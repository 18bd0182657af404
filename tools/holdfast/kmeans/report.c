/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans/report.h"
#include "guard_report.h"
#include "kmeans/labels_format.h"
#include "kmeans/cluster_spread.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ADVICE_BYTES 512
#define ADVICE_SHARE 0.1 /* of the row visits by float64, from which on it is told why */
#define ADVICE_DWARFS 16 /* times as spread as the median column */

/* Work of all iterations together. */
struct work {
    double rows; /* rows looked at, n times the iterations */
    double skipped, partial, rechecked, float64;
    int64_t empty;
};

static struct work sum_work(const hf_kmeans_result *fit) {
    struct work w = {0};
    for (int i = 0; i < fit->iterations; i++) {
        const hf_kmeans_iteration *it = &fit->history[i];
        w.rows += (double)(fit->n - fit->rows_dropped);
        w.skipped += (double)it->rows_skipped;
        w.partial += (double)it->rows_partial;
        w.rechecked += (double)it->rows_rechecked;
        w.float64 += (double)it->rows_float64;
        w.empty += it->empty;
    }
    return w;
}

static const char *init_name(const struct kmeans_options *o) {
    return o->init_file ? "given" : kmeans_init_names[o->fit.init];
}

static json_t *json_options(const struct report *r) {
    const struct kmeans_options *o = r->options;
    const hf_kmeans_opts *f = &o->fit;
    json_t *seed = json_integer((json_int_t)f->seed);
    if (f->seed > INT64_MAX) { /* does not fit a JSON integer as jansson has them */
        char digits[24];
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)f->seed);
        json_decref(seed);
        seed = json_string(digits);
    }
    const bool periodic = o->checkpoint || f->checkpoint_every > 0;
    json_t *every =
        periodic ? json_integer(f->checkpoint_every ? f->checkpoint_every : 10) : json_null();
    return json_pack(
        "{s:I, s:s, s:o, s:i, s:o, s:i, s:o, s:s, s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:I, "
        "s:s, s:o, s:o, s:o, s:s}",
        "k", (json_int_t)r->fit->k, "init", init_name(o), "init_file", tool_json_name(o->init_file),
        "n_init", f->n_init, "seed", seed, "max_iter", f->max_iter, "tol",
        tool_json_real(f->tol < 0 ? 0 : f->tol), "metric", kmeans_metric_names[f->metric],
        "weights", tool_json_name(o->weights_file), "empty", kmeans_empty_names[f->empty],
        "precision", kmeans_precision_names[f->precision], "centroids",
        kmeans_centroids_names[f->store], "skipping", kmeans_skipping_names[f->skipping], "nan",
        kmeans_nan_names[f->nan], "guard", hf_guard_name(f->guard), "threads",
        hf_context_threads(r->ctx), "memory_bytes", (json_int_t)hf_context_memory(r->ctx), "device",
        hf_context_device(r->ctx), "checkpoint", tool_json_name(o->checkpoint), "every", every,
        "resume", tool_json_name(f->resume), "labels_format",
        labels_format_names[o->labels_format]);
}

static json_t *json_history(const struct report *r) {
    const hf_kmeans_result *fit = r->fit;
    json_t *list = json_array();
    for (int i = 0; list && i < fit->iterations; i++) {
        const hf_kmeans_iteration *it = &fit->history[i];
        json_t *row = json_pack(
            "{s:i, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "iteration", i + 1,
            "inertia", tool_json_real(it->inertia), "shift", tool_json_real(it->shift), "seconds",
            tool_json_real(it->seconds), "changed", (json_int_t)it->changed, "rows_skipped",
            (json_int_t)it->rows_skipped, "rows_partial", (json_int_t)it->rows_partial,
            "rows_rechecked", (json_int_t)it->rows_rechecked, "rows_float64",
            (json_int_t)it->rows_float64, "empty", (json_int_t)it->empty, "digest",
            digests_json(r->digests, fit->restart, i + 1));
        if (!row || json_array_append_new(list, row) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static const char *stop_name(hf_stop stop) {
    switch (stop) {
    case HF_STOP_LABELS:
        return "labels";
    case HF_STOP_TOL:
        return "tol";
    case HF_STOP_MAX_ITER:
        return "max_iter";
    case HF_STOP_CANCELLED:
        return "cancelled";
    case HF_STOP_NONE:
        break;
    }
    return "none";
}

/* The type that centroids were rounded to, which is not always the one they are written in. */
static const char *stored_as(const struct report *r) {
    const bool half = r->dtype == HF_F16 || r->dtype == HF_BF16;
    const bool same = r->options->fit.store == HF_CENTROIDS_SAME && half;
    return hf_dtype_name(same ? r->dtype : r->fit->centroids.dtype);
}

static json_t *json_data(const struct report *r) {
    const hf_kmeans_result *fit = r->fit;
    return json_pack("{s:o, s:s, s:s, s:I, s:I, s:b, s:I, s:o}", "path",
                     tool_json_name(r->options->data), "format", hf_dataset_format(r->data),
                     "dtype", hf_dtype_name(r->dtype), "rows", (json_int_t)fit->n, "columns",
                     (json_int_t)fit->d, "streamed", (int)r->streamed, "rows_dropped",
                     (json_int_t)fit->rows_dropped, "crc32c",
                     tool_json_crc(hf_dataset_array(r->data)));
}

static json_t *json_result(const struct report *r) {
    const hf_kmeans_result *fit = r->fit;
    struct spread s;
    if (!spread_of(fit->sizes, fit->k, &s))
        return NULL;
    return json_pack(
        "{s:o, s:i, s:i, s:s, s:s, s:b, s:s, s:s, s:[I, I], s:{s:I, s:I, s:o, s:I, s:I}, s:o, s:i}",
        "inertia", tool_json_real(fit->inertia), "iterations", fit->iterations, "restart",
        fit->restart, "stop", stop_name(fit->stop), "stop_text", hf_stop_text(fit->stop),
        "converged", fit->converged != 0, "centroids_dtype", hf_dtype_name(fit->centroids.dtype),
        "centroids_stored_as", stored_as(r), "centroids_shape", (json_int_t)fit->k,
        (json_int_t)fit->d, "cluster_sizes", "min", (json_int_t)s.least, "median",
        (json_int_t)s.median, "mean",
        tool_json_real((double)(fit->n - fit->rows_dropped) / (double)fit->k), "max",
        (json_int_t)s.most, "empty", (json_int_t)s.empty, "sizes",
        tool_json_counts(fit->sizes, fit->k), "checkpoints_failed", fit->checkpoints_failed);
}

static json_t *json_costs(const struct report *r) {
    const hf_kmeans_result *fit = r->fit;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "load", tool_json_real(r->seconds_load),
                     "init", tool_json_real(fit->seconds_init), "iterate",
                     tool_json_real(fit->seconds_iterate), "finish",
                     tool_json_real(fit->seconds_finish), "write", tool_json_real(r->seconds_write),
                     "total", tool_json_real(tool_now() - r->started));
}

/* Row visits that neither bounds nor what comes after the filter decided. */
static double by_filter(const struct work *w) {
    const double rest = w->rows - w->skipped - w->partial - w->rechecked;
    return rest > 0 ? rest : 0;
}

/* What makes a fit slow, and what to do. false: nothing does. */
static bool advise(const hf_kmeans_result *fit, const struct work *w, char text[ADVICE_BYTES]) {
    const hf_column_note *c = &fit->widest;
    if (!(w->float64 > ADVICE_SHARE * w->rows))
        return false;
    if (fit->d > 1 && c->deviation > ADVICE_DWARFS * c->typical)
        snprintf(text, ADVICE_BYTES,
                 "float64 decided %.0f %% of the row visits, which is slow: column %lld (from 0) "
                 "ranges from %.6g to %.6g and deviates by %.2g where the median column does by "
                 "%.2g; if it marks missing values use --missing or --nan, else --scale, or leave "
                 "it out with --skip-columns",
                 100 * w->float64 / w->rows, (long long)c->column, c->min, c->max, c->deviation,
                 c->typical);
    else
        snprintf(text, ADVICE_BYTES,
                 "float64 decided %.0f %% of the row visits, which is slow: no column dwarfs the "
                 "others, so many rows are as near to one centroid as to another, as coarse values "
                 "and copies are; fewer clusters help",
                 100 * w->float64 / w->rows);
    return true;
}

/* What the iterations did, and what decided the row visits, in shares of them. */
static json_t *json_work(const hf_kmeans_result *fit) {
    const struct work w = sum_work(fit);
    const double all = w.rows > 0 ? w.rows : 1;
    char text[ADVICE_BYTES];
    const bool advice = advise(fit, &w, text);
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o, s:o, s:o}, s:o, s:I}", "row_visits",
        tool_json_real(w.rows), "skipped", tool_json_real(w.skipped), "partial",
        tool_json_real(w.partial), "rechecked", tool_json_real(w.rechecked), "float64",
        tool_json_real(w.float64), "decided", "bounds", tool_json_real(w.skipped / all), "moved",
        tool_json_real(w.partial / all), "filter", tool_json_real(by_filter(&w) / all),
        "differences", tool_json_real((w.rechecked - w.float64) / all), "float64",
        tool_json_real(w.float64 / all), "advice", advice ? json_string(text) : json_null(),
        "empty_clusters", (json_int_t)w.empty);
}

json_t *report_json(struct report *r) {
    const hf_kmeans_result *fit = r->fit;
    json_t *files = r->files ? r->files : json_null();
    r->files = NULL;
    return json_pack(
        "{s:{s:s, s:s}, s:o, s:o, s:o, s:o, s:{s:s, s:s, s:I}, s:o, s:o, s:o, "
        "s:{s:I, s:I, s:I}, s:o, s:o}",
        "holdfast", "version", hf_version(), "command", "kmeans", "data", json_data(r),
        "preparation", preparation_json(&r->options->preparation, r->data), "options",
        json_options(r), "result", json_result(r), "plan", "assign", fit->kernel_assign, "update",
        fit->kernel_update, "chunk_rows", (json_int_t)fit->chunk_rows, "guard",
        guard_json(fit->guard, fit->checks, &fit->faults), "work", json_work(fit), "seconds",
        json_costs(r), "memory", "peak_bytes", (json_int_t)tool_peak_memory(), "workspace_bytes",
        (json_int_t)fit->workspace_bytes, "limit_bytes", (json_int_t)hf_context_memory(r->ctx),
        "history", json_history(r), "files", files);
}

static void summary_work(const struct report *r, FILE *out) {
    const struct work w = sum_work(r->fit);
    if (w.rows <= 0)
        return;
    char text[ADVICE_BYTES];
    fprintf(out,
            "  work      decided by bounds %.1f %%, moved centroids %.1f %%, the filter %.1f %%, "
            "differences %.1f %%, float64 %s\n",
            100 * w.skipped / w.rows, 100 * w.partial / w.rows, 100 * by_filter(&w) / w.rows,
            100 * (w.rechecked - w.float64) / w.rows, tool_percent_text(100 * w.float64 / w.rows));
    if (advise(r->fit, &w, text))
        fprintf(out, "  advice    %s\n", text);
}

static void summary_files(const struct report *r, FILE *out) {
    const char *dir = r->options->out_dir;
    if (!dir)
        return;
    const char *slash = dir[0] && dir[strlen(dir) - 1] == '/' ? "" : "/";
    fprintf(out, "  written   %s%scentroids.npy, %s%s, report.json%s%s\n", tool_name_text(dir),
            slash, hf_dataset_scaling(r->data) ? PREPARATION_CENTROIDS ", " : "",
            labels_file_name(r->options->labels_format),
            r->options->picture_height ? ", centroids.png" : "",
            r->checkpointed && !r->options->checkpoint ? ", checkpoint.hfc" : "");
}

static void summary_preparation(const struct report *r, FILE *out) {
    const hf_open_opts *o = &r->options->preparation.opts;
    const char *before = "";
    if (!o->columns && !o->skip_columns && !o->missing && !o->scale)
        return;
    fprintf(out, "  prepared  ");
    if (o->columns)
        fprintf(out, "columns %s", tool_name_text(o->columns));
    before = o->columns ? "; " : before;
    if (o->skip_columns)
        fprintf(out, "%swithout columns %s", before, tool_name_text(o->skip_columns));
    before = o->skip_columns ? "; " : before;
    if (o->missing)
        fprintf(out, "%smissing: %s", before, tool_name_text(o->missing));
    before = o->missing ? "; " : before;
    if (o->scale)
        fprintf(out, "%sscaled: %s", before, hf_scale_name(o->scale));
    fputc('\n', out);
}

void report_summary(const struct report *r, FILE *out) {
    const hf_kmeans_result *fit = r->fit;
    const struct kmeans_options *o = r->options;
    struct spread s;
    fprintf(out, "%s: %s x %s, %s, %s%s\n", tool_name_text(o->data),
            tool_things_text(fit->n, "row"), tool_things_text(fit->d, "column"),
            hf_dtype_name(r->dtype), hf_dataset_format(r->data),
            r->streamed ? ", read in chunks" : "");
    summary_preparation(r, out);
    if (fit->rows_dropped)
        fprintf(out, "  dropped   %s with NaN or Inf\n",
                tool_things_text(fit->rows_dropped, "row"));
    fprintf(out, "  clusters  %s, %s distance, %s", tool_count_text(fit->k),
            kmeans_metric_names[o->fit.metric],
            o->init_file ? "from given centroids" : kmeans_init_names[o->fit.init]);
    if (!o->init_file)
        fprintf(out, ", seed %llu", (unsigned long long)o->fit.seed);
    if (o->fit.n_init > 1)
        fprintf(out, ", best of %d runs", o->fit.n_init);
    fprintf(out, "\n  result    inertia %.12g after %d iteration%s: %s\n", fit->inertia,
            fit->iterations, fit->iterations == 1 ? "" : "s", hf_stop_text(fit->stop));
    if (spread_of(fit->sizes, fit->k, &s)) {
        fputs("  sizes     ", out);
        spread_print(&s, out);
    }
    summary_work(r, out);
    fprintf(out, "  kernels   %s, %s; %d thread%s on %s\n", fit->kernel_assign, fit->kernel_update,
            hf_context_threads(r->ctx), hf_context_threads(r->ctx) == 1 ? "" : "s",
            hf_context_device(r->ctx));
    guard_summary(fit->guard, &fit->faults, out);
    fprintf(out, "  time      load %s, init %s, iterate %s, finish %s, write %s; total %s\n",
            tool_seconds_text(r->seconds_load), tool_seconds_text(fit->seconds_init),
            tool_seconds_text(fit->seconds_iterate), tool_seconds_text(fit->seconds_finish),
            tool_seconds_text(r->seconds_write), tool_seconds_text(tool_now() - r->started));
    fprintf(out, "  memory    %s resident at most; workspace reserved %s\n",
            tool_bytes_text(tool_peak_memory()), tool_bytes_text(fit->workspace_bytes));
    summary_files(r, out);
}
