/* SPDX-License-Identifier: Apache-2.0
 * From text to kernels. A program is a source with options; it is built when a context needs it
 * first, from the binary on disk if there is one. */
#include "base/file.h"
#include "base/mem.h"
#include "device/opencl/cl_cache.h"
#include "device/opencl/cl_note.h"
#include "device/opencl/cl_sources.h"
#include "device/opencl/opencl.h"

#include <stdio.h>
#include <string.h>

#define OPTIONS 256
#define KEY 2048
#define KERNELS 16 /* of a program */
#define PARTS 10   /* texts of a program: float64, the prelude and the sources */

struct hf_cl_built {
    struct hf_cl_built *next;
    const char *source; /* of the job */
    char options[OPTIONS];
    hf_cl_program program;
    int count;
    struct {
        char name[48];
        hf_cl_kernel kernel;
    } kernel[KERNELS];
};

/* The texts of a program in their order. */
struct texts {
    const char *name; /* of the job: "update", or several with '+' between */
    int count;
    const char *text[PARTS];
    size_t bytes[PARTS];
    uint32_t crc;
};

static bool add_text(struct texts *t, const char *name, size_t length) {
    const struct hf_cl_source *s = hf_cl_sources;
    while (s->name != NULL && (strncmp(s->name, name, length) != 0 || s->name[length] != '\0'))
        s++;
    if (s->name == NULL || t->count == PARTS)
        return false;
    t->text[t->count] = s->text;
    t->bytes[t->count++] = s->bytes;
    t->crc = hf_crc32c(t->crc, s->text, s->bytes);
    return true;
}

static bool find_texts(const struct hf_opencl *cl, const char *name, struct texts *t) {
    const char *float64 = cl->info->fp64 ? HF_CL_FLOAT64 : HF_CL_FLOAT64_SOFT;
    *t = (struct texts){.name = name};
    bool found =
        add_text(t, float64, strlen(float64)) && add_text(t, HF_CL_PRELUDE, strlen(HF_CL_PRELUDE));
    for (const char *at = name; found && *at != '\0';) {
        const size_t length = strcspn(at, "+");
        found = add_text(t, at, length);
        at += length + (at[length] == '+');
    }
    return found;
}

/* The compiler of PoCL has __builtin_prefetch; that of oclgrind has, too, and cannot run it. */
static bool may_fetch(const struct hf_opencl *cl) {
    return hf_opencl_is_cpu(cl) &&
           strcmp(cl->info->platform_name, "Portable Computing Language") == 0;
}

static void all_options(const struct hf_opencl *cl, const char *own, char text[OPTIONS]) {
    const struct hf_cl_info *info = cl->info;
    (void)snprintf(
        text, OPTIONS, "-cl-std=CL1.2 -DHF_WIDE=%d -DHF_FETCH=%d -DHF_ATOMIC64=%d -DHF_FMA=%d %s",
        hf_opencl_is_cpu(cl), may_fetch(cl), info->atomics64, info->fma, own != NULL ? own : "");
}

/* All that decides what the compiler makes. */
static void key_of(const struct hf_opencl *cl, const struct texts *t, const char *options,
                   char key[KEY]) {
    const struct hf_cl_info *info = cl->info;
    size_t bytes = 0;
    for (int i = 0; i < t->count; i++)
        bytes += t->bytes[i];
    (void)snprintf(key, KEY, "%s\n%s\n%s\n%s\n%s\n%s\n%zu %08x\n%s\n", HF_VERSION,
                   info->platform_name, info->name, info->version, info->driver, t->name, bytes,
                   (unsigned)t->crc, options);
}

/* The last lines that the compiler wrote are behind the error. */
static void add_log(struct hf_opencl *cl, hf_cl_program program) {
    size_t bytes = 0;
    if (cl->api->GetProgramBuildInfo(program, cl->info->device, HF_CL_PROGRAM_BUILD_LOG, 0, NULL,
                                     &bytes) != HF_CL_SUCCESS)
        return;
    char *log = hf_alloc_zero(bytes + 1);
    if (log != NULL &&
        cl->api->GetProgramBuildInfo(program, cl->info->device, HF_CL_PROGRAM_BUILD_LOG, bytes, log,
                                     NULL) == HF_CL_SUCCESS) {
        const size_t used = strlen(cl->error);
        (void)snprintf(cl->error + used, sizeof cl->error - used, ": %.300s", log);
    }
    hf_free(log);
}

static hf_status build(struct hf_opencl *cl, hf_cl_program program, const char *options,
                       const char *name) {
    char what[96];
    (void)snprintf(what, sizeof what, "compiling %s.cl", name);
    const hf_status status = hf_opencl_check(
        cl, cl->api->BuildProgram(program, 1, &cl->info->device, options, NULL, NULL), what);
    if (status != HF_OK)
        add_log(cl, program);
    return status;
}

