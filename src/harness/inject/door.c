/* SPDX-License-Identifier: Apache-2.0
 * Kernels on their way through the door while a fault is planted: arrays are struck before or
 * after, registers in the kernel that was compiled for it. */
#include "base/mem.h"
#include "device/host/isa.h"
#include "harness/inject/device_door.h"
#include "harness/inject/fault.h"
#include <limits.h>
#include <string.h>

typedef const struct hf_kernel_table *const isa_tables[HF_OP_COUNT];

#define ISA(name, flags, test)                                                                     \
    extern isa_tables hf_isa_tables_##name, hf_struck_tables_##name##_inject;
#include "device/host/isa.def"
#undef ISA

/* As in ops/registry.c: sets that this build left out get NULL. */
#define IF_1 0,
#define SECOND(a, b, ...) b
#define OR_NULL(junk_and_tables) SECOND(junk_and_tables, NULL, 0)
#define TABLES_(have, name) OR_NULL(IF_##have &name)
#define TABLES(have, name) TABLES_(have, name)

static isa_tables *const shipped[HF_ISA_COUNT] = {
#define ISA(name, flags, test) TABLES(HF_HAVE_ISA_##name, hf_isa_tables_##name),
#include "device/host/isa.def"
#undef ISA
};

static isa_tables *const struck[HF_ISA_COUNT] = {
#define ISA(name, flags, test) TABLES(HF_HAVE_ISA_##name, hf_struck_tables_##name##_inject),
#include "device/host/isa.def"
#undef ISA
};

/* The kernel that is compiled from the same source with HF_INJECT; the kernel itself where there is
 * none. *op: of the kernel; -1: it is in no table. */
static const struct hf_kernel *struck_kernel(const struct hf_kernel *kernel, int *op) {
    for (int isa = 0; isa < HF_ISA_COUNT; isa++)
        for (int o = 0; shipped[isa] && o < HF_OP_COUNT; o++) {
            const struct hf_kernel_table *table = (*shipped[isa])[o];
            for (int i = 0; i < table->count; i++) {
                if (&table->kernels[i] != kernel)
                    continue;
                const struct hf_kernel_table *same = (*struck[isa])[o];
                *op = o;
                return same ? &same->kernels[i] : kernel;
            }
        }
    *op = -1;
    return kernel;
}

/* A fault in an array that is at work now. */
struct in_array {
    const struct hf_kernel *kernel;
    const struct hf_call *call;
    struct hf_place_array array;
    const hf_array *rows; /* of the call, if it has rows */
    int64_t word;
    uint64_t element; /* the word from before the call, */
    void *saved;      /* or the array; NULL: not needed */
};

static bool matches(const struct hf_kernel *kernel, int op, int64_t call) {
    const struct hf_fault_site *site = &hf_injector()->site;
    const size_t length = strlen(site->kernel);
    if (site->op != op || (site->iteration > 0 && site->iteration != call))
        return false;
    if (length > 0 && site->kernel[length - 1] == '*')
        return strncmp(site->kernel, kernel->name, length - 1) == 0;
    return length == 0 || strcmp(site->kernel, kernel->name) == 0;
}

static void find_array(struct in_array *f, const void *args) {
    const struct hf_fault_site *site = &hf_injector()->site;
    struct hf_place_array all[HF_PLACE_ARRAYS];
    memset(all, 0, sizeof all);
    hf_op_places_at(site->op)->arrays(args, all);
    f->array = all[site->place];
    f->word = site->word;
    f->rows = hf_place_rows(site->op, args);
    f->saved = NULL;
    if (f->array.data && site->word >= (int64_t)(f->array.bytes / (size_t)f->array.word))
        f->array.data = NULL;
}

/* The row that the word belongs to, where the array has an element for each row, or is the rows. */
static int64_t row_of_word(const struct in_array *f) {
    const hf_array *x = f->rows;
    if (!x)
        return -1;
    if (f->array.data == x->data)
        return f->word / (x->row_stride ? x->row_stride : x->cols);
    return (int64_t)(f->array.bytes / (size_t)f->array.word) == x->rows ? f->word : -1;
}

