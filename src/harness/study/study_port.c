/* SPDX-License-Identifier: Apache-2.0
 * k-means as a plain port to OpenCL has it, after the design of the SYCL study: to compare with,
 * and to see what its parameters are worth. */
#include "base/clock.h"
#include "base/mem.h"
#include "core/context.h"
#include "device/opencl/opencl.h"
#include <holdfast/dev_study.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ITERATIONS 64
#define TURNED 64 /* rows that are turned at once, for the caches */
#define POINTS 16 /* of a work-item in the update, */
#define DIMS 4    /* and columns of a group */
#define ROOF_ROUNDS 20000
#define ROOF_ITEMS ((size_t)1 << 19)
#define ROOF_CHAINS 16

static const char text[] =
    "#define AT(i, j) (BY_COLUMNS ? x[(long)(j) * n + (i)] : x[(long)(i) * d + (j)])\n"
    "#define GLUE_(a, b) a##b\n"
    "#define GLUE(a, b) GLUE_(a, b)\n"
    "__kernel void assign(__global const float *x, __global const float *c, __global int *label,\n"
    "                     int n, int k, int d) {\n"
    "    for (int p = 0; p < PACKAGE; p++) {\n"
    "        const long i = (long)get_global_id(0) * PACKAGE + p;\n"
    "        if (i >= n) return;\n"
    "        float least = INFINITY; int best = 0;\n"
    "        for (int l = 0; l < k; l++) {\n"
    "            float sum = 0; int j = 0;\n"
    "#if WIDTH > 1\n"
    "            GLUE(float, WIDTH) part = 0; float each[WIDTH];\n"
    "            for (; j + WIDTH <= d; j += WIDTH) {\n"
    "                const GLUE(float, WIDTH) t = GLUE(vload, WIDTH)(0, x + i * d + j) -\n"
    "                                             GLUE(vload, WIDTH)(0, c + (long)l * d + j);\n"
    "                part += t * t;\n"
    "            }\n"
    "            GLUE(vstore, WIDTH)(part, 0, each);\n"
    "            for (int w = 0; w < WIDTH; w++) sum += each[w];\n"
    "#endif\n"
    "            for (; j < d; j++) { const float t = AT(i, j) - c[(long)l * d + j]; sum += t * t; "
    "}\n"
    "            if (sum < least) { least = sum; best = l; }\n"
    "        }\n"
    "        label[i] = best;\n"
    "    }\n"
    "}\n"
    "#define ADD(space)                                                                        \\\n"
    "    static void add_##space(volatile __##space float *p, float v) {                       \\\n"
    "        uint was, now;                                                                    \\\n"
    "        do { was = *(volatile __##space uint *)p; now = as_uint(as_float(was) + v); }     \\\n"
    "        while (atomic_cmpxchg((volatile __##space uint *)p, was, now) != was);            \\\n"
    "    }\n"
    "ADD(global)\n"
    "ADD(local)\n"
    "/* A group: some points, four columns. tile [k, 4] */\n"
    "__kernel void update(__global const float *x, __global const int *label, __global float "
    "*sum,\n"
    "                     __global int *count, int n, int k, int d, __local float *tile) {\n"
    "    const int own = get_local_id(0), size = get_local_size(0), columns = (d + 3) / 4;\n"
    "    const long first = (long)(get_group_id(0) / columns) * size * POINTS;\n"
    "    const int j0 = get_group_id(0) % columns * 4;\n"
    "    for (int e = own; e < k * 4; e += size) tile[e] = 0;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    for (int p = 0; p < POINTS; p++) {\n"
    "        const long i = first + p * size + own;\n"
    "        if (i < n) {\n"
    "            const int l = label[i];\n"
    "            for (int q = 0; q < 4 && j0 + q < d; q++) add_local(tile + l * 4 + q, AT(i, j0 + "
    "q));\n"
    "            if (j0 == 0) atomic_inc(count + l);\n"
    "        }\n"
    "    }\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    for (int e = own; e < k * 4; e += size)\n"
    "        if (tile[e] != 0 && j0 + e % 4 < d) add_global(sum + (long)(e / 4) * d + j0 + e % 4, "
    "tile[e]);\n"
    "}\n"
    "__kernel void mean(__global float *c, __global const float *sum, __global const int *count,\n"
    "                   int k, int d) {\n"
    "    const int l = get_global_id(0);\n"
    "    for (int j = 0; l < k && count[l] > 0 && j < d; j++)\n"
    "        c[(long)l * d + j] = sum[(long)l * d + j] / count[l];\n"
    "}\n"
    "__kernel void roof(__global float *out, int rounds, float a, float b) {\n"
    "    float v[CHAINS];\n"
    "    for (int i = 0; i < CHAINS; i++) v[i] = i + get_global_id(0);\n"
    "    for (int r = 0; r < rounds; r++)\n"
    "        for (int i = 0; i < CHAINS; i++) v[i] = fma(v[i], a, b);\n"
    "    float sum = 0;\n"
    "    for (int i = 0; i < CHAINS; i++) sum += v[i];\n"
    "    out[get_global_id(0)] = sum;\n"
    "}\n";