/* Of what a driver made before; NULL: it does not take it. */
static hf_cl_program from_binary(struct hf_opencl *cl, const unsigned char *binary, size_t bytes,
                                 const char *options, const char *name) {
    hf_cl_int error = HF_CL_SUCCESS, taken = HF_CL_SUCCESS;
    hf_cl_program program = cl->api->CreateProgramWithBinary(cl->context, 1, &cl->info->device,
                                                             &bytes, &binary, &taken, &error);
    if (error != HF_CL_SUCCESS || taken != HF_CL_SUCCESS || program == NULL)
        return NULL;
    if (build(cl, program, options, name) == HF_OK)
        return program;
    (void)cl->api->ReleaseProgram(program);
    return NULL;
}

static void driver_of(const struct hf_cl_info *info, char text[KEY]) {
    (void)snprintf(text, KEY, "%s\n%s\n%s\n%s\n", info->platform_name, info->name, info->version,
                   info->driver);
}

bool hf_opencl_loads_nothing(const struct hf_cl_info *info, char *note_path, size_t bytes) {
    char driver[KEY], path[HF_CL_PATH];
    struct hf_cl_note note;
    driver_of(info, driver);
    const bool nothing = hf_cl_cache_path(driver, path) && hf_cl_note_refuses(path, driver, &note);
    if (nothing)
        (void)snprintf(note_path, bytes, "%s", note.path);
    return nothing;
}

/* From the file at path; NULL: there is none that this driver takes. The note is there while it
 * does, which may crash. */
static hf_cl_program from_disk(struct hf_opencl *cl, const char *path, const char *key,
                               const char *options, const char *name) {
    char driver[KEY];
    struct hf_cl_note note;
    hf_cl_program program = NULL;
    size_t bytes = 0;
    unsigned char *binary = hf_cl_cache_load(path, key, &bytes);
    driver_of(cl->info, driver);
    if (binary != NULL && hf_cl_note_loading(path, driver, &note)) {
        program = from_binary(cl, binary, bytes, options, name);
        hf_cl_note_loaded(&note);
    }
    hf_free(binary);
    return program;
}

/* What the driver made of a program, with a 0 behind it; to be freed with hf_free(). NULL: it does
 * not say. */
static unsigned char *binary_of(struct hf_opencl *cl, hf_cl_program program, size_t *bytes) {
    *bytes = 0;
    if (cl->api->GetProgramInfo(program, HF_CL_PROGRAM_BINARY_SIZES, sizeof *bytes, bytes, NULL) !=
            HF_CL_SUCCESS ||
        *bytes == 0)
        return NULL;
    unsigned char *binary = hf_alloc_zero(*bytes + 1);
    if (binary == NULL || cl->api->GetProgramInfo(program, HF_CL_PROGRAM_BINARIES, sizeof binary,
                                                  &binary, NULL) == HF_CL_SUCCESS)
        return binary;
    hf_free(binary);
    return NULL;
}

static void to_disk(struct hf_opencl *cl, const char *path, const char *key,
                    hf_cl_program program) {
    size_t bytes = 0;
    unsigned char *binary = binary_of(cl, program, &bytes);
    if (binary != NULL)
        hf_cl_cache_store(path, key, binary, bytes);
    hf_free(binary);
}

/* NVIDIA's compiler for OpenCL knows no instructions that are Hopper's alone, such as wgmma. But
 * what it calls a binary is PTX, as text, and it takes that of another target, too. So sources have
 * such instructions behind HIDDEN, as comments; here they come out. Programs without them, and
 * those of other devices, stay as they are. */
static hf_status reveal(struct hf_opencl *cl, const struct texts *t, const char *options,
                        hf_cl_program *program) {
    static const char hidden[] = "//HF ", target[] = ".target sm_90, ", own[] = ".target sm_90a,";
    size_t bytes = 0;
    char *text = cl->info->hopper ? (char *)binary_of(cl, *program, &bytes) : NULL;
    char *at = text != NULL && strstr(text, hidden) != NULL ? strstr(text, target) : NULL;
    if (at == NULL) {
        hf_free(text);
        return HF_OK;
    }
    memcpy(at, own, sizeof own - 1);
    while ((at = strstr(at, hidden)) != NULL)
        memset(at, ' ', sizeof hidden - 1);
    (void)snprintf(cl->error, sizeof cl->error, "%s.cl with Hopper's instructions", t->name);
    hf_cl_program whole = from_binary(cl, (const unsigned char *)text, bytes, options, t->name);
    hf_free(text);
    if (whole == NULL)
        return HF_E_DEVICE;
    (void)cl->api->ReleaseProgram(*program);
    *program = whole;
    return HF_OK;
}

