/* SPDX-License-Identifier: Apache-2.0
 * k-means++ or k-means|| on the rows of a state, be they all rows or a core. */
#include "algo/kmeans/init/init_state.h"

hf_status hf_init_seeds(struct hf_init_state *s) {
    if (s->args->init != HF_INIT_KMEANS_PARALLEL)
        return hf_init_plus(s);
    HF_TRY(hf_init_parallel(s));
    return hf_init_greedy(s);
}