enum kernel { ASSIGN, UPDATE, MEAN, ROOF, KERNELS };

struct hf_dev_port {
    hf_context *ctx;
    struct hf_opencl *cl;
    hf_dev_port_form form;
    hf_array x; /* of the caller: its shape */
    hf_cl_program program;
    hf_cl_kernel kernel[KERNELS];
    float *rows, *centroids, *sum; /* of the device */
    int32_t *label, *count;
};

static hf_status check(const hf_dev_port *port, hf_cl_int error, const char *what) {
    const hf_status status = hf_opencl_check(port->cl, error, what);
    return status == HF_OK ? HF_OK : hf_ctx_fail(port->ctx, status, "%s", port->cl->error);
}

static hf_status build(hf_dev_port *port) {
    static const char *const names[KERNELS] = {"assign", "update", "mean", "roof"};
    const struct hf_cl_api *api = port->cl->api;
    const char *source = text;
    const size_t bytes = strlen(text);
    hf_cl_int error = HF_CL_SUCCESS;
    char options[160];
    (void)snprintf(options, sizeof options,
                   "-cl-std=CL1.2 -DWIDTH=%d -DPACKAGE=%d -DBY_COLUMNS=%d -DPOINTS=%d -DCHAINS=%d",
                   port->form.width, port->form.package, port->form.by_columns, POINTS,
                   ROOF_CHAINS);
    port->program = api->CreateProgramWithSource(port->cl->context, 1, &source, &bytes, &error);
    HF_TRY(check(port, error, "program"));
    HF_TRY(check(port,
                 api->BuildProgram(port->program, 1, &port->cl->info->device, options, NULL, NULL),
                 "compiling the plain port"));
    for (int i = 0; i < KERNELS; i++) {
        port->kernel[i] = api->CreateKernel(port->program, names[i], &error);
        HF_TRY(check(port, error, names[i]));
    }
    return HF_OK;
}

static hf_status set_memory(const hf_dev_port *port, enum kernel kernel, hf_cl_uint at,
                            const void *p) {
    size_t offset = 0;
    hf_cl_mem mem = hf_opencl_mem(port->cl, p, &offset);
    return check(port, port->cl->api->SetKernelArg(port->kernel[kernel], at, sizeof mem, &mem),
                 "argument");
}

static hf_status set_int(const hf_dev_port *port, enum kernel kernel, hf_cl_uint at,
                         int64_t value) {
    const int32_t v = (int32_t)value;
    return check(port, port->cl->api->SetKernelArg(port->kernel[kernel], at, sizeof v, &v),
                 "argument");
}

/* Seconds of a kernel of so many groups, waited for. */
static hf_status run(const hf_dev_port *port, enum kernel kernel, size_t groups, double *seconds) {
    const struct hf_cl_api *api = port->cl->api;
    const size_t group = (size_t)port->form.group, global = groups * group;
    HF_TRY(check(port, api->Finish(port->cl->queue), "the device"));
    const double begin = hf_now_s();
    HF_TRY(check(port,
                 api->EnqueueNDRangeKernel(port->cl->queue, port->kernel[kernel], 1, NULL, &global,
                                           &group, 0, NULL, NULL),
                 "the plain port"));
    HF_TRY(check(port, api->Finish(port->cl->queue), "the plain port"));
    *seconds = hf_now_s() - begin;
    return HF_OK;
}

static size_t groups_for(int64_t items, int64_t each) {
    return (size_t)((items + each - 1) / each);
}

/* Column by column, if that is asked for. */
static hf_status bring_rows(hf_dev_port *port) {
    const int64_t n = port->x.rows, d = port->x.cols;
    const size_t bytes = (size_t)(n * d) * sizeof(float);
    const float *from = port->x.data;
    if (!port->form.by_columns)
        return hf_ctx_copy(port->ctx, port->rows, from, bytes);
    float *turned = hf_alloc(bytes);
    if (!turned)
        return HF_E_NOMEM;
    for (int64_t begin = 0; begin < n; begin += TURNED)
        for (int64_t j = 0; j < d; j++)
            for (int64_t i = begin; i < n && i < begin + TURNED; i++)
                turned[j * n + i] = from[i * d + j];
    const hf_status status = hf_ctx_copy(port->ctx, port->rows, turned, bytes);
    hf_free(turned);
    return status;
}