static hf_status from_text(struct hf_opencl *cl, const struct texts *t, const char *options,
                           hf_cl_program *program) {
    const char *text[PARTS];
    hf_cl_int error = HF_CL_SUCCESS;
    memcpy(text, t->text, sizeof text);
    hf_cl_program made =
        cl->api->CreateProgramWithSource(cl->context, (hf_cl_uint)t->count, text, t->bytes, &error);
    HF_TRY(hf_opencl_check(cl, error, "program"));
    hf_status status = build(cl, made, options, t->name);
    if (status == HF_OK)
        status = reveal(cl, t, options, &made);
    if (status != HF_OK)
        (void)cl->api->ReleaseProgram(made);
    else
        *program = made;
    return status;
}

/* The note is there while the driver compiles, which may crash. own: the options of the job. */
static hf_status compile(struct hf_opencl *cl, const struct texts *t, const char *options,
                         const char *own, hf_cl_program *program) {
    char key[KEY], path[HF_CL_PATH];
    struct hf_cl_note note;
    key_of(cl, t, options, key);
    const bool keeps = hf_cl_cache_path(key, path);
    *program = keeps ? from_disk(cl, path, key, options, t->name) : NULL;
    if (*program == NULL && keeps && hf_cl_note_suspects(path)) {
        hf_cl_compile_in_child(cl, t->name, own);
        *program = from_disk(cl, path, key, options, t->name);
    }
    if (*program != NULL)
        return HF_OK;
    if (keeps && !hf_cl_note_compiling(path, &note)) {
        (void)snprintf(cl->error, sizeof cl->error,
                       "the driver %s %s crashed twice when it compiled %s.cl: use another device "
                       "or driver; to try again remove %.300s",
                       cl->info->platform_name, cl->info->driver, t->name, note.path);
        return HF_E_DEVICE;
    }
    const hf_status status = from_text(cl, t, options, program);
    if (keeps && status == HF_OK)
        to_disk(cl, path, key, *program);
    if (keeps)
        hf_cl_note_compiled(&note);
    return status;
}

static struct hf_cl_built *known(struct hf_opencl *cl, const char *source, const char *options) {
    struct hf_cl_built *b = cl->built;
    while (b != NULL && (strcmp(b->source, source) != 0 || strcmp(b->options, options) != 0))
        b = b->next;
    return b;
}

static hf_status program_of(struct hf_opencl *cl, const struct hf_cl_job *job,
                            struct hf_cl_built **built) {
    char options[OPTIONS];
    all_options(cl, job->options, options);
    *built = known(cl, job->source, options);
    if (*built != NULL)
        return HF_OK;
    struct texts texts;
    const bool found = find_texts(cl, job->source, &texts);
    struct hf_cl_built *b = found ? hf_alloc_zero(sizeof *b) : NULL;
    if (b == NULL) {
        (void)snprintf(cl->error, sizeof cl->error, "no memory, or no source, for %s.cl",
                       job->source);
        return HF_E_NOMEM;
    }
    const hf_status status = compile(cl, &texts, options, job->options, &b->program);
    if (status != HF_OK) {
        hf_free(b);
        return status;
    }
    b->source = job->source;
    memcpy(b->options, options, sizeof options);
    b->next = cl->built;
    cl->built = b;
    *built = b;
    return HF_OK;
}

hf_status hf_opencl_kernel(struct hf_opencl *cl, const struct hf_cl_job *job,
                           hf_cl_kernel *kernel) {
    struct hf_cl_built *b = NULL;
    hf_cl_int error = HF_CL_SUCCESS;
    HF_TRY(program_of(cl, job, &b));
    for (int i = 0; i < b->count; i++)
        if (strcmp(b->kernel[i].name, job->kernel) == 0) {
            *kernel = b->kernel[i].kernel;
            return HF_OK;
        }
    if (b->count == KERNELS) {
        (void)snprintf(cl->error, sizeof cl->error, "%s.cl has more than %d kernels", job->source,
                       KERNELS);
        return HF_E_DEVICE;
    }
    hf_cl_kernel made = cl->api->CreateKernel(b->program, job->kernel, &error);
    HF_TRY(hf_opencl_check(cl, error, job->kernel));
    (void)snprintf(b->kernel[b->count].name, sizeof b->kernel[0].name, "%s", job->kernel);
    b->kernel[b->count++].kernel = made;
    *kernel = made;
    return HF_OK;
}

void hf_opencl_forget(struct hf_opencl *cl) {
    for (struct hf_cl_built *b = cl->built, *next; b != NULL; b = next) {
        next = b->next;
        for (int i = 0; i < b->count; i++)
            (void)cl->api->ReleaseKernel(b->kernel[i].kernel);
        (void)cl->api->ReleaseProgram(b->program);
        hf_free(b);
    }
    cl->built = NULL;
}
