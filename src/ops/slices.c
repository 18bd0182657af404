/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/slices.h"

#include "base/dtype.h"
#include "base/mem.h"
#include "device/host/isa.h"
#include <string.h>

#define GRAIN 128    /* slices of a range of the loops */
#define WORST 2      /* times as many slots as the longest row: then lists of columns take less */
#define EVEN (-1)    /* kinds of slices without lists: each slot has an element of each row, */
#define MERGED (-2)  /* or may have none of some */
#define FULL_LEAST 3 /* one place in so many has an element, else slices cost more than they gain */

/* Where the elements of the rows of a slice are; a lane without row has none. */
struct lanes {
    int64_t at[SLICE_ROWS], end[SLICE_ROWS];
    int64_t row, rows, longest;
};

struct make {
    const struct hf_sparse *a;
    struct hf_slices *s;
};

static struct lanes open_lanes(const struct make *m, int64_t slice, int64_t range) {
    const struct hf_slices *s = m->s;
    struct lanes l = {.row = s->range_row[range] + SLICE_ROWS * (slice - s->range_slice[range])};
    l.rows = hf_min64(SLICE_ROWS, s->range_row[range + 1] - l.row);
    for (int64_t i = 0; i < l.rows; i++) {
        l.at[i] = m->a->row_start[l.row + i];
        l.end[i] = m->a->row_start[l.row + i + 1];
        l.longest = l.end[i] - l.at[i] > l.longest ? l.end[i] - l.at[i] : l.longest;
    }
    return l;
}

/* All rows have as many elements as the first, in the columns beside its own. */
static bool is_even(const struct hf_sparse *a, const struct lanes *l) {
    int32_t odd = 0;
    for (int i = 1; i < SLICE_ROWS; i++)
        odd |= l->end[i] - l->at[i] != l->longest;
    if (l->rows < SLICE_ROWS || odd || l->end[0] - l->at[0] != l->longest)
        return false;
    for (int64_t j = 0; j < l->longest && !odd; j++)
        for (int i = 1; i < SLICE_ROWS; i++)
            odd |= (a->column[l->at[i] + j] - a->column[l->at[0] + j]) ^ i;
    return odd == 0;
}

/* Column of lane 0 in the next slot of consecutive columns: the least of those next in each lane,
 * shifted to lane 0. INT64_MAX: there are none. */
static int64_t next_base(const struct hf_sparse *a, const struct lanes *l) {
    int64_t base = INT64_MAX;
    for (int i = 0; i < SLICE_ROWS; i++)
        if (l->at[i] < l->end[i])
            base = hf_min64(base, a->column[l->at[i]] - i);
    return base;
}

/* Slots with consecutive columns, places without elements included; -1: too many, or they lead
 * outside. */
static int64_t count_merged(const struct hf_sparse *a, struct lanes l) {
    for (int64_t slots = 0;; slots++) {
        const int64_t base = next_base(a, &l);
        if (base == INT64_MAX)
            return slots;
        if (base < 0 || base + SLICE_ROWS > a->cols || slots >= WORST * l.longest)
            return -1;
        for (int i = 0; i < SLICE_ROWS; i++)
            l.at[i] += l.at[i] < l.end[i] && a->column[l.at[i]] - i == base;
    }
}

/* The columns that the next elements of the lanes would have in lane 0, where they all agree and
 * the vector stays inside; else -1. */
static int64_t common_base(const struct hf_sparse *a, const struct lanes *l) {
    int64_t base = -1;
    for (int i = 0; i < SLICE_ROWS; i++) {
        const int64_t own = l->at[i] < l->end[i] ? a->column[l->at[i]] - i : base;
        if (base >= 0 && own != base)
            return -1;
        base = own;
        if (l->at[i] < l->end[i] && base < 0)
            return -1;
    }
    return base + SLICE_ROWS <= a->cols ? base : -1;
}

static void step_lanes(struct lanes *l) {
    for (int i = 0; i < SLICE_ROWS; i++)
        l->at[i] += l->at[i] < l->end[i];
}

/* Slots of a slice that need lists. */
static int64_t count_lists(const struct hf_sparse *a, struct lanes l) {
    int64_t lists = 0;
    for (int64_t j = 0; j < l.longest; j++) {
        lists += common_base(a, &l) < 0;
        step_lanes(&l);
    }
    return lists;
}

