/* SPDX-License-Identifier: Apache-2.0
 * The part of host/guard/guard_slab.h that is the same in float32 and in float64, by the names of
 * device/host/isa_real.h. No guard. */

static int OF_REAL(slab_scan)(const struct job *job, const double *x,
                              const struct slab_scan *scan) {
    const struct guard_slab *s = &job->guard.slab;
    const REAL *value = (const REAL *)s->value;
    const int64_t room = job->k + SLAB_PAD;
    const VREAL cut = VERB(set1)((REAL)(scan->cut * (1 + 0x1p-22)));
    int count = 0;
    for (int i = scan->first; i < s->count && (double)s->key[i] <= scan->end; i += REAL_LANES) {
        VREAL sum = VERB(set1)(0);
        for (int64_t j = 0; j < job->d; j++) {
            const VREAL diff = VERB(sub)(VERB(set1)((REAL)x[j]), VERB(load)(value + j * room + i));
            sum = VERB(fma)(diff, diff, sum);
        }
        /* NaN is near, too */
        uint32_t near = ~VMASK_BITS(VERB(lt)(cut, sum)) & (uint32_t)((1u << REAL_LANES) - 1);
        for (; near; near &= near - 1) {
            const int at = i + __builtin_ctz(near);
            if (count < scan->most && at < s->count)
                scan->list[count] = s->index[at];
            count += at < s->count;
        }
    }
    return count;
}
