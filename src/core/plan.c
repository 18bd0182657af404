/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plan.h"

#include "base/cpuid.h"

#include <assert.h>
#include <ctype.h>
#ifdef HF_TUNING_BESIDE
#include <dlfcn.h>
#endif
#include <float.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A measurement speaks for calls whose shape is at most this many factors of two away, over all
 * dimensions together. */
#define TUNE_REACH 2
#define MAX_PATH_BYTES 4096
#define MAX_VARIABLE_BYTES 64

/* A call, as the steps below see it. */
struct call {
    hf_context *ctx;
    const struct hf_op *op;
    int id;                          /* of the op, where its kernels are those of the registry */
    const struct hf_kernel_set *set; /* else these; NULL */
    struct hf_call call;
    struct hf_key key;
    bool
        any_size; /* memory does not choose: no kernel that could serve it fits, or they disagree */
    const struct hf_kernel *measured; /* the last kernel whose workspace was asked for, */
    size_t workspace_bytes;           /* and that */
};

/* Kernel i of the op; NULL past the last. */
static const struct hf_kernel *kernel_at(const struct call *call, int i) {
    if (call->set == NULL)
        return hf_kernel_at(call->id, i);
    return i < call->set->count ? call->set->kernels[i] : NULL;
}

/* Checks that no kernel of the call can do without: those of a scheme that has no other ones. */
static uint32_t must_check(const struct call *call) {
    return call->set == NULL && call->id == HF_OP_ASSIGN && hf_ctx_is_host(call->ctx)
               ? call->ctx->guard.checks & HF_CHECK_BIT(HF_FAULT_TILE)
               : 0;
}

static bool usable(const struct call *call, const struct hf_kernel *kernel, char *why,
                   size_t why_bytes) {
    const char *reason = NULL;
    if (kernel->device != call->ctx->device->id)
        reason = "another device";
    else if ((kernel->dtypes & HF_DT(call->key.dtype[0])) == 0)
        reason = "another data type";
    else if (!hf_kernel_runs_on(kernel, &call->ctx->props, why, why_bytes))
        return false;
    else if (kernel->supports != NULL && !kernel->supports(&call->call))
        reason = "does not support this call";
    else if (must_check(call) & ~kernel->guards)
        reason = "does not make the checks of this guard";
    if (reason != NULL && why != NULL)
        (void)snprintf(why, why_bytes, "%s", reason);
    return reason == NULL;
}

struct steps {
    hf_context *ctx;
    struct hf_call *call;
    int count;
    hf_status status;
};

static void plan_step(void *user, int op, const void *args) {
    struct steps *steps = user;
    assert(steps->count < HF_MAX_STEPS);
    const struct hf_kernel **step = &steps->call->step[steps->count++];
    if (steps->status == HF_OK)
        steps->status = hf_plan(steps->ctx, op, args, step, NULL);
}

hf_status hf_plan_steps(hf_context *ctx, const struct hf_kernel *kernel, struct hf_call *call) {
    struct steps steps = {ctx, call, 0, HF_OK};
    if (kernel->steps != NULL)
        kernel->steps(call, plan_step, &steps);
    return steps.status;
}

size_t hf_kernel_workspace(hf_context *ctx, const struct hf_kernel *kernel, const void *args) {
    struct hf_call call = {.device = &ctx->props, .comm = &ctx->comm, .args = args};
    if (kernel->workspace == NULL || hf_plan_steps(ctx, kernel, &call) != HF_OK)
        return 0;
    return kernel->workspace(&call);
}

static size_t workspace_of(struct call *call, const struct hf_kernel *kernel) {
    if (call->measured != kernel)
        call->workspace_bytes = hf_kernel_workspace(call->ctx, kernel, call->call.args);
    call->measured = kernel;
    return call->workspace_bytes;
}

/* A device's kernels are not asked: who plans for it looks at their workspace and plans again. */
static bool fits(struct call *call, const struct hf_kernel *kernel) {
    return call->any_size || !hf_ctx_is_host(call->ctx) ||
           workspace_of(call, kernel) <= hf_workspace_room(call->ctx);
}