/* The range of a slice; ranges are few, or looked at in order. */
static int64_t range_of(const struct hf_slices *s, int64_t slice) {
    int64_t low = 0, high = s->ranges;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        *(s->range_slice[middle] <= slice ? &low : &high) = middle;
    }
    return low;
}

/* slot [slice + 1] becomes the number of slots, list [slice] that of lists, or a kind. */
static void count_slots(void *user, int worker, int64_t begin, int64_t end) {
    const struct make *m = user;
    int64_t range = range_of(m->s, begin);
    (void)worker;
    for (int64_t slice = begin; slice < end; slice++) {
        while (slice >= m->s->range_slice[range + 1])
            range++;
        const struct lanes l = open_lanes(m, slice, range);
        const bool even = is_even(m->a, &l);
        const int64_t merged = even ? l.longest : count_merged(m->a, l);
        m->s->slot[slice + 1] = merged >= 0 ? merged : l.longest;
        m->s->list[slice] = even ? EVEN : merged >= 0 ? MERGED : count_lists(m->a, l);
    }
}

/* Numbers become places. */
static void number(struct hf_slices *s) {
    s->slot[0] = 0;
    for (int64_t slice = 0; slice < s->count; slice++) {
        const int64_t slots = s->slot[slice + 1];
        if (s->list[slice] >= 0) {
            const int64_t lists = s->list[slice];
            s->list[slice] = s->lists;
            s->lists += lists;
        }
        s->slots += slots;
        s->slot[slice + 1] = s->slots;
    }
}

ALWAYS_INLINE void put_value(void *value, hf_dtype dtype, int64_t at, const struct hf_sparse *a,
                             int64_t e) {
    if (dtype == HF_F32)
        ((float *)value)[at] = e >= 0 ? ((const float *)a->value)[e] : 0;
    else
        ((double *)value)[at] = e >= 0 ? ((const double *)a->value)[e] : 0;
}

ALWAYS_INLINE void fill_merged(const struct make *m, hf_dtype dtype, int64_t slice,
                               struct lanes l) {
    const struct hf_sparse *a = m->a;
    for (int64_t slot = m->s->slot[slice]; slot < m->s->slot[slice + 1]; slot++) {
        const int64_t base = next_base(a, &l);
        m->s->base[slot] = (int32_t)base;
        for (int i = 0; i < SLICE_ROWS; i++) {
            const bool there = l.at[i] < l.end[i] && a->column[l.at[i]] - i == base;
            put_value(m->s->value, dtype, SLICE_ROWS * slot + i, a, there ? l.at[i] : -1);
            l.at[i] += there;
        }
    }
}

ALWAYS_INLINE void fill_even(const struct make *m, hf_dtype dtype, int64_t slice,
                             const struct lanes *l) {
    const int64_t first = m->s->slot[slice];
    for (int64_t j = 0; j < l->longest; j++) {
        m->s->base[first + j] = m->a->column[l->at[0] + j];
        for (int i = 0; i < SLICE_ROWS; i++)
            put_value(m->s->value, dtype, SLICE_ROWS * (first + j) + i, m->a, l->at[i] + j);
    }
}

ALWAYS_INLINE void fill_listed(const struct make *m, hf_dtype dtype, int64_t slice,
                               struct lanes l) {
    int32_t *column = m->s->column + SLICE_ROWS * m->s->list[slice];
    for (int64_t slot = m->s->slot[slice]; slot < m->s->slot[slice + 1]; slot++) {
        const int64_t base = common_base(m->a, &l);
        m->s->base[slot] = (int32_t)base;
        for (int i = 0; i < SLICE_ROWS; i++) {
            const bool there = l.at[i] < l.end[i];
            put_value(m->s->value, dtype, SLICE_ROWS * slot + i, m->a, there ? l.at[i] : -1);
            if (base < 0)
                *column++ = there ? m->a->column[l.at[i]] : (int32_t)l.row;
        }
        step_lanes(&l);
    }
}

