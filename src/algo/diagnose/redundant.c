/* SPDX-License-Identifier: Apache-2.0
 * A product by several replicas and a vote. Each replica copies its operands, computes by a path of
 * its own and signs what it read and wrote, in the order of the caller's matrices. */
#include "algo/diagnose/pattern.h"
#include "base/affinity.h"
#include "base/checksum/checksum.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "core/part.h"
#include "ops/gemm/gemm.h"
#include <holdfast/diagnose.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum path { PATH_PLAIN, PATH_REVERSED, PATH_TRANSPOSED };

#define LIMIT_S 60 /* most that other multiprocessors are held for a replica */

/* The GPU that all replicas use, one after the other. */
struct shared_gpu {
    hf_context *ctx;
    struct hf_pin *pin; /* NULL: each has all of it */
};

struct replica {
    const hf_redundant_args *args;
    int number, core;      /* core -1: where the caller is */
    bool apart;            /* in a thread of its own */
    bool portable;         /* 16-bit types as on any CPU */
    char *a, *b, *raw, *c; /* copies, C as computed, C in the caller's order */
    hf_status status;
    hf_replica *out;
    pthread_t thread;
};

static hf_dtype type_of(const hf_redundant_args *p) {
    return p->dtype == HF_DTYPE_NONE ? HF_F32 : p->dtype;
}

static hf_dtype type_of_c(const hf_redundant_args *p) {
    return type_of(p) == HF_I8 ? HF_I32 : type_of(p);
}

/* Bytes of rows of A or B, and of C, of so many elements. */
static size_t row_bytes(const hf_redundant_args *p, int64_t cols) {
    return (size_t)cols * hf_dtype_bytes(type_of(p));
}

static size_t row_bytes_of_c(const hf_redundant_args *p) {
    return (size_t)p->n * hf_dtype_bytes(type_of_c(p));
}

static bool allocate(struct replica *r) {
    const hf_redundant_args *p = r->args;
    size_t a, b, c;
    if (!hf_mul3_size(p->m, p->k, hf_dtype_bytes(type_of(p)), &a) ||
        !hf_mul3_size(p->k, p->n, hf_dtype_bytes(type_of(p)), &b) ||
        !hf_mul3_size(p->m, p->n, hf_dtype_bytes(type_of_c(p)), &c))
        return false;
    r->a = hf_alloc(a);
    r->b = hf_alloc(b);
    r->raw = hf_alloc(c);
    r->c = hf_alloc(c);
    return r->a && r->b && r->raw && r->c;
}

static void release(struct replica *r) {
    hf_free(r->a);
    hf_free(r->b);
    hf_free(r->raw);
    hf_free(r->c);
}

static void copy_operands(struct replica *r) {
    const hf_redundant_args *p = r->args;
    const size_t row = row_bytes(p, p->k);
    memcpy(r->b, p->b, (size_t)p->k * row_bytes(p, p->n));
    for (int64_t i = 0; i < p->m; i++) {
        const int64_t from = r->number == PATH_REVERSED ? p->m - 1 - i : i;
        memcpy(r->a + (size_t)i * row, (const char *)p->a + (size_t)from * row, row);
    }
}

static hf_gemm_args product_of(const struct replica *r) {
    const hf_redundant_args *p = r->args;
    hf_gemm_args g = {.order = HF_ROW_MAJOR,
                      .m = p->m,
                      .n = p->n,
                      .k = p->k,
                      .dtype = type_of(p),
                      .dtype_c = type_of_c(p),
                      .alpha = 1,
                      .a = r->a,
                      .b = r->b,
                      .c = r->raw,
                      .portable = r->portable};
    if (r->number == PATH_TRANSPOSED) { /* C' = B' A', of the matrices as they are stored */
        g.m = p->n;
        g.n = p->m;
        g.a = r->b;
        g.b = r->a;
        g.trans_a = 1;
        g.trans_b = 1;
    }
    return g;
}

/* The result in the caller's order. */
static void put_in_order(struct replica *r) {
    const hf_redundant_args *p = r->args;
    const size_t element = hf_dtype_bytes(type_of_c(p)), row = row_bytes_of_c(p);
    for (int64_t i = 0; i < p->m; i++) {
        const int64_t from = r->number == PATH_REVERSED ? p->m - 1 - i : i;
        if (r->number != PATH_TRANSPOSED)
            memcpy(r->c + (size_t)i * row, r->raw + (size_t)from * row, row);
        for (int64_t j = 0; r->number == PATH_TRANSPOSED && j < p->n; j++)
            memcpy(r->c + (size_t)i * row + (size_t)j * element,
                   r->raw + (size_t)(j * p->m + i) * element, element);
    }
    if (p->plant == r->number + 1)
        r->c[(size_t)(p->m * p->n) / 2 * element] ^= 1;
}