static double estimate(const struct call *call, const struct hf_kernel *kernel) {
    return kernel->estimate != NULL ? kernel->estimate(&call->call) : -1.0;
}

static const struct hf_kernel *find_kernel(const struct call *call, const char *name) {
    const struct hf_kernel *kernel = NULL;
    for (int i = 0; (kernel = kernel_at(call, i)) != NULL; i++)
        if (strcmp(kernel->name, name) == 0)
            return kernel;
    return NULL;
}

/* The variable that forces a kernel of the op, and what it says; NULL: nothing. */
static const char *forced(const struct hf_op *op, char variable[MAX_VARIABLE_BYTES]) {
    static const char prefix[] = "HF_KERNEL_";
    char *end = variable + sizeof prefix - 1;
    memcpy(variable, prefix, sizeof prefix);
    for (const char *c = op->name; *c != '\0' && end < variable + MAX_VARIABLE_BYTES - 1; c++)
        *end++ = (char)toupper((unsigned char)*c);
    *end = '\0';
    const char *name = getenv(variable);
    return name != NULL && *name != '\0' ? name : NULL;
}

static hf_status forced_kernel(const struct call *call, const char *variable, const char *name,
                               const struct hf_kernel **kernel) {
    *kernel = find_kernel(call, name);
    if (*kernel == NULL)
        return hf_ctx_fail(call->ctx, HF_E_ARG,
                           "%s=%s: there is no such kernel; `holdfast info` lists them", variable,
                           name);
    char why[160] = "";
    if (!usable(call, *kernel, why, sizeof why))
        return hf_ctx_fail(call->ctx, HF_E_ARG, "%s=%s: the kernel cannot serve this call: %s",
                           variable, name, why);
    return HF_OK;
}

