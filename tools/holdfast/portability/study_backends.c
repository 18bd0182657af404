/* SPDX-License-Identifier: Apache-2.0
 * The backends that take part, and the rates of their devices. */
#include "portability/portability.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_FILE "/dev/null"
#define SLICES_OF_GPU 10

const char *const study_sets[STUDY_SETS + 1] = {"uniform", "census", NULL};
const char *const study_platforms[PLATFORMS] = {"CPU", "GPU"};
const char *const study_codes[CODES] = {"c", "cuda", "opencl-tuned", "opencl-untuned",
                                        "opencl-port"};

/* A context that plans with this tuning file, which is read now. */
static int open_context(struct study *s, const char *device, const char *tuning, hf_context **ctx) {
    const hf_context_opts opts = {.device = device, .threads = s->options.threads};
    const hf_dev_shape shape = {.dtype = {HF_F32}, .dim = {1000, 8, 8}};
    hf_dev_choice choice;
    errno = 0;
    setenv("HF_TUNE_FILE", tuning, 1);
    hf_status status = hf_context_create(ctx, &opts);
    if (status != HF_OK)
        return tool_fail(NULL, status, STAGE_OPEN);
    status = hf_dev_plan(*ctx, "assign", &shape, &choice, NULL, NULL);
    return status == HF_OK ? EXIT_DONE : tool_fail(*ctx, status, STAGE_COMPUTE);
}

static void take_first(void *user, const hf_dev_timing *timing) {
    hf_dev_timing *winner = user;
    if (!winner->kernel)
        *winner = *timing;
}

static int64_t columns_of(int set) { return set == 0 ? 500 : 68; }

/* Measure the kernels on slices of the sets' shapes, and write the winners to a file. Whether they
 * are right shows later, by their labels. */
static int tune(struct study *s, const char *device, const char *path) {
    const struct study_options *o = &s->options;
    hf_dev_timing winner[STUDY_SETS * STUDY_KS] = {{0}};
    int winners = 0;
    hf_context *ctx = NULL;
    int code = open_context(s, device, NO_FILE, &ctx);
    /* few rows leave a GPU idle */
    const int64_t rows =
        code == EXIT_DONE && hf_dev_study_is_cpu(ctx) ? o->slice : o->slice * SLICES_OF_GPU;
    const hf_dev_time_opts time = {.kernel = "all", .rounds = 3, .budget_s = 0.5};
    for (int set = 0; set < STUDY_SETS; set++)
        for (int i = 0; code == EXIT_DONE && o->set[set] && i < o->ks; i++) {
            const hf_dev_shape shape = {.dtype = {HF_F32}, .dim = {rows, o->k[i], columns_of(set)}};
            errno = 0;
            const hf_status status =
                hf_dev_time(ctx, "assign", &shape, &time, take_first, &winner[winners++]);
            if (status != HF_OK)
                code = tool_fail(ctx, status, STAGE_COMPUTE);
        }
    errno = 0;
    if (code == EXIT_DONE) {
        const hf_status status = hf_dev_tune_write(ctx, path, winner, winners);
        code = status == HF_OK ? EXIT_DONE : tool_fail(ctx, status, STAGE_WRITE);
    }
    hf_context_destroy(ctx);
    return code;
}

static int add(struct study *s, enum code which, const char *device, const char *tuning) {
    struct backend *b = &s->backend[s->backends];
    const int code = open_context(s, device, tuning, &b->ctx);
    if (code != EXIT_DONE)
        return code;
    b->code = which;
    b->platform = hf_dev_study_is_cpu(b->ctx) ? PLATFORM_CPU : PLATFORM_GPU;
    snprintf(b->device, sizeof b->device, "%s", device);
    s->backends++;
    return EXIT_DONE;
}

/* Is there a backend of that kind on the platform already? */
static bool is_taken(const struct study *s, enum code which, enum platform platform) {
    for (int i = 0; i < s->backends; i++)
        if (s->backend[i].code == which && s->backend[i].platform == platform)
            return true;
    return false;
}

static int add_opencl(struct study *s, const char *device) {
    char path[] = "/tmp/holdfast-tune-XXXXXX";
    const int before = s->backends;
    int code = add(s, CODE_UNTUNED, device, NO_FILE);
    if (code != EXIT_DONE)
        return code;
    const struct backend *last = &s->backend[before];
    s->backends = before;
    if (is_taken(s, CODE_UNTUNED, last->platform)) { /* a second one of its kind */
        hf_context_destroy(last->ctx);
        return EXIT_DONE;
    }
    s->backends++;
    if (last->platform == PLATFORM_GPU && s->peak[PLATFORM_GPU] == 0)
        s->peak[PLATFORM_GPU] = hf_dev_study_roof(last->ctx);
    const int file = mkstemp(path);
    if (file < 0) {
        tool_error("no temporary file can be made in /tmp: %s", strerror(errno));
        return EXIT_RESOURCES;
    }
    close(file);
    unlink(path);
    printf("tuning %s\n", device);
    fflush(stdout);
    code = tune(s, device, path);
    if (code == EXIT_DONE)
        code = add(s, CODE_TUNED, device, path);
    unlink(path);
    if (code == EXIT_DONE && s->options.port)
        code = add(s, CODE_PORT, device, NO_FILE);
    return code;
}

/* PoCL takes as many threads as the other backends of the CPU. */
static void limit_threads(const struct study *s) {
    char text[16];
    hf_dev_host host;
    hf_dev_host_info(&host);
    snprintf(text, sizeof text, "%d", s->options.threads > 0 ? s->options.threads : host.cores);
    setenv("POCL_MAX_PTHREAD_COUNT", text, 0);
    setenv("POCL_CPU_MAX_CU_COUNT", text, 0);
}

static int measure_peak(struct study *s) {
    hf_dev_ceiling ceiling;
    errno = 0;
    const hf_status status = hf_dev_measure_ceiling(s->backend[0].ctx, &ceiling);
    if (status != HF_OK)
        return tool_fail(s->backend[0].ctx, status, STAGE_COMPUTE);
    for (int i = 0; i < HF_DEV_MAX_ISAS; i++)
        if (ceiling.fma_f32[i] > s->peak[PLATFORM_CPU])
            s->peak[PLATFORM_CPU] = ceiling.fma_f32[i];
    s->peak[PLATFORM_GPU] = s->options.peak;
    return EXIT_DONE;
}

int study_open(struct study *s) {
    hf_dev_device device;
    limit_threads(s);
    int code = add(s, CODE_C, "cpu", NO_FILE);
    if (code == EXIT_DONE)
        code = measure_peak(s);
    for (int i = 0; code == EXIT_DONE && hf_dev_device_at(i, &device); i++) {
        if (!device.available)
            continue;
        const size_t used = strlen(s->machine);
        snprintf(s->machine + used, sizeof s->machine - used, "%s%s", used > 0 ? "; " : "",
                 device.text);
        if (strncmp(device.name, "cuda", 4) == 0 && !is_taken(s, CODE_CUDA, PLATFORM_GPU))
            code = add(s, CODE_CUDA, device.name, NO_FILE);
        else if (strncmp(device.name, "opencl", 6) == 0)
            code = add_opencl(s, device.name);
    }
    return code;
}

void study_close(struct study *s) {
    for (int i = 0; i < s->backends; i++)
        hf_context_destroy(s->backend[i].ctx);
}
