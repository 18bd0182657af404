/* SPDX-License-Identifier: Apache-2.0
 * The backends that take part, and the rates of their devices. */
#include "portability/portability.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_FILE "/dev/null"

const char *const study_sets[STUDY_SETS + 1] = {"uniform", "census", NULL};
const char *const study_platforms[PLATFORMS] = {"CPU", "GPU"};
const char *const study_codes[CODES] = {"c", "cuda", "opencl-tuned", "opencl-untuned",
                                        "opencl-port"};

const char *study_backend_text(const struct study *s, int backend) {
    static char text[64];
    snprintf(text, sizeof text, "%s on the %s", study_codes[s->backend[backend].code],
             study_platforms[s->backend[backend].platform]);
    return text;
}

int study_open_context(const struct study *s, const char *device, const char *tuning,
                       hf_context **ctx) {
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

static int add(struct study *s, enum code which, const char *device, const char *tuning) {
    struct backend *b = &s->backend[s->backends];
    *b = (struct backend){.code = which};
    const int code = study_open_context(s, device, tuning, &b->ctx);
    if (code != EXIT_DONE)
        return code;
    b->platform = hf_dev_study_is_cpu(b->ctx) ? PLATFORM_CPU : PLATFORM_GPU;
    snprintf(b->device, sizeof b->device, "%s", device);
    snprintf(b->tuning, sizeof b->tuning, "%s", tuning);
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

/* An empty file for the winners of a device. */
static int make_file(char path[40]) {
    snprintf(path, 40, "/tmp/holdfast-tune-XXXXXX");
    const int file = mkstemp(path);
    if (file < 0) {
        tool_error("no temporary file can be made in /tmp: %s", strerror(errno));
        return EXIT_RESOURCES;
    }
    close(file);
    return EXIT_DONE;
}

static int add_opencl(struct study *s, const char *device) {
    char path[40];
    int code = add(s, CODE_UNTUNED, device, NO_FILE);
    if (code != EXIT_DONE)
        return code;
    const struct backend last = s->backend[--s->backends];
    if (!s->options.platform[last.platform] || is_taken(s, CODE_UNTUNED, last.platform)) {
        hf_context_destroy(last.ctx);
        return EXIT_DONE;
    }
    s->backends++;
    if (last.platform == PLATFORM_GPU && s->peak[PLATFORM_GPU] == 0)
        s->peak[PLATFORM_GPU] = hf_dev_study_roof(last.ctx);
    code = make_file(path);
    if (code == EXIT_DONE)
        code = add(s, CODE_TUNED, device, path);
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
    return EXIT_DONE;
}

static int add_device(struct study *s, const hf_dev_device *device) {
    const bool cuda = strncmp(device->name, "cuda", 4) == 0;
    const bool opencl = strncmp(device->name, "opencl", 6) == 0;
    const int before = s->backends;
    int code = EXIT_DONE;
    if (cuda && s->options.platform[PLATFORM_GPU] && !is_taken(s, CODE_CUDA, PLATFORM_GPU))
        code = add(s, CODE_CUDA, device->name, NO_FILE);
    else if (opencl)
        code = add_opencl(s, device->name);
    const size_t used = strlen(s->machine);
    const bool host = strcmp(device->name, "cpu") == 0 && s->options.platform[PLATFORM_CPU];
    if (s->backends > before || host)
        snprintf(s->machine + used, sizeof s->machine - used, "%s%s", used > 0 ? "; " : "",
                 device->text);
    return code;
}

int study_open(struct study *s) {
    hf_dev_device device;
    int code = EXIT_DONE;
    limit_threads(s);
    s->peak[PLATFORM_GPU] = s->options.peak;
    if (s->options.platform[PLATFORM_CPU]) {
        code = add(s, CODE_C, "cpu", NO_FILE);
        if (code == EXIT_DONE)
            code = measure_peak(s);
    }
    for (int i = 0; code == EXIT_DONE && hf_dev_device_at(i, &device); i++)
        if (device.available)
            code = add_device(s, &device);
    if (code == EXIT_DONE && s->backends == 0) {
        tool_error("no device of the platforms asked for is here; `holdfast info` lists devices");
        return EXIT_RESOURCES;
    }
    return code;
}

int study_place(struct study *s, const struct problem *p) {
    for (int i = 0; i < s->backends; i++) {
        struct backend *b = &s->backend[i];
        if (!b->ctx || b->code == CODE_PORT)
            continue;
        errno = 0;
        const hf_status status = hf_dev_study_place(b->ctx, &p->x, &b->rows);
        if (status != HF_OK)
            return tool_fail(b->ctx, status, STAGE_COMPUTE);
    }
    return EXIT_DONE;
}

void study_remove(struct study *s) {
    for (int i = 0; i < s->backends; i++) {
        struct backend *b = &s->backend[i];
        hf_dev_port_close(b->port);
        b->port = NULL;
        b->port_s = 0;
        hf_dev_study_remove(b->ctx, &b->rows);
    }
}

void study_close(struct study *s) {
    for (int i = 0; i < s->backends; i++) {
        hf_context_destroy(s->backend[i].ctx);
        if (s->backend[i].code == CODE_TUNED && s->backend[i].ctx)
            unlink(s->backend[i].tuning);
        s->backend[i].ctx = NULL;
    }
}