/* A row as words; zeros fill up the last one. */
static void sign_row(struct hf_checksum *s, const struct hf_checksum_info *info, const char *row,
                     size_t bytes) {
    uint32_t block[256];
    for (size_t done = 0; done < bytes; done += sizeof block) {
        const size_t part = bytes - done < sizeof block ? bytes - done : sizeof block;
        block[(part - 1) / 4] = 0;
        memcpy(block, row + done, part);
        info->words(s, block, (int64_t)(part + 3) / 4);
    }
}

static void sign_all(struct replica *r) {
    const hf_redundant_args *p = r->args;
    const struct hf_checksum_info *info = hf_checksum_at(HF_CHECKSUM_FLETCHER);
    const size_t a = row_bytes(p, p->k), b = row_bytes(p, p->n), c = row_bytes_of_c(p);
    struct hf_checksum s;
    info->begin(&s);
    for (int64_t i = 0; i < p->m; i++)
        sign_row(&s, info, r->a + (size_t)(r->number == PATH_REVERSED ? p->m - 1 - i : i) * a, a);
    for (int64_t i = 0; i < p->k; i++)
        sign_row(&s, info, r->b + (size_t)i * b, b);
    r->out->operands = info->value(&s);
    info->begin(&s);
    for (int64_t i = 0; i < p->m; i++)
        sign_row(&s, info, r->c + (size_t)i * c, c);
    r->out->result = info->value(&s);
}

static void conclude(struct replica *r, const hf_gemm_report *report) {
    if (r->status != HF_OK)
        return;
    (void)snprintf(r->out->kernel, sizeof r->out->kernel, "%s", report->kernel);
    put_in_order(r);
    sign_all(r);
}

static void *compute(void *replica) {
    struct replica *r = replica;
    struct hf_affinity before;
    const hf_context_opts opts = {.device = r->out->device, .threads = 1};
    hf_context *ctx = NULL;
    hf_gemm_report report;
    if (r->core >= 0 && !hf_affinity_enter(r->core, &before)) {
        r->status = HF_E_UNSUPPORTED;
        return NULL;
    }
    copy_operands(r);
    r->status = hf_context_create(&ctx, &opts);
    if (r->status == HF_OK) {
        const hf_gemm_args product = product_of(r);
        r->status = hf_gemm(ctx, &product, &report);
    }
    hf_context_destroy(ctx);
    conclude(r, &report);
    return NULL;
}

/* A kernel must have run once before others are held, so the first product is not the replica's. */
static void compute_on_gpu(struct replica *r, const struct shared_gpu *gpu) {
    hf_gemm_report report;
    bool kept = true;
    copy_operands(r);
    const hf_gemm_args product = product_of(r);
    r->status = gpu->pin != NULL ? hf_gemm(gpu->ctx, &product, NULL) : HF_OK;
    if (r->status == HF_OK && gpu->pin != NULL)
        r->status = hf_part_begin(gpu->ctx, gpu->pin, r->core, r->out->units, LIMIT_S);
    if (r->status != HF_OK)
        return;
    memset(r->raw, 0xff, (size_t)r->args->m * row_bytes_of_c(r->args));
    r->status = hf_gemm(gpu->ctx, &product, &report);
    const hf_status end = gpu->pin != NULL ? hf_part_end(gpu->ctx, gpu->pin, &kept) : HF_OK;
    if (r->status == HF_OK)
        r->status = end != HF_OK ? end : kept ? HF_OK : HF_E_CANCELLED;
    conclude(r, &report);
}

static void compute_all(struct replica *r, int count) {
    int started = 0;
    for (int i = 0; i < count; i++) {
        if (!r[i].apart)
            (void)compute(&r[i]);
        else if (pthread_create(&r[i].thread, NULL, compute, &r[i]) != 0)
            r[i].status = HF_E_NOMEM;
        else
            started |= 1 << i;
    }
    for (int i = 0; i < count; i++)
        if (started >> i & 1)
            (void)pthread_join(r[i].thread, NULL);
}

static bool agree(const struct replica *x, const struct replica *y) {
    const hf_redundant_args *p = x->args;
    return x->status == HF_OK && y->status == HF_OK && x->out->operands == y->out->operands &&
           x->out->result == y->out->result &&
           memcmp(x->c, y->c, (size_t)p->m * row_bytes_of_c(p)) == 0;
}