static void copy(const struct in_array *f, void *dst, const void *src, size_t bytes) {
    hf_device_copy(f->call, f->kernel, dst, src, bytes);
}

static void strike_word(const struct in_array *f, const void *before) {
    char *at = (char *)f->array.data + f->word * f->array.word;
    uint64_t element = 0;
    if (!hf_inject_hits())
        return;
    hf_injector()->row = row_of_word(f);
    copy(f, &element, at, (size_t)f->array.word);
    hf_inject_alter(&element, before, f->array.word, f->array.floats);
    copy(f, at, &element, (size_t)f->array.word);
}

static void array_before(struct in_array *f) {
    const struct hf_fault_site *site = &hf_injector()->site;
    find_array(f, f->call->args);
    if (!f->array.data)
        return;
    if (site->act == HF_ACT_STALE) {
        f->saved = hf_alloc(f->array.bytes);
        if (f->saved)
            copy(f, f->saved, f->array.data, f->array.bytes);
    } else if (site->act == HF_ACT_SKIP) {
        copy(f, &f->element, (const char *)f->array.data + f->word * f->array.word,
             (size_t)f->array.word);
    } else if (!site->after) {
        strike_word(f, NULL);
    }
}

/* All of it as it was before the call. */
static void put_stale(const struct in_array *f) {
    void *now = hf_alloc(f->array.bytes);
    if (now)
        copy(f, now, f->array.data, f->array.bytes);
    if (now && memcmp(now, f->saved, f->array.bytes) != 0)
        atomic_fetch_add(&hf_injector()->altered, 1);
    copy(f, f->array.data, f->saved, f->array.bytes);
    hf_free(now);
}

static void array_after(const struct in_array *f) {
    const struct hf_fault_site *site = &hf_injector()->site;
    if (!f->array.data)
        return;
    if (site->act == HF_ACT_SKIP) {
        strike_word(f, &f->element);
    } else if (site->act != HF_ACT_STALE && site->after) {
        strike_word(f, NULL);
    } else if (f->saved && hf_inject_hits()) {
        put_stale(f);
    }
    hf_free(f->saved);
}

static hf_status run_call(const struct hf_kernel *kernel, const struct hf_call *call) {
    if (!hf_inject_hits())
        return kernel->run(call);
    atomic_fetch_add(&hf_injector()->altered, 1);
    if (hf_injector()->site.act == HF_ACT_SKIP)
        return HF_OK;
    HF_TRY(kernel->run(call));
    return kernel->run(call);
}

/* With the registers of `wanted`; 0: it is said meanwhile which. */
static hf_status run_struck(const struct hf_kernel *kernel, const struct hf_call *call, int op,
                            uint32_t wanted) {
    hf_injector()->rows = hf_place_rows(op, call->args);
    if (wanted)
        hf_strike_wanted = wanted;
    const hf_status status = kernel->run(call);
    hf_strike_wanted = 0;
    hf_injector()->rows = NULL;
    return status;
}

static hf_status run_planted(const struct hf_kernel *kernel, const struct hf_kernel *twin,
                             const struct hf_call *call, int op) {
    const struct hf_fault_site *site = &hf_injector()->site;
    struct in_array f = {.kernel = kernel, .call = call};
    if (site->kind == HF_PLACE_CALL)
        return run_call(kernel, call);
    if (site->kind == HF_PLACE_REGISTER)
        return run_struck(twin, call, op, UINT32_C(1) << site->place);
    array_before(&f);
    const hf_status status = kernel->run(call);
    array_after(&f);
    return status;
}

/* ---- many faults */

#define MOST_PLANTED 8 /* in a call */

/* A fault of a call in an array of it. */
struct planted {
    struct hf_fault_site site;
    struct in_array array;
};

static bool strikes_behind(const struct hf_fault_site *site) {
    return site->after || site->act == HF_ACT_SKIP || site->act == HF_ACT_STALE;
}

