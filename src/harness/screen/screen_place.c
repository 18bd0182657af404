/* SPDX-License-Identifier: Apache-2.0
 * Where a kernel is asked, and when: cores, multiprocessors, phases. */
#include "core/part.h"
#include "harness/screen/screen.h"

#include <time.h>

#define LIMIT_S 0.3 /* most that other multiprocessors are held for an answer */

bool hf_screen_over(const struct screen *s) {
    return hf_screen_now(s) >= s->end_s || (s->opts->stop && s->opts->stop(s->opts->user));
}

void hf_screen_nap(const struct screen *s, double seconds) {
    const struct timespec t = {0, (long)(seconds * 1e9)};
    if (!s->opts->clock)
        (void)nanosleep(&t, NULL);
}

void hf_screen_begin_phase(struct screen *s, const char *phase) {
    s->phase = phase;
    if (s->opts->phase)
        s->opts->phase(s->opts->user, phase, hf_screen_now(s) - s->start_s);
}

hf_status hf_screen_gpu_open(struct screen *s) {
    const hf_context_opts opts = {.device = s->opts->device};
    HF_TRY(hf_context_create(&s->gpu, &opts));
    HF_TRY(hf_part_open(s->gpu, &s->pin));
    s->props = s->gpu->props;
    s->comm = s->gpu->comm;
    s->cores = s->props.sms < SCREEN_CORES ? s->props.sms : SCREEN_CORES;
    for (int c = 0; c < s->cores; c++)
        s->core[c] = c;
    return HF_OK;
}

void hf_screen_gpu_close(struct screen *s) {
    hf_part_close(s->pin);
    hf_context_destroy(s->gpu);
    s->pin = NULL;
    s->gpu = NULL;
}

bool hf_screen_enter(const struct screen *s, int at, int width, struct screen_place *place) {
    place->at = at;
    if (s->gpu == NULL)
        return hf_affinity_enter(s->core[at], &place->before);
    return at < 0 || width >= s->cores ||
           hf_part_begin(s->gpu, s->pin, at, width, LIMIT_S) == HF_OK;
}

bool hf_screen_leave(const struct screen *s, const struct screen_place *place) {
    bool kept = true;
    if (s->gpu == NULL)
        hf_affinity_leave(&place->before);
    else if (s->gpu->props.sms < s->cores)
        return hf_part_end(s->gpu, s->pin, &kept) == HF_OK && kept;
    return true;
}
