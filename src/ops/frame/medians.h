/* SPDX-License-Identifier: Apache-2.0
 * medians_f32() or medians_f64(), by the names of device/host/isa_real.h; no guard. */

/* A value from low on and below high, half of the values between them on either side. -0, which
 * bits put below 0, is not below it: low then. */
static inline REAL OF_REAL(between)(REAL low, REAL high) {
    REAL_INT a;
    REAL_INT b;
    memcpy(&a, &low, sizeof a);
    memcpy(&b, &high, sizeof b);
    a ^= a >> (REAL_BITS - 1) & REAL_INT_MAX;
    b ^= b >> (REAL_BITS - 1) & REAL_INT_MAX;
    a = (a & b) + ((a ^ b) >> 1);
    a ^= a >> (REAL_BITS - 1) & REAL_INT_MAX;
    REAL mid;
    memcpy(&mid, &a, sizeof mid);
    return mid < high ? mid : low;
}

/* Lower medians of the columns of v [m up to a multiple of CHAINS, REAL_LANES], Inf behind m. */
static void OF_REAL(medians)(const REAL *v, int64_t m, REAL out[REAL_LANES]) {
    const VREAL rank = VERB(set1)((REAL)hf_frame_rank(m));
    REAL low[REAL_LANES];
    REAL high[REAL_LANES];
    VREAL least = VERB(load)(v);
    VREAL most = least;
    for (int64_t i = 1; i < m; i++) {
        least = VERB(min)(least, VERB(load)(v + i * REAL_LANES));
        most = VERB(max)(most, VERB(load)(v + i * REAL_LANES));
    }
    while (VMASK_BITS(VERB(lt)(least, most))) {
        REAL mid[REAL_LANES];
        VERB(store)(low, least);
        VERB(store)(high, most);
        for (int i = 0; i < REAL_LANES; i++)
            mid[i] = OF_REAL(between)(low[i], high[i]);
        const VREAL at = VERB(load)(mid);
        VREAL count[CHAINS]; /* of values up to there, */
        VREAL below[CHAINS]; /* the largest of them, */
        VREAL above[CHAINS]; /* and the least of the others */
        UNROLL(CHAINS)
        for (int t = 0; t < CHAINS; t++) {
            count[t] = VERB(set1)(0);
            below[t] = least;
            above[t] = most;
        }
        for (int64_t i = 0; i < m; i += CHAINS) {
            UNROLL(CHAINS)
            for (int t = 0; t < CHAINS; t++) {
                const VREAL x = VERB(load)(v + (i + t) * REAL_LANES);
                const VMASK beyond = VERB(lt)(at, x);
                count[t] = VERB(add)(count[t], VERB(select)(beyond, VERB(set1)(0), VERB(set1)(1)));
                below[t] = VERB(max)(below[t], VERB(select)(beyond, least, x));
                above[t] = VERB(min)(above[t], VERB(select)(beyond, x, most));
            }
        }
        UNROLL(CHAINS)
        for (int t = 1; t < CHAINS; t++) {
            count[0] = VERB(add)(count[0], count[t]);
            below[0] = VERB(max)(below[0], below[t]);
            above[0] = VERB(min)(above[0], above[t]);
        }
        const VMASK is_below = VERB(lt)(rank, count[0]);
        least = VERB(select)(is_below, least, above[0]);
        most = VERB(select)(is_below, below[0], most);
    }
    VERB(store)(out, least);
}
