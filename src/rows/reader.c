/* SPDX-License-Identifier: Apache-2.0
 * Loads are numbered in the order in which they are asked for; load q uses slot q % SLOTS and may
 * begin when load q - SLOTS has been taken and left. The caller's thread asks and takes, the
 * reader's thread, where there is one, makes them. */
#include "rows/reader.h"

#include "base/mem.h"
#include "base/parallel.h"
#include "core/array.h"
#include "rows/source.h"
#include "device/pipe.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SLOTS HF_PIPE_SLOTS
#define SHARE 32                             /* of the memory allowed is a panel */
#define MOST_BYTES ((uint64_t)128 << 20)     /* of a panel; from there on copies run at full rate */
#define MOST_READ_BYTES ((uint64_t)32 << 20) /* of one that a thread reads */
#define ROW_BYTES 512                        /* about what kernels need for a row of a panel */
#define FEEDERS 8                            /* most threads that copy to locked memory */
#define FEED_BYTES ((int64_t)1 << 20)        /* of a piece of such a copy */

enum state { STREAMED, WANTED, LOADING, CACHED };

struct load {
    int64_t panel;
    hf_status status;
    char message[512];
};

struct hf_reader {
    hf_context *ctx;
    const struct hf_pipe_table *table;
    void *pipe;
    const hf_array *array; /* one of the two */
    const hf_source *source;
    int64_t n, panel_rows, panels;
    size_t row_bytes;
    char *slot[SLOTS];   /* device memory of panels that pass */
    char *spare;         /* of a panel without dropped rows; NULL until one is needed */
    char *locked[SLOTS]; /* what the thread reads into; NULL: the rows lie in locked memory */
    uint8_t *state;      /* [panels] enum state */
    char **cached;       /* [panels] device memory of those that stay */
    struct load load[SLOTS];
    int64_t queued, taken; /* loads */
    int64_t next;          /* panel to ask for, or one before it */
    bool threaded;
    pthread_t thread;
    pthread_mutex_t mutex; /* for what follows, and for load[] of loads that are not made */
    pthread_cond_t news;
    int64_t ordered, made; /* loads that the thread was told of, and that it has ended */
    bool quit;
    hf_pool *feeders; /* of the thread */
};

static int64_t panel_first(const struct hf_reader *r, int64_t panel) {
    return panel * r->panel_rows;
}

static int64_t panel_count(const struct hf_reader *r, int64_t panel) {
    const int64_t left = r->n - panel_first(r, panel);
    return left < r->panel_rows ? left : r->panel_rows;
}

static size_t panel_bytes(const struct hf_reader *r) {
    return (size_t)r->panel_rows * r->row_bytes;
}

/* ---- the reader's thread */

struct feed {
    const hf_array *rows;
    char *to;
    size_t row_bytes;
};

static void feed_rows(void *job, int worker, int64_t begin, int64_t end) {
    const struct feed *f = job;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        memcpy(f->to + (size_t)i * f->row_bytes, hf_array_row(f->rows, i), f->row_bytes);
}

static void feed_bytes(void *job, int worker, int64_t begin, int64_t end) {
    const struct feed *f = job;
    (void)worker;
    memcpy(f->to + begin, (const char *)f->rows->data + begin, (size_t)(end - begin));
}

static void copy_to_locked(struct hf_reader *r, const hf_array *rows, char *to) {
    struct feed f = {rows, to, r->row_bytes};
    const int64_t each = FEED_BYTES / (int64_t)r->row_bytes;
    if (hf_array_stride(rows) == rows->cols)
        hf_parallel_for(r->feeders, rows->rows * (int64_t)r->row_bytes, FEED_BYTES, feed_bytes, &f);
    else
        hf_parallel_for(r->feeders, rows->rows, each > 0 ? each : 1, feed_rows, &f);
}

static char *destination(const struct hf_reader *r, int slot, int64_t panel) {
    return r->cached[panel] != NULL ? r->cached[panel] : r->slot[slot];
}

/* Rows of a source or of pageable memory. */
static hf_status read_load(struct hf_reader *r, int slot, struct load *load) {
    const int64_t first = panel_first(r, load->panel), count = panel_count(r, load->panel);
    char *to = r->locked[slot];
    HF_TRY(r->table->wait(r->pipe, slot)); /* the copy before has read it */
    if (r->source != NULL) {
        HF_TRY(hf_source_read(r->source, first, count, to, load->message, sizeof load->message));
    } else {
        const hf_array rows = hf_array_slice(r->array, first, count);
        copy_to_locked(r, &rows, to);
    }
    const struct hf_row_copy copy = {.dst = destination(r, slot, load->panel),
                                     .src = to,
                                     .dst_step = r->row_bytes,
                                     .src_step = r->row_bytes,
                                     .row_bytes = r->row_bytes,
                                     .rows = count};
    return r->table->begin(r->pipe, slot, &copy);
}

