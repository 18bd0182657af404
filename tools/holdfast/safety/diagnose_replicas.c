/* SPDX-License-Identifier: Apache-2.0
 * holdfast diagnose A.npy B.npy: a product by replicas and a vote. */
#include "safety/diagnose_tool.h"
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct matrices {
    hf_context *ctx;
    hf_dataset *data[2];
    int8_t *bytes[2]; /* owned, where the files hold int8; else NULL */
    hf_redundant_args args;
    hf_dtype dtype_c;
    void *c;
};

/* int8 comes as float32, of which each is a whole number that fits. */
static int take_bytes(struct matrices *m, int which) {
    const hf_array *x = hf_dataset_array(m->data[which]);
    const float *from = x->data;
    const size_t count = (size_t)x->rows * (size_t)x->cols;
    m->bytes[which] = malloc(count);
    for (size_t i = 0; m->bytes[which] && i < count; i++)
        m->bytes[which][i] = (int8_t)from[i];
    if (m->bytes[which])
        return EXIT_DONE;
    tool_error("no memory for a matrix of %zu bytes", count);
    return EXIT_RESOURCES;
}

static int open_matrix(const struct diagnose *d, struct matrices *m, int which) {
    const int code = tool_open(m->ctx, 0, d->file[which], "diagnose", &m->data[which]);
    if (code != EXIT_DONE)
        return code;
    const hf_array *x = hf_dataset_array(m->data[which]);
    const bool bytes = strcmp(hf_dataset_type(m->data[which]), "int8") == 0;
    const hf_dtype dtype = bytes ? HF_I8 : x->dtype;
    if (dtype == HF_U8 || (x->row_stride != 0 && x->row_stride != x->cols)) {
        tool_error("%s: %lld x %lld of %s; replicas multiply float32, float64, float16, bfloat16 "
                   "and int8 without gaps: save it as one of these",
                   tool_name_text(d->file[which]), (long long)x->rows, (long long)x->cols,
                   hf_dtype_name(dtype));
        return EXIT_INPUT;
    }
    if (which == 1 && dtype != m->args.dtype) {
        tool_error("%s is of %s and %s of %s: save both as one type", d->file[0],
                   hf_dtype_name(m->args.dtype), d->file[1], hf_dtype_name(dtype));
        return EXIT_INPUT;
    }
    m->args.dtype = dtype;
    return bytes ? take_bytes(m, which) : EXIT_DONE;
}

static int open_matrices(const struct diagnose *d, struct matrices *m) {
    for (int which = 0; which < 2; which++) {
        const int code = open_matrix(d, m, which);
        if (code != EXIT_DONE)
            return code;
    }
    const hf_array *a = hf_dataset_array(m->data[0]), *b = hf_dataset_array(m->data[1]);
    if (a->cols != b->rows) {
        tool_error("A has %lld columns and B %lld rows, which must be equal", (long long)a->cols,
                   (long long)b->rows);
        return EXIT_INPUT;
    }
    m->dtype_c = m->args.dtype == HF_I8 ? HF_I32 : m->args.dtype;
    m->c = calloc((size_t)(a->rows * b->cols), hf_dtype_bytes(m->dtype_c));
    if (!m->c) {
        tool_error("no memory for the product of %lld x %lld elements", (long long)a->rows,
                   (long long)b->cols);
        return EXIT_RESOURCES;
    }
    m->args = (hf_redundant_args){.m = a->rows,
                                  .n = b->cols,
                                  .k = a->cols,
                                  .a = m->bytes[0] ? (const void *)m->bytes[0] : a->data,
                                  .b = m->bytes[1] ? (const void *)m->bytes[1] : b->data,
                                  .c = m->c,
                                  .replicas = d->replicas,
                                  .same_core = d->same_core,
                                  .plant = d->opts.plant,
                                  .dtype = m->args.dtype,
                                  .device = d->device};
    return EXIT_DONE;
}