/* The call, with its registers struck, left out or made twice. site: such a fault, or NULL. */
static hf_status run_chosen(const struct hf_kernel *kernel, const struct hf_kernel *twin,
                            const struct hf_call *call, const struct hf_fault_site *site) {
    struct hf_injector *in = hf_injector();
    if (!site)
        return kernel->run(call);
    hf_inject_choose(site);
    const bool registers = site->kind == HF_PLACE_REGISTER;
    if (registers)
        in->stream.enter(site->op, UINT32_C(1) << site->place);
    const hf_status status =
        registers ? run_struck(twin, call, site->op, 0) : run_call(kernel, call);
    if (registers)
        in->stream.leave();
    in->stream.done();
    return status;
}

/* Words of arrays before and behind the call, and one fault of another kind. */
static hf_status run_stream(const struct hf_kernel *kernel, const struct hf_kernel *twin,
                            const struct hf_call *call, int op, int64_t number) {
    struct hf_injector *in = hf_injector();
    struct planted arrays[MOST_PLANTED];
    struct hf_fault_site other;
    int count = 0;
    bool others = false;
    for (int i = 0; i < MOST_PLANTED && in->stream.plant(op, number); i++) {
        if (in->site.kind != HF_PLACE_ARRAY) {
            other = in->site;
            others = true;
            continue;
        }
        struct planted *p = &arrays[count];
        *p = (struct planted){in->site, {.kernel = kernel, .call = call}};
        array_before(&p->array);
        if (strikes_behind(&p->site))
            count++;
        else
            in->stream.done();
    }
    const hf_status status = run_chosen(kernel, twin, call, others ? &other : NULL);
    for (int i = 0; i < count; i++) {
        hf_inject_choose(&arrays[i].site);
        array_after(&arrays[i].array);
        in->stream.done();
    }
    return status;
}

static void count_arrays(int op, const void *args) {
    const struct hf_op_places *p = hf_op_places_at(op);
    struct hf_place_array all[HF_PLACE_ARRAYS];
    memset(all, 0, sizeof all);
    if (!p->arrays)
        return;
    p->arrays(args, all);
    for (int i = 0; i < HF_PLACE_ARRAYS; i++) {
        const int64_t words = all[i].data ? (int64_t)(all[i].bytes / (size_t)all[i].word) : 0;
        int64_t *most = &hf_injector()->counted->of_array[op][i];
        *most = words > *most ? words : *most;
        if (words == 0)
            continue;
        hf_injector()->counted->word[op][i] = all[i].word;
        hf_injector()->counted->floats[op][i] = all[i].floats;
    }
}

/* ---- op lloyd on a GPU: each of its iterations is a call */

struct in_lloyd {
    const struct hf_kernel *kernel;
    const struct hf_call *call;
};

static void strike_arrays(const struct in_lloyd *l, const void *args) {
    struct hf_call call = hf_call_part(l->call, args);
    struct in_array f = {.kernel = l->kernel, .call = &call};
    find_array(&f, args);
    if (f.array.data)
        strike_word(&f, NULL);
}

/* Is the planted fault in a word that is struck between iterations? */
static bool is_word(void) {
    const struct hf_fault_site *site = &hf_injector()->site;
    return site->op == HF_OP_LLOYD && site->kind == HF_PLACE_ARRAY && site->act != HF_ACT_STALE &&
           site->act != HF_ACT_SKIP;
}

/* Between two iterations a fault of the one and of the next are the same: `number` is the next. */
static void between(void *user, const void *args, int made) {
    const struct in_lloyd *l = user;
    struct hf_injector *in = hf_injector();
    const int64_t step = made > 0 ? made : 1;
    const int64_t number = atomic_fetch_add(&in->calls[HF_OP_LLOYD], step) + step;
    const int mode = atomic_load_explicit(&in->mode, memory_order_relaxed);
    switch (mode) {
    case HF_INJECT_STREAM:
        if (!in->stream.plant(HF_OP_LLOYD, number))
            break;
        if (in->site.kind == HF_PLACE_ARRAY)
            strike_arrays(l, args);
        in->stream.done();
        break;
    case HF_INJECT_COUNTING:
        in->counted->calls[HF_OP_LLOYD] = number;
        count_arrays(HF_OP_LLOYD, args);
        break;
    default:
        if (is_word() && matches(l->kernel, HF_OP_LLOYD, number - (in->site.after && made > 0)))
            strike_arrays(l, args);
    }
}

