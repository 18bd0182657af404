/* SPDX-License-Identifier: Apache-2.0
 * A second book of a fit's labels and sums: labels, a hash of the sums, and sizes of the clusters,
 * kept by other code than that of the kernels. The sums are integers, so the books agree to the
 * last bit or something is wrong. docs/fault-model.md says what each check sees. */
#ifndef HF_LEDGER_H
#define HF_LEDGER_H

#include "algo/kmeans/fit.h"

/* Bytes of a ledger in memory of the host; 0: none is wanted, because the call makes no such
 * checks, the device has no kernels for it or there are other ranks. */
uint64_t hf_ledger_bytes(const struct hf_fit *fit);
/* Take them. What it needs of a device's memory, without which there is none, is taken when it is
 * cleared first, unless fit->ledger.twice. HF_E_NOMEM */
hf_status hf_ledger_open(struct hf_fit *fit);
void hf_ledger_close(hf_context *ctx, struct hf_ledger *ledger);

/* All rows are in no cluster. */
hf_status hf_ledger_clear(struct hf_fit *fit);

/* Has nothing shown yet that the rows are those that were first read? Then ranges and moments may
 * be those of others. */
bool hf_ledger_doubts_rows(const struct hf_fit *fit);
/* While rows are at hand: their hashes, if they are not there yet. */
hf_status hf_ledger_panel(struct hf_fit *fit, const hf_array *panel, int64_t first);
/* All rows have been at hand. HF_E_CORRUPT: they are not those that were read first, or hashes that
 * were computed again are others. */
hf_status hf_ledger_hashed(struct hf_fit *fit);
/* A count of changes that is not known. Not -1: a count that a fault made negative is wrong. */
#define HF_LEDGER_ANY INT64_MIN

/* Does hf_ledger_book() look at each label of the host that is new? Then nobody else need to, who
 * addresses nothing by it before. */
bool hf_ledger_looks(const struct hf_fit *fit);
/* The labels of the host are new: book the rows that moved, then compare labels, count of changes
 * (unless HF_LEDGER_ANY) and sizes. HF_E_CORRUPT */
hf_status hf_ledger_book(struct hf_fit *fit, int64_t changed);
/* Sizes and sums are those of the labels that were booked. HF_E_CORRUPT */
hf_status hf_ledger_compare(struct hf_fit *fit);
/* On the host: labels differ from those that were booked; *changed: how many. Nothing is compared.
 * HF_E_CORRUPT: one is no cluster's number, and is not booked. */
hf_status hf_ledger_rebook(struct hf_fit *fit, int64_t *changed);
/* The word that the rows of cluster j must have, by its sums. */
uint64_t hf_ledger_word(const struct hf_fit *fit, int64_t j);
/* Both, where only the labels of these rows are new. */
hf_status hf_ledger_move(struct hf_fit *fit, const struct hf_moved_row *moves, int64_t count);
/* Sums begin at minus those of their rows: words and sizes begin at 0, so that what is booked from
 * here on is compared with what is left. False: no such check is made. */
bool hf_ledger_owe(struct hf_fit *fit);
/* Before they become the result: labels are those booked last, fit->centers.best those that
 * hf_ledger_keep_best() saw. HF_E_CORRUPT */
hf_status hf_ledger_check_labels(struct hf_fit *fit);
hf_status hf_ledger_check_best(struct hf_fit *fit);
/* fit->centers.current become the best ones. */
void hf_ledger_keep_best(struct hf_fit *fit);

/* The centroids before the last move, fit->centers.previous, are those that were kept; before
 * others are written over them. HF_E_CORRUPT */
hf_status hf_ledger_check_old(struct hf_fit *fit);
/* The centroids that an iteration began with, now at `centers`, are still those that were kept, and
 * so is what holds for all iterations. HF_E_CORRUPT */
hf_status hf_ledger_check_used(struct hf_fit *fit, const void *centers);
/* Is what holds for all iterations still what it was? */
bool hf_ledger_facts_hold(const struct hf_fit *fit);
/* Before they are written to a file: both are those that were kept, or are put back from their
 * copies, where the scheme is to correct. HF_E_CORRUPT */
hf_status hf_ledger_check_state(struct hf_fit *fit);
/* After it, when all is checked: keep the centroids. */
void hf_ledger_keep_state(struct hf_fit *fit);
/* The same after an iteration whose centroids `used` hf_ledger_check_used() has just found to be
 * those that were kept: they need not be copied and signed again. */
void hf_ledger_keep_step(struct hf_fit *fit, const void *used);
/* The centroids as they were kept last; false: none were. */
bool hf_ledger_restore_state(struct hf_fit *fit);

#endif
