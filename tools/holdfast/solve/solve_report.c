/* SPDX-License-Identifier: Apache-2.0 */
#include "solve/solve_report.h"
#include <math.h>
#include <string.h>

const char *solve_stop_name(hf_relax_stop stop) {
    switch (stop) {
    case HF_RELAX_STOP_TOL:
        return "tol";
    case HF_RELAX_STOP_STALL:
        return "stall";
    case HF_RELAX_STOP_DIVERGED:
        return "diverged";
    case HF_RELAX_STOP_TIME:
        return "time";
    case HF_RELAX_STOP_MAX_ITER:
        return "max_iter";
    case HF_RELAX_STOP_CANCELLED:
        return "cancelled";
    case HF_RELAX_STOP_BROKE_DOWN:
        return "broke_down";
    case HF_RELAX_STOP_NONE:
        break;
    }
    return "none";
}

static json_t *json_reals(const double *values, int64_t n) {
    json_t *list = json_array();
    for (int64_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, tool_json_real(values[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *json_columns(const hf_relax_result *result) {
    json_t *list = json_array();
    for (int64_t j = 0; list && j < result->rhs; j++) {
        const hf_relax_column *c = &result->columns[j];
        json_t *row = json_pack(
            "{s:s, s:I, s:o, s:I, s:I, s:o, s:I, s:o}", "stop", solve_stop_name(c->stop),
            "iterations", (json_int_t)c->iterations, "residual", tool_json_real(c->residual),
            "checks", (json_int_t)c->checks, "refused", (json_int_t)c->refused, "seconds",
            tool_json_real(c->seconds), "history_step", (json_int_t)c->history_step, "history",
            json_reals(c->history, c->history_count));
        if (!row || json_array_append_new(list, row) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* 0 means that the library chose, which null says better. */
static json_t *json_given(bool given, json_t *value) {
    if (given)
        return value;
    json_decref(value);
    return json_null();
}

static json_t *json_options(const struct solve_report *r) {
    const struct solve_options *o = r->options;
    const hf_relax_opts *x = &o->relax;
    return json_pack(
        "{s:o, s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:I, s:o, s:o, s:i, s:o, s:o, s:s, s:i, "
        "s:I, s:s, s:o, s:s, s:i}",
        "b", tool_json_name(o->b_file ? o->b_file : "ones"), "x0", tool_json_name(o->x0_file),
        "method", solve_method_names[x->method], "precond", solve_precond_names[x->precond],
        "partition", solve_partition_names[x->partition], "timing", solve_timing_names[x->timing],
        "coarse", solve_coarse_names[x->coarse], "one_launch", solve_coarse_names[x->one_launch],
        "tol", tool_json_real(x->tol > 0 ? x->tol : 1e-10), "max_iter",
        (json_int_t)(x->max_iter > 0 ? x->max_iter : 100000), "time_limit",
        json_given(x->max_seconds > 0, tool_json_real(x->max_seconds)), "block",
        json_given(x->block_rows > 0, json_integer(x->block_rows)), "sweeps",
        x->local_sweeps > 0 ? x->local_sweeps : 5, "overlap",
        json_given(x->overlap != 0, json_integer(x->overlap < 0 ? 0 : x->overlap)), "damping",
        json_given(x->damping > 0, tool_json_real(x->damping)), "inside",
        hf_dtype_name(x->inside == HF_F32 ? HF_F32 : HF_F64), "threads", hf_context_threads(r->ctx),
        "memory_bytes", (json_int_t)hf_context_memory(r->ctx), "device", hf_context_device(r->ctx),
        "devices", tool_json_name(x->devices), "exchange", hf_relax_exchange_name(x->exchange),
        "spares", x->spares);
}

static json_t *json_matrix(const struct solve_report *r) {
    return json_pack(
        "{s:o, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "path", tool_json_name(r->options->matrix),
        "format", r->about->format, "layout", r->about->layout, "field", r->about->field,
        "symmetry", r->about->symmetry, "rows", (json_int_t)r->matrix->rows, "elements",
        (json_int_t)r->about->elements, "file_elements", (json_int_t)r->about->file_elements,
        "duplicates", (json_int_t)r->about->duplicates);
}

static json_t *json_result(const hf_relax_result *x) {
    const bool spectrum = x->lambda_max > 0;
    return json_pack(
        "{s:b, s:s, s:s, s:o, s:I, s:I, s:s, s:s, s:b, s:o, s:o, s:o, s:I, s:s, s:I, s:b, s:b, "
        "s:i, s:i, s:s, s:o, s:o}",
        "converged", x->converged != 0, "stop", solve_stop_name(x->stop), "stop_text",
        hf_relax_stop_text(x->stop), "residual", tool_json_real(x->residual), "iterations",
        (json_int_t)x->iterations, "rhs", (json_int_t)x->rhs, "method",
        hf_relax_method_name(x->method), "precond",
        x->precond ? solve_precond_names[x->precond] : "none", "repeatable", x->repeatable != 0,
        "lambda_min", json_given(spectrum, tool_json_real(x->lambda_min)), "lambda_max",
        json_given(spectrum, tool_json_real(x->lambda_max)), "damping", tool_json_real(x->damping),
        "blocks", (json_int_t)x->blocks, "partition", x->partition, "overlap",
        (json_int_t)x->overlap, "coarse", x->coarse != 0, "one_launch", x->one_launch != 0,
        "devices", x->devices, "devices_lost", x->devices_lost, "exchange",
        hf_relax_exchange_name(x->exchange), "advice",
        json_given(x->advice[0] != '\0', json_string(x->advice)), "columns", json_columns(x));
}

/* Blocks that others took over, the first ones. */
static json_t *json_taken(const hf_relax_faults *faults) {
    json_t *list = json_array();
    for (int64_t i = 0; i < faults->taken_count; i++) {
        const hf_relax_takeover *t = &faults->taken[i];
        json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:o}", "block", (json_int_t)t->block,
                                              "iteration", (json_int_t)t->iteration, "worker",
                                              (json_int_t)t->worker, "seconds",
                                              tool_json_real(t->seconds)));
    }
    return list;
}

json_t *solve_report_json(struct solve_report *r) {
    const hf_relax_result *x = r->result;
    json_t *files = r->files ? r->files : json_null();
    r->files = NULL;
    return json_pack(
        "{s:{s:s, s:s}, s:o, s:o, s:o, s:{s:I, s:I, s:I, s:I, s:o}, s:{s:o, s:o, s:o, s:o, s:o}, "
        "s:{s:I, s:I, s:I}, s:o}",
        "holdfast", "version", hf_version(), "command", "solve", "matrix", json_matrix(r),
        "options", json_options(r), "result", json_result(x), "faults", "missed_forecasts",
        (json_int_t)x->faults.missed_forecasts, "rollbacks", (json_int_t)x->faults.rollbacks,
        "reloads", (json_int_t)x->faults.reloads, "takeovers", (json_int_t)x->faults.takeovers,
        "taken", json_taken(&x->faults), "seconds", "load", tool_json_real(r->seconds_load),
        "setup", tool_json_real(x->seconds_setup), "solve", tool_json_real(x->seconds_solve),
        "write", tool_json_real(r->seconds_write), "total", tool_json_real(tool_now() - r->started),
        "memory", "peak_bytes", (json_int_t)tool_peak_memory(), "setup_bytes",
        (json_int_t)x->setup_bytes, "limit_bytes", (json_int_t)hf_context_memory(r->ctx), "files",
        files);
}

static void summary_method(const struct solve_report *r, FILE *out) {
    const hf_relax_result *x = r->result;
    fprintf(out, "  method    %s", hf_relax_method_name(x->method));
    if (r->options->relax.method == HF_RELAX_AUTO)
        fputs(", chosen by auto", out);
    if (x->precond != HF_PRECOND_AUTO)
        fprintf(out, ", preconditioned by %s",
                x->precond == HF_PRECOND_JACOBI ? "the diagonal" : "blocks");
    if (x->blocks > 0)
        fprintf(out, ", %s block%s (%s)", tool_count_text(x->blocks), x->blocks == 1 ? "" : "s",
                x->partition);
    if (x->overlap > 0)
        fprintf(out, ", overlap %lld", (long long)x->overlap);
    if (x->coarse)
        fputs(", coarse level", out);
    if (x->one_launch)
        fputs(", in one launch", out);
    if (x->devices > 1 || x->devices_lost > 0)
        fprintf(out, ", on %d devices", x->devices);
    if (x->devices_lost > 0)
        fprintf(out, " (%d lost)", x->devices_lost);
    if (x->damping > 0)
        fprintf(out, ", damping %.4g", x->damping);
    fprintf(out, "; %d thread%s on %s\n", hf_context_threads(r->ctx),
            hf_context_threads(r->ctx) == 1 ? "" : "s", hf_context_device(r->ctx));
    if (x->lambda_max > 0)
        fprintf(out, "  spectrum  of D^-1 A: about %.4g to %.4g\n", x->lambda_min, x->lambda_max);
}

static void summary_result(const hf_relax_result *x, FILE *out) {
    int64_t solved = 0;
    for (int64_t j = 0; j < x->rhs; j++)
        solved += x->columns[j].stop == HF_RELAX_STOP_TOL;
    fprintf(out, "  result    %s: true residual %.3g after %s iteration%s: %s\n",
            x->converged ? "solved" : "NOT CONVERGED", x->residual, tool_count_text(x->iterations),
            x->iterations == 1 ? "" : "s", hf_relax_stop_text(x->stop));
    if (x->rhs > 1)
        fprintf(out, "  columns   %s of %s solved; the numbers above are those of the worst\n",
                tool_count_text(solved), tool_count_text(x->rhs));
    if (x->advice[0])
        fprintf(out, "  advice    %s\n", x->advice);
    if (x->faults.missed_forecasts + x->faults.reloads + x->faults.takeovers > 0)
        fprintf(out,
                "  faults    forecasts missed %lld, rollbacks %lld, blocks reloaded %lld, taken "
                "over %lld\n",
                (long long)x->faults.missed_forecasts, (long long)x->faults.rollbacks,
                (long long)x->faults.reloads, (long long)x->faults.takeovers);
}

static void summary_files(const struct solve_options *o, FILE *out) {
    const char *const names[] = {o->x_file, o->picture_file, o->report_file};
    const char *before = "  written   ";
    for (int i = 0; i < 3; i++) {
        if (!names[i])
            continue;
        fprintf(out, "%s%s", before, tool_name_text(names[i]));
        before = ", ";
    }
    if (before[0] == ',')
        fputc('\n', out);
}

void solve_report_summary(const struct solve_report *r, FILE *out) {
    const hf_relax_result *x = r->result;
    fprintf(out, "%s: %s x %s, elements: %s, %s, %s", tool_name_text(r->options->matrix),
            tool_count_text(r->matrix->rows), tool_count_text(r->matrix->cols),
            tool_count_text(r->about->elements), r->about->symmetry, r->about->field);
    if (r->about->duplicates > 0)
        fprintf(out, "; %s elements were added to others of their place",
                tool_count_text(r->about->duplicates));
    fputc('\n', out);
    summary_method(r, out);
    summary_result(x, out);
    fprintf(out, "  time      load %s, set-up %s, solve %s, write %s; total %s\n",
            tool_seconds_text(r->seconds_load), tool_seconds_text(x->seconds_setup),
            tool_seconds_text(x->seconds_solve), tool_seconds_text(r->seconds_write),
            tool_seconds_text(tool_now() - r->started));
    fprintf(out, "  memory    %s resident at most; set-up %s\n",
            tool_bytes_text(tool_peak_memory()), tool_bytes_text(x->setup_bytes));
    summary_files(r->options, out);
}