static hf_status open_port(hf_dev_port *port) {
    const int64_t n = port->x.rows, d = port->x.cols;
    HF_TRY(build(port));
    port->rows = hf_ctx_alloc(port->ctx, (size_t)(n * d) * sizeof(float));
    port->label = hf_ctx_alloc(port->ctx, (size_t)n * sizeof(int32_t));
    if (!port->rows || !port->label)
        return hf_ctx_fail(port->ctx, HF_E_NOMEM, "the device has no room for %lld x %lld rows",
                           (long long)n, (long long)d);
    return bring_rows(port);
}

static bool is_width(int width) {
    return width == 1 || width == 2 || width == 4 || width == 8 || width == 16;
}

hf_status hf_dev_port_open(hf_context *ctx, const hf_array *x, const hf_dev_port_form *form,
                           hf_dev_port **out) {
    if (ctx->device->id != HF_DEV_OPENCL || x->dtype != HF_F32 || !is_width(form->width) ||
        form->package < 1 || form->group < 1 || (form->by_columns && form->width > 1))
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "the plain port needs an OpenCL device, float32, a width of 1 to 16, "
                           "and rows by rows for more than 1");
    hf_dev_port *port = hf_alloc_zero(sizeof *port);
    if (!port)
        return HF_E_NOMEM;
    *port = (hf_dev_port){.ctx = ctx, .cl = ctx->stream, .form = *form, .x = *x};
    const hf_status status = open_port(port);
    if (status == HF_OK)
        *out = port;
    else
        hf_dev_port_close(port);
    return status;
}

void hf_dev_port_close(hf_dev_port *port) {
    if (!port)
        return;
    const struct hf_cl_api *api = port->cl->api;
    for (int i = 0; i < KERNELS; i++)
        if (port->kernel[i])
            (void)api->ReleaseKernel(port->kernel[i]);
    if (port->program)
        (void)api->ReleaseProgram(port->program);
    hf_ctx_release(port->ctx, port->rows);
    hf_ctx_release(port->ctx, port->label);
    hf_free(port);
}

static hf_status set_all(const hf_dev_port *port, int64_t k) {
    const int64_t n = port->x.rows, d = port->x.cols;
    const struct {
        enum kernel kernel;
        const void *memory[4];
        int64_t number[3];
        int memories, numbers;
    } each[] = {{ASSIGN, {port->rows, port->centroids, port->label}, {n, k, d}, 3, 3},
                {UPDATE, {port->rows, port->label, port->sum, port->count}, {n, k, d}, 4, 3},
                {MEAN, {port->centroids, port->sum, port->count}, {k, d}, 3, 2}};
    for (size_t e = 0; e < sizeof each / sizeof *each; e++) {
        for (int i = 0; i < each[e].memories; i++)
            HF_TRY(set_memory(port, each[e].kernel, (hf_cl_uint)i, each[e].memory[i]));
        for (int i = 0; i < each[e].numbers; i++)
            HF_TRY(set_int(port, each[e].kernel, (hf_cl_uint)(each[e].memories + i),
                           each[e].number[i]));
    }
    return check(port,
                 port->cl->api->SetKernelArg(port->kernel[UPDATE], 7,
                                             (size_t)k * DIMS * sizeof(float), NULL),
                 "local memory");
}

static hf_status iterate(const hf_dev_port *port, int64_t k, double *assign_s, double *update_s) {
    const int64_t n = port->x.rows, d = port->x.cols, group = port->form.group;
    double mean = 0;
    HF_TRY(run(port, ASSIGN, groups_for(n, group * port->form.package), assign_s));
    HF_TRY(hf_ctx_fill(port->ctx, port->sum, 0, (size_t)(k * d) * sizeof(float)));
    HF_TRY(hf_ctx_fill(port->ctx, port->count, 0, (size_t)k * sizeof(int32_t)));
    HF_TRY(run(port, UPDATE, groups_for(n, group * POINTS) * (size_t)((d + DIMS - 1) / DIMS),
               update_s));
    HF_TRY(run(port, MEAN, groups_for(k, group), &mean));
    *update_s += mean;
    return HF_OK;
}

/* Some drivers compile a kernel anew when it is started with a size of groups and of the whole that
 * they have not seen: on no rows, so that no iteration has a share of that. */
static hf_status warm_up(const hf_dev_port *port, int64_t k) {
    double assign_s = 0, update_s = 0;
    HF_TRY(set_all(port, k));
    HF_TRY(set_int(port, ASSIGN, 3, 0));
    HF_TRY(set_int(port, UPDATE, 4, 0));
    HF_TRY(set_int(port, MEAN, 3, 0));
    HF_TRY(iterate(port, k, &assign_s, &update_s));
    return set_all(port, k);
}

