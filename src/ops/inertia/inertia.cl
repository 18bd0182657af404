/* SPDX-License-Identifier: Apache-2.0
 * inertia: the reference distance of each row to its own centroid. */

__kernel void inertia_rows(GLOBAL(x), int x_type, long x_stride, GLOBAL(c), int c_type,
                           long c_stride, long n, long k, long d, int metric, GLOBAL(labels),
                           GLOBAL(weights), GLOBAL(distances), GLOBAL(terms)) {
    __global const uchar *data = VIEW(const uchar, x);
    __global const uchar *centers = VIEW(const uchar, c);
    __global const int *label = VIEW(const int, labels);
    __global const f64 *weight = VIEW(const f64, weights);
    __global f64 *distance_of = VIEW(f64, distances);
    __global f64 *term = VIEW(f64, terms);
    FOR_MINE(i, n) {
        const int own = label[i];
        f64 v = f64_of(NAN); /* of a label that is no cluster's, which a fault in memory left */
        if (own >= 0 && own < k)
            v = reference_distance(metric, row_of(data, i, x_stride, x_type), x_type,
                                   row_of(centers, own, c_stride, c_type), c_type, d);
        if (distance_of)
            distance_of[i] = v;
        term[i] = weight ? f64_mul(weight[i], v) : v;
    }
}
