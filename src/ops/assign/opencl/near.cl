/* SPDX-License-Identifier: Apache-2.0
 * assign, behind matrix.cl: which centroids may be the nearest of a row that one float16 product
 * leaves open? Those whose score reaches the row's threshold, and they are few as a rule. The
 * product is made once more for such rows; groups share rows and centroids, as the order in which
 * centroids are found does not matter. assign_near() compares what is found. */
#if PARTS == 1 && !HOLD
/* Those of these scores, of rows from place `first` of the list on and centroids from this one on,
 * that reach the thresholds. */
INLINED void list_near(float score[MT][STRIP][4], float threshold[OWN], long first, int centroid,
                       __global int *found, __global int *near) {
    const int lane = (int)get_local_id(0) & 31, warp = (int)get_local_id(0) / 32;
UNROLL
    for (int r = 0; r < OWN; r++) {
        float most = score[r / 2][0][r % 2 * 2];
UNROLL
        for (int i = 1; i < 2 * STRIP; i++)
            most = LARGER(most, score[r / 2][i / 2][r % 2 * 2 + i % 2]);
        if (most >= threshold[r]) {
            const long place = first + (warp * MT + r / 2) * 16 + r % 2 * 8 + lane / 4;
UNROLL
            for (int i = 0; i < 2 * STRIP; i++)
                if (score[r / 2][i / 2][r % 2 * 2 + i % 2] >= threshold[r]) {
                    const int at = atomic_inc((__global volatile int *)found + place);
                    if (at < NEAR)
                        near[place * NEAR + at] = centroid + i / 2 * 8 + i % 2;
                    else
                        threshold[r] = NAN;
                }
        }
    }
}

/* Scores of 8 STRIP centroids; bias: theirs from this work-item's first on. */
INLINED void near_scores(float score[MT][STRIP][4], __local const uint4 *shared,
                         uint x[MT][PARTS][BLOCKS][8], __local const uint4 *centroids,
                         __local const float *bias) {
#if STRIP == 8
UNROLL
    for (int m = 0; m < MT; m++) {
        unit_start(score[m], x[m], centroids);
        unit_wait(score[m], 0);
        add_bias(score[m], score[m], bias);
    }
#else
    score_strip(score, shared, x, centroids, bias);
#endif
}

/* Of the rows of `list`, count[0] of them, the first `nears`. told: as struct outcome has it. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
matrix_near(GLOBAL(x), int type, long stride, long k, long d, GLOBAL(list), GLOBAL(count),
            GLOBAL(shift), float scale, GLOBAL(packed), GLOBAL(start), GLOBAL(told), long nears) {
    __local uint4 stage[2 * PIECES];
    __local float4 bias[2 * TILE / 4];
    __local uint4 shared[UNIT_SHARED];
    const struct rows r = {VIEW(const uchar, x),
                           type,
                           stride,
                           d,
                           min(*VIEW(const long, count), nears),
                           VIEW(const int, list),
                           VIEW(const float, shift),
                           scale};
    __global const float *threshold_of = VIEW(const float, told);
    __global int *found = VIEW(int, told) + nears;
    const int lane = (int)get_local_id(0) & 31, warp = (int)get_local_id(0) / 32;
    const long tiles = (k + TILE - 1) / TILE, sets = (r.count + ROWS - 1) / ROWS;
    const long shares = clamp((long)get_num_groups(0) / max(sets, 1L), 1L, tiles);
    for (long w = get_group_id(0); w < sets * shares; w += get_num_groups(0)) {
        const long first = w / shares * ROWS, share = w % shares;
        const int from = (int)(tiles * share / shares), end = (int)(tiles * (share + 1) / shares);
        uint rows[MT][PARTS][BLOCKS][8];
        float square[OWN], lost[OWN], threshold[OWN];
        take_rows(&r, first, (__local uint *)stage, rows, square, lost);
UNROLL
        for (int o = 0; o < OWN; o++) {
            const long place = first + (warp * MT + o / 2) * 16 + o % 2 * 8 + lane / 4;
            threshold[o] = place < r.count ? threshold_of[place] : NAN;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        unit_share(shared, rows);
        fetch(stage, (__local float *)bias, VIEW(const uint4, packed), VIEW(const float, start),
              from);
        for (int t = from; t < end; t++) {
            const int now = (t - from) & 1;
            unit_arrive();
            barrier(CLK_LOCAL_MEM_FENCE);
            if (t + 1 < end)
                fetch(stage + (1 - now) * PIECES, (__local float *)bias + (1 - now) * TILE,
                      VIEW(const uint4, packed), VIEW(const float, start), t + 1);
            for (int s = 0; s < TILE / 8; s += STRIP) {
                float score[MT][STRIP][4];
                near_scores(score, shared, rows, stage + now * PIECES + s * BLOCKS * 32,
                            (__local float *)bias + now * TILE + s * 8 + lane % 4 * 2);
                list_near(score, threshold, first, t * TILE + s * 8 + lane % 4 * 2, found,
                          found + nears);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
#endif
