/* SPDX-License-Identifier: Apache-2.0
 * Four points, two clusters: cc kmeans.c $(pkg-config --cflags --libs holdfast) && ./a.out */
#include <holdfast/holdfast.h>
#include <stdio.h>

int main(void) {
    float points[4][2] = {{0, 0}, {0, 1}, {9, 8}, {9, 9}};
    hf_array x = hf_array_view(points, HF_F32, 4, 2);
    hf_kmeans_opts opts = {.k = 2, .seed = 1};
    hf_kmeans_result fit;
    hf_context *ctx = NULL;

    if (hf_context_create(&ctx, NULL) != HF_OK || hf_kmeans_fit(ctx, &x, &opts, &fit) != HF_OK) {
        fprintf(stderr, "%s\n", hf_last_error(ctx));
        return 1;
    }
    for (int64_t i = 0; i < fit.n; i++)
        printf("(%g, %g) is in cluster %d\n", points[i][0], points[i][1], fit.labels[i]);
    printf("inertia %g after %d iterations: %s\n", fit.inertia, fit.iterations,
           hf_stop_text(fit.stop));
    hf_kmeans_result_clear(&fit);
    hf_context_destroy(ctx);
}
