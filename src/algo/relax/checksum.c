/* SPDX-License-Identifier: Apache-2.0
 * Checksums of what iterations read and never write: the copy of the matrix by block, factors by
 * patch, the coarse inverse. What was damaged is built again from the caller's matrix. */
#include "algo/relax/setup.h"

#include "base/checksum/checksum.h"
#include "base/dtype.h"
#include "base/mem.h"

#define SLICES 128 /* of a checksum */
#define GRAIN 32   /* checksums of a range of the loop */

/* Blocks of the matrix first, then patches, then coarse, then slices. */
static int64_t sums_of(const hf_relax *relax) {
    return relax->blocks.count + (relax->patched ? relax->patches.count : 0) +
           (relax->coarse != NULL ? 1 : 0) + (relax->slices.count + SLICES - 1) / SLICES;
}

static uint32_t add_sum(uint32_t sum, const void *data, int64_t count, size_t size) {
    return hf_crc32c_words(sum, data, count * (int64_t)(size / sizeof(uint32_t)));
}

static uint32_t sum_block(const hf_relax *relax, int64_t block) {
    const struct hf_relax_matrix *m = &relax->m;
    const int64_t begin = relax->blocks.start[block], rows = relax->blocks.start[block + 1] - begin;
    const size_t size = hf_dtype_bytes(m->dtype);
    uint32_t sum = add_sum(0, m->inverse + begin, rows, sizeof *m->inverse);
    if (!m->borrowed)
        sum = add_sum(sum, m->row_start + begin, rows + 1, sizeof *m->row_start);
    if (m->inner != NULL)
        sum = add_sum(sum, m->inner + 2 * begin, 2 * rows, sizeof *m->inner);
    if (m->before != NULL)
        sum = add_sum(sum, m->before + begin, rows, sizeof *m->before);
    if (m->borrowed)
        return sum;
    /* Where row numbers are damaged they must not lead out of the arrays. */
    const int64_t first = m->row_start[begin], last = m->row_start[begin + rows];
    if (first < 0 || last < first || last > relax->a.row_start[relax->a.rows])
        return ~sum;
    sum = add_sum(sum, m->column + first, last - first, sizeof *m->column);
    return add_sum(sum, (const char *)m->value + (size_t)first * size, last - first, size);
}

static uint32_t sum_patch(const hf_relax *relax, int64_t patch) {
    const struct hf_relax_patches *p = &relax->patches;
    const size_t size = hf_dtype_bytes(relax->opts.inside);
    const int64_t first = p->envelope[p->start[patch]], last = p->envelope[p->start[patch + 1]];
    return add_sum(0, (const char *)p->factor + (size_t)first * size, last - first, size);
}

/* Numbers that are damaged must not lead out of the arrays here either. */
static uint32_t sum_slices(const hf_relax *relax, int64_t chunk) {
    const struct hf_slices *s = &relax->slices;
    const size_t size = hf_dtype_bytes(relax->m.dtype);
    const int64_t begin = chunk * SLICES, end = hf_min64(begin + SLICES, s->count);
    uint32_t sum = add_sum(0, s->slot + begin, end - begin + 1, sizeof *s->slot);
    sum = add_sum(sum, s->list + begin, end - begin, sizeof *s->list);
    const int64_t first = s->slot[begin], last = s->slot[end];
    if (first < 0 || last < first || last > s->slots)
        return ~sum;
    sum = add_sum(sum, s->base + first, last - first, sizeof *s->base);
    sum = add_sum(sum, (const char *)s->value + (size_t)first * SLICE_ROWS * size,
                  (last - first) * SLICE_ROWS, size);
    for (int64_t i = begin; i < end; i++) {
        int64_t lists = 0;
        for (int64_t slot = s->slot[i]; s->list[i] >= 0 && slot < s->slot[i + 1]; slot++)
            lists += s->base[slot] < 0;
        if (s->slot[i] < first || s->slot[i + 1] > last || s->list[i] + lists > s->lists)
            return ~sum;
        if (lists > 0)
            sum = add_sum(sum, s->column + SLICE_ROWS * s->list[i], SLICE_ROWS * lists,
                          sizeof *s->column);
    }
    return sum;
}

