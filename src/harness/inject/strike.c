/* SPDX-License-Identifier: Apache-2.0
 * The planted fault: which values it is in, and what becomes of them. */
#include "harness/inject/fault.h"

#include "base/dtype.h"
#include <math.h>
#include <string.h>

_Atomic uint32_t hf_strike_wanted;
static struct hf_injector of_process;
static _Thread_local struct hf_injector *of_thread;

struct hf_injector *hf_injector(void) {
    return of_thread ? of_thread : &of_process;
}

void hf_inject_own(struct hf_injector *injector) { of_thread = injector; }

_Static_assert(HF_REGISTER_COUNT <= 32, "hf_strike_wanted has 32 bits");

static void begin(enum hf_inject_mode mode) {
    for (int op = 0; op < HF_OP_COUNT; op++)
        hf_injector()->calls[op] = 0;
    hf_injector()->mode = (int)mode;
}

void hf_inject_choose(const struct hf_fault_site *site) {
    struct hf_injector *in = hf_injector();
    in->visits = in->struck = in->altered = 0;
    in->row = -1;
    in->site = *site;
    for (int i = 0; hf_place_at(site->op, i, &in->place); i++)
        if (in->place.kind == site->kind &&
            (site->kind == HF_PLACE_CALL || in->place.place == site->place))
            break;
}

void hf_inject_plant(const struct hf_fault_site *site) {
    hf_inject_remove();
    hf_inject_choose(site);
    begin(HF_INJECT_PLANTED);
}

void hf_inject_count(struct hf_visits *visits) {
    hf_inject_remove();
    memset(visits, 0, sizeof *visits);
    hf_injector()->counted = visits;
    begin(HF_INJECT_COUNTING);
}

void hf_inject_stream(const struct hf_fault_stream *stream) {
    hf_inject_remove();
    hf_injector()->stream = *stream;
    begin(HF_INJECT_STREAM);
}

void hf_inject_remove(void) {
    hf_injector()->mode = HF_INJECT_OFF;
    hf_strike_wanted = 0;
}

bool hf_inject_hits(void) {
    struct hf_injector *in = hf_injector();
    const int64_t visit = atomic_fetch_add(&in->visits, 1) + 1;
    const bool hits = in->site.always ? visit >= in->site.hit : visit == in->site.hit;
    if (hits)
        atomic_fetch_add(&in->struck, 1);
    if (hits && in->mode == HF_INJECT_STREAM)
        hf_strike_wanted = 0; /* what is left of the call is as fast as it can be */
    return hits;
}

static uint64_t load(const void *p, int bytes) {
    uint64_t v = 0;
    memcpy(&v, p, (size_t)bytes); /* the CPUs that this is for are little-endian */
    return v;
}

static uint64_t quiet_nan(int bytes) {
    return bytes == 8 ? 0x7ff8000000000000u : bytes == 4 ? 0x7fc00000u : 0x7fffu;
}

/* The step is made twice: what it added is added again. */
static uint64_t twice(const void *value, const void *before, int bytes, bool floats) {
    if (floats && bytes == 4) {
        float now, old;
        memcpy(&now, value, 4);
        memcpy(&old, before, 4);
        now += now - old;
        return load(&now, 4);
    }
    if (floats && bytes == 8) {
        double now, old;
        memcpy(&now, value, 8);
        memcpy(&old, before, 8);
        now += now - old;
        return load(&now, 8);
    }
    return 2 * load(value, bytes) - load(before, bytes);
}

void hf_inject_alter(void *value, const void *before, int bytes, bool floats) {
    const struct hf_fault_site *site = &hf_injector()->site;
    const uint64_t old = load(value, bytes);
    uint64_t v = old;
    switch (site->act) {
    case HF_ACT_FLIP:
        v ^= site->mask;
        break;
    case HF_ACT_STUCK0:
        v &= ~site->mask;
        break;
    case HF_ACT_STUCK1:
        v |= site->mask;
        break;
    case HF_ACT_CARRY:
        v += site->mask;
        break;
    case HF_ACT_REPLACE:
        v = site->value;
        break;
    case HF_ACT_NAN:
        v = floats ? quiet_nan(bytes) : old;
        break;
    case HF_ACT_DUPLICATE:
        v = before ? twice(value, before, bytes, floats) : old;
        break;
    default: /* it keeps what it was */
        v = before ? load(before, bytes) : old;
        break;
    }
    memcpy(value, &v, (size_t)bytes);
    if (load(value, bytes) != old)
        atomic_fetch_add(&hf_injector()->altered, 1);
}

static int64_t row_of(const struct hf_strike *s, int lane) {
    const hf_array *x = hf_injector()->rows;
    if (s->row)
        return s->row[lane];
    if (s->first_row >= 0)
        return s->first_row + lane;
    if (!s->row_at || !x)
        return -1;
    const int64_t stride = x->row_stride ? x->row_stride : x->cols;
    return ((const char *)s->row_at - (const char *)x->data) /
           (stride * (int64_t)hf_dtype_bytes(x->dtype));
}

static bool lane_matches(const struct hf_strike *s, int lane) {
    const struct hf_fault_site *site = &hf_injector()->site;
    if (site->lane >= 0 && site->lane != lane)
        return false;
    return site->row < 0 || site->row == row_of(s, lane);
}

static bool column_matches(const struct hf_strike *s, int column) {
    const int64_t wanted = hf_injector()->site.column;
    return wanted < 0 || wanted == (s->column ? s->column[column] : s->first_column + column);
}

/* All values match and it is one of the later ones: most calls. */
static bool passes(const struct hf_strike *s) {
    struct hf_injector *in = hf_injector();
    const struct hf_fault_site *site = &in->site;
    const int64_t count = (int64_t)s->lanes * s->columns;
    if (site->lane >= 0 || site->row >= 0 || site->column >= 0)
        return false;
    int64_t visits = atomic_load(&in->visits);
    do {
        if (visits + count >= site->hit && (visits < site->hit || site->always))
            return false;
    } while (!atomic_compare_exchange_weak(&in->visits, &visits, visits + count));
    return true;
}

void hf_strike(const struct hf_strike *s) {
    struct hf_injector *in = hf_injector();
    const struct hf_fault_site *site = &in->site;
    if (in->mode == HF_INJECT_COUNTING) {
        int64_t *count = &in->counted->of_register[s->where][in->call - 1];
        __atomic_fetch_add(count, (int64_t)s->lanes * s->columns, __ATOMIC_RELAXED);
        return;
    }
    if ((site->worker >= 0 && site->worker != s->worker) ||
        (site->step >= 0 && site->step != s->step) || passes(s))
        return;
    const int bytes = in->place.bytes;
    const bool floats = in->place.type != HF_DTYPE_NONE && !s->whole;
    for (int c = 0; c < s->columns; c++) {
        if (!column_matches(s, c))
            continue;
        for (int l = 0; l < s->lanes; l++) {
            const ptrdiff_t at = ((ptrdiff_t)c * s->stride + l) * bytes;
            if (!lane_matches(s, l) || !hf_inject_hits())
                continue;
            in->row = row_of(s, l);
            hf_inject_alter((char *)s->value + at, s->before ? (const char *)s->before + at : NULL,
                            bytes, floats);
        }
    }
}