void hf_plan_machine(const hf_context *ctx, char text[HF_TUNE_NAME_BYTES]) {
    char words[200] = "";
    int index = 0;
    if (hf_ctx_is_host(ctx)) {
        hf_tune_fingerprint(text);
        return;
    }
    if (hf_device_find(ctx->name, &index) == NULL ||
        ctx->device->probe(index, words, sizeof words) != HF_OK)
        (void)snprintf(words, sizeof words, "unknown-%s", ctx->name);
    (void)snprintf(text, HF_TUNE_NAME_BYTES, "%.*s", (int)strcspn(words, ","), words);
    for (char *c = text; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~')
            *c = '_';
}

/* The instruction set that PoCL compiles for, by the name of its device, which has that of a CPU as
 * LLVM knows it: "pthread-skylake-avx512-AMD EPYC", "cpu-sapphirerapids-...". Any may be told to
 * be a Haswell, which has AVX2. */
static const char *pocl_isa(const char *name) {
    if (strstr(name, "avx512") != NULL || (hf_cpu_has_avx512() && strstr(name, "haswell") == NULL))
        return "AVX512";
    return hf_cpu_has_avx2() ? "AVX2" : "other";
}

/* PoCL's device is the CPU, compiled for by its instruction set; of other OpenCL devices the
 * driver, the last word of the name, is left out. */
void hf_plan_family(const hf_context *ctx, char text[HF_TUNE_NAME_BYTES]) {
    char words[200] = "";
    int index = 0;
    hf_plan_machine(ctx, text);
    if (ctx->device->id != HF_DEV_OPENCL || hf_device_find(ctx->name, &index) == NULL ||
        ctx->device->probe(index, words, sizeof words) != HF_OK)
        return;
    if (strstr(words, ", Portable Computing Language,") != NULL) {
        char name[HF_TUNE_NAME_BYTES];
        memcpy(name, text, sizeof name);
        (void)snprintf(text, HF_TUNE_NAME_BYTES, "PoCL-%s", pocl_isa(name));
        return;
    }
    char *last = strrchr(text, '_');
    char name[HF_TUNE_NAME_BYTES];
    if (last != NULL)
        *last = '\0';
    memcpy(name, text, sizeof name);
    (void)snprintf(text, HF_TUNE_NAME_BYTES, "OpenCL-%.*s", HF_TUNE_NAME_BYTES - 8, name);
}

/* Has the file at path entries of the machine `here`? Then the context has them. A file is advice:
 * one that cannot be read is the same as none. */
static bool take_tuning(hf_context *ctx, const char *path, const char *here) {
    struct hf_tune *tune = &ctx->tune;
    if (hf_tune_load(path, tune, NULL) != HF_OK)
        return false;
    int kept = 0;
    for (int i = 0; i < tune->count; i++)
        if (strcmp(tune->entry[i].fingerprint, here) == 0)
            tune->entry[kept++] = tune->entry[i];
    tune->count = kept;
    if (kept == 0)
        hf_tune_clear(tune);
    return kept > 0;
}

/* Where the measurements that the library brings lie. */
static void find_tuning(char *dir, size_t bytes) {
#ifdef HF_TUNING_BESIDE
    static const char here = 0;
    Dl_info library;
    const bool found = dladdr(&here, &library) != 0 && library.dli_fname != NULL;
    const char *slash = found ? strrchr(library.dli_fname, '/') : NULL;
    const int len = slash ? (int)(slash - library.dli_fname) : 0;
    (void)snprintf(dir, bytes, "%.*s/tuning", len, slash ? library.dli_fname : "");
#else
    (void)snprintf(dir, bytes, "%s", HF_TUNING_DIR);
#endif
}

/* The user's own measurements, else, unless HF_TUNE_FILE is set, those that the library brings,
 * in a file named by the last word of its family: h200.tune for NVIDIA_H200. */
static void load_tuning(hf_context *ctx) {
    if (ctx->tune_loaded)
        return;
    ctx->tune_loaded = true;
    char path[MAX_PATH_BYTES], here[HF_TUNE_NAME_BYTES];
    hf_plan_machine(ctx, here);
    const char *ruling = getenv("HF_TUNE_FILE");
    if (hf_tune_path(path, sizeof path) &&
        (take_tuning(ctx, path, here) || (ruling != NULL && *ruling != '\0')))
        return;
    hf_plan_family(ctx, here);
    const char *last = strrchr(here, '_');
    char dir[MAX_PATH_BYTES / 2];
    find_tuning(dir, sizeof dir);
    const int len = snprintf(path, sizeof path, "%s/%s.tune", dir, last ? last + 1 : here);
    if (len < 0 || (size_t)len >= sizeof path)
        return;
    for (char *c = path + strlen(dir); *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    (void)take_tuning(ctx, path, here);
}

/* *ns: the time of the entry it comes from. */
static const struct hf_kernel *tuned_kernel(struct call *call, double *ns) {
    load_tuning(call->ctx);
    const struct hf_tune *tune = &call->ctx->tune;
    if (tune->count == 0)
        return NULL;
    const struct hf_tune_key here = hf_tune_bucket(call->op, &call->key);
    const struct hf_kernel *best = NULL;
    int best_distance = TUNE_REACH;
    double best_ns = 0.0;
    for (int i = 0; i < tune->count; i++) {
        const struct hf_tune_entry *e = &tune->entry[i];
        const int distance = hf_tune_distance(&e->key, &here);
        if (distance > best_distance ||
            (best != NULL && distance == best_distance && e->ns >= best_ns))
            continue;
        const struct hf_kernel *kernel = find_kernel(call, e->kernel);
        if (kernel == NULL || !usable(call, kernel, NULL, 0) || !fits(call, kernel))
            continue;
        best = kernel;
        best_distance = distance;
        best_ns = e->ns;
    }
    *ns = best_ns;
    return best;
}

/* That with the least estimate above (ns, at): of equal ones the first. NULL: none. */
static const struct hf_kernel *next_kernel(const struct call *call, double *ns, int *at) {
    const struct hf_kernel *kernel = NULL, *best = NULL;
    const double last_ns = *ns;
    const int last = *at;
    for (int i = 0; (kernel = kernel_at(call, i)) != NULL; i++) {
        if ((kernel->traits & HF_TRAIT_REFERENCE) || !usable(call, kernel, NULL, 0))
            continue;
        const double own = estimate(call, kernel);
        if (!(own > last_ns || (own == last_ns && i > last)) || (best != NULL && own >= *ns))
            continue;
        best = kernel;
        *ns = own;
        *at = i;
    }
    return best;
}

/* The least estimate; a kernel without one only if there is no other, the reference last of all.
 * Workspaces are asked for one by one: that takes longer than an estimate. */
static const struct hf_kernel *modelled_kernel(struct call *call) {
    const struct hf_kernel *kernel = NULL, *reference = NULL;
    double ns = -DBL_MIN; /* below any estimate */
    int at = -1;
    while ((kernel = next_kernel(call, &ns, &at)) != NULL)
        if (fits(call, kernel))
            return kernel;
    for (int i = 0; (kernel = kernel_at(call, i)) != NULL; i++) {
        if (!usable(call, kernel, NULL, 0))
            continue;
        if (kernel->traits & HF_TRAIT_REFERENCE)
            reference = reference != NULL ? reference : kernel;
        else if (!(estimate(call, kernel) >= 0.0) && fits(call, kernel))
            return kernel;
    }
    return reference != NULL && fits(call, reference) ? reference : NULL;
}

static const struct hf_kernel *free_kernel(struct call *call, const char **source) {
    double ns = 0;
    const struct hf_kernel *kernel = tuned_kernel(call, &ns);
    *source = "tuned";
    if (kernel != NULL)
        return kernel;
    kernel = modelled_kernel(call);
    *source = kernel != NULL && (kernel->traits & HF_TRAIT_REFERENCE) ? "reference" : "model";
    return kernel;
}

/* When none fits, the choice is that without a limit: the workspace is then refused in words. */
static hf_status choose(struct call *call, const struct hf_kernel **kernel, const char **source) {
    char variable[MAX_VARIABLE_BYTES];
    const char *name = forced(call->op, variable);
    if (name != NULL) {
        *source = "forced";
        return forced_kernel(call, variable, name, kernel);
    }
    *kernel = free_kernel(call, source);
    if (*kernel == NULL) {
        call->any_size = true;
        *kernel = free_kernel(call, source);
    }
    if (*kernel == NULL && must_check(call) != 0)
        return hf_ctx_fail(call->ctx, HF_E_UNSUPPORTED,
                           "guard weighted is checked by kernels of %s with float32 tiles, and "
                           "none of them serves %s data with the instructions allowed here (AVX2, "
                           "AVX-512 or compute capability 9.0 is needed): take guard correct",
                           call->op->name, hf_dtype_name(call->key.dtype[0]));
    if (*kernel == NULL)
        return hf_ctx_fail(call->ctx, HF_E_UNSUPPORTED, "no kernel of %s can serve %s data on %s",
                           call->op->name, hf_dtype_name(call->key.dtype[0]),
                           call->ctx->device->name);
    return HF_OK;
}

static bool unanimous(const struct call *call) {
    return call->op->unanimous == NULL || call->op->unanimous(call->call.args);
}

static struct call make_call(hf_context *ctx, const struct hf_op *op, const void *args) {
    struct call call = {.ctx = ctx,
                        .op = op,
                        .call = {.device = &ctx->props, .comm = &ctx->comm, .args = args},
                        .key = hf_op_key(op, args)};
    call.any_size = !unanimous(&call);
    return call;
}

static struct call registered_call(hf_context *ctx, int id, const void *args) {
    assert(id >= 0 && id < HF_OP_COUNT);
    struct call call = make_call(ctx, hf_op_at(id), args);
    call.id = id;
    return call;
}

static struct call set_call(hf_context *ctx, const struct hf_kernel_set *set, const void *args) {
    struct call call = make_call(ctx, set->op, args);
    call.set = set;
    return call;
}

static hf_status plan(struct call *call, const struct hf_kernel **kernel, const char **source) {
    const struct hf_kernel *chosen = NULL;
    const char *from = NULL;
    HF_TRY(choose(call, &chosen, &from));
    *kernel = chosen;
    if (source != NULL)
        *source = from;
    return HF_OK;
}

hf_status hf_plan(hf_context *ctx, int op, const void *args, const struct hf_kernel **kernel,
                  const char **source) {
    struct call call = registered_call(ctx, op, args);
    return plan(&call, kernel, source);
}

hf_status hf_plan_set(hf_context *ctx, const struct hf_kernel_set *set, const void *args,
                      const struct hf_kernel **kernel, const char **source) {
    struct call call = set_call(ctx, set, args);
    return plan(&call, kernel, source);
}

hf_status hf_plan_measured(hf_context *ctx, int op, const void *args,
                           const struct hf_kernel **kernel, size_t *workspace_bytes) {
    struct call call = registered_call(ctx, op, args);
    const struct hf_kernel *chosen = NULL;
    const char *from = NULL;
    HF_TRY(choose(&call, &chosen, &from));
    *kernel = chosen;
    *workspace_bytes = workspace_of(&call, chosen);
    return HF_OK;
}

uint64_t hf_plan_workspace(hf_context *ctx, int op, const void *args) {
    struct call call = registered_call(ctx, op, args);
    const struct hf_kernel *kernel = NULL;
    const char *source = NULL;
    if (choose(&call, &kernel, &source) != HF_OK)
        return 0;
    uint64_t least = workspace_of(&call, kernel);
    const bool cramped = call.any_size && unanimous(&call);
    for (int i = 0; cramped && (kernel = kernel_at(&call, i)) != NULL; i++)
        if (usable(&call, kernel, NULL, 0) && workspace_of(&call, kernel) < least)
            least = workspace_of(&call, kernel);
    return least;
}

/* What the tuning file says of the kernel that it made win. */
static void explain_tuned(struct call *call, struct hf_plan_candidate *c) {
    double ns = 0;
    char machine[HF_TUNE_NAME_BYTES];
    (void)tuned_kernel(call, &ns);
    hf_plan_machine(call->ctx, machine);
    (void)snprintf(c->why, sizeof c->why, "measured the fastest (tuning file): %.4g ms on %s",
                   ns * 1e-6, machine);
}

static void explain_kernel(struct call *call, const struct hf_kernel *chosen, const char *source,
                           struct hf_plan_candidate *c) {
    c->chosen = c->kernel == chosen;
    c->estimate_ns = -1.0;
    c->usable = usable(call, c->kernel, c->why, sizeof c->why);
    if (!c->usable)
        return;
    c->estimate_ns = estimate(call, c->kernel);
    const char *why = "no estimate: taken only when no other can";
    if (c->chosen && strcmp(source, "forced") == 0)
        why = "forced by the environment";
    else if (c->chosen)
        why = strcmp(source, "model") == 0 ? "least estimate" : "nothing else can";
    else if (chosen == NULL || strcmp(source, "forced") == 0)
        why = "another kernel is forced";
    else if (!fits(call, c->kernel))
        why = "needs more workspace than the memory limit allows";
    else if (strcmp(source, "tuned") == 0)
        why = "another kernel was measured to be faster (tuning file)";
    else if (c->kernel->traits & HF_TRAIT_REFERENCE)
        why = "the reference: taken only when no other can";
    else if (c->estimate_ns >= 0.0)
        why = "higher estimate";
    (void)snprintf(c->why, sizeof c->why, "%s", why);
    if (c->chosen && strcmp(source, "tuned") == 0)
        explain_tuned(call, c);
}

void hf_plan_explain(hf_context *ctx, const struct hf_kernel_set *set, const void *args,
                     struct hf_plan_candidate *out) {
    struct call call = set_call(ctx, set, args);
    const struct hf_kernel *chosen = NULL, *kernel = NULL;
    const char *source = NULL;
    if (choose(&call, &chosen, &source) != HF_OK)
        chosen = NULL;
    for (int i = 0; (kernel = kernel_at(&call, i)) != NULL; i++) {
        out[i].kernel = kernel;
        explain_kernel(&call, chosen, source, &out[i]);
    }
}