static uint32_t sum_at(const hf_relax *relax, int64_t i) {
    if (i < relax->blocks.count)
        return sum_block(relax, i);
    i -= relax->blocks.count;
    if (relax->patched && i < relax->patches.count)
        return sum_patch(relax, i);
    i -= relax->patched ? relax->patches.count : 0;
    if (relax->coarse != NULL && i == 0)
        return add_sum(0, relax->coarse, relax->blocks.count * relax->blocks.count,
                       sizeof *relax->coarse);
    return sum_slices(relax, i - (relax->coarse != NULL ? 1 : 0));
}

static void sum_range(void *user, int worker, int64_t begin, int64_t end) {
    const hf_relax *relax = user;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        relax->sums[i] = sum_at(relax, i);
}

hf_status hf_relax_make_sums(hf_relax *relax) {
    if (relax->sums_count != sums_of(relax)) {
        relax->bytes -= (uint64_t)relax->sums_count * sizeof *relax->sums;
        hf_free(relax->sums);
        relax->sums = NULL;
    }
    relax->sums_count = sums_of(relax);
    if (relax->sums == NULL)
        relax->sums = hf_relax_take(relax, relax->sums_count, sizeof *relax->sums);
    if (relax->sums == NULL)
        return hf_relax_no_memory(relax, "checksums");
    hf_parallel_for(hf_ctx_pool(relax->ctx), relax->sums_count, GRAIN, sum_range, relax);
    return HF_OK;
}

static hf_status build_again(hf_relax *relax, int64_t i) {
    if (i < relax->blocks.count)
        return hf_relax_reload_block(relax, i);
    i -= relax->blocks.count;
    if (relax->patched && i < relax->patches.count)
        return hf_relax_factor_patch(relax, i);
    i -= relax->patched ? relax->patches.count : 0;
    return relax->coarse != NULL && i == 0 ? hf_relax_make_coarse(relax)
                                           : hf_relax_make_slices(relax);
}

/* The set-up's own arrays. */
static hf_status repair_here(hf_relax *relax, int64_t *reloads) {
    for (int64_t i = 0; i < relax->sums_count; i++) {
        if (sum_at(relax, i) == relax->sums[i])
            continue;
        ++*reloads;
        HF_TRY(build_again(relax, i));
        if (sum_at(relax, i) != relax->sums[i])
            return hf_ctx_fail(relax->ctx, HF_E_CORRUPT,
                               "block %lld of the matrix inside was damaged, and building it again "
                               "gave something else than before: the caller's matrix has changed, "
                               "or the memory is faulty",
                               (long long)i);
    }
    return HF_OK;
}

/* What a device has of it, anew where that is not what it was. The set-up's own arrays are what it
 * is made of, and are not read otherwise. */
static hf_status repair_there(hf_relax *relax, int64_t *reloads) {
    const uint64_t before = relax->bytes;
    bool seen = true, march = true;
    int64_t here = 0;
    HF_TRY(hf_relax_compare_there(relax, &relax->seen.held, &seen));
    HF_TRY(hf_relax_compare_there(relax, &relax->march.held, &march));
    if (seen && march)
        return HF_OK;
    ++*reloads;
    HF_TRY(repair_here(relax, &here));
    if (!seen)
        HF_TRY(hf_relax_look(relax));
    HF_TRY(hf_relax_make_march(relax));
    relax->bytes = before;
    return HF_OK;
}

hf_status hf_relax_repair(hf_relax *relax, int64_t *reloads) {
    return hf_relax_on_device(relax) ? repair_there(relax, reloads) : repair_here(relax, reloads);
}