static void *thread_main(void *arg) {
    struct hf_reader *r = arg;
    (void)pthread_mutex_lock(&r->mutex);
    while (!r->quit) {
        if (r->made == r->ordered) {
            (void)pthread_cond_wait(&r->news, &r->mutex);
            continue;
        }
        const int slot = (int)(r->made % SLOTS);
        (void)pthread_mutex_unlock(&r->mutex);
        struct load *load = &r->load[slot];
        load->status = read_load(r, slot, load);
        (void)pthread_mutex_lock(&r->mutex);
        r->made++;
        (void)pthread_cond_broadcast(&r->news);
    }
    (void)pthread_mutex_unlock(&r->mutex);
    return NULL;
}

/* Signals are for the application's own threads. */
static hf_status start_thread(struct hf_reader *r) {
    sigset_t all, old;
    const int cores = r->ctx->threads < FEEDERS ? r->ctx->threads : FEEDERS;
    for (int i = 0; i < SLOTS; i++)
        if ((r->locked[i] = r->table->lock(panel_bytes(r))) == NULL)
            return hf_ctx_fail(r->ctx, HF_E_NOMEM,
                               "the system locked no %zu bytes of memory to copy rows from",
                               panel_bytes(r));
    if (r->source == NULL)
        r->feeders = hf_pool_create(cores); /* NULL: the thread copies alone */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    r->threaded = pthread_create(&r->thread, NULL, thread_main, r) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return r->threaded ? HF_OK
                       : hf_ctx_fail(r->ctx, HF_E_NOMEM, "cannot start a thread to read rows");
}

/* ---- asking */

static void queue_load(struct hf_reader *r, int64_t panel) {
    const int slot = (int)(r->queued % SLOTS);
    struct load *load = &r->load[slot];
    load->panel = panel;
    load->status = HF_OK;
    load->message[0] = '\0';
    if (r->state[panel] == WANTED)
        r->state[panel] = LOADING;
    r->queued++;
    if (r->threaded) {
        (void)pthread_mutex_lock(&r->mutex);
        r->ordered = r->queued;
        (void)pthread_cond_broadcast(&r->news);
        (void)pthread_mutex_unlock(&r->mutex);
        return;
    }
    const hf_array rows = hf_array_slice(r->array, panel_first(r, panel), panel_count(r, panel));
    const struct hf_row_copy copy = {.dst = destination(r, slot, panel),
                                     .src = rows.data,
                                     .dst_step = r->row_bytes,
                                     .src_step = (size_t)hf_array_stride(&rows) *
                                                 hf_dtype_bytes(rows.dtype),
                                     .row_bytes = r->row_bytes,
                                     .rows = rows.rows};
    load->status = r->table->begin(r->pipe, slot, &copy);
}

/* Ask for the panels that come next, as far as there are slots. */
static void prefetch(struct hf_reader *r) {
    while (r->queued - r->taken < SLOTS) {
        int64_t seen = 0;
        while (seen < r->panels && r->state[r->next] != STREAMED && r->state[r->next] != WANTED) {
            r->next = (r->next + 1) % r->panels;
            seen++;
        }
        if (seen == r->panels)
            return;
        const int64_t panel = r->next;
        r->next = (panel + 1) % r->panels;
        queue_load(r, panel);
    }
}

static void await_made(struct hf_reader *r, int64_t count) {
    if (!r->threaded)
        return;
    (void)pthread_mutex_lock(&r->mutex);
    while (r->made < count)
        (void)pthread_cond_wait(&r->news, &r->mutex);
    (void)pthread_mutex_unlock(&r->mutex);
}

void hf_reader_pause(struct hf_reader *r) {
    await_made(r, r->queued);
    for (int i = 0; i < SLOTS; i++)
        (void)r->table->wait(r->pipe, i);
    for (int64_t q = r->taken; q < r->queued; q++) {
        uint8_t *state = &r->state[r->load[q % SLOTS].panel];
        *state = *state == LOADING ? WANTED : *state;
    }
    r->taken = r->queued;
    r->next = 0;
}

/* As hf_ctx_check(), in the pipe's words. */
static hf_status check_pipe(struct hf_reader *r, hf_status status) {
    return status == HF_OK ? HF_OK
                           : hf_ctx_fail(r->ctx, status, "device %s: %s", r->ctx->name,
                                         r->table->error_text(r->pipe));
}

