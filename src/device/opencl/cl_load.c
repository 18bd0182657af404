/* SPDX-License-Identifier: Apache-2.0
 * OpenCL is found with dlopen() when somebody asks for it first: neither the build nor the start of
 * the library depends on it. */
#include "device/opencl/cl_load.h"

#include "device/opencl/cl_library.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PLATFORMS 16
#define TEXT 8192 /* of a device's own words: extensions are many */

static struct {
    struct hf_cl_api api;
    bool loaded;
    int count;
    struct hf_cl_info device[HF_CL_DEVICES];
    char why[240];
} found;

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Does the user say where drivers are? Then nobody else looks for them. */
static bool user_decides(void) {
    return getenv("OCL_ICD_VENDORS") != NULL || getenv("OCL_ICD_FILENAMES") != NULL;
}

/* How many platforms there are, at most PLATFORMS; 0 and `why` if none. */
static hf_cl_uint platforms_of(hf_cl_platform platform[PLATFORMS]) {
    hf_cl_uint count = 0;
    const hf_cl_int error = found.api.GetPlatformIDs(PLATFORMS, platform, &count);
    if (error == HF_CL_SUCCESS && count > 0)
        return count < PLATFORMS ? count : PLATFORMS;
    (void)snprintf(found.why, sizeof found.why,
                   "the OpenCL loader finds no platform: install a driver such as "
                   "pocl-opencl-icd, or name its library in OCL_ICD_VENDORS or HF_OPENCL_LIBRARY");
    return 0;
}

/* Through the library that the user names; else through the loader; else, as in containers that
 * have a driver but not the file that tells the loader of it, through a driver's own library. */
static hf_cl_uint load(hf_cl_platform platform[PLATFORMS]) {
    const char *own = getenv("HF_OPENCL_LIBRARY");
    hf_cl_uint count = 0;
    if (own != NULL && *own != '\0') {
        found.loaded = hf_cl_open_library(own, &found.api, found.why, sizeof found.why);
        return found.loaded ? platforms_of(platform) : 0;
    }
    found.loaded = hf_cl_open_loader(&found.api, found.why, sizeof found.why);
    if (found.loaded && (count = platforms_of(platform)) > 0)
        return count;
    struct hf_cl_api direct;
    if (user_decides() || !hf_cl_open_driver(&direct))
        return 0;
    found.api = direct;
    found.loaded = true;
    return platforms_of(platform);
}

/* Cut to fit. */
static void text_of(hf_cl_device device, hf_cl_uint what, char *text, size_t bytes) {
    char whole[TEXT] = "";
    if (found.api.GetDeviceInfo(device, what, sizeof whole - 1, whole, NULL) != HF_CL_SUCCESS)
        whole[0] = '\0';
    const size_t length = strlen(whole);
    const size_t kept = length < bytes ? length : bytes - 1;
    memcpy(text, whole, kept);
    text[kept] = '\0';
}

static hf_cl_ulong number_of(hf_cl_device device, hf_cl_uint what, size_t bytes) {
    union {
        hf_cl_uint narrow;
        hf_cl_ulong wide;
    } value = {.wide = 0};
    if (found.api.GetDeviceInfo(device, what, bytes, &value, NULL) != HF_CL_SUCCESS)
        return 0;
    return bytes == sizeof value.narrow ? value.narrow : value.wide;
}