/* Iterations until the fault, in one call of the kernel as it is shipped. Its workspace means
 * something only until that ends. */
static int ahead(void *user) {
    const struct hf_injector *in = hf_injector();
    const struct hf_fault_site *site = &in->site;
    const int mode = atomic_load_explicit(&in->mode, memory_order_relaxed);
    (void)user;
    if (mode == HF_INJECT_STREAM)
        return in->stream.ahead();
    if (mode != HF_INJECT_PLANTED)
        return 0;
    if (!is_word())
        return INT_MAX;
    if (site->iteration == 0 || hf_place_is_workspace(site->op, site->place))
        return 0;
    const int64_t left = site->iteration + site->after - in->calls[HF_OP_LLOYD];
    return left > 0 && left < INT_MAX ? (int)left : INT_MAX;
}

/* worker= of a fault in an array of op lloyd that is always there. */
static int64_t unit(void *user) {
    const struct hf_fault_site *site = &hf_injector()->site;
    (void)user;
    return hf_injector()->mode == HF_INJECT_PLANTED && is_word() && site->always ? site->worker
                                                                                 : -1;
}

static hf_status run_lloyd(const struct hf_kernel *kernel, const struct hf_call *call) {
    struct in_lloyd l = {kernel, call};
    const struct hf_device_striker striker = {between, ahead, unit, &l};
    const struct hf_injector *in = hf_injector();
    if (in->mode == HF_INJECT_PLANTED && in->site.op == HF_OP_LLOYD &&
        in->site.kind == HF_PLACE_CALL && matches(kernel, HF_OP_LLOYD, in->calls[HF_OP_LLOYD] + 1))
        return run_call(kernel, call);
    return hf_device_run_lloyd(kernel, call, &striker);
}

/* Is a lane of a multiprocessor always wrong? */
static bool has_lane(const struct hf_injector *in) {
    return in->mode == HF_INJECT_PLANTED && in->site.op == HF_OP_LLOYD && in->site.always &&
           in->site.worker >= 0 && in->site.lane >= 0;
}

hf_status hf_inject_run(const struct hf_kernel *kernel, const struct hf_call *call) {
    struct hf_injector *in = hf_injector();
    const int mode = atomic_load_explicit(&in->mode, memory_order_relaxed);
    int op;
    if (mode == HF_INJECT_OFF)
        return kernel->run(call);
    const struct hf_kernel *twin = struck_kernel(kernel, &op);
    if (op < 0)
        op = hf_device_kernel_op(kernel);
    if (op == HF_OP_LANES && kernel->device == HF_DEV_CUDA && has_lane(in))
        return hf_device_run_lanes(call, &in->site);
    if (op < 0 || !hf_op_places_at(op)->arrays)
        return kernel->run(call);
    if (op == HF_OP_LLOYD)
        return run_lloyd(kernel, call);
    const int64_t number = atomic_fetch_add(&in->calls[op], 1) + 1;
    if (mode == HF_INJECT_STREAM)
        return run_stream(kernel, twin, call, op, number);
    if (mode == HF_INJECT_PLANTED)
        return matches(kernel, op, number) ? run_planted(kernel, twin, call, op)
                                           : kernel->run(call);
    in->call = number < HF_COUNTED_CALLS ? number : HF_COUNTED_CALLS;
    in->counted->calls[op] = number;
    count_arrays(op, call->args);
    if (kernel->device != HF_DEV_HOST)
        return kernel->run(call);
    return run_struck(twin, call, op, UINT32_MAX);
}