ALWAYS_INLINE void fill_slice(const struct make *m, hf_dtype dtype, int64_t slice, int64_t range) {
    const struct lanes l = open_lanes(m, slice, range);
    if (m->s->list[slice] >= 0)
        fill_listed(m, dtype, slice, l);
    else if (m->s->list[slice] == EVEN)
        fill_even(m, dtype, slice, &l);
    else
        fill_merged(m, dtype, slice, l);
}

static void fill_slots(void *user, int worker, int64_t begin, int64_t end) {
    const struct make *m = user;
    int64_t range = range_of(m->s, begin);
    (void)worker;
    for (int64_t slice = begin; slice < end; slice++) {
        while (slice >= m->s->range_slice[range + 1])
            range++;
        if (m->a->dtype == HF_F32)
            fill_slice(m, HF_F32, slice, range);
        else
            fill_slice(m, HF_F64, slice, range);
    }
}

static bool take_ranges(struct hf_slices *s, const int64_t *range_row, int64_t ranges) {
    const size_t bytes = ((size_t)ranges + 1) * sizeof(int64_t);
    s->ranges = ranges;
    s->range_row = hf_alloc(bytes);
    s->range_slice = hf_alloc(bytes);
    if (s->range_row == NULL || s->range_slice == NULL)
        return false;
    memcpy(s->range_row, range_row, bytes);
    s->range_slice[0] = 0;
    for (int64_t r = 0; r < ranges; r++)
        s->range_slice[r + 1] =
            s->range_slice[r] + (range_row[r + 1] - range_row[r] + SLICE_ROWS - 1) / SLICE_ROWS;
    s->count = s->range_slice[ranges];
    s->slot = hf_alloc(((size_t)s->count + 1) * sizeof *s->slot);
    s->list = hf_alloc((size_t)s->count * sizeof *s->list);
    return s->slot != NULL && s->list != NULL;
}

uint64_t hf_slices_bytes(const struct hf_slices *s, hf_dtype dtype) {
    const uint64_t slots = (uint64_t)s->slots;
    if (s->count == 0)
        return 0;
    return 16 * (uint64_t)(s->ranges + 1) + 16 * (uint64_t)(s->count + 1) +
           slots * (sizeof *s->base + SLICE_ROWS * (uint64_t)hf_dtype_bytes(dtype)) +
           (uint64_t)s->lists * SLICE_ROWS * sizeof *s->column;
}

static hf_status take_slots(struct hf_slices *s, const struct hf_sparse *a, uint64_t most) {
    number(s);
    const size_t slots = (size_t)s->slots, lists = (size_t)s->lists;
    if (SLICE_ROWS * s->slots > FULL_LEAST * a->elements + SLICE_ROWS * SLICE_ROWS ||
        hf_slices_bytes(s, a->dtype) > most)
        return HF_E_UNSUPPORTED;
    s->base = hf_alloc(slots * sizeof *s->base);
    s->column = hf_alloc(lists * SLICE_ROWS * sizeof *s->column);
    s->value = hf_alloc(slots * SLICE_ROWS * hf_dtype_bytes(a->dtype));
    return s->base != NULL && s->column != NULL && s->value != NULL ? HF_OK : HF_E_NOMEM;
}

hf_status hf_slices_make(const struct hf_sparse *a, const int64_t *range_row, int64_t ranges,
                         uint64_t most, hf_pool *pool, struct hf_slices *out) {
    struct hf_slices s = {0};
    struct make m = {.a = a, .s = &s};
    hf_status status = take_ranges(&s, range_row, ranges) ? HF_OK : HF_E_NOMEM;
    if (status == HF_OK) {
        hf_parallel_for(pool, s.count, GRAIN, count_slots, &m);
        status = take_slots(&s, a, most);
    }
    if (status != HF_OK) {
        hf_slices_clear(&s);
        *out = s;
        return status;
    }
    hf_parallel_for(pool, s.count, GRAIN, fill_slots, &m);
    *out = s;
    return HF_OK;
}

bool hf_slices_serve(void) { return hf_cpu_isas() > 1U << HF_ISA_ID_scalar; }

void hf_slices_clear(struct hf_slices *slices) {
    hf_free(slices->range_row);
    hf_free(slices->range_slice);
    hf_free(slices->slot);
    hf_free(slices->list);
    hf_free(slices->base);
    hf_free(slices->column);
    hf_free(slices->value);
    *slices = (struct hf_slices){0};
}
