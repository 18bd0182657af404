/* SPDX-License-Identifier: Apache-2.0
 * Which lane of a core's vector unit is wrong: op lanes keeps a chain of arithmetic in each. And
 * faults that the caller plants. */
#include "harness/screen/screen.h"
#include "ops/lanes/lanes.h"

#include <string.h>

#define STUCK (1U << 20) /* bit of a word that a planted fault of a lane sets */

/* The kernel of the widest unit that works here. */
static const struct hf_kernel *widest(const struct screen *s) {
    const struct hf_subject *const subject = &s->subject[HF_OP_LANES];
    const int device = s->gpu != NULL ? HF_DEV_CUDA : HF_DEV_HOST;
    const struct hf_kernel *best = NULL;
    for (int i = 0; i < subject->count; i++) {
        const struct hf_kernel *const kernel = subject->kernels[i];
        const bool here = s->gpu != NULL ? hf_kernel_runs_on(kernel, &s->props, NULL, 0)
                                         : hf_kernel_runs_here(kernel, NULL, 0);
        if (kernel->device == device && here &&
            (best == NULL || hf_lanes_width(kernel) > hf_lanes_width(best)))
            best = kernel;
    }
    return best;
}

int hf_screen_lanes(const struct screen *s) {
    const struct hf_kernel *const unit = widest(s);
    return unit != NULL ? hf_lanes_width(unit) : 1;
}

void hf_screen_spoil(const struct screen *s, const char *kernel, bool chains, int at, void *words,
                     size_t bytes) {
    const hf_dev_screen_opts *const opts = s->opts;
    const bool everywhere = chains && opts->plant_lane > 0;
    if (at < 0 || opts->plant - 1 != s->core[at] || bytes == 0 ||
        (opts->plant_kernel && strcmp(opts->plant_kernel, kernel) != 0 && !everywhere))
        return;
    char *const x = words;
    if (opts->plant_lane == 0) {
        x[0] = (char)(x[0] ^ 0xff);
        return;
    }
    const size_t width = (size_t)hf_screen_lanes(s);
    for (size_t w = (size_t)(opts->plant_lane - 1); w < bytes / 4; w += width) {
        uint32_t word = 0;
        memcpy(&word, x + 4 * w, sizeof word);
        word |= STUCK;
        memcpy(x + 4 * w, &word, sizeof word);
    }
}

static void spoil_chains(const struct screen *s, const char *kernel, int at, struct hf_case *c) {
    for (int i = 0; i < c->bufs; i++)
        if (c->buf[i].out)
            hf_screen_spoil(s, kernel, true, at, c->buf[i].ptr, c->buf[i].bytes);
}

/* How many words of `each` bytes of each lane are not as they must be. */
static void mark(const void *got, const void *want, int64_t count, size_t each, int width,
                 int *wrong) {
    for (int64_t i = 0; i < count; i++)
        if (memcmp((const char *)got + (size_t)i * each, (const char *)want + (size_t)i * each,
                   each) != 0)
            wrong[i % width]++;
}

/* The only one with wrong words; -1: none, -2: several, or one word, which tells no lane. */
static int only(const int *wrong, int width) {
    int found = -1;
    for (int l = 0; l < width; l++)
        if (wrong[l] > 0)
            found = found == -1 && wrong[l] > 1 ? l : -2;
    return found;
}

static int lane_of(const struct hf_lanes_args *args, void *const *want, int width) {
    int words[HF_LANES_CUDA] = {0}, pairs[HF_LANES_CUDA] = {0};
    const int half = width > 1 ? width / 2 : 1;
    mark(args->single_end, want[0], args->n, sizeof *args->single_end, width, words);
    mark(args->wide_end, want[1], args->n, sizeof *args->wide_end, half, pairs);
    mark(args->word_end, want[2], args->n, sizeof *args->word_end, width, words);
    const int word = only(words, width), pair = only(pairs, half);
    if (word == -1 && pair >= 0)
        return width / half * pair;
    return word >= 0 && (pair == -1 || pair == word / (width / half)) ? word : -1;
}

/* What the chains must come to, computed anywhere but on core `at` if there is another. */
static void **ends(const struct screen *s, hf_context *cpu, int at, struct hf_case *c) {
    struct hf_affinity before;
    char why[256];
    const int other = at == 0 ? 1 : 0;
    const bool moved =
        s->gpu == NULL && other < s->cores && hf_affinity_enter(s->core[other], &before);
    const struct hf_kernel *const plain = hf_screen_reference(s, &s->subject[HF_OP_LANES], c->args);
    void **want = NULL;
    if (plain != NULL && hf_case_run(cpu, plain, c, 0xFF, why, sizeof why))
        want = hf_case_copy_outs(c);
    if (moved)
        hf_affinity_leave(&before);
    return want;
}

static int ask_lanes(const struct screen *s, hf_context *ctx, hf_context *cpu, int at,
                     const struct screen_kernel *unit) {
    struct hf_case c;
    struct screen_place place;
    char why[256];
    int lane = -1;
    const struct screen_problem chains = {
        .subject = unit->subject, .op = HF_OP_LANES, .id = 0, .core = -1};
    if (!hf_screen_make(s, &chains, &c))
        return -1;
    void **const want = ends(s, cpu, at, &c);
    if (want != NULL &&
        (s->gpu == NULL || hf_case_run(ctx, unit->kernel, &c, 0xFF, why, sizeof why)) &&
        hf_screen_enter(s, at, 1, &place)) {
        const bool ran = hf_case_run(ctx, unit->kernel, &c, 0xFF, why, sizeof why);
        if (ran)
            spoil_chains(s, unit->kernel->name, at, &c);
        if (hf_screen_leave(s, &place) && ran)
            lane = lane_of(c.args, want, hf_lanes_width(unit->kernel));
    }
    hf_case_copies_free(&c, want);
    hf_case_clear(&c);
    return lane;
}

int hf_screen_lane(const struct screen *s, hf_context *ctx, int at, int *lanes) {
    const hf_context_opts one = {.device = "cpu", .threads = 1};
    const struct screen_kernel unit = {
        .subject = &s->subject[HF_OP_LANES], .op = HF_OP_LANES, .kernel = widest(s), .width = 1};
    hf_context *cpu = NULL;
    int lane = -1;
    *lanes = hf_screen_lanes(s);
    if (unit.kernel != NULL && hf_context_create(&cpu, &one) == HF_OK)
        lane = ask_lanes(s, ctx, cpu, at, &unit);
    hf_context_destroy(cpu);
    return lane;
}