/* The replica that most agree with; how many. */
static int majority_of(const struct replica *r, int count, int *best) {
    int most = 0;
    for (int i = 0; i < count; i++) {
        int with = 0;
        for (int j = 0; j < count; j++)
            with += i == j ? r[i].status == HF_OK : agree(&r[i], &r[j]);
        if (with > most) {
            most = with;
            *best = i;
        }
    }
    return most;
}

static void say_difference(const struct replica *r, const struct replica *good) {
    const hf_redundant_args *p = r->args;
    const size_t element = hf_dtype_bytes(type_of_c(p));
    for (int64_t i = 0; i < p->m * p->n; i++)
        if (memcmp(r->c + (size_t)i * element, good->c + (size_t)i * element, element) != 0) {
            r->out->row = i / p->n;
            r->out->column = i % p->n;
            return;
        }
}

static hf_status vote_on(struct replica *r, int count, hf_vote *vote) {
    int best = 0, ran = 0;
    for (int i = 0; i < count; i++)
        ran += r[i].status == HF_OK;
    const int most = majority_of(r, count, &best);
    vote->majority = most >= 2 ? most : 0;
    for (int i = 0; i < count; i++) {
        const bool with = vote->majority > 0 && (i == best || agree(&r[i], &r[best]));
        r[i].out->verdict = r[i].status != HF_OK ? HF_VERDICT_NOT_RUN
                            : with               ? HF_VERDICT_PASS
                                                 : HF_VERDICT_FAIL;
        if (vote->majority > 0 && r[i].status == HF_OK && !with) {
            vote->outvoted = i;
            say_difference(&r[i], &r[best]);
        }
    }
    if (vote->majority > 0)
        memcpy(r->args->c, r[best].c, (size_t)r->args->m * row_bytes_of_c(r->args));
    if (ran < count) {
        vote->verdict = HF_VERDICT_NOT_RUN;
        (void)snprintf(vote->text, sizeof vote->text,
                       "%d of %d replicas did not run: the result is not as redundant as was asked",
                       count - ran, count);
        return vote->majority > 0 ? HF_E_CANCELLED : HF_E_CORRUPT;
    }
    if (vote->majority == count) {
        vote->verdict = HF_VERDICT_PASS;
        return HF_OK;
    }
    vote->verdict = HF_VERDICT_FAIL;
    if (vote->majority == 0)
        (void)snprintf(vote->text, sizeof vote->text,
                       "no two replicas agree: there is no result; go to a safe state%s",
                       count == 2 ? ", or use three replicas to tell which is wrong" : "");
    else if (r[vote->outvoted].out->units > 1)
        (void)snprintf(vote->text, sizeof vote->text,
                       "replica %d on multiprocessors %d to %d was outvoted: isolate them, or "
                       "screen the GPU to tell which",
                       vote->outvoted, r[vote->outvoted].core,
                       r[vote->outvoted].core + r[vote->outvoted].out->units - 1);
    else if (r[vote->outvoted].core >= 0)
        (void)snprintf(vote->text, sizeof vote->text,
                       "replica %d on core %d was outvoted: isolate it", vote->outvoted,
                       r[vote->outvoted].core);
    else
        (void)snprintf(vote->text, sizeof vote->text, "replica %d on %s was outvoted%s",
                       vote->outvoted, r[vote->outvoted].out->device,
                       r[vote->outvoted].portable ? ": isolate it" : "");
    return vote->majority > 0 ? HF_OK : HF_E_CORRUPT;
}

static bool multiplies(hf_dtype dtype) {
    return dtype == HF_F32 || dtype == HF_F64 || dtype == HF_F16 || dtype == HF_BF16 ||
           dtype == HF_I8;
}

static hf_status check(const hf_redundant_args *p, hf_vote *vote, int *count) {
    *count = p->replicas != 0 ? p->replicas : HF_MAX_REPLICAS;
    const char *wrong = *count < 2 || *count > HF_MAX_REPLICAS ? "replicas must be 2 or 3"
                        : p->m < 1 || p->n < 1 || p->k < 1     ? "dimensions must be at least 1"
                        : !p->a || !p->b || !p->c              ? "a, b and c are needed"
                        : !multiplies(type_of(p)) ? "dtype must be F32, F64, F16, BF16 or I8"
                                                  : NULL;
    if (wrong == NULL)
        return HF_OK;
    (void)snprintf(vote->text, sizeof vote->text, "nothing was computed: %s", wrong);
    return HF_E_ARG;
}

/* A device for each replica? */
static bool is_list(const hf_redundant_args *args) {
    return args->device != NULL && strchr(args->device, ',') != NULL;
}

