/* SPDX-License-Identifier: Apache-2.0 */
#include "process_context.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static pthread_key_t own_key; /* a struct own */
static hf_context *shared;    /* made by the first call; the lock is held while it is in use */
static int generation;        /* forks that lie between this process and the first */
static hf_guard guard = HF_GUARD_CORRECT;

static _Thread_local bool uses_shared; /* this thread holds the lock */

/* The context of a thread that found the shared one in use. */
struct own {
    hf_context *ctx;
    int generation; /* in which it was made: it does not outlive a fork */
};

static void free_own(void *p) {
    struct own *own = p;
    if (own->generation == generation)
        hf_context_destroy(own->ctx);
    free(own);
}

/* The threads of a context stay with the parent, so that the child makes its own. What the parent's
 * holds is left as it is: it cannot be closed here. */
static void after_fork(void) {
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    lock = fresh;
    shared = NULL;
    generation++;
}

static void choose_guard(void) {
    static const hf_guard choice[] = {HF_GUARD_OFF, HF_GUARD_DETECT, HF_GUARD_CORRECT};
    const char *const text = getenv("HF_BLAS_GUARD");
    if (text == NULL || *text == '\0')
        return;
    for (size_t i = 0; i < sizeof choice / sizeof *choice; i++)
        if (strcmp(text, hf_guard_name(choice[i])) == 0) {
            guard = choice[i];
            return;
        }
    (void)fprintf(stderr, "holdfast_blas: HF_BLAS_GUARD is off, detect or correct, not \"%s\"\n",
                  text);
    abort();
}

static void prepare(void) {
    choose_guard();
    if (pthread_key_create(&own_key, free_own) != 0 || pthread_atfork(NULL, NULL, after_fork) != 0)
        abort();
}

/* The number in an environment variable; 0: none that can be used. */
static int threads_of(const char *variable) {
    const char *text = getenv(variable);
    char *end = NULL;
    const long count = text != NULL ? strtol(text, &end, 10) : 0;
    return text == NULL || end == text || count < 1 || count > MOST_THREADS ? 0 : (int)count;
}

static hf_context *open_context(int threads) {
    const hf_context_opts opts = {.device = "cpu", .threads = threads};
    hf_context *ctx = NULL;
    if (hf_context_create(&ctx, &opts) == HF_OK)
        return ctx;
    (void)fprintf(stderr, "holdfast_blas: %s\n", hf_last_error(NULL));
    abort();
}

static hf_context *borrow_own(void) {
    struct own *own = pthread_getspecific(own_key);
    if (own == NULL) {
        own = calloc(1, sizeof *own);
        if (own == NULL || pthread_setspecific(own_key, own) != 0) {
            (void)fprintf(stderr, "holdfast_blas: no memory for a thread's context\n");
            abort();
        }
    }
    if (own->ctx == NULL || own->generation != generation) {
        own->ctx = open_context(1);
        own->generation = generation;
    }
    return own->ctx;
}

hf_context *blas_borrow(void) {
    (void)pthread_once(&prepared, prepare);
    if (pthread_mutex_trylock(&lock) != 0)
        return borrow_own();
    uses_shared = true;
    if (shared == NULL) {
        const int asked = threads_of("HF_BLAS_THREADS");
        shared = open_context(asked > 0 ? asked : threads_of("OMP_NUM_THREADS"));
    }
    return shared;
}

hf_guard blas_guard(void) { return guard; }

void blas_return(void) {
    const bool shares = uses_shared;
    uses_shared = false;
    if (shares)
        (void)pthread_mutex_unlock(&lock);
}
