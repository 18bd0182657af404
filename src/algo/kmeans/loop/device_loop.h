/* SPDX-License-Identifier: Apache-2.0
 * Many iterations in one call of op lloyd, if the device has a kernel for it: rows and state stay
 * in its memory, the host reads the results of each iteration. */
#ifndef HF_DEVICE_LOOP_H
#define HF_DEVICE_LOOP_H

#include "algo/kmeans/fit.h"

/* Is there a kernel of op lloyd for this fit, and memory for it? On the CPU there is none. */
bool hf_device_loop_serves(struct hf_fit *fit, const struct hf_restart *run);

/* Before a restart: are its calls of op lloyd to have the problem twice (guard/device_twice.h)? */
bool hf_device_loop_twice(struct hf_fit *fit, const struct hf_restart *run);

/* Make iterations until the fit stops, a checkpoint is due or there were many. One that the device
 * cannot end (a cluster without rows) is ended by the host. *serves becomes false, and nothing is
 * done, if the device has too little memory after all. HF_E_CORRUPT: as the host's loop. */
hf_status hf_device_loop(struct hf_fit *fit, struct hf_restart *run, bool *serves);

/* A fault came back. Is one multiprocessor of the device always wrong? Then the finding that was
 * noted last and the message name it, and its lane if it is one alone. */
bool hf_device_loop_accuse(struct hf_fit *fit, const struct hf_restart *run);

#endif