static bool has(const char *extensions, const char *name) {
    const size_t len = strlen(name);
    for (const char *at = extensions; (at = strstr(at, name)) != NULL; at += len)
        if ((at == extensions || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    return false;
}

/* Is a word, which need not end with a 0, among those of a list with commas? */
static bool names(const char *list, const char *word, size_t len) {
    for (const char *at = list; at != NULL && *at != '\0'; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == len && memcmp(at, word, len) == 0)
            return true;
    return false;
}

#define HIDES "HF_OPENCL_WITHOUT" /* what devices shall seem not to have, for tests */

static bool without(const char *word) { return names(getenv(HIDES), word, strlen(word)); }

/* A word that means nothing would leave a test without what it is for. */
static bool knows(const char *variable, const char *words) {
    const char *text = getenv(variable), *at = text != NULL ? text : "";
    size_t len = strcspn(at, ",");
    while (*at != '\0' && (len == 0 || names(words, at, len))) {
        at += len + (at[len] == ',');
        len = strcspn(at, ",");
    }
    if (*at != '\0')
        (void)snprintf(found.why, sizeof found.why, "%s has the word '%.*s'; it may have %s",
                       variable, len < 40 ? (int)len : 40, at, words);
    return *at == '\0';
}

static void read_extensions(struct hf_cl_info *info) {
    char text[TEXT], profile[32];
    text_of(info->device, HF_CL_DEVICE_PROFILE, profile, sizeof profile);
    const bool full = strcmp(profile, "EMBEDDED_PROFILE") != 0;
    text_of(info->device, HF_CL_DEVICE_EXTENSIONS, text, sizeof text);
    info->int64 = full || has(text, "cles_khr_int64");
    info->atomics64 = has(text, "cl_khr_int64_base_atomics") && !without("atomics64");
    info->sub_groups = has(text, "cl_khr_subgroups") || has(text, "cl_intel_subgroups");
    info->dot8 = has(text, "cl_khr_integer_dot_product");
    info->matrix = has(text, "cl_intel_subgroup_matrix_multiply_accumulate");
    const hf_cl_ulong major =
        has(text, "cl_nv_device_attribute_query")
            ? number_of(info->device, HF_CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV, 4)
            : 0;
    info->ptx = major >= 8;
    info->hopper = major == 9;
}

static void need(struct hf_cl_info *info, bool there, const char *what) {
    const size_t used = strlen(info->missing);
    if (!there)
        (void)snprintf(info->missing + used, sizeof info->missing - used, "%s%s",
                       used > 0 ? ", " : "", what);
}

/* Labels, sums and inertia are those of float64 in IEEE arithmetic, which integers do where a
 * device has none (float64_soft.cl). What they cannot make up for keeps it from being used. */
static void judge(struct hf_cl_info *info) {
    int major = 0, minor = 0;
    const bool known = sscanf(info->version, "OpenCL %d.%d", &major, &minor) == 2;
    need(info, known && major * 10 + minor >= 12, "OpenCL 1.2");
    need(info, number_of(info->device, HF_CL_DEVICE_AVAILABLE, 4) != 0, "to be available");
    need(info, number_of(info->device, HF_CL_DEVICE_COMPILER_AVAILABLE, 4) != 0, "a compiler");
    need(info, info->int64, "64-bit integers");
    need(info, info->denormals, "denormals in float32");
}

static void describe(struct hf_cl_info *info) {
    const hf_cl_ulong ieee = HF_CL_FP_DENORM | HF_CL_FP_INF_NAN | HF_CL_FP_ROUND_TO_NEAREST;
    hf_cl_device d = info->device;
    size_t group = 0;
    text_of(d, HF_CL_DEVICE_NAME, info->name, sizeof info->name);
    text_of(d, HF_CL_DRIVER_VERSION, info->driver, sizeof info->driver);
    text_of(d, HF_CL_DEVICE_VERSION, info->version, sizeof info->version);
    info->type = number_of(d, HF_CL_DEVICE_TYPE, 8);
    if (without("cpu")) /* its kernels are those of GPUs then */
        info->type &= ~(hf_cl_ulong)HF_CL_DEVICE_TYPE_CPU;
    info->units = (uint32_t)number_of(d, HF_CL_DEVICE_MAX_COMPUTE_UNITS, 4);
    info->memory = number_of(d, HF_CL_DEVICE_GLOBAL_MEM_SIZE, 8);
    info->alloc_most = number_of(d, HF_CL_DEVICE_MAX_MEM_ALLOC_SIZE, 8);
    info->local = number_of(d, HF_CL_DEVICE_LOCAL_MEM_SIZE, 8);
    info->unified = number_of(d, HF_CL_DEVICE_HOST_UNIFIED_MEMORY, 4) != 0;
    if (found.api.GetDeviceInfo(d, HF_CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, NULL) ==
        HF_CL_SUCCESS)
        info->group_most = group;
    const hf_cl_ulong single = number_of(d, HF_CL_DEVICE_SINGLE_FP_CONFIG, 8);
    info->fp64 =
        (number_of(d, HF_CL_DEVICE_DOUBLE_FP_CONFIG, 8) & ieee) == ieee && !without("fp64");
    info->denormals = (single & HF_CL_FP_DENORM) != 0 && !without("denormals");
    info->fma = (single & HF_CL_FP_FMA) != 0 && !without("fma");
    read_extensions(info);
    judge(info);
}

static void list_devices(hf_cl_platform platform) {
    hf_cl_device device[HF_CL_DEVICES];
    hf_cl_uint count = 0;
    if (found.api.GetDeviceIDs(platform, HF_CL_DEVICE_TYPE_ALL, HF_CL_DEVICES, device, &count) !=
        HF_CL_SUCCESS)
        return;
    for (hf_cl_uint i = 0; i < count && i < HF_CL_DEVICES && found.count < HF_CL_DEVICES; i++) {
        struct hf_cl_info *info = &found.device[found.count++];
        info->platform = platform;
        info->device = device[i];
        if (found.api.GetPlatformInfo(platform, HF_CL_PLATFORM_NAME, sizeof info->platform_name,
                                      info->platform_name, NULL) != HF_CL_SUCCESS)
            info->platform_name[0] = '\0';
        describe(info);
    }
}

static void look(void) {
    hf_cl_platform platform[PLATFORMS];
    if (!knows(HIDES, "fp64,atomics64,fma,denormals,cpu") ||
        !knows("HF_OPENCL_MATRIX", "0,1,mma,dpas"))
        return;
    const hf_cl_uint count = load(platform);
    for (hf_cl_uint i = 0; i < count; i++)
        list_devices(platform[i]);
    if (found.count > 0)
        found.why[0] = '\0';
    else if (count > 0)
        (void)snprintf(found.why, sizeof found.why,
                       "no OpenCL platform (%u looked at) has a device", (unsigned)count);
}

const struct hf_cl_api *hf_cl_api(char *why, size_t why_bytes) {
    (void)pthread_once(&once, look);
    if (why != NULL)
        (void)snprintf(why, why_bytes, "%s", found.why);
    return found.loaded ? &found.api : NULL;
}

int hf_cl_count(char *why, size_t why_bytes) {
    return hf_cl_api(why, why_bytes) != NULL ? found.count : 0;
}

const struct hf_cl_info *hf_cl_at(int i) {
    return i >= 0 && i < hf_cl_count(NULL, 0) ? &found.device[i] : NULL;
}

static bool contains(const char *text, const char *part) {
    const size_t bytes = strlen(part);
    while (*text != '\0' && strncasecmp(text, part, bytes) != 0)
        text++;
    return *text != '\0';
}

int hf_cl_find(const char *text) {
    const int count = hf_cl_count(NULL, 0);
    for (int i = 0; *text != '\0' && i < count; i++)
        if (contains(found.device[i].name, text) || contains(found.device[i].platform_name, text))
            return i;
    return count == 0 && *text != '\0' ? 0 : -1;
}

const char *hf_cl_error_name(hf_cl_int error, char *text, size_t bytes) {
    static const struct {
        hf_cl_int error;
        const char *name;
    } names[] = {{HF_CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
                 {HF_CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE"},
                 {HF_CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
                 {HF_CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
                 {HF_CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
                 {HF_CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
                 {HF_CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE"}};
    const char *name = "OpenCL error";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].error == error)
            name = names[i].name;
    (void)snprintf(text, bytes, "%s (%d)", name, (int)error);
    return text;
}