static int compare(const void *a, const void *b) {
    const double p = *(const double *)a;
    const double q = *(const double *)b;
    return (p > q) - (p < q);
}

hf_status hf_dev_port_run(hf_dev_port *port, const hf_array *centroids, int iterations,
                          double *assign_s, double *update_s, int32_t *labels) {
    const int64_t k = centroids->rows, d = port->x.cols;
    const size_t bytes = (size_t)(k * d) * sizeof(float);
    double assign[MOST_ITERATIONS];
    double update[MOST_ITERATIONS];
    hf_status status = HF_OK;
    if (iterations < 1 || iterations > MOST_ITERATIONS || centroids->dtype != HF_F32)
        return hf_ctx_fail(port->ctx, HF_E_ARG, "the plain port makes 1 to %d iterations",
                           MOST_ITERATIONS);
    if ((uint64_t)k * DIMS * sizeof(float) > port->cl->info->local)
        return hf_ctx_fail(port->ctx, HF_E_ARG,
                           "the plain port keeps %d numbers of each cluster in local memory, which "
                           "has no room for %lld clusters; leave it out (--no-port)",
                           DIMS, (long long)k);
    port->centroids = hf_ctx_alloc(port->ctx, bytes);
    port->sum = hf_ctx_alloc(port->ctx, bytes);
    port->count = hf_ctx_alloc(port->ctx, (size_t)k * sizeof(int32_t));
    if (!port->centroids || !port->sum || !port->count)
        status = hf_ctx_fail(port->ctx, HF_E_NOMEM, "the device has no room for the centroids");
    if (status == HF_OK)
        status = hf_ctx_copy(port->ctx, port->centroids, centroids->data, bytes);
    if (status == HF_OK)
        status = warm_up(port, k);
    for (int i = 0; status == HF_OK && i < iterations; i++)
        status = iterate(port, k, &assign[i], &update[i]);
    if (status == HF_OK && labels)
        status = hf_ctx_copy(port->ctx, labels, port->label, (size_t)port->x.rows * sizeof *labels);
    hf_ctx_release(port->ctx, port->centroids);
    hf_ctx_release(port->ctx, port->sum);
    hf_ctx_release(port->ctx, port->count);
    HF_TRY(status);
    qsort(assign, (size_t)iterations, sizeof *assign, compare);
    qsort(update, (size_t)iterations, sizeof *update, compare);
    *assign_s = assign[iterations / 2];
    *update_s = update[iterations / 2];
    return HF_OK;
}

int hf_dev_study_is_cpu(const hf_context *ctx) {
    if (ctx->device->id == HF_DEV_OPENCL)
        return hf_opencl_is_cpu(ctx->stream);
    return hf_ctx_is_host(ctx);
}

static hf_status measure_roof(hf_dev_port *port, double *flops) {
    const float a = 0.999F, b = 0.001F;
    double least = 1e30;
    HF_TRY(set_memory(port, ROOF, 0, port->rows));
    HF_TRY(set_int(port, ROOF, 1, ROOF_ROUNDS));
    HF_TRY(check(port, port->cl->api->SetKernelArg(port->kernel[ROOF], 2, sizeof a, &a), "roof"));
    HF_TRY(check(port, port->cl->api->SetKernelArg(port->kernel[ROOF], 3, sizeof b, &b), "roof"));
    for (int i = 0; i < 4; i++) {
        double seconds = 0;
        HF_TRY(run(port, ROOF, ROOF_ITEMS / (size_t)port->form.group, &seconds));
        least = seconds < least ? seconds : least;
    }
    *flops = 2.0 * ROOF_CHAINS * ROOF_ROUNDS * (double)ROOF_ITEMS / least;
    return HF_OK;
}

double hf_dev_study_roof(hf_context *ctx) {
    const hf_dev_port_form form = {.width = 1, .package = 1, .group = 128};
    hf_array x = {.dtype = HF_F32, .rows = (int64_t)ROOF_ITEMS, .cols = 1};
    hf_dev_port *port = NULL;
    double flops = 0;
    x.data = hf_alloc_zero(ROOF_ITEMS * sizeof(float));
    hf_status status = x.data ? hf_dev_port_open(ctx, &x, &form, &port) : HF_E_NOMEM;
    if (status == HF_OK && port)
        status = measure_roof(port, &flops);
    hf_dev_port_close(port);
    hf_free(x.data);
    return status == HF_OK ? flops : 0;
}