static bool is_gpu(const hf_redundant_args *args) {
    return args->device != NULL && strcmp(args->device, "cpu") != 0 && !is_list(args);
}

/* Names of a list, one for each replica; false: there are more or fewer. */
static bool take_devices(const char *list, int count, hf_vote *vote) {
    int i = 0;
    for (const char *at = list; at != NULL; i++) {
        const char *const comma = strchr(at, ',');
        const size_t length = comma != NULL ? (size_t)(comma - at) : strlen(at);
        if (i >= count || length == 0 || length >= sizeof vote->replica[i].device)
            return false;
        memcpy(vote->replica[i].device, at, length);
        vote->replica[i].device[length] = '\0';
        at = comma != NULL ? comma + 1 : NULL;
    }
    return i == count;
}

/* Where each replica works: a core each, or as many multiprocessors of the GPU. */
static hf_status choose_places(const hf_redundant_args *args, int count, struct shared_gpu *gpu,
                               hf_vote *vote) {
    int core[HF_MAX_REPLICAS];
    const hf_context_opts opts = {.device = args->device};
    const bool own = !args->same_core;
    const int cores = hf_affinity_cores(core, HF_MAX_REPLICAS);
    for (int i = 0; i < count; i++) {
        hf_replica *const r = &vote->replica[i];
        *r = (hf_replica){.core = -1, .units = 1, .row = -1, .column = -1};
        (void)snprintf(r->device, sizeof r->device, "%s", is_gpu(args) ? args->device : "cpu");
    }
    if (is_list(args)) {
        if (take_devices(args->device, count, vote))
            return HF_OK;
        (void)snprintf(vote->text, sizeof vote->text,
                       "nothing was computed: device is '%.60s': name one for all replicas, or one "
                       "for each of the %d",
                       args->device, count);
        return HF_E_ARG;
    }
    if (is_gpu(args)) {
        hf_status status = hf_context_create(&gpu->ctx, &opts);
        if (status == HF_OK && own)
            status = hf_part_open(gpu->ctx, &gpu->pin);
        if (status != HF_OK)
            (void)snprintf(vote->text, sizeof vote->text, "nothing was computed: %.150s",
                           hf_last_error(gpu->ctx));
        for (int i = 0; status == HF_OK && own && i < count; i++) {
            vote->replica[i].units = gpu->ctx->props.sms / count;
            vote->replica[i].core = i * vote->replica[i].units;
        }
        return status;
    }
    if (own && cores < count) {
        (void)snprintf(vote->text, sizeof vote->text,
                       "nothing was computed: %d replicas need as many cores, there are %d; run "
                       "them one after the other, on one core",
                       count, cores);
        return HF_E_UNSUPPORTED;
    }
    for (int i = 0; own && i < count; i++)
        vote->replica[i].core = core[i];
    return HF_OK;
}

static hf_status compute_and_vote(struct replica *r, int count, const struct shared_gpu *gpu,
                                  hf_vote *vote) {
    bool room = true;
    for (int i = 0; i < count; i++)
        room = allocate(&r[i]) && room;
    if (!room) {
        (void)snprintf(vote->text, sizeof vote->text,
                       "nothing was computed: no memory for the replicas' copies");
        return HF_E_NOMEM;
    }
    for (int i = 0; gpu->ctx != NULL && i < count; i++)
        compute_on_gpu(&r[i], gpu);
    if (gpu->ctx == NULL)
        compute_all(r, count);
    return vote_on(r, count, vote);
}

hf_status hf_redundant(const hf_redundant_args *args, hf_vote *vote) {
    struct replica r[HF_MAX_REPLICAS] = {{0}};
    struct shared_gpu gpu = {NULL, NULL};
    int count = 0;
    *vote = (hf_vote){.verdict = HF_VERDICT_NOT_RUN, .outvoted = -1};
    HF_TRY(check(args, vote, &count));
    vote->replicas = count;
    hf_status status = choose_places(args, count, &gpu, vote);
    for (int i = 0; i < count; i++)
        r[i] = (struct replica){.args = args,
                                .number = i,
                                .core = vote->replica[i].core,
                                .apart = vote->replica[i].core >= 0 || is_list(args),
                                .portable = is_list(args),
                                .status = HF_E_INTERNAL,
                                .out = &vote->replica[i]};
    if (status == HF_OK)
        status = compute_and_vote(r, count, &gpu, vote);
    for (int i = 0; i < count; i++)
        release(&r[i]);
    hf_part_close(gpu.pin);
    hf_context_destroy(gpu.ctx);
    return status;
}
