/* SPDX-License-Identifier: Apache-2.0
 * What some iterations of long ago ended with, for faults that show late. */
#ifndef HF_EPOCHS_H
#define HF_EPOCHS_H

#include "algo/kmeans/fit.h"

/* At the end of an iteration, on the CPU: what every eighth one ended with is kept. */
void hf_epochs_keep(struct hf_fit *fit, const struct hf_restart *run);
/* Another restart begins. */
void hf_epochs_forget(struct hf_fit *fit);
/* Back to what an iteration at least eight before ended with, or to none: run->iteration says
 * which. */
void hf_epochs_restore(struct hf_fit *fit, struct hf_restart *run);

#endif
