/* SPDX-License-Identifier: Apache-2.0
 * PoCL as a driver that fails, for HF_OPENCL_LIBRARY. LOSE_AT=n: the device is lost at the n-th
 * kernel, and whatever is asked of it then fails. CRASH_AT=n: the n-th compilation ends the
 * process, CRASH_LOAD_AT=n: the n-th binary that is given to it. NO_MEMORY_AT=n: from the n-th
 * memory object on there is no memory for another. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef int (*platforms)(unsigned, void **, unsigned *);
typedef int (*any)();

enum {
    BUFFER = 14,
    BINARY = 27,
    BUILD = 30,
    FINISH = 47,
    READ = 48,
    WRITE = 49,
    MAP = 56,
    RUN = 59,
    TABLE = 107
};
enum { NO_MEMORY = -4, OUT_OF_RESOURCES = -5 };

static any real[TABLE], changed[TABLE];
static int lost;

static int due(const char *name, int *count) {
    const char *at = getenv(name);
    return at && ++*count == atoi(at);
}

static int build(void *program, unsigned n, void *devices, const char *options, void *then,
                 void *data) {
    static int seen;
    if (due("CRASH_AT", &seen))
        abort();
    return real[BUILD](program, n, devices, options, then, data);
}

static void *load(void *context, unsigned n, void *devices, const size_t *bytes,
                  const unsigned char **binary, int *status, int *error) {
    void *(*next)(void *, unsigned, void *, const size_t *, const unsigned char **, int *, int *);
    static int seen;
    memcpy(&next, &real[BINARY], sizeof next);
    if (due("CRASH_LOAD_AT", &seen))
        abort();
    return next(context, n, devices, bytes, binary, status, error);
}

static int run(void *queue, void *kernel, unsigned dims, void *from, void *global, void *group,
               unsigned waits, void *wait, void *event) {
    static int seen;
    lost = lost || due("LOSE_AT", &seen);
    return lost ? OUT_OF_RESOURCES
                : real[RUN](queue, kernel, dims, from, global, group, waits, wait, event);
}

static void *create_buffer(void *context, unsigned long flags, size_t bytes, void *host,
                           int *error) {
    void *(*next)(void *, unsigned long, size_t, void *, int *);
    static int seen, full;
    memcpy(&next, &real[BUFFER], sizeof next);
    full = full || due("NO_MEMORY_AT", &seen);
    if (!full)
        return next(context, flags, bytes, host, error);
    *error = NO_MEMORY;
    return NULL;
}

static int finish(void *queue) { return lost ? OUT_OF_RESOURCES : real[FINISH](queue); }

static int copy_out(void *queue, void *mem, unsigned wait, size_t at, size_t bytes, void *to,
                    unsigned waits, void *list, void *event) {
    return lost ? OUT_OF_RESOURCES
                : real[READ](queue, mem, wait, at, bytes, to, waits, list, event);
}

static int copy_in(void *queue, void *mem, unsigned wait, size_t at, size_t bytes, void *from,
                   unsigned waits, void *list, void *event) {
    return lost ? OUT_OF_RESOURCES
                : real[WRITE](queue, mem, wait, at, bytes, from, waits, list, event);
}

static void *map(void *queue, void *mem, unsigned wait, unsigned long flags, size_t at,
                 size_t bytes, unsigned waits, void *list, void *event, int *error) {
    void *(*next)(void *, void *, unsigned, unsigned long, size_t, size_t, unsigned, void *, void *,
                  int *);
    memcpy(&next, &real[MAP], sizeof next);
    if (!lost)
        return next(queue, mem, wait, flags, at, bytes, waits, list, event, error);
    *error = OUT_OF_RESOURCES;
    return NULL;
}

int clIcdGetPlatformIDsKHR(unsigned room, void **to, unsigned *count) {
    void *library = dlopen("libpocl.so.2", RTLD_NOW);
    void *(*address)(const char *) = NULL;
    platforms all = NULL;
    if (library)
        *(void **)&address = dlsym(library, "clGetExtensionFunctionAddress");
    if (!address)
        return -1001;
    *(void **)&all = address("clIcdGetPlatformIDsKHR");
    const int error = all(room, to, count);
    if (error || !to || real[RUN])
        return error;
    any **table = to[0];
    memcpy(real, *table, sizeof real);
    memcpy(changed, real, sizeof changed);
    changed[BUFFER] = (any)create_buffer;
    changed[BINARY] = (any)load;
    changed[BUILD] = (any)build;
    changed[FINISH] = (any)finish;
    changed[READ] = (any)copy_out;
    changed[WRITE] = (any)copy_in;
    changed[MAP] = (any)map;
    changed[RUN] = (any)run;
    *table = changed;
    return error;
}