/* The load of a panel, which must be the next to be taken, until the device has it. */
static hf_status take(struct hf_reader *r, int64_t panel, char **rows) {
    const int slot = (int)(r->taken % SLOTS);
    const struct load *load = &r->load[slot];
    assert(r->queued > r->taken && load->panel == panel);
    await_made(r, r->taken + 1);
    *rows = destination(r, slot, panel);
    if (load->status == HF_OK)
        return check_pipe(r, r->table->arrive(r->pipe, slot));
    if (load->status == HF_E_DEVICE && load->message[0] == '\0')
        return check_pipe(r, load->status);
    const int64_t first = panel_first(r, panel);
    return hf_ctx_fail(r->ctx, load->status, "reading rows %" PRId64 " to %" PRId64 ": %s", first,
                       first + panel_count(r, panel) - 1,
                       load->message[0] ? load->message : hf_status_text(load->status));
}

/* The slot may be used again. */
static hf_status leave(struct hf_reader *r, int64_t panel) {
    if (r->state[panel] == LOADING)
        r->state[panel] = CACHED;
    const hf_status status = check_pipe(r, r->table->leave(r->pipe, (int)(r->taken % SLOTS)));
    r->taken++;
    return status;
}

/* ---- handing out */

/* A panel on the device to fn, without dropped rows. */
static hf_status hand_out(struct hf_reader *r, const struct hf_rows *rows, int64_t panel, char *at,
                          hf_rows_fn *fn, void *job) {
    const int64_t raw = panel_first(r, panel), all = panel_count(r, panel);
    const int64_t before = hf_rows_dropped_before(rows, raw);
    const int64_t gone = hf_rows_dropped_before(rows, raw + all) - before;
    const int64_t count = all - gone;
    if (gone > 0) {
        if (r->spare == NULL && (r->spare = hf_ctx_alloc(r->ctx, panel_bytes(r))) == NULL)
            return hf_ctx_fail(r->ctx, HF_E_NOMEM, "%s has no %zu bytes for a panel of rows",
                               r->ctx->name, panel_bytes(r));
        const struct hf_compaction rest = {.dst = r->spare,
                                           .src = at,
                                           .row_bytes = r->row_bytes,
                                           .rows = count,
                                           .first = raw,
                                           .dropped = rows->dropped + before,
                                           .count = gone};
        HF_TRY(hf_ctx_check(r->ctx, r->table->compact(r->ctx->stream, &rest)));
        at = r->spare;
    }
    for (int64_t i = 0; i < count; i += rows->chunk_rows) {
        const int64_t some = count - i < rows->chunk_rows ? count - i : rows->chunk_rows;
        const hf_array chunk =
            hf_array_view(at + (size_t)i * r->row_bytes, rows->dtype, some, rows->d);
        HF_TRY(fn(job, &chunk, raw - before + i));
    }
    return HF_OK;
}

/* Loads under way are of use if the first of them is of the panel that comes first. */
static void begin_pass(struct hf_reader *r) {
    int64_t first = 0;
    while (first < r->panels && r->state[first] == CACHED)
        first++;
    if (r->queued > r->taken && r->load[r->taken % SLOTS].panel != first)
        hf_reader_pause(r);
    if (r->queued == r->taken)
        r->next = 0;
}

hf_status hf_reader_each(struct hf_reader *r, const struct hf_rows *rows, hf_rows_fn *fn,
                         void *job) {
    begin_pass(r);
    for (int64_t panel = 0; panel < r->panels; panel++) {
        if (r->state[panel] == CACHED) {
            HF_TRY(hand_out(r, rows, panel, r->cached[panel], fn, job));
            continue;
        }
        char *at = NULL;
        prefetch(r);
        hf_status status = take(r, panel, &at);
        if (status != HF_OK) {
            hf_reader_pause(r);
            return status;
        }
        status = hand_out(r, rows, panel, at, fn, job);
        HF_TRY(leave(r, panel));
        HF_TRY(status);
        prefetch(r);
    }
    return HF_OK;
}

/* ---- what stays */

static void drop_cache(struct hf_reader *r) {
    hf_reader_pause(r);
    for (int64_t p = 0; p < r->panels; p++) {
        hf_ctx_release(r->ctx, r->cached[p]);
        r->cached[p] = NULL;
        r->state[p] = STREAMED;
    }
}

hf_status hf_reader_cache(struct hf_reader *r, uint64_t spare) {
    drop_cache(r);
    (void)r->table->held(r->ctx->stream, true);
    const uint64_t room = hf_ctx_room(r->ctx);
    const uint64_t fit = spare < room ? (room - spare) / panel_bytes(r) : 0;
    const int64_t count = fit < (uint64_t)r->panels ? (int64_t)fit : r->panels;
    for (int64_t p = 0, made = 0; p < r->panels; p++) {
        if ((p + 1) * count / r->panels == made)
            continue; /* made of count panels among the first p of them all: evenly spread */
        r->cached[p] = hf_ctx_alloc(r->ctx, panel_bytes(r));
        if (r->cached[p] == NULL)
            break; /* fewer stay then */
        r->state[p] = WANTED;
        made++;
    }
    /* copies may go there from now on */
    return hf_ctx_check(r->ctx, r->ctx->device->sync(r->ctx->stream));
}