static json_t *json_replica(const hf_replica *r) {
    char operands[20], result[20];
    snprintf(operands, sizeof operands, "%016llx", (unsigned long long)r->operands);
    snprintf(result, sizeof result, "%016llx", (unsigned long long)r->result);
    return json_pack("{s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:I, s:I}", "verdict",
                     hf_verdict_text(r->verdict), "device", r->device, "core", r->core, "units",
                     r->units, "kernel", r->kernel, "signature_operands", operands,
                     "signature_result", result, "first_row", (json_int_t)r->row, "first_column",
                     (json_int_t)r->column);
}

static void print_vote(const hf_vote *v, bool json) {
    if (json) {
        json_t *list = json_array();
        for (int i = 0; i < v->replicas; i++)
            json_array_append_new(list, json_replica(&v->replica[i]));
        (void)tool_json_print(json_pack(
            "{s:s, s:i, s:i, s:s, s:o}", "verdict", hf_verdict_text(v->verdict), "majority",
            v->majority, "outvoted", v->outvoted, "text", v->text, "replicas", list));
        return;
    }
    for (int i = 0; i < v->replicas; i++) {
        const hf_replica *r = &v->replica[i];
        printf("replica %d: %s", i, hf_verdict_text(r->verdict));
        if (r->core >= 0 && r->units > 1)
            printf(", multiprocessors %d to %d", r->core, r->core + r->units - 1);
        else if (r->core >= 0)
            printf(", core %d", r->core);
        else
            printf(", %s", r->device);
        printf(", operands %016llx, result %016llx, %s", (unsigned long long)r->operands,
               (unsigned long long)r->result, r->kernel);
        if (r->row >= 0)
            printf(", first different element (%lld, %lld)", (long long)r->row,
                   (long long)r->column);
        putchar('\n');
    }
    printf("%d of %d agree%s%s\n", v->majority, v->replicas, *v->text ? ": " : "", v->text);
}

static int vote_on(const struct diagnose *d, struct matrices *m) {
    hf_vote vote;
    const hf_status status = hf_redundant(&m->args, &vote);
    if (vote.replica[0].verdict == HF_VERDICT_NOT_RUN && vote.majority == 0) {
        static const struct tool_word words[] = {
            {"run them one after the other, on one core", "give --same-core"},
            {"computed: device is", "computed: --device is"},
            {NULL, NULL}};
        tool_error("%s", tool_translate(*vote.text ? vote.text : hf_status_text(status), words));
        return status == HF_E_NOMEM ? EXIT_RESOURCES
               : status == HF_E_ARG ? EXIT_USAGE
                                    : EXIT_NOT_RUN;
    }
    print_vote(&vote, d->json);
    if (vote.majority > 0 && d->out) {
        const hf_array c = hf_array_view(m->c, m->dtype_c, m->args.m, m->args.n);
        errno = 0;
        const hf_status written = hf_write_npy_matrix(m->ctx, d->out, &c);
        if (written != HF_OK)
            return tool_fail(m->ctx, written, STAGE_WRITE);
    }
    return vote.verdict == HF_VERDICT_NOT_RUN ? EXIT_NOT_RUN
           : status == HF_OK                  ? EXIT_DONE
                                              : EXIT_CORRUPT;
}

int diagnose_replicas(const struct diagnose *d) {
    struct matrices m = {.ctx = NULL};
    const hf_context_opts opts = {.device = "cpu"};
    errno = 0;
    const hf_status status = hf_context_create(&m.ctx, &opts);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    int code = tool_spare(d->out, d->file, 2);
    if (code == EXIT_DONE)
        code = tool_writable(m.ctx, d->out);
    if (code == EXIT_DONE)
        code = open_matrices(d, &m);
    if (code == EXIT_DONE)
        code = vote_on(d, &m);
    free(m.c);
    free(m.bytes[0]);
    free(m.bytes[1]);
    hf_dataset_close(m.data[0]);
    hf_dataset_close(m.data[1]);
    hf_context_destroy(m.ctx);
    return code;
}