/* ---- beginning and end */

int64_t hf_reader_panel_rows(const struct hf_reader *r) { return r->panel_rows; }

static void choose_panel(struct hf_reader *r, bool threaded) {
    const uint64_t limit = r->ctx->memory_bytes / SHARE;
    const uint64_t most = threaded ? MOST_READ_BYTES : MOST_BYTES;
    const uint64_t bytes = limit < most ? limit : most;
    const uint64_t by_bytes = bytes / r->row_bytes;
    const uint64_t by_kernels = limit * 4 / (ROW_BYTES + r->row_bytes);
    const uint64_t rows = by_bytes < by_kernels ? by_bytes : by_kernels;
    r->panel_rows = rows < 1 ? 1 : rows < (uint64_t)r->n ? (int64_t)rows : r->n;
    r->panels = (r->n + r->panel_rows - 1) / r->panel_rows;
}

static hf_status take_memory(struct hf_reader *r) {
    r->state = hf_alloc_zero((size_t)r->panels);
    r->cached = hf_alloc_zero((size_t)r->panels * sizeof *r->cached);
    if (r->state == NULL || r->cached == NULL)
        return hf_ctx_fail(r->ctx, HF_E_NOMEM, "no memory for a list of %" PRId64 " panels",
                           r->panels);
    for (int i = 0; i < SLOTS; i++)
        if ((r->slot[i] = hf_ctx_alloc(r->ctx, panel_bytes(r))) == NULL)
            return hf_ctx_fail(r->ctx, HF_E_NOMEM,
                               "%s has no memory for %d panels of %zu bytes, in which rows would "
                               "pass: free some of it, or set a lower memory limit",
                               r->ctx->name, SLOTS, panel_bytes(r));
    HF_TRY(hf_ctx_check(r->ctx, r->table->open(r->ctx->stream, &r->pipe)));
    for (int i = 0; i < SLOTS; i++) /* copies come after the allocations */
        HF_TRY(check_pipe(r, r->table->leave(r->pipe, i)));
    return HF_OK;
}

hf_status hf_reader_open(hf_context *ctx, const hf_array *x, const hf_source *source,
                         struct hf_reader **reader) {
    const struct hf_pipe_table *table = hf_pipe_of(ctx->device->id);
    *reader = NULL;
    struct hf_reader *r = hf_alloc_zero(sizeof *r);
    if (r == NULL)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory to read rows");
    r->ctx = ctx;
    r->table = table;
    r->array = x;
    r->source = source;
    r->n = x != NULL ? x->rows : source->rows;
    r->row_bytes = (size_t)(x != NULL ? x->cols : source->cols) *
                   hf_dtype_bytes(x != NULL ? x->dtype : source->dtype);
    (void)pthread_mutex_init(&r->mutex, NULL);
    (void)pthread_cond_init(&r->news, NULL);
    const bool threaded = x == NULL || table->place(ctx->stream, x->data) != HF_PLACE_PINNED;
    choose_panel(r, threaded);
    hf_status status = take_memory(r);
    if (status == HF_OK && threaded)
        status = start_thread(r);
    if (status == HF_OK)
        *reader = r;
    else
        hf_reader_close(r);
    return status;
}

void hf_reader_close(struct hf_reader *r) {
    if (r == NULL)
        return;
    if (r->threaded) {
        (void)pthread_mutex_lock(&r->mutex);
        r->quit = true;
        (void)pthread_cond_broadcast(&r->news);
        (void)pthread_mutex_unlock(&r->mutex);
        (void)pthread_join(r->thread, NULL);
    }
    hf_pool_destroy(r->feeders);
    if (r->pipe != NULL)
        r->table->close(r->pipe);
    for (int i = 0; i < SLOTS; i++) {
        r->table->unlock(r->locked[i]);
        hf_ctx_release(r->ctx, r->slot[i]);
    }
    hf_ctx_release(r->ctx, r->spare);
    for (int64_t p = 0; r->cached != NULL && p < r->panels; p++)
        hf_ctx_release(r->ctx, r->cached[p]);
    (void)pthread_cond_destroy(&r->news);
    (void)pthread_mutex_destroy(&r->mutex);
    hf_free(r->cached);
    hf_free(r->state);
    hf_free(r);
}
